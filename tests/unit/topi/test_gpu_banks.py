"""In how many turns shared memory serves threads side by side, and planes laid out by that."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.gpu.banks import turns

TARGET = tw.Target("cuda -arch=sm_80")


@pytest.mark.parametrize(
    ("places", "nbytes", "taken"),
    [
        ([4 * t for t in range(32)], 4, 1),
        ([8 * t for t in range(32)], 4, 2),
        ([128 * t for t in range(32)], 4, 32),
        ([0] * 32, 4, 1),
        ([2 * t for t in range(32)], 2, 1),
        ([16 * t for t in range(32)], 16, 1),
        ([32 * t for t in range(32)], 16, 2),  # eight threads at a time
        ([132 * t for t in range(32)], 4, 1),
        ([8 * t for t in range(64)], 8, 1),
        ([], 4, 0),
    ],
)
def test_turns(places: list[int], nbytes: int, taken: float) -> None:
    assert turns(places, nbytes) == taken


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("kind", "taps", "stride", "side"),
    [
        ("max", 3, 1, 28),
        ("max", 3, 1, 29),
        ("max", 3, 2, 57),
        ("avg", 3, 1, 29),
        ("avg", 3, 2, 57),
        ("depthwise", 5, 1, 28),
        ("depthwise", 3, 2, 28),
        ("depthwise", 3, 1, 13),
    ],
)
def test_planes_lie_so_that_threads_do_not_meet(
    kind: str, taps: int, stride: int, side: int, dtype: str
) -> None:
    x = te.placeholder((1, 8, side, side), dtype, "x")
    ins = [x]
    if kind == "depthwise":
        w = te.placeholder((8, 1, taps, taps), dtype, "w")
        ins.append(w)
        out = topi.nn.depthwise_conv2d_nchw(x, w, stride, taps // 2, 1, dtype)
    else:
        out = topi.nn.pool2d(x, (taps, taps), (stride,) * 2, (1, 1), (0, 0, 0, 0), kind)
    f = tw.build(topi.default_schedule(out, TARGET), [*ins, out], TARGET, name="f")
    shapes = [[int(d) for d in t.shape] for t in (*ins, out)]
    arrays = [np.ones(shape, parse(dtype).numpy) for shape in shapes]
    (report,) = f.run_simt(*arrays).values()
    assert report.bank_conflicts is not None and report.bank_conflicts <= 1.13
