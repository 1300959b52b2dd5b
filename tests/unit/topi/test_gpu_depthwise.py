"""Depthwise convolutions of NHWC data on GPUs (schedules/gpu/channels_last)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.rt.drivers import nvrtc

WHY = nvrtc.why_missing()


def built(images: int, side: int, channels: int, taps: int, arch: str, dtype: str) -> Any:
    """(module, arguments) of windows with padding around."""
    target = tw.Target(f"cuda -arch={arch}")
    x = te.placeholder((images, side, side, channels), dtype, "x")
    w = te.placeholder((taps, taps, channels, 1), dtype, "w")
    with target:
        y = topi.nn.depthwise_conv2d_nhwc(x, w, 1, taps // 2, 1, out_dtype="float32")
        y = topi.cast(y, dtype)
        s = topi.default_schedule(y, target)
    return tw.build(s, [x, w, y], target), [x, w, y]


@pytest.mark.parametrize("taps", [3, 7, 9, 11])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_windows_of_many_taps(taps: int, dtype: str) -> None:
    f, args = built(2, 8, 24, taps, "sm_80", dtype)
    rng = np.random.default_rng(taps)
    x, w = (rng.integers(-2, 3, [int(d) for d in t.shape]).astype(dtype) for t in args[:2])
    y = np.zeros([int(d) for d in args[2].shape], dtype)
    (report,) = f.run_simt(x, w, y).values()
    around = taps // 2
    padded = np.pad(x.astype("float64"), ((0, 0), (around, around), (around, around), (0, 0)))
    want = np.zeros(y.shape)
    for i, j in np.ndindex(taps, taps):
        want += padded[:, i : i + 8, j : j + 8] * w[i, j, :, 0]
    np.testing.assert_array_equal(y, want.astype(dtype))
    assert not report.findings and report.bank_conflicts <= 1.1


@pytest.mark.skipif(bool(WHY), reason=WHY or "nvrtc is here")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("taps", [7, 9, 11, 15])
@pytest.mark.parametrize(("side", "channels"), [(7, 168), (14, 168), (7, 64)])
def test_windows_of_many_taps_stay_in_registers(
    side: int, channels: int, taps: int, arch: str
) -> None:
    f, _ = built(3, side, channels, taps, arch, "float16")
    image, log = nvrtc.compile_cuda(f.imported_modules[0].get_source(), arch, "cubin")
    for used in nvrtc.resource_usage(image, log).values():
        assert used.stack == 0 and used.spill_stores == 0
