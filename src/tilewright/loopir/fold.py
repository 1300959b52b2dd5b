"""Arithmetic on constants, as SEMANTICS.md defines it.

Values are Python ints and floats; `None` means that the operation must stay in the program
(a division by zero, a signed overflow).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ..base.dtype import DType, parse
from ..base.errors import OperandError

Number = int | float
MOST_FLOAT = {"float16": 65504.0, "float32": 3.4028235e38}  # the latter as it is printed


@cache
def _limits(dtype: str) -> tuple[str, int, int, int]:
    t = parse(dtype)
    if t.is_float:
        return "f", 0, 0, t.bits
    return ("i" if t.is_int else "u"), int(t.min_value), int(t.max_value), t.bits


def wrap_int(dtype: str, value: int) -> int:
    """Bring a value into the range of an integer type, modulo 2^bits (bool: not zero)."""
    kind, low, high, bits = _limits(dtype)
    if low <= value <= high:
        return value
    if bits == 1:
        return int(value != 0)
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind == "i" and value > high else value


def round_float(dtype: str, value: float) -> float:
    """The value of a float type nearest to `value`."""
    t: DType = parse(dtype)
    if t.bits == 64:
        return float(value)
    with np.errstate(all="ignore"):
        exact = np.asarray(value, dtype=np.float64)
        if t.code == "bfloat":
            exact = _to_odd(exact)
        return float(exact.astype(t.numpy))


def checked_int(dtype: str, value: int) -> int:
    """A value that an integer type has; OperandError for others."""
    kind, low, high, _ = _limits(dtype)
    if not low <= value <= high or kind == "f":
        raise OperandError(f"the constant {value} does not fit {dtype}: {low} to {high}")
    return value


def checked_float(dtype: str, value: float) -> float:
    """A value that a float type has, once it is rounded; OperandError for others."""
    if not parse(dtype).is_float:
        raise OperandError(f"a constant of type {dtype} is no float: {value}")
    most = MOST_FLOAT.get(dtype, math.inf)
    if most < abs(value) < math.inf:
        raise OperandError(f"the constant {value} does not fit {dtype}: up to {most}")
    return value


def sticky_float(value: int | float) -> float:
    """A float64 from which rounding to a narrower float type gives what `value` rounded once gives.

    It is `value` itself, or for a large integer its 50 leading bits, the last telling of the rest.
    """
    if not isinstance(value, int) or -(2**53) <= value <= 2**53:
        return float(value)
    shift = value.bit_length() - 50
    whole = abs(value)
    odd = whole >> shift | (whole & ((1 << shift) - 1) != 0)
    return math.ldexp(odd if value > 0 else -odd, shift)


def _to_odd(exact: Any) -> Any:
    """A float32 from which rounding once more, to bfloat16, gives what rounding once would.

    Its last bit tells whether something was cut off ("rounding to odd", Boldo and Melquiond 2008).
    """
    single = exact.astype(np.float32)
    cut = single.astype(np.float64)
    if cut == exact or not (np.isfinite(single) and np.isfinite(exact)):
        return single
    bits = single.view(np.uint32)
    if abs(cut) > abs(exact):
        bits = bits - np.uint32(1)
    return (bits | np.uint32(1)).view(np.float32)


def _int_result(dtype: str, value: int) -> int | None:
    kind, low, high, bits = _limits(dtype)
    if low <= value <= high:
        return value
    if kind == "i" and bits >= 32:
        return None
    return wrap_int(dtype, value)


def trunc_div(a: int, b: int) -> int:
    """Integer quotient rounded towards zero."""
    q = abs(a) // abs(b)
    return q if (a >= 0) == (b >= 0) else -q


def fold_binary(op: str, dtype: str, a: Number, b: Number) -> Number | None:
    """`a op b` for constants of element type `dtype`, or None where it cannot be folded."""
    if _limits(dtype)[0] == "f":
        return _fold_float(op, dtype, float(a), float(b))
    return _fold_int(op, dtype, int(a), int(b))


def _fold_int(op: str, dtype: str, a: int, b: int) -> Number | None:
    if op == "add":
        return _int_result(dtype, a + b)
    if op == "sub":
        return _int_result(dtype, a - b)
    if op == "mul":
        return _int_result(dtype, a * b)
    if op == "min":
        return min(a, b)
    if op == "max":
        return max(a, b)
    if b == 0:
        return None
    if op == "floordiv":
        return _int_result(dtype, a // b)
    if op == "floormod":
        return _int_result(dtype, a % b)
    if op == "div":
        return _int_result(dtype, trunc_div(a, b))
    if op == "mod":
        return _int_result(dtype, a - b * trunc_div(a, b))
    return None


def _fold_float(op: str, dtype: str, a: float, b: float) -> Number | None:
    if op in ("min", "max"):
        if math.isnan(a) or math.isnan(b):
            return math.nan
        if a == b == 0:
            negative = math.copysign(1, a) < 0, math.copysign(1, b) < 0
            return -0.0 if (any(negative) if op == "min" else all(negative)) else 0.0
        return min(a, b) if op == "min" else max(a, b)
    if op == "div" and b == 0:
        return None
    try:
        if op == "add":
            return round_float(dtype, a + b)
        if op == "sub":
            return round_float(dtype, a - b)
        if op == "mul":
            return round_float(dtype, a * b)
        if op == "div":
            return round_float(dtype, a / b)
    except OverflowError:
        return None
    return None
