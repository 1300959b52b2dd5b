"""Convolution by spatial packing for Mali, with the shapes that the article gives to packed data:
tiles of the padded image, more than the convolution reads."""

import numpy as np
import tvm
from tvm import te, topi

CI, CO, H, K, VH, VW, VC = 8, 16, 12, 3, 1, 4, 4
TH = TW = H + 2


def convolution():
    data = te.placeholder((1, CI, H, H), name="data")
    kernel = te.placeholder((CO, CI, K, K), name="kernel")
    data_pad = topi.nn.pad(data, (0, 0, 1, 1), (0, 0, 1, 1), name="data_pad")
    data_vec = te.compute(
        (1, TH // VH, TW // VW, CI, VH + K - 1, VW + K - 1),
        lambda n, h, w, ci, vh, vw: data_pad[n, ci, h * VH + vh, w * VW + vw],
        name="data_vec",
    )
    kernel_vec = te.compute(
        (CO // VC, CI, K, K, VC),
        lambda co, ci, kh, kw, vc: kernel[co * VC + vc, ci, kh, kw],
        name="kernel_vec",
    )
    ci, kh, kw = (te.reduce_axis((0, n), m) for n, m in ((CI, "ci"), (K, "kh"), (K, "kw")))
    conv = te.compute(
        (1, CO // VC, H // VH, H // VW, VH, VW, VC),
        lambda n, co, h, w, vh, vw, vc: te.sum(
            data_vec[n, h, w, ci, vh + kh, vw + kw] * kernel_vec[co, ci, kh, kw, vc],
            axis=[ci, kh, kw],
        ),
        name="conv",
    )
    output = te.compute(
        (1, CO, H, H),
        lambda n, co, h, w: conv[n, co // VC, h // VH, w // VW, h % VH, w % VW, co % VC],
        name="output_unpack",
    )
    return data, kernel, data_pad, data_vec, kernel_vec, conv, output, (ci, kh, kw)


def tile_and_bind3d(s, tensor, z, y, x, z_factor=2, y_factor=None, x_factor=None):
    y_factor = y_factor or z_factor
    x_factor = x_factor or y_factor
    zo, zi = s[tensor].split(z, z_factor)
    yo, yi = s[tensor].split(y, y_factor)
    xo, xi = s[tensor].split(x, x_factor)
    for axis, place in zip((zo, zi, yo, yi, xo, xi), "zzyyxx"):
        kind = "threadIdx" if axis in (zi, yi, xi) else "blockIdx"
        s[tensor].bind(axis, te.thread_axis(f"{kind}.{place}"))


def schedule(step):
    data, kernel, data_pad, data_vec, kernel_vec, conv, output, reduced = convolution()
    s = te.create_schedule(output.op)
    s[data_pad].compute_inline()
    if step:
        _, h, w, ci, _, vw = s[data_vec].op.axis
        tile_and_bind3d(s, data_vec, h, w, ci, 1)
        co, _, _, _, vc = s[kernel_vec].op.axis
        bx, tx = s[kernel_vec].split(co, 4)
        s[kernel_vec].bind(bx, te.thread_axis("blockIdx.x"))
        s[kernel_vec].bind(tx, te.thread_axis("threadIdx.x"))
        _, c, h, w, vh, vw2, vc2 = s[conv].op.axis
        ci, kh, kw = reduced
        s[conv].reorder(c, h, w, ci, kh, kw, vh, vw2, vc2)
        tile_and_bind3d(s, conv, c, h, w, 2)
        _, *spatial = s[output].op.axis
        tile_and_bind3d(s, output, spatial[0], spatial[1], spatial[2], 4)
    if step and step >= 2:
        s[data_vec].unroll(vw)
        for axis in (kh, kw, vw2):
            s[conv].unroll(axis)
        (s[conv].vectorize if step == 3 else s[conv].unroll)(vc2)
    if step == 3:
        s[kernel_vec].vectorize(vc)
    return s, [data, kernel, output]


x = np.random.rand(1, CI, H, H).astype("float32")
w = np.random.rand(CO, CI, K, K).astype("float32")
want = topi.testing.conv2d_nchw_python(x, w, 1, 1)


def check(s, args, target, run):
    y = np.zeros((1, CO, H, H), "float32")
    y = run(tvm.build(s, args, target), y)
    np.testing.assert_allclose(y, want, rtol=1e-4)


def on_cpu(f, y):
    f(x, w, y)
    return y


def on_threads(f, y):
    f.run_simt(x, w, y)
    return y


def on_device(f, y):
    dev = tvm.opencl(0)
    arrays = [tvm.nd.array(a, dev) for a in (x, w, y)]
    f(*arrays)
    return arrays[2].numpy()


s, args = schedule(None)
check(s, args, "llvm", on_cpu)
for step in (1, 2, 3):
    s, args = schedule(step)
    check(s, args, "cuda", on_threads)
    if tvm.opencl(0).exist:
        check(s, args, "opencl -device=mali", on_device)
source = tvm.build(*schedule(3), "opencl -device=mali").imported_modules[0].get_source()
assert "float4" in source
