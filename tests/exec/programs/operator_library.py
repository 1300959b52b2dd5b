"""topi: operators as tensors, mixed with formulas, under a schedule by hand."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, topi

rng = np.random.default_rng(0)
x, y = te.placeholder((20, 30), name="x"), te.placeholder((30,), name="y")
a, b = rng.standard_normal((20, 30)).astype("float32"), rng.standard_normal(30).astype("float32")


def run(args, *arrays, schedule=None):
    s = te.create_schedule(args[-1].op)
    if schedule is not None:
        schedule(s)
    f = tvm.build(s, list(args), "llvm")
    out = tvm.nd.array(np.zeros([int(d) for d in args[-1].shape], args[-1].dtype))
    f(*(tvm.nd.array(v) for v in arrays), out)
    return out.numpy()


tvm.testing.assert_allclose(run([x, y, topi.add(x, y)], a, b), a + b)
tvm.testing.assert_allclose(run([x, y, topi.multiply(x, y) + 1.0], a, b), a * b + 1, rtol=1e-5)
tvm.testing.assert_allclose(run([x, topi.nn.relu(x)], a), np.maximum(a, 0))
tvm.testing.assert_allclose(run([x, topi.transpose(x)], a), a.T)
tvm.testing.assert_allclose(run([x, topi.sum(x, axis=1)], a), a.sum(1), rtol=1e-4, atol=1e-5)
e = np.exp(a - a.max(1, keepdims=True))
tvm.testing.assert_allclose(
    run([x, topi.nn.softmax(x)], a), e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-6
)
