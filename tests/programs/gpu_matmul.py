"""Matrix products and convolutions as the tutorials schedule them for GPUs: shared memory, virtual
threads, registers."""

import numpy as np
import tvm
import tvm.testing
from gpu_kit import rand, run_everywhere
from tvm import te


def test_gemm_with_vthreads():
    """Tiles of 64x64, two virtual threads along each axis, both operands through shared memory."""
    n = m = l = 64
    scale, num_thread, block_factor, step = 4, 8, 32, 8
    A = te.placeholder((n, l), name="A")
    B = te.placeholder((m, l), name="B")
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((n, m), lambda ii, jj: te.sum(A[ii, k] * B[jj, k], axis=k), name="CC")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "shared", [C])
    BB = s.cache_read(B, "shared", [C])
    AL = s.cache_read(AA, "local", [C])
    BL = s.cache_read(BB, "local", [C])
    CC = s.cache_write(C, "local")
    block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis((0, num_thread), "threadIdx.x")
    block_y, thread_y = te.thread_axis("blockIdx.y"), te.thread_axis((0, num_thread), "threadIdx.y")
    thread_xz, thread_yz = (te.thread_axis((0, 2), "vthread", name=v) for v in ("vx", "vy"))
    by, yi = s[C].split(C.op.axis[0], factor=block_factor)
    bx, xi = s[C].split(C.op.axis[1], factor=block_factor)
    s[C].bind(by, block_y)
    s[C].bind(bx, block_x)
    s[C].reorder(by, bx, yi, xi)
    tyz, yi = s[C].split(yi, nparts=2)
    ty, yi = s[C].split(yi, nparts=num_thread)
    txz, xi = s[C].split(xi, nparts=2)
    tx, xi = s[C].split(xi, nparts=num_thread)
    s[C].bind(tyz, thread_yz)
    s[C].bind(txz, thread_xz)
    s[C].bind(ty, thread_y)
    s[C].bind(tx, thread_x)
    s[C].reorder(tyz, txz, ty, tx, yi, xi)
    s[CC].compute_at(s[C], tx)
    yo, xo = CC.op.axis
    ko, ki = s[CC].split(k, factor=step)
    kt, ki = s[CC].split(ki, factor=1)
    s[CC].reorder(ko, kt, ki, yo, xo)
    s[AA].compute_at(s[CC], ko)
    s[BB].compute_at(s[CC], ko)
    s[CC].unroll(kt)
    s[AL].compute_at(s[CC], kt)
    s[BL].compute_at(s[CC], kt)
    for shared in (AA, BB):
        ty, xi = s[shared].split(s[shared].op.axis[0], nparts=num_thread)
        _, xi = s[shared].split(s[shared].op.axis[1], factor=scale)
        tx, xi = s[shared].split(xi, nparts=num_thread // 2)
        s[shared].bind(ty, thread_y)
        s[shared].double_buffer()
    a, b = rand(n, l), rand(m, l)
    mod = run_everywhere(s, [A, B, C], [a, b], [a @ b.T], rtol=1e-4, atol=1e-5)
    assert "__shared__" in mod.imported_modules[0].get_source()


def test_conv_of_the_gpu_tutorial():
    """opt_conv_cuda: HWCN, tiles of the output in registers, of the inputs in shared memory."""
    batch, in_channel, out_channel, in_size, kernel, pad, stride = 16, 8, 16, 6, 3, 1, 1
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
    rc = te.reduce_axis((0, in_channel), name="rc")
    ry = te.reduce_axis((0, kernel), name="ry")
    rx = te.reduce_axis((0, kernel), name="rx")
    B = te.compute(
        (out_size, out_size, out_channel, batch),
        lambda yy, xx, ff, nn: te.sum(
            Apad[yy * stride + ry, xx * stride + rx, rc, nn] * W[ry, rx, rc, ff], axis=[ry, rx, rc]
        ),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[Apad].compute_inline()
    AA = s.cache_read(Apad, "shared", [B])
    WW = s.cache_read(W, "shared", [B])
    AL = s.cache_read(AA, "local", [B])
    WL = s.cache_read(WW, "local", [B])
    BL = s.cache_write(B, "local")
    tile, num_thread, vthread, step = 2, 2, 2, 4
    block_factor = tile * num_thread * vthread
    block_x, block_y, block_z = (te.thread_axis("blockIdx." + d) for d in "xyz")
    thread_x = te.thread_axis((0, num_thread), "threadIdx.x")
    thread_y = te.thread_axis((0, num_thread), "threadIdx.y")
    thread_xz = te.thread_axis((0, vthread), "vthread", name="vx")
    thread_yz = te.thread_axis((0, vthread), "vthread", name="vy")
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
    for shared in (AA, WW):
        yi, xi, ci, ni = s[shared].op.axis
        ty, ci = s[shared].split(ci, nparts=num_thread)
        tx, ni = s[shared].split(ni, nparts=num_thread)
        _, ni = s[shared].split(ni, factor=4)
        s[shared].reorder(ty, tx, yi, xi, ci, ni)
        s[shared].bind(ty, thread_y)
        s[shared].bind(tx, thread_x)
        s[shared].vectorize(ni)
    a, w = rand(*tvm.topi.utils.get_const_tuple(A.shape)), rand(kernel, kernel, 8, 16)
    padded = np.pad(a, ((1, 1), (1, 1), (0, 0), (0, 0)))
    want = sum(
        np.einsum("yxcn,cf->yxfn", padded[i : i + out_size, j : j + out_size], w[i, j])
        for i in range(kernel)
        for j in range(kernel)
    ).astype("float32")
    run_everywhere(s, [A, W, B], [a, w], [want], rtol=1e-4, atol=1e-5)


def test_depthwise_convolution():
    batch, channel, size, kernel = 1, 8, 10, 3
    Input = te.placeholder((batch, channel, size, size), name="Input")
    Filter = te.placeholder((channel, 1, kernel, kernel), name="Filter")
    Padded = tvm.topi.nn.pad(Input, (0, 0, 1, 1), (0, 0, 1, 1), name="Padded")
    di, dj = te.reduce_axis((0, kernel), "di"), te.reduce_axis((0, kernel), "dj")
    Out = te.compute(
        (batch, channel, size, size),
        lambda b, c, i, j: te.sum(Padded[b, c, i + di, j + dj] * Filter[c, 0, di, dj], [di, dj]),
        name="Out",
    )
    Relu = tvm.topi.nn.relu(Out)
    s = te.create_schedule(Relu.op)
    s[Padded].compute_inline()
    s[Out].set_scope("local")
    c, y = s[Relu].op.axis[1], s[Relu].op.axis[2]
    s[Relu].bind(c, te.thread_axis("blockIdx.x"))
    s[Relu].bind(y, te.thread_axis("threadIdx.x"))
    s[Out].compute_at(s[Relu], s[Relu].op.axis[3])
    x, w = rand(batch, channel, size, size), rand(channel, 1, kernel, kernel)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = sum(
        padded[:, :, i : i + size, j : j + size] * w[:, 0, i, j][None, :, None, None]
        for i in range(kernel)
        for j in range(kernel)
    )
    run_everywhere(s, [Input, Filter, Relu], [x, w], [np.maximum(want, 0)], rtol=1e-4, atol=1e-5)


def test_batched_gemm():
    b, n = 4, 20
    A, B = te.placeholder((b, n, n), name="A"), te.placeholder((b, n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((b, n, n), lambda z, i, j: te.sum(A[z, i, k] * B[z, k, j], k), name="C")
    s = te.create_schedule(C.op)
    z, i, j = s[C].op.axis
    io, ii = s[C].split(i, 8)
    jo, ji = s[C].split(j, 8)
    s[C].reorder(z, io, jo, ii, ji)
    for axis, tag in (
        (z, "blockIdx.z"),
        (io, "blockIdx.y"),
        (jo, "blockIdx.x"),
        (ii, "threadIdx.y"),
        (ji, "threadIdx.x"),
    ):
        s[C].bind(axis, te.thread_axis(tag))
    x, y = rand(b, n, n), rand(n, b, n).reshape(b, n, n)
    run_everywhere(s, [A, B, C], [x, y], [x @ y], rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    tvm.testing.main()
