"""Packed matrix products, files of every kind, micro-kernels, layouts."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te
from tvm.contrib import cc, tar, utils


def test_gemm_parallel_packed_write_cache_multithread():
    M = N = K = 96
    bn, kfactor = 16, 4
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), "k")
    packedB = te.compute((N // bn, K, bn), lambda x, y, z: B[y, x * bn + z], name="packedB")
    C = te.compute(
        (M, N),
        lambda x, y: te.sum(
            A[x, k] * packedB[tvm.tir.indexdiv(y, bn), k, tvm.tir.indexmod(y, bn)], axis=k
        ),
        name="C",
    )
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    xo, yo, _xi, _yi = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    s[CC].compute_at(s[C], yo)
    xc, yc = s[CC].op.axis
    (k,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(k, factor=kfactor)
    s[CC].reorder(ko, xc, ki, yc)
    s[CC].unroll(ki)
    s[CC].vectorize(yc)
    s[C].parallel(xo)
    x, _y, z = s[packedB].op.axis
    s[packedB].vectorize(z)
    s[packedB].parallel(x)
    func = tvm.build(s, [A, B, C], target="llvm", name="mmult")
    a, b = (np.random.rand(96, 96).astype("float32") for _ in range(2))
    c = tvm.nd.empty((96, 96))
    func(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
    e = func.time_evaluator(func.entry_name, tvm.cpu(), number=3)
    assert e(tvm.nd.array(a), tvm.nd.array(b), c).mean > 0
    assert "for" in str(tvm.lower(s, [A, B, C], simple_mode=True))


def test_exports_of_every_kind():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(B.op.axis[0])
    f = tvm.build(s, [A, B], "llvm", name="double")
    temp = utils.tempdir()
    x = tvm.nd.array(np.arange(9, dtype="float32"))

    def check(path):
        y = tvm.nd.empty((9,))
        m = tvm.runtime.load_module(path)
        m["double"](x, y)
        tvm.testing.assert_allclose(y.numpy(), x.numpy() * 2)

    for name, kw in (
        ("a.so", {}),
        ("b.so", {"fcompile": cc.create_shared}),
        ("c.tar", {}),
        ("d.tar", {"fcompile": tar.tar}),
        ("e.so", {"cc": "gcc"}),
        ("g.so", {"fcompile": cc.create_shared, "options": ["-O2"]}),
    ):
        f.export_library(temp.relpath(name), **kw)
        check(temp.relpath(name))
    f.save(temp.relpath("h.o"))
    check(temp.relpath("h.o"))
    cc.create_shared(temp.relpath("i.so"), temp.relpath("h.o"))
    check(temp.relpath("i.so"))
    temp.remove()
    with pytest.raises((tvm.TVMError, OSError)):
        tvm.runtime.load_module("/nonexistent/x.so")


def test_void_calls_and_extern_c():
    A = tvm.tir.decl_buffer((4,), "float32", name="A")
    ib = tvm.tir.ir_builder.create()
    p = ib.buffer_ptr(A)
    ib.emit(
        tvm.tir.call_extern("", "free", tvm.tir.reinterpret("handle", tvm.tir.const(0, "uint64")))
    )
    p[0] = tvm.tir.call_pure_extern("float32", "fabsf", p[1])
    f = tvm.build(
        tvm.IRModule.from_expr(tvm.tir.PrimFunc([A], ib.get()).with_attr("global_symbol", "main")),
        target="llvm",
    )
    a = tvm.nd.array(np.array([0, -3, 0, 0], "float32"))
    f(a)
    assert a.numpy()[0] == 3


def test_llvm_text_import_as_list():
    ll = """
define float @scale_it(float %x) {
  %r = fmul float %x, 3.0
  ret float %r
}
"""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tvm.tir.call_pure_extern("float32", "scale_it", A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].pragma(B.op.axis[0], "import_llvm", ll)
    f = tvm.build(s, [A, B], "llvm")
    b = tvm.nd.empty((8,))
    a = np.random.rand(8).astype("float32")
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a * 3)


def test_tensorize_matmul_block():
    def intrin(m, n, l):
        a = te.placeholder((m, l), name="a")
        b = te.placeholder((l, n), name="b")
        k = te.reduce_axis((0, l), name="k")
        c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
        Ab = tvm.tir.decl_buffer(
            a.shape, a.dtype, name="A", offset_factor=1, strides=[te.var("sa"), 1]
        )
        Bb = tvm.tir.decl_buffer(
            b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("sb"), 1]
        )
        Cb = tvm.tir.decl_buffer(
            c.shape, c.dtype, name="C", offset_factor=1, strides=[te.var("sc"), 1]
        )

        def func(ins, outs):
            def body(reset, update):
                ib = tvm.tir.ir_builder.create()
                for i in range(m):
                    old = (
                        outs[0].vload([i, 0], "float32x%d" % n)
                        if update and not reset
                        else tvm.tir.const(0, "float32x%d" % n)
                    )
                    if update:
                        for kk in range(l):
                            old = old + tvm.tir.Broadcast(ins[0].vload([i, kk]), n) * ins[1].vload(
                                [kk, 0], "float32x%d" % n
                            )
                    ib.emit(outs[0].vstore([i, 0], old))
                return ib.get()

            return body(True, True), body(True, False), body(False, True)

        return te.decl_tensor_intrin(c.op, func, binds={a: Ab, b: Bb, c: Cb})

    M, N, L = 16, 32, 24
    A = te.placeholder((M, L), name="A")
    B = te.placeholder((L, N), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 8)
    ko, ki = s[C].split(k, 4)
    s[C].reorder(io, jo, ko, ii, ji, ki)
    s[C].tensorize(ii, intrin(4, 8, 4))
    f = tvm.build(s, [A, B, C], "llvm")
    a, b = np.random.rand(M, L).astype("float32"), np.random.rand(L, N).astype("float32")
    c = tvm.nd.empty((M, N))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def test_rnn_matexp_scan():
    n_step, size = 5, 12
    W = te.placeholder((size, size), name="W")
    X0 = te.placeholder((4, size), name="X0")
    st = te.placeholder((n_step, 4, size), name="st")
    init = te.compute((1, 4, size), lambda _, i, j: X0[i, j], name="init")
    k = te.reduce_axis((0, size), "k")
    up = te.compute(
        (n_step, 4, size), lambda t, i, j: te.sum(st[t - 1, i, k] * W[j, k], axis=k), name="up"
    )
    res = te.scan(init, up, st, inputs=[W])
    s = te.create_schedule(res.op)
    s.cache_read(W, "local", [up])
    ul = s.cache_write(up, "local")
    xo, _xi = s[up].split(s[up].op.axis[2], 4)
    s[ul].compute_at(s[up], xo)
    _ko, _ki = s[ul].split(s[ul].op.reduce_axis[0], 4)
    f = tvm.build(s, [X0, W, res], "llvm")
    x, w = (
        np.random.rand(4, size).astype("float32"),
        np.random.rand(size, size).astype("float32") / size,
    )
    r = tvm.nd.empty((n_step, 4, size))
    f(tvm.nd.array(x), tvm.nd.array(w), r)
    want = x
    for t in range(n_step):
        tvm.testing.assert_allclose(r.numpy()[t], want, rtol=1e-4, atol=1e-6)
        want = want @ w.T


def test_symbolic_matmul_with_tail():
    m, n, l = te.size_var("m"), te.size_var("n"), te.size_var("l")
    A = te.placeholder((m, l), name="A")
    B = te.placeholder((l, n), name="B")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    io, jo, _ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 16)
    s[CC].compute_at(s[C], jo)
    s[CC].reorder(s[CC].op.reduce_axis[0], *s[CC].op.axis)
    s[CC].vectorize(s[CC].op.axis[1])
    s[C].vectorize(ji)
    s[C].parallel(io)
    f = tvm.build(s, [A, B, C], "llvm")
    for shape in ((1, 1, 1), (17, 33, 5), (8, 16, 4), (31, 7, 64)):
        a, b = (
            np.random.rand(shape[0], shape[2]).astype("float32"),
            np.random.rand(shape[2], shape[1]).astype("float32"),
        )
        c = tvm.nd.empty((shape[0], shape[1]))
        f(tvm.nd.array(a), tvm.nd.array(b), c)
        tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def test_double_buffer_and_transform_layout_and_align():
    A = te.placeholder((64, 32), name="A")
    B = te.compute((64, 32), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((64, 32), lambda i, j: B[i, j] * 2, name="C")
    a = np.random.rand(64, 32).astype("float32")

    def check(s):
        f = tvm.build(s, [A, C], "llvm")
        c = tvm.nd.empty((64, 32))
        f(tvm.nd.array(a), c)
        tvm.testing.assert_allclose(c.numpy(), (a + 1) * 2, rtol=1e-6)

    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].double_buffer()
    check(s)
    s = te.create_schedule(C.op)
    s[B].storage_align(B.op.axis[0], 32, 1)
    check(s)
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j: [j // 4, i, te.AXIS_SEPARATOR, j % 4])
    check(s)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()
    check(s)


if __name__ == "__main__":
    tvm.testing.main()
