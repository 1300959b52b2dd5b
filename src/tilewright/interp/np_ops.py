"""What each operation of the IR means, on NumPy arrays; see loopir/SEMANTICS.md.

Arrays hold one lane a value, in the NumPy type of the IR's dtype (`parse(dtype).numpy`). Math
functions compute in float64 and round once, so that they serve as references. Call all of them
under `np.errstate(all="ignore")`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E

Array = np.ndarray[Any, Any]


def cast(x: Array, dtype: str) -> Array:
    """Convert: floats to integers as SEMANTICS.md says, integers wrap, to bool it is x != 0."""
    t = parse(dtype)
    if x.dtype == t.numpy:
        return x
    if t.is_bool:
        return np.asarray(x != 0)
    if t.is_float and t.bits == 16:
        return round_to(np.asarray(x, dtype=np.float64), dtype)
    if t.is_integer and x.dtype.kind not in "iub":
        return _float_to_int(np.asarray(x, dtype=np.float64), t.numpy)
    return x.astype(t.numpy)


def _float_to_int(x: Array, to: np.dtype[Any]) -> Array:
    limits = np.iinfo(to)
    low, high = x <= float(limits.min), x >= float(limits.max)
    inside = np.where(low | high | np.isnan(x), 0.0, x).astype(to)
    return np.where(low, to.type(limits.min), np.where(high, to.type(limits.max), inside))


def round_to(x: Array, dtype: str) -> Array:
    """float64 values rounded to a float type once, to nearest even."""
    t = parse(dtype)
    if t.code != "bfloat":
        return x.astype(t.numpy)
    # to float32 with the last bit telling of what was cut off: then the second rounding is exact
    single = x.astype(np.float32)
    cut = single.astype(np.float64)
    inexact = (cut != x) & np.isfinite(single) & np.isfinite(x)
    away = inexact & (np.abs(cut) > np.abs(x))
    bits = (single.view(np.uint32) - away.astype(np.uint32)) | inexact.astype(np.uint32)
    return np.asarray(bits, dtype=np.uint32).view(np.float32).astype(t.numpy)


def trunc_div(a: Array, b: Array) -> Array:
    q = np.floor_divide(a, b)
    if a.dtype.kind == "u":
        return np.asarray(q)
    wrong = (q * b != a) & ((a < 0) != (b < 0))
    return np.asarray(q + wrong.astype(a.dtype))


def _div(a: Array, b: Array) -> Array:
    return trunc_div(a, b) if a.dtype.kind in "iu" else np.asarray(np.true_divide(a, b))


def _minimum(a: Array, b: Array) -> Array:
    return a & b if a.dtype.kind == "b" else np.minimum(a, b)


def _maximum(a: Array, b: Array) -> Array:
    return a | b if a.dtype.kind == "b" else np.maximum(a, b)


BINARY: dict[type, Callable[[Array, Array], Any]] = {
    E.Add: np.add,
    E.Sub: np.subtract,
    E.Mul: np.multiply,
    E.Div: _div,
    E.Mod: np.fmod,
    E.FloorDiv: np.floor_divide,
    E.FloorMod: np.remainder,
    E.Min: _minimum,
    E.Max: _maximum,
}
COMPARE: dict[type, Callable[[Array, Array], Any]] = {
    E.EQ: np.equal,
    E.NE: np.not_equal,
    E.LT: np.less,
    E.LE: np.less_equal,
    E.GT: np.greater,
    E.GE: np.greater_equal,
    E.And: np.logical_and,
    E.Or: np.logical_or,
}
DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.asarray(np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole), x))


_erf: Any = np.frompyfunc(math.erf, 1, 1)

# of float64 arrays
MATH: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "erf": lambda x: np.asarray(_erf(x)).astype(np.float64),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tan": np.tan,
    "cos": np.cos,
    "cosh": np.cosh,
    "sin": np.sin,
    "sinh": np.sinh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "fabs": np.abs,
    "round": round_half_away,
    "nearbyint": np.rint,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "pow": np.power,
    "fmod": np.fmod,
    "fma": lambda a, b, c: a * b + c,
}
PREDICATES: dict[str, Callable[[Array], Any]] = {
    "isnan": np.isnan,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
}


def popcount(x: Array) -> Array:
    """How many bits are set, in the type of `x`."""
    bits = _unsigned(x)
    count = np.zeros(bits.shape, dtype=np.uint8)
    for i in range(bits.dtype.itemsize * 8):
        count = count + ((bits >> bits.dtype.type(i)) & bits.dtype.type(1)).astype(np.uint8)
    return count.astype(x.dtype)


def clz(x: Array) -> Array:
    """How many leading bits are zero, as int32."""
    bits = _unsigned(x)
    width = bits.dtype.itemsize * 8
    count = np.full(bits.shape, width, dtype=np.int32)
    for i in range(width):
        count = np.where(bits >> bits.dtype.type(i) != 0, np.int32(width - 1 - i), count)
    return np.asarray(count)


def _unsigned(x: Array) -> Array:
    return x.astype(np.dtype(f"uint{x.dtype.itemsize * 8}"))


def _q_multiply_shift(x: Array, y: Array, q: Array, s: Array) -> Array:
    shift = (q - s).astype(np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), np.int64(0))
    return np.asarray(((x.astype(np.int64) * y.astype(np.int64) + half) >> shift).astype(np.int32))


INTEGER: dict[str, Callable[..., Any]] = {
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "popcount": popcount,
    "clz": clz,
    "q_multiply_shift": _q_multiply_shift,
}


def call(name: str, args: list[Array], dtype: str) -> Array:
    """The pure intrinsic `name` (without "tir.") of arrays; raises TilewrightError if unknown."""
    function = MATH.get(name)
    if function is not None:
        wide = [np.asarray(a, dtype=np.float64) for a in args]
        return round_to(np.asarray(function(*wide)), dtype)
    if name in PREDICATES:
        return np.asarray(PREDICATES[name](np.asarray(args[0], dtype=np.float64)))
    if name in INTEGER:
        return np.asarray(INTEGER[name](*args))
    if name == "reinterpret":
        return reinterpret(args[0], dtype)
    if name == "nextafter":
        return _nextafter(args[0], args[1])
    if name == "ldexp":
        return round_to(np.ldexp(np.asarray(args[0], dtype=np.float64), args[1]), dtype)
    if name == "likely":
        return args[0]
    raise TilewrightError(f"the interpreter does not know tir.{name}")


def reinterpret(x: Array, dtype: str) -> Array:
    """The same bits as another type."""
    return np.ascontiguousarray(x).reshape(-1).view(parse(dtype).numpy).reshape(x.shape)


def _nextafter(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f" and a.dtype.itemsize > 1:
        return np.asarray(np.nextafter(a, b))
    # bfloat16: step the bit pattern, which is ordered like the magnitude
    bits = np.ascontiguousarray(a).view(np.int16)
    up = (b > a) == (bits >= 0)
    zero = a == 0
    stepped = np.where(zero, np.where(b > a, 1, -32767), bits + np.where(up, 1, -1))
    moved = np.where(a == b, bits, stepped).astype(np.int16).view(a.dtype)
    nan = np.isnan(a.astype(np.float32)) | np.isnan(b.astype(np.float32))
    return np.asarray(np.where(nan, np.asarray(np.nan, dtype=a.dtype), moved))
