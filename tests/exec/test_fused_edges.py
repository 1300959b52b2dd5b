"""Fused loops over pieces of rows and of columns that do not divide, by default schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.topi.schedules.default import default_schedule


@pytest.mark.parametrize("height, width, channels", [(10, 67, 50), (7, 19, 33), (23, 5, 100)])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_with_channels_last(height: int, width: int, channels: int, stride: int) -> None:
    x = te.placeholder((1, height, width, channels), name="x")
    weight = te.placeholder((3, 3, channels), name="weight")
    rh, rw = te.reduce_axis((0, 3), "rh"), te.reduce_axis((0, 3), "rw")

    def padded(n: Any, h: Any, w: Any, c: Any) -> Any:
        inside = te.all(h >= 1, h <= height, w >= 1, w <= width)
        return te.if_then_else(inside, x[n, h - 1, w - 1, c], te.const(0, "float32"))

    pad = te.compute((1, height + 2, width + 2, channels), padded, name="pad")
    rows, columns = (height - 1) // stride + 1, (width - 1) // stride + 1
    y = te.compute(
        (1, rows, columns, channels),
        lambda n, h, w, c: te.sum(
            pad[n, h * stride + rh, w * stride + rw, c] * weight[rh, rw, c], axis=[rh, rw]
        ),
        name="y",
    )
    target = tvm.target.Target("llvm")
    f = tvm.build(default_schedule([y], target), [x, weight, y], target)
    rng = np.random.default_rng(5)
    data = rng.random((1, height, width, channels), dtype=np.float32)
    filters = rng.random((3, 3, channels), dtype=np.float32)
    f(data, filters, out := np.zeros((1, rows, columns, channels), np.float32))
    wide = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float64)
    want = sum(
        wide[:, i : i + stride * rows : stride, j : j + stride * columns : stride][
            :, :rows, :columns
        ]
        * filters[i, j]
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_allclose(out, want, rtol=1e-5)
