"""Sparse formats, quantised products, GPU schedules, callbacks."""

import itertools

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te, tir


def call(f, args, *arrays):
    outs = [tvm.nd.array(np.zeros([int(d) for d in t.shape], t.dtype)) for t in args[len(arrays) :]]
    f(*map(tvm.nd.array, arrays), *outs)
    return [o.numpy() for o in outs]


def test_gpu_style_program_skips():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))

    def check_target(target):
        if not tvm.testing.device_enabled(target):
            print("skip %s" % target)
            return
        dev = tvm.device(target, 0)
        if not dev.exist:
            return
        f = tvm.build(s, [A, B], target)
        a = tvm.nd.array(np.arange(100, dtype="float32"), dev)
        b = tvm.nd.array(np.zeros(100, "float32"), dev)
        f(a, b)
        tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1)
        print(f.imported_modules[0].get_source())

    for t in ("cuda", "opencl", "vulkan", "metal", "rocm"):
        check_target(t)


def test_allreduce_text_for_gpu():
    n, m = 16, 64
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(k, factor=16)
    BF = s.rfactor(B, ki)
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    assert "allreduce" in str(tvm.lower(s, [A, B], simple_mode=True))


def test_opt_conv_cuda_lowering():
    batch, in_channel, out_channel, in_size, kernel, pad, stride = 16, 16, 32, 14, 3, 1, 1
    A = te.placeholder((in_size, in_size, in_channel, batch), name="A")
    W = te.placeholder((kernel, kernel, in_channel, out_channel), name="W")
    out_size = (in_size - kernel + 2 * pad) // stride + 1
    Apad = te.compute(
        (in_size + 2 * pad, in_size + 2 * pad, in_channel, batch),
        lambda yy, xx, cc, nn: tvm.tir.if_then_else(
            tvm.tir.all(yy >= pad, yy - pad < in_size, xx >= pad, xx - pad < in_size),
            A[yy - pad, xx - pad, cc, nn],
            tvm.tir.const(0.0, "float32"),
        ),
        name="Apad",
    )
    rc, ry, rx = (
        te.reduce_axis((0, in_channel), name="rc"),
        te.reduce_axis((0, kernel), name="ry"),
        te.reduce_axis((0, kernel), name="rx"),
    )
    B = te.compute(
        (out_size, out_size, out_channel, batch),
        lambda yy, xx, ff, nn: te.sum(
            Apad[yy * stride + ry, xx * stride + rx, rc, nn] * W[ry, rx, rc, ff], axis=[ry, rx, rc]
        ),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[Apad].compute_inline()
    AA, WW = s.cache_read(Apad, "shared", [B]), s.cache_read(W, "shared", [B])
    AL, WL = s.cache_read(AA, "local", [B]), s.cache_read(WW, "local", [B])
    BL = s.cache_write(B, "local")
    tile, num_thread, vthread = 2, 8, 2
    block_factor = tile * num_thread
    step = 8
    block_x, block_y, block_z = (te.thread_axis("blockIdx." + c) for c in "xyz")
    thread_x, thread_y = (
        te.thread_axis((0, num_thread), "threadIdx.x"),
        te.thread_axis((0, num_thread), "threadIdx.y"),
    )
    thread_xz, thread_yz = (
        te.thread_axis((0, vthread), "vthread", name="vx"),
        te.thread_axis((0, vthread), "vthread", name="vy"),
    )
    hi, wi, fi, ni = s[B].op.axis
    bz = s[B].fuse(hi, wi)
    by, fi = s[B].split(fi, factor=block_factor)
    bx, ni = s[B].split(ni, factor=block_factor)
    s[B].bind(bz, block_z)
    s[B].bind(by, block_y)
    s[B].bind(bx, block_x)
    tyz, fi = s[B].split(fi, nparts=vthread)
    txz, ni = s[B].split(ni, nparts=vthread)
    ty, fi = s[B].split(fi, nparts=num_thread)
    tx, ni = s[B].split(ni, nparts=num_thread)
    s[B].reorder(bz, by, bx, tyz, txz, ty, tx, fi, ni)
    s[B].bind(tyz, thread_yz)
    s[B].bind(txz, thread_xz)
    s[B].bind(ty, thread_y)
    s[B].bind(tx, thread_x)
    s[BL].compute_at(s[B], tx)
    yi, xi, fi, ni = s[BL].op.axis
    ry, rx, rc = s[BL].op.reduce_axis
    rco, rci = s[BL].split(rc, factor=step)
    s[BL].reorder(rco, ry, rx, rci, fi, ni)
    s[AA].compute_at(s[BL], rx)
    s[WW].compute_at(s[BL], rx)
    s[AL].compute_at(s[BL], rci)
    s[WL].compute_at(s[BL], rci)
    for t, _k in ((AA, 2), (WW, 2)):
        a0, a1, ci, ni = s[t].op.axis
        ty, ci = s[t].split(ci, nparts=num_thread)
        tx, ni = s[t].split(ni, nparts=num_thread)
        _, ni = s[t].split(ni, factor=2)
        s[t].reorder(ty, tx, a0, a1, ci, ni)
        s[t].bind(ty, thread_y)
        s[t].bind(tx, thread_x)
        s[t].vectorize(ni)
    text = str(tvm.lower(s, [A, W, B], simple_mode=True))
    assert "threadIdx.y" in text


def test_sparse_csr_matvec():
    n, nnz = te.var("n"), te.var("nnz")
    ptr = te.placeholder((n + 1,), name="ptr", dtype="int32")
    idx = te.placeholder((nnz,), name="idx", dtype="int32")
    val = te.placeholder((nnz,), name="val")
    x = te.placeholder((n,), name="x")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        p, j, v, xx = map(ib.buffer_ptr, ins)
        y = ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, "row", kind="parallel") as row:
            y[row] = tir.const(0, "float32")
            with ib.for_range(0, p[row + 1] - p[row], "e") as e:
                y[row] += v[p[row] + e] * xx[j[p[row] + e]]
        return ib.get()

    Y = te.extern((n,), [ptr, idx, val, x], body, name="Y", dtype="float32")
    f = tvm.build(te.create_schedule(Y.op), [ptr, idx, val, x, Y], "llvm")
    dense = np.random.rand(9, 9).astype("float32") * (np.random.rand(9, 9) < 0.3)
    p = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype("int32")
    j = np.nonzero(dense)[1].astype("int32")
    v = dense[dense != 0].astype("float32")
    xv = np.random.rand(9).astype("float32")
    y = tvm.nd.empty((9,))
    f(tvm.nd.array(p), tvm.nd.array(j), tvm.nd.array(v), tvm.nd.array(xv), y)
    tvm.testing.assert_allclose(y.numpy(), dense @ xv, rtol=1e-4, atol=1e-6)


def test_data_dependent_reduce_axis():
    n = 6
    rows = te.placeholder((n + 1,), name="rows", dtype="int32")
    vals = te.placeholder((20,), name="vals")

    def f(i):
        k = te.reduce_axis((0, rows[i + 1] - rows[i]), "k")
        return te.sum(vals[rows[i] + k], axis=k)

    S = te.compute((n,), f, name="S")
    r = np.array([0, 3, 3, 7, 10, 18, 20], "int32")
    v = np.random.rand(20).astype("float32")

    def plain(s):
        pass

    def split(s):
        s[S].split(S.op.reduce_axis[0], 4)
        io, ii = s[S].split(S.op.axis[0], 4)
        s[S].parallel(io)

    def cached(s):
        kept = s.cache_write(S, "local")
        s[kept].compute_at(s[S], s[S].op.axis[0])

    for plan in (plain, split, cached):
        s = te.create_schedule(S.op)
        plan(s)
        (out,) = call(tvm.build(s, [rows, vals, S], "llvm"), [rows, vals, S], r, v)
        tvm.testing.assert_allclose(
            out, [v[a:b].sum() for a, b in itertools.pairwise(r)], rtol=1e-5
        )


def test_quantized_requantize():
    A = te.placeholder((8, 16), name="A", dtype="uint8")
    B = te.placeholder((4, 16), name="B", dtype="int8")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute(
        (8, 4),
        lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k),
        name="C",
    )
    Q = te.compute(
        (8, 4),
        lambda i, j: tir.q_multiply_shift(
            C[i, j], tir.const(1 << 30, "int32"), tir.const(31, "int32"), tir.const(-3, "int32")
        ),
        name="Q",
    )
    S = te.compute((8, 4), lambda i, j: te.max(te.min(Q[i, j], 127), -128).astype("int8"), name="S")
    s = te.create_schedule(S.op)
    s[Q].compute_inline()
    f = tvm.build(s, [A, B, S], "llvm")
    a, b = (
        np.random.randint(0, 255, (8, 16)).astype("uint8"),
        np.random.randint(-128, 127, (4, 16)).astype("int8"),
    )
    (out,) = call(f, [A, B, S], a, b)
    acc = a.astype("int64") @ b.T.astype("int64")
    want = np.clip(np.floor(acc * 0.5 / 8 + 0.5), -128, 127)
    assert np.abs(out - want).max() <= 1


def test_broadcast_reduce_chain_attach_everywhere():
    M, N = 12, 20
    A = te.placeholder((M, N), name="A")
    r = te.reduce_axis((0, N), "r")
    mx = te.compute((M,), lambda i: te.max(A[i, r], axis=r), name="mx")
    ex = te.compute((M, N), lambda i, j: te.exp(A[i, j] - mx[i]), name="ex")
    r2 = te.reduce_axis((0, N), "r2")
    sm = te.compute((M,), lambda i: te.sum(ex[i, r2], axis=r2), name="sm")
    out = te.compute((M, N), lambda i, j: ex[i, j] / sm[i], name="out")
    a = np.random.rand(M, N).astype("float32")
    e = np.exp(a - a.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)

    def plan0(s):
        pass

    def plan1(s):
        for t in (mx, ex, sm):
            s[t].compute_at(s[out], out.op.axis[0])
        s[out].parallel(out.op.axis[0])

    def plan2(s):
        s[ex].compute_inline()
        s[sm].compute_at(s[out], out.op.axis[0])
        o, i = s[out].split(out.op.axis[1], 8)
        s[out].vectorize(i)

    def plan3(s):
        f = s.rfactor(sm, s[sm].split(s[sm].op.reduce_axis[0], 4)[1])
        s[f].compute_at(s[sm], s[sm].op.axis[0])

    def plan4(s):
        c = s.cache_write(out, "local")
        ao, ai = s[out].split(out.op.axis[0], 5)
        s[c].compute_at(s[out], ao)
        for t in (sm, ex, mx):
            s[t].compute_at(s[out], ao)

    for plan in (plan0, plan1, plan2, plan3, plan4):
        s = te.create_schedule(out.op)
        plan(s)
        (got,) = call(tvm.build(s, [A, out], "llvm"), [A, out], a)
        tvm.testing.assert_allclose(got, want, rtol=1e-5)


def test_schedule_text_and_replay():
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    io, ii = s[B].split(i, 4)
    s[B].reorder(io, j, ii)
    s[B].unroll(ii)
    assert "split" in s.as_python()
    with pytest.raises(tvm.TVMError):
        s[B].split(i, 2)


def test_int64_shapes_and_big_index():
    n = te.var("n", "int64")
    A = te.placeholder((n, tir.const(4, "int64")), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    (f_,) = [s[B].fuse(*B.op.axis)]
    o, i = s[B].split(f_, 8)
    s[B].vectorize(i)
    f = tvm.build(s, [A, B], "llvm")
    a = np.random.rand(5, 4).astype("float32")
    b = tvm.nd.empty((5, 4))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a * 2)


def test_nested_parallel_vector_predicated_tail():
    M, N = 13, 29
    A = te.placeholder((M, N), name="A")
    B = te.compute((M, N), lambda i, j: te.sigmoid(A[i, j]), name="B")
    s = te.create_schedule(B.op)
    io, ii = s[B].split(B.op.axis[0], nparts=3)
    jo, ji = s[B].split(B.op.axis[1], 8)
    s[B].reorder(io, jo, ii, ji)
    s[B].parallel(io)
    s[B].vectorize(ji)
    a = np.random.randn(M, N).astype("float32")
    (got,) = call(tvm.build(s, [A, B], "llvm"), [A, B], a)
    tvm.testing.assert_allclose(got, 1 / (1 + np.exp(-a)), rtol=1e-5)


def test_register_op_override_level_and_decorator():
    @tvm.ir.register_intrin_lowering("tir.kinds_sq", target="default")
    def lower_sq(op):
        return op.args[0] * op.args[0]

    tvm.ir.register_op_attr("tir.kinds_sq", "TCallEffectKind", tir.CallEffectKind.Pure)
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tir.call_intrin("float32", "tir.kinds_sq", A[i]), name="B")
    a = np.random.rand(8).astype("float32")
    (got,) = call(tvm.build(te.create_schedule(B.op), [A, B], "llvm"), [A, B], a)
    tvm.testing.assert_allclose(got, a * a, rtol=1e-6)


def test_debug_print_callback_from_loop():
    seen = []

    @tvm.register_func("kinds.trace_value", override=True)
    def trace_value(i, v):
        seen.append((i, round(v, 3)))
        return 0

    A = te.placeholder((4,), name="A")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, "i") as i:
            ib.emit(tir.call_packed("kinds.trace_value", i, a[i]))
            b[i] = a[i]
        return ib.get()

    B = te.extern((4,), [A], body, name="B", dtype="float32")
    call(
        tvm.build(te.create_schedule(B.op), [A, B], "llvm"),
        [A, B],
        np.array([1, 2, 3, 4], "float32"),
    )
    assert seen == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]


def test_te_trace_values():
    seen = []

    @tvm.register_func("kinds.trace_cb", override=True)
    def cb(*args):
        seen.append(args)
        return args[-1]

    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: tir.trace([A[i], A[i] + 1.0], "kinds.trace_cb"), name="B")
    (got,) = call(
        tvm.build(te.create_schedule(B.op), [A, B], "llvm"), [A, B], np.array([1, 2, 3], "float32")
    )
    assert len(seen) == 3
    tvm.testing.assert_allclose(got, [2, 3, 4])


if __name__ == "__main__":
    tvm.testing.main()
