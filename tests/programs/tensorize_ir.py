"""Tensorize a matrix-vector product with reset and update, the body made by ir_builder."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

N, M, L = 64, 32, 64
A = te.placeholder((N, L), name="A")
B = te.placeholder((M, L), name="B")
k = te.reduce_axis((0, L), name="k")
C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")


def intrin_gemv(m, l):
    a = te.placeholder((l,), name="a")
    b = te.placeholder((m, l), name="b")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def _body():
            ib = tvm.tir.ir_builder.create()
            ib.emit(product(ib, aa, bb, cc))
            return ib.get()

        def product(ib, aa, bb, cc):
            inner = tvm.tir.ir_builder.create()
            pa, pc = inner.buffer_ptr(aa), inner.buffer_ptr(cc)
            with inner.for_range(0, m, name="i") as i:
                with inner.for_range(0, l, name="j") as j:
                    pc[i] = pc[i] + pa[j] * bb.vload([i, j])
            return inner.get()

        def _reduce_reset():
            ib = tvm.tir.ir_builder.create()
            pc = ib.buffer_ptr(cc)
            with ib.for_range(0, m, name="i") as i:
                pc[i] = 0.0
            return ib.get()

        def _reduce_update():
            return _body()

        full = tvm.tir.SeqStmt([_reduce_reset(), _body()])
        return full, _reduce_reset(), _reduce_update()

    return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb})


for factor in (16, 64):
    s = te.create_schedule(C.op)
    x, y = C.op.axis
    yo, yi = s[C].split(y, factor=16)
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=factor)
    s[C].reorder(x, yo, ko, yi, ki)
    s[C].tensorize(yi, intrin_gemv(16, factor))
    f = tvm.build(s, [A, B, C], "llvm", name="gemv")
    a, b = np.random.rand(N, L).astype("float32"), np.random.rand(M, L).astype("float32")
    c = tvm.nd.array(np.zeros((N, M), "float32"))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-4)
