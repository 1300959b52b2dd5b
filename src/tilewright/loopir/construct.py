"""Constants, casts and what makes operands fit each other.

Stands apart from expr.py, whose constructors use it, for size only: names of nodes are looked up
when a function runs.
"""

from __future__ import annotations

import math
from typing import Any

from ..base.dtype import canonical, parse
from ..base.errors import OperandError, TilewrightError
from . import expr
from .fold import MOST_FLOAT, round_float, sticky_float, wrap_int
from .node import PrimExpr
from .operators import ExprOps


def const(value: Any, dtype: Any = None, span: object = None) -> PrimExpr:
    """A constant; without a dtype, int32 for ints, float32 for floats, bool for bools.

    Numbers that do not fit these are int64 and float64. OperandError: no number, or one that is
    not of a given type. Raises TilewrightError where `dtype` is the type of a handle, where `dtype`
    is no type such as 'float32'.
    """
    if dtype is None:
        if getattr(value, "size", 1) != 1:
            raise OperandError(
                f"a constant is one number, got an array of shape {value.shape}; arrays are "
                "arguments of what is built: te.placeholder stands for one"
            )
        item = value.item() if hasattr(value, "item") else value
        dtype = getattr(value, "dtype", None)
        dtype = canonical(dtype) if dtype is not None else _default_dtype(item)
        value = item
    t = parse(canonical(dtype))
    if t.is_handle:
        raise TilewrightError("a handle has no constants; use tir.reinterpret of an integer")
    scalar: PrimExpr
    try:
        if t.is_float:
            scalar = expr.FloatImm(t.element, sticky_float(value))
        else:
            scalar = expr.IntImm(t.element, int(value))
    except OperandError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise OperandError(f"cannot make a constant of type {t.element} of {value!r}") from None
    return scalar if t.lanes == 1 else expr.Broadcast(scalar, t.lanes)


def _default_dtype(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise OperandError(f"{value} does not fit 64 bits; give a dtype such as uint64")
        return "int32" if -(2**31) <= value < 2**31 else "int64"
    if isinstance(value, float):
        return "float64" if MOST_FLOAT["float32"] < abs(value) < math.inf else "float32"
    raise OperandError(f"cannot make a constant of {value!r}")


def convert(value: Any) -> PrimExpr:
    """A Python or NumPy scalar, string, IterVar or tensor element as an expression. Raises
    OperandError where `value` is neither a number nor an expression."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, ExprOps):
        return value.asexpr()
    if isinstance(value, str):
        return expr.StringImm(value)
    if isinstance(value, (bool, int, float)):
        return const(value)
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return const(value)
    if hasattr(value, "asexpr"):
        result: PrimExpr = value.asexpr()
        return result
    raise OperandError(f"cannot use {value!r} (of type {type(value).__name__}) in an expression")


def cast(dtype: Any, value: Any) -> PrimExpr:
    """`value` converted to `dtype`; constants are folded, scalars broadcast to vectors. Raises
    OperandError where `value` is neither a number nor an expression, and TilewrightError where
    `dtype` and `value` are vectors of different lengths, where `dtype` is no type such as
    'float32'."""
    e = convert(value)
    target = parse(canonical(dtype))
    if e.dtype == target.text:
        return e
    source = parse(e.dtype)
    if source.lanes == 1 and target.lanes != 1:
        return expr.Broadcast(cast(target.element, e), target.lanes)
    if source.lanes != target.lanes:
        raise TilewrightError(f"cannot cast {source.text} to {target.text}: lanes differ")
    if isinstance(e, expr.IntImm):
        if target.is_float:
            return expr.FloatImm(target.text, round_float(target.text, sticky_float(e.value)))
        return const(wrap_int(target.text, e.value), target.text)
    if isinstance(e, expr.FloatImm):
        if target.is_float:
            return expr.FloatImm(target.text, round_float(target.text, e.number))
        if target.is_integer and abs(e.number) < 2**63:
            whole = int(e.number)
            if target.min_value <= whole <= target.max_value:
                return expr.IntImm(target.text, whole)
    if isinstance(e, expr.Broadcast):
        return expr.Broadcast(cast(target.element, e.value), e.lanes)
    return expr.Cast(target.text, e)


def match_types(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Bring two operands to one type (see expr.py's head); plain numbers are int32 or float32.
    Raises OperandError where `a` or `b` is neither a number nor an expression, and TilewrightError
    where `a` and `b` are vectors of different lengths or one is a handle."""
    a, b = convert(a), convert(b)
    if a.dtype == b.dtype:
        return a, b
    ta, tb = parse(a.dtype), parse(b.dtype)
    lanes = tb.lanes if ta.lanes == 1 else ta.lanes
    if ta.lanes != tb.lanes and 1 not in (ta.lanes, tb.lanes):
        raise TilewrightError(f"operands have different lanes: {a.dtype} and {b.dtype}")
    if ta.is_handle or tb.is_handle:
        kinds = ("text" if type(x) is expr.StringImm else x.dtype for x in (a, b))
        raise TilewrightError("operands do not match: {} and {}".format(*kinds))
    if ta.is_float or tb.is_float:
        if ta.is_float and tb.is_float:
            if ta.bits == tb.bits and ta.code != tb.code:
                element = "float32"
            else:
                element = (ta if ta.bits >= tb.bits else tb).element
        else:
            element = (ta if ta.is_float else tb).element
    elif ta.is_bool or tb.is_bool:
        element = (tb if ta.is_bool else ta).element
    else:
        wider = ta if (ta.bits, ta.is_uint) > (tb.bits, tb.is_uint) else tb
        element = wider.element
    common = parse(element).with_lanes(lanes)
    return cast(common, a), cast(common, b)


class Known(int):
    """A constant of a node: an int, which TVM's programs read as an IntImm."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The number."""
        return int(self)

    @property
    def dtype(self) -> str:
        """Of the constant."""
        return "int32"


def lanes_of(lanes: Any) -> tuple[Any, int]:
    """The lanes of a vector, and their number as in DType: below zero for `vscale() * 4`, or a
    number below zero, of which the lanes are as many."""
    if isinstance(lanes, (int, expr.IntImm)) or not isinstance(lanes, PrimExpr):
        count = int(lanes)
        if count >= 0:
            return Known(count), count
        return expr.Mul(expr.Call("int32", "tir.vscale", ()), const(-count)), count
    factor = 0
    rest: Any = lanes
    if type(rest) is expr.Mul:
        known = const_int(rest.a) if const_int(rest.b) is None else const_int(rest.b)
        rest = rest.a if const_int(rest.b) is not None else rest.b
        factor = known or 0
    if not (type(rest) is expr.Call and rest.op.name == "tir.vscale" and factor > 0):
        raise OperandError(
            f"a vector has a constant number of lanes, or vscale() times one, got {lanes}"
        )
    return expr.Mul(rest, const(factor)), -factor


def check_predicate(predicate: Any, lanes: int, what: str, verb: str) -> None:
    """OperandError unless a predicate says of each of so many lanes whether it is touched.

    what: what has the lanes. verb: what is done with them, such as "load a vector".
    """
    t = parse(predicate.dtype)
    if (t.lanes < 0) != (lanes < 0):
        raise OperandError(f"Predicate mask dtype and {what} must both be scalable.")
    if t.lanes not in (1, lanes):
        raise OperandError(
            f"Got a predicate mask with {abs(t.lanes)} lanes, but trying to {verb} with "
            f"{abs(lanes)} lanes. The number of lanes must match."
        )
    if not t.is_bool:
        raise OperandError(f"Predicate mask elements must be boolean values, but got {t.element}.")


def is_const(e: Any, value: int | float | None = None) -> bool:
    """Whether `e` is a number (equal to `value`, if given), scalar or broadcast."""
    if isinstance(e, expr.Broadcast):
        e = e.value
    if not isinstance(e, (expr.IntImm, expr.FloatImm)):
        return False
    return value is None or e.number == value


def const_int(e: Any) -> int | None:
    """The value of an integer constant, else None."""
    if isinstance(e, expr.IntImm):
        return e.value
    return e if isinstance(e, int) else None
