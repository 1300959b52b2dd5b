"""What each operation of the IR means, on NumPy arrays; see loopir/SEMANTICS.md.

Arrays hold one lane a value, in the NumPy type of the IR's dtype (`parse(dtype).numpy`). Math
functions compute in float64 and round once, so that they serve as references. Call all of them
under `np.errstate(all="ignore")`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.op_table import TABLE, predicate

Array = np.ndarray[Any, Any]


def cast(x: Array, dtype: str) -> Array:
    """Convert: floats to integers as SEMANTICS.md says, integers wrap, to bool it is x != 0."""
    t = parse(dtype)
    if x.dtype == t.numpy:
        return x
    if t.is_bool:
        return np.asarray(x != 0)
    if t.is_float and t.bits == 16:
        return round_to(_as_double(x), dtype)
    if t.is_integer and x.dtype.kind not in "iub":
        return _float_to_int(np.asarray(x, dtype=np.float64), t.numpy)
    return x.astype(t.numpy)


def _as_double(x: Array) -> Array:
    """The float64 that still rounds to the right 16-bit float: 53 bits, the last of which tells of
    those that were cut off."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        low = x & x.dtype.type(0x7FF)
        odd = (x & ~x.dtype.type(0x7FF)) | ((low != 0).astype(x.dtype) << x.dtype.type(11))
        x = np.where(abs(x.astype(np.float64)) < 2.0**53, x, odd)
    return np.asarray(x, dtype=np.float64)


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
    wrong = (q * b != a) & ((a < 0) != (b < 0)) & (b != 0)
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
# of integers: by zero they give zero, the smallest value by -1 gives itself, remainder 0
DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)


MATH: dict[str, Callable[..., Any]] = {
    name: row.numpy
    for name, row in TABLE.items()
    if row.numpy is not None and row.wide and row.check is not predicate
}
"""Functions of float64 arrays that give one."""


def known(name: str) -> bool:
    """Whether `call` knows an operation (without "tir.")."""
    row = TABLE.get(name)
    return row is not None and row.numpy is not None


def call(name: str, args: list[Array], dtype: str) -> Array:
    """The pure intrinsic `name` (without "tir.") of arrays; raises TilewrightError if unknown."""
    if name == "reinterpret":
        return reinterpret(args[0], dtype)
    row = TABLE.get(name)
    if row is None or row.numpy is None:
        raise TilewrightError(f"the interpreter does not know tir.{name}")
    if not row.wide:
        return np.asarray(row.numpy(*args))
    wide = [a if a.dtype.kind in "iub" else np.asarray(a, dtype=np.float64) for a in args]
    result = np.asarray(row.numpy(*wide))
    return round_to(result, dtype) if parse(dtype).is_float else result


def reinterpret(x: Array, dtype: str) -> Array:
    """The same bits as another type: of each element, or where elements of the types have other
    widths, of one vector."""
    bits = np.ascontiguousarray(x).reshape(-1).view(parse(dtype).numpy)
    return bits.reshape(x.shape) if bits.size == x.size else bits
