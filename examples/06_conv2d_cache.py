"""A 2-D convolution with cache stages: padded input, packed weights, an accumulator block.

python examples/06_conv2d_cache.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te

CIN, COUT, SIZE, KERNEL, PAD = 16, 32, 30, 3, 1


def convolution():
    """Input (channel, y, x), weights (out, in, y, x), stride 1, zero padding."""
    data = te.placeholder((CIN, SIZE, SIZE), name="data")
    weight = te.placeholder((COUT, CIN, KERNEL, KERNEL), name="weight")
    padded = te.compute(
        (CIN, SIZE + 2 * PAD, SIZE + 2 * PAD),
        lambda c, y, x: tvm.tir.if_then_else(
            tvm.tir.all(y >= PAD, y < SIZE + PAD, x >= PAD, x < SIZE + PAD),
            data[c, y - PAD, x - PAD],
            tvm.tir.const(0.0, "float32"),
        ),
        name="padded",
    )
    rc = te.reduce_axis((0, CIN), name="rc")
    ry = te.reduce_axis((0, KERNEL), name="ry")
    rx = te.reduce_axis((0, KERNEL), name="rx")
    out = te.compute(
        (COUT, SIZE, SIZE),
        lambda f, y, x: te.sum(
            padded[rc, y + ry, x + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="out",
    )
    return data, weight, padded, out


def schedule(weight, padded, out):
    """Blocks of 8 channels by 4 rows; weights and input rows are staged for each block."""
    s = te.create_schedule(out.op)
    acc = s.cache_write(out, "global")
    staged_weight = s.cache_read(weight, "global", [acc])
    f, y, x = s[out].op.axis
    fo, fi = s[out].split(f, factor=8)
    yo, yi = s[out].split(y, factor=4)
    s[out].reorder(fo, yo, fi, yi, x)
    s[out].vectorize(x)
    s[out].parallel(fo)

    s[acc].compute_at(s[out], yo)
    fc, yc, xc = s[acc].op.axis
    rc, ry, rx = s[acc].op.reduce_axis
    s[acc].reorder(rc, ry, rx, fc, yc, xc)
    s[acc].vectorize(xc)
    s[acc].unroll(rx)

    s[staged_weight].compute_at(s[acc], rc)
    s[padded].compute_at(s[out], yo)
    s[padded].vectorize(s[padded].op.axis[2])
    return s


def reference(data, weight):
    padded = np.pad(data, ((0, 0), (PAD, PAD), (PAD, PAD)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(1, 2))
    return np.einsum("cyxij,fcij->fyx", windows, weight, optimize=True)


def main():
    data, weight, padded, out = convolution()
    s = schedule(weight, padded, out)
    print(tvm.lower(s, [data, weight, out], simple_mode=True))
    func = tvm.build(s, [data, weight, out], "llvm", name="conv2d")

    rng = np.random.default_rng(0)
    d = rng.standard_normal((CIN, SIZE, SIZE)).astype("float32")
    w = rng.standard_normal((COUT, CIN, KERNEL, KERNEL)).astype("float32")
    o = tvm.nd.array(np.zeros((COUT, SIZE, SIZE), dtype="float32"))
    func(tvm.nd.array(d), tvm.nd.array(w), o)
    tvm.testing.assert_allclose(o.numpy(), reference(d, w), rtol=1e-3, atol=1e-3)
    timer = func.time_evaluator(func.entry_name, tvm.cpu(0), number=20)
    seconds = timer(tvm.nd.array(d), tvm.nd.array(w), o).mean
    flops = 2 * COUT * SIZE * SIZE * CIN * KERNEL * KERNEL
    print(f"agrees with NumPy; {seconds * 1e6:.0f} us, {flops / seconds / 1e9:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
