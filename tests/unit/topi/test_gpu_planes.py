"""Depthwise convolutions and pooling of NCHW data on CUDA: what a thread reads are whole vectors,
through shared memory where windows overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi

TARGET = tw.Target("cuda -arch=sm_80")


def ran(out: Any, inputs: list[Any], arrays: list[Any]) -> tuple[str, Any, Any]:
    """The source, the report of simt and the result."""
    f = tw.build(topi.default_schedule(out, TARGET), [*inputs, out], TARGET, name="f")
    result = np.zeros([int(d) for d in out.shape], out.dtype)
    (report,) = f.run_simt(*arrays, result).values()
    return f.imported_modules[0].get_source(), report, result


def windows(x: Any, taps: int, stride: int, pad: int, far: int, filler: float) -> Any:
    edge = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    wide = (taps - 1) * far + 1
    x = np.pad(x, edge, constant_values=filler)
    view = np.lib.stride_tricks.sliding_window_view(x, (wide, wide), (2, 3))
    return view[:, :, ::stride, ::stride, ::far, ::far]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("data", "many", "taps", "stride", "pad", "far"),
    [
        ((1, 4, 56, 56), 1, 3, 1, 1, 1),
        ((1, 3, 29, 29), 1, 3, 1, 1, 1),
        ((2, 7, 14, 14), 1, 3, 1, 1, 1),
        ((1, 5, 13, 17), 2, 3, 1, 1, 1),
        ((1, 6, 20, 24), 1, 5, 1, 2, 1),
        ((1, 4, 16, 16), 1, 3, 1, 0, 1),
        ((1, 4, 24, 24), 1, 3, 1, 2, 2),
        ((1, 4, 28, 28), 1, 3, 2, 1, 1),
        ((1, 3, 57, 57), 1, 3, 2, 1, 1),
        ((1, 3, 29, 29), 1, 5, 2, 2, 1),
        ((1, 3, 56, 50), 1, 5, 2, 2, 1),
        ((1, 2, 24, 70), 1, 3, 3, 1, 1),
        ((1, 16, 7, 7), 1, 3, 1, 1, 1),
        ((1, 3, 1, 1), 1, 3, 1, 1, 1),
        ((1, 1, 2, 1100), 1, 3, 1, 1, 1),  # a line longer than a block has threads
    ],
)
def test_depthwise(
    dtype: str, data: tuple[int, ...], many: int, taps: int, stride: int, pad: int, far: int
) -> None:
    x = te.placeholder(data, dtype, "x")
    w = te.placeholder((data[1], many, taps, taps), dtype, "w")
    y = topi.nn.relu(topi.nn.depthwise_conv2d_nchw(x, w, stride, pad, far))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, [int(d) for d in t.shape]).astype(dtype) for t in (x, w))
    source, report, result = ran(y, [x, w], [a, b])
    view = np.repeat(windows(a.astype("float64"), taps, stride, pad, far, 0), many, 1)
    sums = np.einsum("nchwyx,cyx->nchw", view, b.astype("float64").reshape(-1, taps, taps))
    np.testing.assert_array_equal(result, np.maximum(sums, 0))
    lanes = 16 // np.dtype(dtype).itemsize
    shared = stride <= 2 and result.shape[-1] > lanes
    assert ("__shared__" in source) == shared
    if shared and min(result.shape[-2:]) >= (24 if stride == 1 else 14):
        assert report.bank_conflicts <= 1.1
    kept = "tw_load_float16x8" if dtype == "float16" else "*(float4*)"
    assert not shared or f"{kept}" in source


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(
    ("data", "taps", "stride", "pad"),
    [
        ((1, 4, 32, 32), 2, 2, 0),
        ((2, 3, 14, 14), 2, 2, 0),
        ((1, 3, 29, 31), 3, 2, 1),
        ((1, 3, 28, 28), 3, 2, 1),
        ((1, 3, 16, 16), 3, 1, 1),
    ],
)
def test_pooling(kind: str, data: tuple[int, ...], taps: int, stride: int, pad: int) -> None:
    x = te.placeholder(data, "float32", "x")
    y = topi.nn.pool2d(x, (taps, taps), (stride, stride), (1, 1), (pad,) * 4, kind)
    a = np.random.default_rng(0).integers(-9, 9, data).astype("float32")
    source, _, result = ran(y, [x], [a])
    if kind == "max":
        want = windows(a, taps, stride, pad, 1, -np.inf).max((-1, -2))
    else:
        want = windows(a, taps, stride, pad, 1, 0).sum((-1, -2)) / taps**2
    np.testing.assert_allclose(result, want, rtol=1e-6)
    assert data[-1] % 4 or "*(const float4*)(x" in source


@pytest.mark.parametrize("shape", [(1, 512, 4, 4), (1, 130, 2, 2)])
def test_many_channels_of_a_small_plane(shape: tuple[int, ...]) -> None:
    """A block has at most 64 threads along z."""
    x = te.placeholder(shape, "float32", "x")
    out = topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    *_, result = ran(out, [x], [a])
    n, c, h, w = shape
    wanted = a.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
    np.testing.assert_array_equal(result, wanted)
