"""Tensors that are turned on CUDA: in squares of vectors where both sides have whole ones, through
shared memory where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse

TARGET = tw.Target("cuda -arch=sm_80")


def turned(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Any, str]:
    """The report of a right kernel, and its source."""
    x = te.placeholder(shape, dtype, "x")
    y = topi.transpose(x, axes)
    f = tw.build(topi.default_schedule(y, TARGET), [x, y], TARGET, name="f")
    a = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    b = np.zeros([shape[n] for n in axes], dtype)
    (report,) = f.run_simt(a, b).values()
    np.testing.assert_array_equal(b, a.transpose(axes))
    return report, f.imported_modules[0].get_source()


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
    report, source = turned(dtype, shape, axes)
    sides = (shape[-1], shape[axes[-1]])
    nbytes = parse(dtype).nbytes
    squares = not any(n % (16 // nbytes) for n in sides)
    assert ("__shared__" in source) == (not squares and min(sides) >= 32)
    if not squares and min(sides) >= 32 and sides[0] // (4 // nbytes or 1) >= 32 and nbytes <= 4:
        assert report.bank_conflicts is not None and report.bank_conflicts <= 1.1


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((12, 40, 33), (2, 1, 0)),
        ((5, 67, 40), (2, 1, 0)),
        ((40, 6, 10, 11), (3, 1, 2, 0)),
        ((300, 3, 7), (2, 1, 0)),
    ],
)
def test_sides_far_apart(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """What is read together is written far apart, or the other way round: also few elements of a
    side are worth a tile, since no two threads side by side read a line otherwise."""
    report, source = turned(dtype, shape, axes)
    assert "__shared__" in source
    assert report.coalescing is not None  # an element of each sector alone: 0.22, 0.12, 0.06
    assert report.coalescing > {"float32": 0.55, "float16": 0.34, "int8": 0.2}[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("shape", [(64, 33), (3, 16, 5), (0, 33), (7, 33), (16, 1)])
def test_rows_of_odd_lengths_are_no_matter_to_element_wise_work(
    shape: tuple[int, ...], dtype: str
) -> None:
    """Vectors run over the ends of rows, where the whole array has whole ones."""
    x, y = (te.placeholder(shape, dtype, name) for name in "xy")
    out = topi.nn.relu(topi.add(x, y))
    f = tw.build(topi.default_schedule(out, TARGET), [x, y, out], TARGET, name="f")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for _ in range(2))
    got = np.full(shape, 7, dtype)
    f.run_simt(a, b, got)
    np.testing.assert_array_equal(got, np.maximum(a + b, 0))
    lanes, name = {"float32": (4, "float4"), "float16": (8, "half8"), "int8": (16, "int8x16")}[
        dtype
    ]
    source = f.imported_modules[0].get_source()
    assert (name in source) == (got.size > 0 and got.size % lanes == 0) or got.size == 0
