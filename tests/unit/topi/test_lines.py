"""Sorting and running sums, by name and signature as TVM has them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.base.errors import TilewrightError

RNG = np.random.default_rng(2)


def run(function: Any, a: Any, *how: Any, target: str = "llvm", **named: Any) -> Any:
    """The tensor that `function` makes of one like `a`."""
    x = te.placeholder(a.shape, str(a.dtype), "x")
    with tvm.target.Target(target):
        out = function(x, *how, **named)
        built = tvm.build(topi.default_schedule(out, target), [x, out], target)
    result = np.zeros([int(d) for d in out.shape], out.dtype)
    arrays = [tvm.nd.array(v, tvm.cpu(0)) for v in (a, result)]
    built(*arrays)
    return arrays[1].numpy()


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_sort(dtype: str) -> None:
    a = RNG.integers(0, 50, (3, 41, 2)).astype(dtype)
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(run(topi.sort, a, axis), np.sort(a, axis))
        falling = run(topi.sort, a, axis, is_ascend=0)
        np.testing.assert_array_equal(falling, np.flip(np.sort(a, axis), axis))
        places = run(topi.argsort, a, axis=axis, dtype="int32")
        np.testing.assert_array_equal(places, np.argsort(a, axis, kind="stable"))


def test_topk() -> None:
    a = RNG.permutation(300).astype(np.float32)
    values = run(lambda x: topi.topk(x, 7, ret_type="values"), a)
    np.testing.assert_array_equal(values, np.arange(299, 292, -1))
    places = run(lambda x: topi.topk(x, 7, ret_type="indices", is_ascend=True), a)
    np.testing.assert_array_equal(a[places], np.arange(7))
    every = run(lambda x: topi.topk(x, 0, ret_type="both")[0], a)
    np.testing.assert_array_equal(every, np.arange(299, -1, -1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "uint8"])
@pytest.mark.parametrize("order", ["random", "rising", "falling", "equal"])
def test_many_of_more(dtype: str, order: str) -> None:
    # candidates are halved: once, often, or never; many are equal, and there are both extremes
    a = (
        RNG.integers(0, 90, (2, 700))
        if dtype != "int64"
        else RNG.integers(-(2**62), 2**62, (2, 700))
    )
    a[0, 5], a[1, 9] = (255, 0) if dtype == "uint8" else (-128, 127)
    if order == "equal":
        a[:] = 7
    elif order != "random":
        a = np.sort(a, 1) if order == "rising" else np.flip(np.sort(a, 1), 1)
    a = np.ascontiguousarray(a.astype(dtype))
    if dtype == "float16":
        a[0, 11], a[1, 600] = np.inf, np.nan
    for rising in (False, True):
        signed = a.astype(np.float64 if dtype == "float16" else np.int64)
        places = np.argsort(signed if rising else -signed, 1, kind="stable")
        if not rising and dtype == "float16":  # what is not a number is the largest
            places[1] = [600, *(p for p in places[1] if p != 600)]
        for count in (17, 100, 313, 350):
            found = run(topi.topk, a, count, ret_type="indices", is_ascend=rising, dtype="int32")
            np.testing.assert_array_equal(found, places[:, :count])


@pytest.mark.parametrize("dtype", ["float64", "int16", "int32", "uint16", "uint32", "uint64"])
def test_many_of_lines_that_are_apart(dtype: str) -> None:
    """Down columns, whole chunks of them, with the least and the largest number of the type."""
    kind = np.dtype(dtype)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    a = RNG.choice(np.array([limits.min, limits.max, 0, 1, 5, 9], kind), (704, 3))
    for count in (20, 300):
        places = run(topi.topk, a, count, 0, "indices", is_ascend=True, dtype="int32")
        np.testing.assert_array_equal(places, np.argsort(a, 0, kind="stable")[:count])
        places = run(topi.topk, a, count, 0, "indices", dtype="int32")
        ranks = [np.unique(column, return_inverse=True)[1] for column in a.T]
        order = np.stack([np.argsort(-rank, kind="stable") for rank in ranks], 1)
        np.testing.assert_array_equal(places, order[:count])


def test_more_that_are_no_numbers_than_are_wanted() -> None:
    a = RNG.standard_normal((2, 700)).astype(np.float32)
    a[:, 100:620] = np.nan
    a[:, 3:9] = [0.0, -0.0, np.inf, -np.inf, -0.0, 0.0]
    for rising in (False, True):
        places = run(topi.topk, a, 150, ret_type="indices", is_ascend=rising, dtype="int32")
        for line, found in zip(a, places):
            value = np.where(np.isnan(line), np.inf, line)
            keys = zip(np.isnan(line).tolist(), value.tolist())
            ordered = {key: n for n, key in enumerate(sorted(set(keys)))}
            rank = np.array([ordered[bool(np.isnan(x)), v] for x, v in zip(line, value.tolist())])
            wanted = np.argsort(rank if rising else -rank, kind="stable")
            np.testing.assert_array_equal(found, wanted[:150])


def test_no_lines() -> None:
    for axis in (0, 1, 2):
        for function in (topi.sort, topi.argsort, topi.cumsum):
            assert run(function, np.zeros((3, 0, 2), np.float32), axis=axis).size == 0


def test_running_sums() -> None:
    a = RNG.integers(0, 3, (4, 5, 37)).astype(np.int32)
    for axis in (0, 1, 2, -1):
        np.testing.assert_array_equal(run(topi.cumsum, a, axis), a.cumsum(axis))
    np.testing.assert_array_equal(run(topi.cumsum, a), a.cumsum())
    wide = run(topi.cumprod, a, 1, "int64")
    np.testing.assert_array_equal(wide, a.astype(np.int64).cumprod(1))


def test_errors() -> None:
    x = te.placeholder((3, 4), "float32", "x")
    with pytest.raises(TilewrightError, match="5 of the 4 elements of a line"):
        topi.topk(x, 5)
    with pytest.raises(TilewrightError, match="ret_type is one of both, values, indices"):
        topi.topk(x, 2, ret_type="all")


def test_names_are_functions_whatever_was_asked_first() -> None:
    """A module of a function's name would take its place in the package."""
    code = "from tilewright import topi; topi.argsort; assert not hasattr(topi.sort, '__path__');"
    code += "assert callable(topi.sort) and callable(topi.topk)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
