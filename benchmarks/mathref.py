"""References for the accuracy of the math functions, and errors in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.base.dtype import parse

Array = np.ndarray[Any, Any]

# Bits of the mantissa after the point, least exponent of a normal number.
_SHAPES = {
    "float16": (10, -14),
    "bfloat16": (7, -126),
    "float32": (23, -126),
    "float64": (52, -1022),
}


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, np.ones_like(small)) / (1 + small)


def _erf(x: Array) -> Array:
    if x.dtype == np.longdouble:
        import mpmath

        with mpmath.workprec(80):
            return np.array([_long(mpmath.erf(mpmath.mpf(float(v)))) for v in x], np.longdouble)
    try:
        from scipy import special
    except ImportError:
        return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.float64)
    return np.asarray(special.erf(x))


def _long(value: Any) -> np.longdouble:
    """An mpmath number as a long double, through two doubles."""
    high = float(value)
    if not math.isfinite(high):
        return np.longdouble(high)
    return np.longdouble(high) + np.longdouble(float(value - high))


_NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "pow": "power",
}
_FORMULAS: dict[str, Callable[..., Array]] = {
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "sigmoid": _sigmoid,
    "erf": _erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def reference(name: str, *arguments: Array) -> Array:
    """The function on float64 (or long double) arrays."""
    function = _FORMULAS.get(name) or getattr(np, _NUMPY_NAMES.get(name, name))
    with np.errstate(all="ignore"):
        return np.asarray(function(*arguments))


def errors(got: Array, wanted: Array, element: str) -> Array:
    """|got - wanted| in units in the last place of the float type at wanted, float64.

    A result beyond the largest number counts as the next power of two, so that infinity is right
    from half a unit above the largest number. Infinite where only one is NaN, or where zeros
    have different signs.
    """
    if wanted.dtype == np.longdouble:
        return _errors_long(got, wanted)
    bits, least = _SHAPES[parse(element).element]
    limit = math.ldexp(1.0, 1 - least + 1)
    with np.errstate(invalid="ignore"):
        value = got.astype(np.float64)
    exponent = wanted.view(np.int64) & np.int64(0x7FF << 52)
    np.clip(exponent, (1023 + least) << 52, (1023 + 1 - least) << 52, out=exponent)
    # 1 / unit, by negating the exponent of unit = exponent - bits
    scale = (np.int64(2046 << 52) - (exponent - np.int64(bits << 52))).view(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(np.clip(value, -limit, limit) - np.clip(wanted, -limit, limit)) * scale
    return _with_specials(error, value, wanted)


def _errors_long(got: Array, wanted: Array) -> Array:
    """Errors of float64 results against long doubles."""
    limit = np.ldexp(np.longdouble(1), 1024)
    with np.errstate(invalid="ignore"):
        value = got.astype(np.longdouble)
        exponent = np.clip(np.frexp(wanted)[1] - 1, -1022, 1023)
        distance = np.abs(np.clip(value, -limit, limit) - np.clip(wanted, -limit, limit))
        error = np.ldexp(distance, 52 - exponent).astype(np.float64)
    return _with_specials(error, value, wanted)


def _with_specials(error: Array, value: Array, wanted: Array) -> Array:
    total = float(error.sum())
    if math.isnan(total):
        missing = np.isnan(value)
        same = missing == np.isnan(wanted)
        error = np.where(missing & same, 0.0, np.where(same, error, np.inf))
    zero = wanted == 0
    if zero.any():
        wrong = zero & (value == 0) & (np.signbit(value) != np.signbit(wanted))
        error = np.where(wrong, np.inf, error)
    return error
