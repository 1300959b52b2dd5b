"""Extern stages: a registered Python function, and a body made with ir_builder."""

import numpy as np
import tvm
import tvm.testing
from tvm import te


@tvm.register_func("user.contrib.add_one", override=True)
def add_one(x, y):
    assert isinstance(x, tvm.nd.NDArray)
    y.copyfrom(x.numpy() + 1)


n = 20
A = te.placeholder((n,), name="A")
B = te.extern(
    A.shape,
    [A],
    lambda ins, outs: tvm.tir.call_packed("user.contrib.add_one", ins[0], outs[0]),
    name="B",
    dtype="float32",
)


def body(ins, outs):
    ib = tvm.tir.ir_builder.create()
    src, dst = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(tvm.tir.indexmod(i, 2) == 0):
            dst[i] = src[i] * 2.0
        with ib.else_scope():
            dst[i] = src[i]
    return ib.get()


C = te.extern((n,), [B], body, name="C", dtype="float32")
D = te.compute((n,), lambda i: C[i] - 1.0, name="D")
s = te.create_schedule(D.op)
f = tvm.build(s, [A, D], "llvm")
a = np.random.rand(n).astype("float32")
d = tvm.nd.array(np.zeros(n, "float32"))
f(tvm.nd.array(a, tvm.cpu(0)), d)
want = a + 1
want[::2] *= 2
tvm.testing.assert_allclose(d.numpy(), want - 1, rtol=1e-5)
g = tvm.get_global_func("user.contrib.add_one")
out = tvm.nd.empty((n,))
g(tvm.nd.array(a), out)
tvm.testing.assert_allclose(out.numpy(), a + 1)
