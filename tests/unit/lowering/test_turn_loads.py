"""Squares that are turned in registers: strided vectors side by side."""

import ctypes
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.unit.codegen.device_kit import compile_c
from tilewright import te
from tilewright.base import config


def turned(n, m, dtype, side, term=lambda x, i, j: x[j, i]):
    """A transpose of an (m, n) matrix in squares of `side`, and its arguments."""
    a = te.placeholder((m, n), dtype, name="a")
    b = te.compute((n, m), lambda i, j: term(a, i, j), name="b")
    s = te.create_schedule(b.op)
    io, ii = s[b].split(b.op.axis[0], side)
    jo, ji = s[b].split(b.op.axis[1], side)
    s[b].reorder(io, jo, ii, ji)
    s[b].unroll(ii)
    s[b].vectorize(ji)
    return s, [a, b]


def run(s, args, given):
    shape = [int(d) for d in args[-1].shape]
    out = tilewright.nd.array(np.zeros(shape, args[-1].dtype))
    tilewright.build(s, args, "llvm")(tilewright.nd.array(given), out)
    return out.numpy()


def numbers(m, n, dtype):
    return np.random.default_rng(m * n).integers(0, 100, (m, n)).astype(dtype)


@pytest.mark.parametrize(
    "dtype, side",
    [("float32", 4), ("float32", 8), ("float32", 16), ("int64", 4), ("float16", 8),
     ("int16", 16), ("uint8", 16), ("uint8", 32), ("bool", 16), ("float64", 8)],
)  # fmt: skip
def test_every_element_of_a_square_finds_its_place(dtype, side):
    given = numbers(3 * side, 2 * side, dtype)
    s, args = turned(2 * side, 3 * side, dtype, side)
    with config.scoped(verify=True):
        assert "a_turned" in str(tilewright.lower(s, args))
        np.testing.assert_array_equal(run(s, args, given), given.T)


@pytest.mark.parametrize("n, m", [(13, 29), (8, 9), (17, 8), (197, 64), (1, 1)])
def test_rests_are_read_one_by_one(n, m):
    given = numbers(m, n, "float32")
    s, args = turned(n, m, "float32", 8)
    np.testing.assert_array_equal(run(s, args, given), given.T)


def test_what_is_computed_of_them_stays():
    def term(a, i, j):
        return a[j, i] * 2 + te.if_then_else(i > 3, a[j, i], a[j, 0])

    given = numbers(16, 24, "float32")
    s, args = turned(24, 16, "float32", 8, term)
    assert "a_turned" in str(tilewright.lower(s, args))
    wanted = given.T * 2 + np.where(np.arange(24)[:, None] > 3, given.T, given[:, :1].T)
    np.testing.assert_array_equal(run(s, args, given), wanted)


def test_two_squares_of_one_array():
    def term(a, i, j):
        return a[j, i] - a[j + 8, i + 8]

    a = te.placeholder((24, 24), name="a")
    b = te.compute((16, 16), lambda i, j: term(a, i, j), name="b")
    s = te.create_schedule(b.op)
    _, _, xi, yi = s[b].tile(b.op.axis[0], b.op.axis[1], 8, 8)
    s[b].unroll(xi)
    s[b].vectorize(yi)
    given = numbers(24, 24, "float32")
    np.testing.assert_array_equal(run(s, [a, b], given), (given[:16, :16] - given[8:, 8:]).T)


def without(reason: str, change: Any) -> None:
    s, args = change
    assert "_turned" not in str(tilewright.lower(s, args)), reason


def test_what_is_no_square_stays():
    without("three lanes", turned(9, 9, "float32", 3))
    without("rows", turned(16, 16, "float32", 8, lambda a, i, j: a[i, j]))
    without("every other column", turned(8, 16, "float32", 8, lambda a, i, j: a[j, i * 2 % 8]))
    s, args = turned(16, 16, "float32", 8)
    text = str(tilewright.lower(s, args, simple_mode=True))
    assert "_turned" not in text


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_as_source_in_c(dtype, tmp_path):
    given = numbers(40, 48, dtype)
    s, args = turned(48, 40, dtype, 8)
    text = tilewright.build(s, args, "llvm", name="turn").get_source("c")
    assert "a_turned" in text
    library = compile_c(text, tmp_path)
    out = np.zeros((48, 40), dtype)
    strides = [40 * 0 + 48, 1, 40, 1]
    places = [ctypes.c_void_p(x.ctypes.data) for x in (given, out)]
    assert library.turn(*places, *strides) == 0
    np.testing.assert_array_equal(out, given.T)
