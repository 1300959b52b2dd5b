"""Tensors that are turned on CUDA: in squares of vectors where both sides have whole ones, through
shared memory where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse

TARGET = tw.Target("cuda -arch=sm_80")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((67, 40), (1, 0)),  # vectors are read
        ((64, 69), (1, 0)),  # vectors are stored
        ((37, 101), (1, 0)),  # neither
        ((3, 33, 2, 70), (0, 3, 2, 1)),
        ((35, 2, 3, 41), (3, 1, 2, 0)),
        ((5, 80), (1, 0)),  # a side too short for a tile
    ],
)
def test_turned(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = te.placeholder(shape, dtype, "x")
    y = topi.transpose(x, axes)
    f = tw.build(topi.default_schedule(y, TARGET), [x, y], TARGET, name="f")
    a = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    b = np.zeros([shape[n] for n in axes], dtype)
    (report,) = f.run_simt(a, b).values()
    np.testing.assert_array_equal(b, a.transpose(axes))
    sides = (shape[-1], b.shape[-1])
    nbytes = parse(dtype).nbytes
    squares = not any(n % (16 // nbytes) for n in sides)
    source = f.imported_modules[0].get_source()
    assert ("__shared__" in source) == (not squares and min(sides) >= 32)
    if not squares and min(sides) >= 32 and sides[0] // (4 // nbytes or 1) >= 32 and nbytes <= 4:
        assert report.bank_conflicts is not None and report.bank_conflicts <= 1.1
