"""Each operator on each type, scalar and vector, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.base.dtype import parse
from tilewright.loopir import expr as E
from tilewright.target.target import Target

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
LANES = [1, 4, 16]
SIZE = 96


def data(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = parse(dtype)
    if t.is_bool:
        return rng.integers(0, 2, SIZE).astype(bool)
    if t.is_float:
        values = rng.normal(0, 4, SIZE).astype(t.numpy)
        values[:4] = [0.0, -0.0, 1.0, -2.5]
        return values
    low, high = int(t.min_value), int(t.max_value)
    values = rng.integers(low, high, SIZE, dtype=t.numpy, endpoint=True)
    values[:3] = [0, 1, high]
    return values


def nonzero(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    y[y == 0] = 3
    if y.dtype.kind == "i":
        y[y == -1] = 5  # the smallest integer over -1 overflows
    return y


def same(a: np.ndarray, b: np.ndarray) -> None:
    """Equal, NaN to NaN (which NumPy's test does not see in bfloat16)."""
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


ARITH: dict[type, Any] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.Min: np.minimum,
    E.Max: np.maximum,
}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_arithmetic(run_elementwise: Any, dtype: str, lanes: int) -> None:
    a, b = data(dtype, 1), data(dtype, 2)
    for node, oracle in ARITH.items():
        got = run_elementwise(node, [a, b], dtype, lanes)
        with np.errstate(over="ignore"):
            want = oracle(a, b)
        np.testing.assert_array_equal(got, want, err_msg=node.__name__)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division(run_elementwise: Any, dtype: str, lanes: int) -> None:
    a, b = data(dtype, 3), nonzero(data(dtype, 4))
    np.testing.assert_array_equal(run_elementwise(E.Div, [a, b], dtype, lanes), a / b)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", INTS)
def test_integer_divisions(run_elementwise: Any, dtype: str, lanes: int) -> None:
    a, b = data(dtype, 5), nonzero(data(dtype, 6))
    b[::7] = 7
    np.testing.assert_array_equal(run_elementwise(E.FloorDiv, [a, b], dtype, lanes), a // b)
    np.testing.assert_array_equal(run_elementwise(E.FloorMod, [a, b], dtype, lanes), a % b)
    exact = [
        int(abs(int(x)) // abs(int(y))) * (1 if (x >= 0) == (y >= 0) else -1) for x, y in zip(a, b)
    ]
    want = np.array(exact, dtype=a.dtype)
    np.testing.assert_array_equal(run_elementwise(E.Div, [a, b], dtype, lanes), want)
    np.testing.assert_array_equal(run_elementwise(E.Mod, [a, b], dtype, lanes), a - b * want)


@pytest.mark.parametrize("divisor", [1, 2, 8, 7, 64, -3, -8])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_divisions_by_constants(run_elementwise: Any, dtype: str, divisor: int) -> None:
    a = data(dtype, 7)
    for lanes in (1, 8):
        d = E.const(divisor, parse(dtype).with_lanes(lanes))
        got = run_elementwise(lambda x, d=d: E.FloorDiv(x, d), [a], dtype, lanes)
        np.testing.assert_array_equal(got, a // a.dtype.type(divisor))
        got = run_elementwise(lambda x, d=d: E.FloorMod(x, d), [a], dtype, lanes)
        np.testing.assert_array_equal(got, a % a.dtype.type(divisor))


COMPARE: dict[type, Any] = {
    E.EQ: np.equal,
    E.NE: np.not_equal,
    E.LT: np.less,
    E.LE: np.less_equal,
    E.GT: np.greater,
    E.GE: np.greater_equal,
}


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, "bool"])
def test_comparisons(run_elementwise: Any, dtype: str, lanes: int) -> None:
    a, b = data(dtype, 8), data(dtype, 9)
    b[::3] = a[::3]
    if parse(dtype).is_float:
        a[5], b[6] = np.nan, np.nan
    for node, oracle in COMPARE.items():
        if dtype == "bool" and node not in (E.EQ, E.NE):
            continue
        got = run_elementwise(node, [a, b], "bool", lanes)
        with np.errstate(invalid="ignore"):
            want = oracle(a, b)
        np.testing.assert_array_equal(got, want, err_msg=node.__name__)


@pytest.mark.parametrize("lanes", [1, 16])
def test_logic_and_selection(run_elementwise: Any, lanes: int) -> None:
    a, b = data("bool", 10), data("bool", 11)
    x, y = data("float32", 12), data("float32", 13)
    np.testing.assert_array_equal(run_elementwise(E.And, [a, b], "bool", lanes), a & b)
    np.testing.assert_array_equal(run_elementwise(E.Or, [a, b], "bool", lanes), a | b)
    np.testing.assert_array_equal(run_elementwise(E.Not, [a], "bool", lanes), ~a)
    got = run_elementwise(E.Select, [a, x, y], "float32", lanes)
    np.testing.assert_array_equal(got, np.where(a, x, y))


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", FLOATS)
def test_min_and_max_keep_nan(run_elementwise: Any, dtype: str, lanes: int) -> None:
    a, b = data(dtype, 14), data(dtype, 15)
    a[[3, 9]] = np.nan
    b[[5, 9]] = np.nan
    with np.errstate(invalid="ignore"):
        low, high = np.minimum(a, b), np.maximum(a, b)
        rectified = np.maximum(a, a.dtype.type(0))
    same(run_elementwise(E.Min, [a, b], dtype, lanes), low)
    same(run_elementwise(E.Max, [a, b], dtype, lanes), high)
    zero = E.const(0.0, parse(dtype).with_lanes(lanes))
    for build in (lambda v: E.Max(v, zero), lambda v: E.Max(zero, v)):
        same(run_elementwise(build, [a], dtype, lanes), rectified)


def test_a_constant_nan_wins(run_elementwise: Any) -> None:
    a = data("float32", 22)
    for lanes in (1, 4):
        nan = E.const(float("nan"), parse("float32").with_lanes(lanes))
        for node in (E.Min, E.Max):
            got = run_elementwise(lambda v, n=node, c=nan: n(v, c), [a], "float32", lanes)
            assert np.isnan(got).all()


def test_constants_of_every_type(run_elementwise: Any) -> None:
    values: dict[str, list[Any]] = {
        "int8": [-128, 127],
        "uint8": [0, 255],
        "uint32": [2**32 - 1],
        "uint64": [2**64 - 1],
        "int64": [-(2**63), 2**63 - 1],
        "float16": [65504.0, 6e-8, -0.0, float("inf")],
        "bfloat16": [3.38e38, 1e-40, -0.0, float("-inf"), float("nan")],
        "float32": [3.4e38, 1e-45, -0.0, float("inf"), float("nan"), 0.1],
        "float64": [1e308, 5e-324, -0.0, float("inf"), 0.1],
        "bool": [True, False],
    }
    for dtype, listed in values.items():
        kind = parse(dtype).numpy
        for value in listed:
            for lanes in (1, 4):
                constant = E.const(value, parse(dtype).with_lanes(lanes))
                got = run_elementwise(lambda _, c=constant: c, [np.zeros(4, kind)], dtype, lanes)
                want = np.full(4, value, kind)
                assert got.tobytes() == want.tobytes() or (got != got).all(), (dtype, value)


def test_narrow_floats_round_after_each_operation(run_elementwise: Any) -> None:
    for dtype, kind in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        a, b, c = (data(dtype, s) for s in (16, 17, 18))
        got = run_elementwise(lambda x, y, z: x * y + z, [a, b, c], dtype, 16)
        want = ((a * b).astype(kind) + c).astype(kind)
        if dtype == "float16" and Target("llvm").has_fp16:  # as in float32, it may be one FMA
            once = (a.astype("float64") * b.astype("float64") + c.astype("float64")).astype(kind)
            want = np.where(got == once, once, want)
        np.testing.assert_array_equal(got, want)


def test_shuffles_and_halves(run_elementwise: Any) -> None:
    a, b = data("int32", 19), data("int32", 20)

    def build(x: Any, y: Any) -> Any:
        return E.Shuffle([x, y], [0, 4, 1, 5])

    got = run_elementwise(build, [a, b], "int32", 4)
    blocks = zip(a.reshape(-1, 4), b.reshape(-1, 4))
    want = np.concatenate([[x[0], y[0], x[1], y[1]] for x, y in blocks])
    np.testing.assert_array_equal(got, want)

    def swap(x: Any) -> Any:
        low = E.Call("int32x2", "tir.vectorlow", (x,))
        high = E.Call("int32x2", "tir.vectorhigh", (x,))
        return E.Call("int32x4", "tir.vectorcombine", (high, low))

    want = a.reshape(-1, 2, 2)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(run_elementwise(swap, [a], "int32", 4), want)

    def spread(x: Any) -> Any:
        one = E.Shuffle([x], [2])
        return E.Shuffle([one, x], [0, 1, 4, 0])

    want = np.concatenate([[x[2], x[0], x[3], x[2]] for x in a.reshape(-1, 4)])
    np.testing.assert_array_equal(run_elementwise(spread, [a], "int32", 4), want)


def test_ramps_are_values_too(run_elementwise: Any) -> None:
    zeros = np.zeros(16, np.int32)
    got = run_elementwise(lambda x: x + E.Ramp(E.const(5), 3, 8), [zeros], "int32", 8)
    np.testing.assert_array_equal(got, np.tile(5 + 3 * np.arange(8), 2))
    got = run_elementwise(
        lambda x: E.Ramp(E.Shuffle([x], [0]), E.Shuffle([x], [1]), 4),
        [np.tile(np.array([7, -2, 0, 0], np.int32), 2)],
        "int32",
        4,
    )
    np.testing.assert_array_equal(got, np.tile(7 - 2 * np.arange(4), 2))


def test_let_binds_once(run_elementwise: Any) -> None:
    a = data("float32", 21)

    def build(x: Any) -> Any:
        v = E.Var("v", "float32x4")
        return E.Let(v, x * x, v + v)

    np.testing.assert_array_equal(run_elementwise(build, [a], "float32", 4), a * a + a * a)


def test_arithmetic_on_bools_and_floor_division_of_floats(run_elementwise: Any) -> None:
    a, b = data("bool", 23), data("bool", 24)
    for lanes in (1, 8):
        np.testing.assert_array_equal(run_elementwise(E.Min, [a, b], "bool", lanes), a & b)
        np.testing.assert_array_equal(run_elementwise(E.Max, [a, b], "bool", lanes), a | b)
        x, y = data("float32", 25), nonzero(data("float32", 26))
        got = run_elementwise(E.FloorDiv, [x, y], "float32", lanes)
        np.testing.assert_array_equal(got, np.floor(x / y))
        got = run_elementwise(E.FloorMod, [x, y], "float32", lanes)
        np.testing.assert_allclose(got, x - np.floor(x / y) * y, atol=1e-5)
