"""Whole kernels: convolutions, scans, norms, gathers, libraries."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, topi
from tvm.topi.utils import get_const_tuple, traverse_inline


def build_run(s, args, *arrays):
    f = tvm.build(s, args, "llvm")
    outs = [tvm.nd.array(np.zeros(get_const_tuple(t.shape), t.dtype)) for t in args[len(arrays) :]]
    f(*[tvm.nd.array(a) for a in arrays], *outs)
    r = [o.numpy() for o in outs]
    return r if len(r) > 1 else r[0]


def test_conv_tiling():
    HSTR = WSTR = 1
    in_channel, kernel_height, kernel_width = 8, 3, 3
    out_channel = 16
    batch_size = 1
    in_height = in_width = 14
    out_height = out_width = in_height - kernel_height + 1
    data = te.placeholder((batch_size, in_channel, in_height, in_width), name="data")
    kernel = te.placeholder((kernel_height, kernel_width, in_channel, out_channel), name="kernel")
    ic = te.reduce_axis((0, in_channel), name="ic")
    kh = te.reduce_axis((0, kernel_height), name="kh")
    kw = te.reduce_axis((0, kernel_width), name="kw")
    conv = te.compute(
        (batch_size, out_channel, out_height, out_width),
        lambda n, oc, oh, ow: te.sum(
            data[n, ic, oh * HSTR + kh, ow * WSTR + kw] * kernel[kh, kw, ic, oc], axis=[ic, kh, kw]
        ),
        name="conv2d",
    )
    s = te.create_schedule(conv.op)
    n, oc, oh, ow = conv.op.axis
    oho, ohi = s[conv].split(oh, factor=16)
    owo, owi = s[conv].split(ow, factor=16)
    s[conv].reorder(n, oc, oho, owo, kh, kw, ic, ohi, owi)
    with tvm.transform.PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        tvm.lower(s, [data, kernel, conv])
        d = np.random.rand(1, 8, 14, 14).astype("float32")
        w = np.random.rand(3, 3, 8, 16).astype("float32")
        got = build_run(s, [data, kernel, conv], d, w)
    want = sum(
        np.einsum("nchw,co->nohw", d[:, :, i : i + 12, j : j + 12], w[i, j])
        for i in range(3)
        for j in range(3)
    )
    tvm.testing.assert_allclose(got, want, rtol=1e-4)


def test_winograd_f23():
    N = 8
    d = te.placeholder((1, 4, N, N), name="d")
    g = te.placeholder((6, 4, 3, 3), name="g")

    def const_matrix(mat, name):
        row, col = len(mat), len(mat[0])

        def select_array(i, j):
            now = tvm.tir.const(0.0, "float32")
            for ii in range(row):
                for jj in range(col):
                    now = tvm.tir.Select(
                        tvm.tir.all(i % row == ii, j % col == jj),
                        tvm.tir.const(mat[ii][jj], "float32"),
                        now,
                    )
            return now

        return te.compute((row, col), select_array, name=name, attrs={"const_matrix": True})

    G = const_matrix([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], "G")
    B = const_matrix([[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]], "B")
    A = const_matrix([[1, 0], [1, 1], [1, -1], [0, -1]], "A")
    nH = N // 2
    P = nH * nH
    pad = te.compute(
        (1, 4, N + 2, N + 2),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= 1, y < N + 1, x >= 1, x < N + 1), d[n, c, y - 1, x - 1], 0.0
        ),
        name="pad",
    )
    tile = te.compute(
        (4, P, 4, 4), lambda c, b, e, v: pad[0, c, b // nH * 2 + e, b % nH * 2 + v], name="tile"
    )
    rkh, rkw = te.reduce_axis((0, 3), "rkh"), te.reduce_axis((0, 3), "rkw")
    U = te.compute(
        (4, 4, 4, 6),
        lambda e, v, c, o: te.sum(g[o, c, rkh, rkw] * G[e, rkh] * G[v, rkw], axis=[rkh, rkw]),
        name="U",
    )
    r1, r2 = te.reduce_axis((0, 4), "r1"), te.reduce_axis((0, 4), "r2")
    V = te.compute(
        (4, 4, 4, P),
        lambda e, v, c, b: te.sum(tile[c, b, r1, r2] * B[r1, e] * B[r2, v], axis=[r1, r2]),
        name="V",
    )
    c = te.reduce_axis((0, 4), "c")
    M = te.compute(
        (4, 4, 6, P), lambda e, v, o, b: te.sum(U[e, v, c, o] * V[e, v, c, b], axis=c), name="M"
    )
    q1, q2 = te.reduce_axis((0, 4), "q1"), te.reduce_axis((0, 4), "q2")
    Y = te.compute(
        (6, P, 2, 2),
        lambda o, b, h, w: te.sum(M[q1, q2, o, b] * A[q1, h] * A[q2, w], axis=[q1, q2]),
        name="Y",
    )
    out = te.compute(
        (1, 6, N, N), lambda n, o, h, w: Y[o, h // 2 * nH + w // 2, h % 2, w % 2], name="out"
    )
    s = te.create_schedule(out.op)
    for t in (G, B, A, pad):
        s[t].compute_inline()
    for t, reds in ((U, [rkh, rkw]), (V, [r1, r2]), (Y, [q1, q2])):
        for r in reds:
            s[t].unroll(r)
    e, v, o, b = M.op.axis
    bo, bi = s[M].split(b, 8)
    s[M].reorder(e, v, o, bo, c, bi)
    s[M].vectorize(bi)
    s[M].parallel(s[M].fuse(e, v))
    n_, o_, h_, w_ = out.op.axis
    s[Y].compute_at(s[out], o_)
    dd = np.random.rand(1, 4, N, N).astype("float32")
    gg = np.random.rand(6, 4, 3, 3).astype("float32")
    pd = np.pad(dd, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = sum(
        np.einsum("nchw,oc->nohw", pd[:, :, i : i + N, j : j + N], gg[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )
    tvm.testing.assert_allclose(build_run(s, [d, g, out], dd, gg), want, rtol=1e-3)


def test_scan_threads_text():
    m = n = 16
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    scan = te.scan(s_init, s_update, s_state)
    s = te.create_schedule(scan.op)
    tx = te.thread_axis((0, 16), "threadIdx.x")
    bx = te.thread_axis((0, 1), "blockIdx.x")
    s[scan].env_threads([bx, tx])
    s[s_init].bind(s_init.op.axis[1], tx)
    s[s_update].bind(s_update.op.axis[1], tx)
    text = str(tvm.lower(s, [X, scan], simple_mode=True))
    assert "threadIdx.x" in text


def test_fft_like_complex():
    n = 16
    re = te.placeholder((n,), name="re")
    im = te.placeholder((n,), name="im")
    k = te.reduce_axis((0, n), "k")
    import math

    cadd = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda a, b: (tvm.tir.const(0, a), tvm.tir.const(0, b)),
        name="cadd",
    )

    def term(i):
        ang = (i * k % n).astype("float32") * (-2 * math.pi / n)
        c, s_ = te.cos(ang), te.sin(ang)
        return cadd((re[k] * c - im[k] * s_, re[k] * s_ + im[k] * c), axis=k)

    outr, outi = te.compute((n,), term, name="dft")
    s = te.create_schedule(outr.op)
    r, i = np.random.rand(n).astype("float32"), np.random.rand(n).astype("float32")
    a, b = build_run(s, [re, im, outr, outi], r, i)
    w = np.fft.fft(r + 1j * i)
    tvm.testing.assert_allclose(a, w.real, rtol=1e-3, atol=1e-4)
    tvm.testing.assert_allclose(b, w.imag, rtol=1e-3, atol=1e-4)


def test_batch_norm_softmax_layernorm():
    B, C = 6, 33
    X = te.placeholder((B, C), name="X")
    k = te.reduce_axis((0, C), "k")
    mean = te.compute((B,), lambda i: te.sum(X[i, k], axis=k), name="mean")
    k2 = te.reduce_axis((0, C), "k2")
    var = te.compute(
        (B,),
        lambda i: te.sum((X[i, k2] - mean[i] / C) * (X[i, k2] - mean[i] / C), axis=k2),
        name="var",
    )
    Y = te.compute(
        (B, C), lambda i, j: (X[i, j] - mean[i] / C) * te.rsqrt(var[i] / C + 1e-5), name="Y"
    )
    s = te.create_schedule(Y.op)
    s[mean].compute_at(s[Y], Y.op.axis[0])
    s[var].compute_at(s[Y], Y.op.axis[0])
    s[Y].parallel(Y.op.axis[0])
    x = np.random.rand(B, C).astype("float32")
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    tvm.testing.assert_allclose(build_run(s, [X, Y], x), want, rtol=1e-3, atol=1e-4)


def test_embedding_gather_scatter():
    W = te.placeholder((20, 8), name="W")
    idx = te.placeholder((5,), name="idx", dtype="int64")
    E = te.compute((5, 8), lambda i, j: W[idx[i], j], name="E")
    w = np.random.rand(20, 8).astype("float32")
    ix = np.array([3, 1, 19, 0, 7], "int64")
    np.testing.assert_array_equal(build_run(te.create_schedule(E.op), [W, idx, E], w, ix), w[ix])

    def scatter(ins, outs):
        ib = tvm.tir.ir_builder.create()
        src, ii, dst = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 160, "z") as z:
            dst[z] = tvm.tir.const(0, "float32")
        with ib.for_range(0, 5, "i") as i:
            with ib.for_range(0, 8, "j") as j:
                dst[ii[i] * 8 + j] = dst[ii[i] * 8 + j] + src[i * 8 + j]
        return ib.get()

    S = te.extern((20, 8), [E, idx], scatter, name="S", dtype="float32")
    got = build_run(te.create_schedule(S.op), [W, idx, S], w, ix)
    want = np.zeros((20, 8), "float32")
    np.add.at(want, ix, w[ix])
    tvm.testing.assert_allclose(got, want)


def test_sort_by_extern_and_contrib_blas():
    from tvm.contrib import cblas

    A = te.placeholder((16, 12), name="A")
    B = te.placeholder((12, 10), name="B")
    bias = te.var("bias", dtype="float32")
    C = cblas.matmul(A, B)
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
    s = te.create_schedule(D.op)
    f = tvm.build(s, [A, B, D, bias], "llvm")
    a, b = np.random.rand(16, 12).astype("float32"), np.random.rand(12, 10).astype("float32")
    d = tvm.nd.empty((16, 10))
    f(tvm.nd.array(a), tvm.nd.array(b), d, 10.0)
    tvm.testing.assert_allclose(d.numpy(), a @ b + 10, rtol=1e-4)
    assert tvm.get_global_func("tvm.contrib.cblas.matmul", allow_missing=True)
    C = te.extern(
        (16, 10),
        [A, B],
        lambda ins, outs: tvm.tir.call_packed(
            "tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], False, False
        ),
        name="C",
    )


def test_traverse_inline_and_topi_ops():
    x = te.placeholder((4, 8), name="x")
    y = topi.nn.relu(x * 2.0 - 1.0)
    z = topi.exp(y) + topi.full((4, 8), "float32", 0.5)
    s = te.create_schedule(z.op)
    te.schedule.AutoInlineInjective(s)
    a = np.random.rand(4, 8).astype("float32")
    tvm.testing.assert_allclose(
        build_run(s, [x, z], a), np.exp(np.maximum(2 * a - 1, 0)) + 0.5, rtol=1e-5
    )
    assert get_const_tuple(x.shape) == (4, 8)
    s = te.create_schedule(z.op)
    te.schedule.AutoInlineElemWise(s)
    s = te.create_schedule(z.op)
    te.schedule.AutoInlineBroadcast(s)
    hits = []
    s = te.create_schedule(z.op)
    traverse_inline(s, z.op, lambda op: hits.append(op.name))
    assert hits


def test_threefry_like_uint_ops():
    A = te.placeholder((32,), name="A", dtype="uint32")

    def mix(x):
        x = x ^ (x << tvm.tir.const(13, "uint32"))
        x = x ^ (x >> tvm.tir.const(17, "uint32"))
        return x ^ (x << tvm.tir.const(5, "uint32"))

    B = te.compute((32,), lambda i: mix(A[i]), name="B")
    a = np.random.randint(0, 2**32, 32, dtype="uint32")
    x = a.copy()
    x ^= x << np.uint32(13)
    x ^= x >> np.uint32(17)
    x ^= x << np.uint32(5)
    np.testing.assert_array_equal(build_run(te.create_schedule(B.op), [A, B], a), x)


def test_vectorize_parallel_stencil_time_tiling():
    T, N = 4, 64
    A = te.placeholder((N,), name="A")
    cur = A
    stages = []
    for t in range(T):
        prev = cur
        cur = te.compute(
            (N,),
            lambda i, prev=prev: te.if_then_else(
                te.all(i > 0, i < N - 1),
                (prev[te.max(i - 1, 0)] + prev[i] + prev[te.min(i + 1, N - 1)]) / 3.0,
                prev[i],
            ),
            name="s%d" % t,
        )
        stages.append(cur)
    s = te.create_schedule(cur.op)
    xo, xi = s[cur].split(cur.op.axis[0], 16)
    for st in stages[:-1]:
        s[st].compute_at(s[cur], xo)
    s[cur].vectorize(xi)
    s[cur].parallel(xo)
    a = np.random.rand(N).astype("float32")
    w = a.copy()
    for _ in range(T):
        n = w.copy()
        n[1:-1] = (w[:-2] + w[1:-1] + w[2:]) / np.float32(3)
        w = n
    tvm.testing.assert_allclose(build_run(s, [A, cur], a), w, rtol=1e-5)


if __name__ == "__main__":
    tvm.testing.main()
