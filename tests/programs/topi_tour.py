"""Operators of topi as scripts for TVM call them, with the schedules of each target."""

import numpy as np
import tvm
import tvm.topi.testing
from tvm import te, topi
from tvm.topi.utils import get_const_tuple

IMPLEMENTATIONS = {
    "generic": (topi.nn.conv2d_nchw, topi.generic.schedule_conv2d_nchw),
    "cpu": (topi.x86.conv2d_nchw, topi.x86.schedule_conv2d_nchw),
    "gpu": (topi.cuda.conv2d_nchw, topi.cuda.schedule_conv2d_nchw),
}


def run(out, args, arrays, schedule, target="llvm"):
    with tvm.target.Target(target):
        s = schedule(out)
    dev = tvm.device(target, 0)
    outs = out if isinstance(out, (list, tuple)) else [out]
    f = tvm.build(s, [*args, *outs], target)
    found = [tvm.nd.array(np.zeros(get_const_tuple(t.shape), t.dtype), dev) for t in outs]
    f(*(tvm.nd.array(a, dev) for a in arrays), *found)
    return [x.numpy() for x in found]


rng = np.random.default_rng(0)
data = rng.standard_normal((1, 4, 9, 9)).astype("float32")
kernel = rng.standard_normal((8, 4, 3, 3)).astype("float32")
A = te.placeholder(data.shape, name="A")
W = te.placeholder(kernel.shape, name="W")

compute, schedule = tvm.topi.testing.dispatch("llvm", IMPLEMENTATIONS)
conv = compute(A, W, (1, 1), "SAME", (1, 1), "float32")
relu = topi.nn.relu(conv)
(got,) = run([relu], [A, W], [data, kernel], schedule)
want = np.maximum(tvm.topi.testing.conv2d_nchw_python(data, kernel, 1, "SAME"), 0)
tvm.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)

pooled = topi.nn.pool2d(A, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "avg", False, "NCHW", True)
(got,) = run([pooled], [A], [data], lambda outs: topi.x86.schedule_pool(outs, "NCHW"))
want = tvm.topi.testing.poolnd_python(data, [2] * 2, [2] * 2, [1] * 2, [0] * 2, [0] * 2, "avg")
tvm.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

x = rng.standard_normal((2, 3, 5)).astype("float32")
y = rng.standard_normal((2, 4, 5)).astype("float32")
X, Y = te.placeholder(x.shape, name="X"), te.placeholder(y.shape, name="Y")
product = topi.nn.batch_matmul(X, Y)
(got,) = run([product], [X, Y], [x, y], topi.x86.schedule_batch_matmul)
tvm.testing.assert_allclose(got, tvm.topi.testing.batch_matmul(x, y), rtol=1e-4, atol=1e-5)

places = np.array([[2, 0], [-1, 7]], "int32")
P = te.placeholder(places.shape, "int32", name="P")
injective = tvm.topi.testing.get_injective_schedule("llvm")
for mode in ("clip", "wrap"):
    taken = topi.take(X, P, axis=1, mode=mode)
    (got,) = run(taken, [X, P], [x, places], injective)
    tvm.testing.assert_allclose(got, np.take(x, places, axis=1, mode=mode))

hot = topi.transform.one_hot(
    P, tvm.tir.const(1, "float32"), tvm.tir.const(0, "float32"), 3, -1, "float32"
)
(got,) = run(hot, [P], [places], injective)
tvm.testing.assert_allclose(got, tvm.topi.testing.one_hot(places, 1, 0, 3, -1, "float32"))

values, order = topi.topk(X, 2, axis=-1, is_ascend=False, dtype="int32")
got, at = run([values, order], [X], [x], topi.generic.schedule_topk)
tvm.testing.assert_allclose(got, -np.sort(-x)[..., :2])

total = topi.sum(topi.add(X, 1.0), axis=(0, 2), keepdims=True)
with tvm.target.Target("llvm"):
    s = tvm.topi.testing.get_reduce_schedule("llvm")(total)
assert topi.tag.is_injective(topi.add(X, 1.0).op.tag)
(got,) = run(total, [X], [x], lambda _: s)
tvm.testing.assert_allclose(got, (x + 1).sum((0, 2), keepdims=True), rtol=1e-5)
print("ok")
