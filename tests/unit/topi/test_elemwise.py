"""Element-wise operations against NumPy."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest

from tests.unit.topi.run import check, floats, ints
from tilewright import topi
from tilewright.base.errors import TilewrightError

SHAPES = [(), (1,), (37,), (3, 1, 5), (2, 33)]

UNARY: dict[str, tuple[Any, float, float]] = {
    "exp": (np.exp, -5, 5), "exp2": (np.exp2, -5, 5), "log": (np.log, 0.1, 9),
    "log2": (np.log2, 0.1, 9), "log10": (np.log10, 0.1, 9), "sin": (np.sin, -9, 9),
    "cos": (np.cos, -9, 9), "tan": (np.tan, -1, 1), "tanh": (np.tanh, -3, 3),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -9, 9), "erf": (np.vectorize(erf), -3, 3),
    "sqrt": (np.sqrt, 0, 9), "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9),
    "floor": (np.floor, -9, 9), "ceil": (np.ceil, -9, 9), "trunc": (np.trunc, -9, 9),
    "abs": (np.abs, -9, 9), "sinh": (np.sinh, -3, 3), "cosh": (np.cosh, -3, 3),
    "asin": (np.arcsin, -1, 1), "acos": (np.arccos, -1, 1), "atan": (np.arctan, -9, 9),
    "asinh": (np.arcsinh, -9, 9), "acosh": (np.arccosh, 1, 9), "atanh": (np.arctanh, -0.9, 0.9),
    "negative": (np.negative, -9, 9), "identity": (np.copy, -9, 9),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    function, low, high = UNARY[name]
    for shape in SHAPES:
        x = floats(*shape, low=low, high=high)
        expected = np.asarray(function(x.astype(np.float64))).astype(np.float32)
        check(getattr(topi, name), [x], expected)


def test_round_takes_halves_away_from_zero() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.4, 0.5, 1.5, 2.5, 3.2], np.float32)
    check(topi.round, [x], np.sign(x) * np.floor(np.abs(x) + np.float32(0.5)))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_classes_of_numbers(name: str) -> None:
    x = np.array([0, 1, np.nan, np.inf, -np.inf, -0.0, 3e38, 5], np.float32)
    check(getattr(topi, name), [x], getattr(np, name)(x))


BINARY: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "less": np.less, "greater": np.greater, "equal": np.equal,
    "not_equal": np.not_equal, "less_equal": np.less_equal, "greater_equal": np.greater_equal,
}  # fmt: skip
PAIRS = [((2, 3), (2, 3)), ((5, 1, 3), (4, 1)), ((7,), (1,)), ((), (3,)), ((1, 16, 5), (16, 1))]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("left, right", PAIRS)
def test_binary(name: str, left: Any, right: Any) -> None:
    for make in (floats, ints):
        a, b = make(*left), make(*right)
        check(getattr(topi, name), [a, b], BINARY[name](a, b))


@pytest.mark.parametrize("left, right", PAIRS)
def test_division(left: Any, right: Any) -> None:
    a, b = floats(*left), floats(*right, low=0.5)
    check(topi.divide, [a, b], a / b)
    check(topi.power, [np.abs(a), b], np.abs(a) ** b)
    i, j = ints(*left), ints(*right, low=1)
    for sign in (1, -1):
        d = j * np.int32(sign)
        check(topi.divide, [i, d], np.trunc(i / d).astype(np.int32))
        check(topi.floor_divide, [i, d], i // d)
        check(topi.floor_mod, [i, d], i % d)


def test_operations_with_numbers() -> None:
    x = floats(3, 5)
    check(lambda t: topi.add(t, 2.0), [x], x + np.float32(2))
    check(lambda t: topi.subtract(1.0, t), [x], np.float32(1) - x)
    check(lambda t: topi.maximum(t, 0.5), [x], np.maximum(x, np.float32(0.5)))


def test_where_cast_clip() -> None:
    a, b = floats(4, 7), floats(7)
    check(topi.where, [a > 0, a, b], np.where(a > 0, a, b))
    for dtype in ("int32", "float64", "int8", "bool", "float16"):
        check(lambda t, d=dtype: topi.cast(t, d), [a], a.astype(dtype))
    check(lambda t: topi.clip(t, -1.0, 1.0), [a], np.clip(a, -1, 1))
    check(lambda t: topi.clip(t, 2.0, 1.0), [a], np.full_like(a, 2))
    i = ints(9)
    check(lambda t: topi.clip(t, -3, 4), [i], np.clip(i, -3, 4))


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(TilewrightError, match="Incompatible broadcast dims"):
        check(topi.add, [floats(3), floats(4)], floats(4))
