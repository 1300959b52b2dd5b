"""A convolution for a GPU with short vectors (ARM Mali): spatial packing, in three schedules.

    python examples/13_mali_conv2d.py

Tiles of the data are packed one after another and filters into vectors, so that a thread computes a
tile of pixels for a vector of filters. The three schedules (threads; unrolled; vectors) run on the
first OpenCL device, for instance PoCL on this processor; without one, in simt. A template searches
for the best tile.
"""

import numpy as np

import tilewright as tvm
from tilewright import autotvm, te, topi
from tilewright.topi.schedules.gpu.spatial_pack import (
    Packed,
    bind_packed,
    unroll_packed,
    vectorize_packed,
)

CHANNELS, SIZE, FILTERS = 16, 14, 32
PADDING = (1, 1, 1, 1)
VC = 4  # filters that fill a register of 128 bits
TRIALS = 5
DEVICE = tvm.opencl(0)


def expected(data, kernel):
    wide = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((1, FILTERS, SIZE, SIZE), "float32")
    for y in range(3):
        for x in range(3):
            window = wide[:, :, y : y + SIZE, x : x + SIZE]
            out += np.einsum("nchw,oc->nohw", window, kernel[:, :, y, x])
    return out


def run(title, f, data, weights, want):
    """Run on the device, or in simt; compare; time on the device."""
    out = np.zeros(want.shape, "float32")
    if not DEVICE.exist:
        f.run_simt(data, weights, out)
        tvm.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
        print(f"{title:<14} right in simt")
        return
    args = [tvm.nd.array(x, DEVICE) for x in (data, weights, out)]
    f(*args)
    tvm.testing.assert_allclose(args[-1].numpy(), want, rtol=1e-4, atol=1e-4)
    seconds = f.time_evaluator(f.entry_name, DEVICE, number=3, repeat=2)(*args).mean
    flop = 2 * SIZE * SIZE * FILTERS * CHANNELS * 9
    print(f"{title:<14} {seconds * 1e6:9.0f} us {flop / seconds / 1e9:8.2f} GFLOP/s")


def main():
    target = tvm.target.Target("opencl -device=mali")
    if DEVICE.exist:
        target = target.fitted_to(DEVICE)
        print("on", DEVICE.device_name)
    else:
        print("no OpenCL device, so in simt:", DEVICE.why_missing())
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, CHANNELS, SIZE, SIZE)).astype("float32")
    kernel = rng.standard_normal((FILTERS, CHANNELS, 3, 3)).astype("float32")
    # weights are constant: they are packed once, ahead of time
    packed = np.ascontiguousarray(
        np.moveaxis(kernel.reshape(FILTERS // VC, VC, CHANNELS, 3, 3), 1, -1)
    )
    want = expected(data, kernel)

    A = te.placeholder(data.shape, name="data")
    B = te.placeholder(packed.shape, name="kernel_vec")
    C = topi.nn.conv2d_spatial_pack(A, B, tile=(1, 4, VC), padding=PADDING)
    parts = Packed.of(C)
    for steps, title in enumerate(("threads", "+ unrolled", "+ vectorised"), 1):
        s = te.create_schedule(C.op)
        bind_packed(s, parts)
        if steps > 1:
            unroll_packed(s, parts, vectors=steps > 2)
        if steps > 2:
            vectorize_packed(s, parts)
        f = tvm.build(s, [A, B, C], target)
        run(title, f, data, packed, want)
    source = f.imported_modules[0].get_source()
    print(next(line.strip() for line in source.splitlines() if "* vload4(" in line))

    K = te.placeholder(kernel.shape, name="kernel")
    args = (A, K, (1, 1), PADDING)
    task = autotvm.task.create("conv2d_nchw_spatial_pack.mali", args=args, target=target)
    print(len(task.config_space), "configurations")
    if not DEVICE.exist:
        return
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=60),
        runner=autotvm.LocalRunner(number=2, repeat=2, cooldown_interval=0),
    )
    tuner = autotvm.tuner.GATuner(task, seed=0)
    tuner.tune(n_trial=TRIALS, measure_option=option)
    print(f"best of {TRIALS}:", tuner.best_config)
    s, arguments = task.instantiate(tuner.best_config)
    run("tuned", tvm.build(s, arguments, target), data, kernel, want)


if __name__ == "__main__":
    main()
