"""Python's operators on expressions: bring the operands to one type, fold constants, make the node.

Stands apart from expr.py for size only; the two modules import each other (expr.py first, which the
package's `__init__` sees to), so names of nodes are looked up when an operator runs.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from . import expr
from .fold import fold_binary, wrap_int
from .numpy_calls import by_element


class ExprOps:
    """Python's operators for everything that stands for an expression (IterVar and slices too)."""

    __slots__ = ()

    def asexpr(self) -> expr.PrimExpr:
        """The expression that this stands for."""
        raise NotImplementedError

    def __add__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.Add, self, other)

    def __radd__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.Add, other, self)

    def __sub__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.Sub, self, other)

    def __rsub__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.Sub, other, self)

    def __mul__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.Mul, self, other)

    def __rmul__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.Mul, other, self)

    def __truediv__(self, other: ExprLike) -> expr.PrimExpr:
        return divide(self, other)

    def __rtruediv__(self, other: ExprLike) -> expr.PrimExpr:
        return divide(other, self)

    def __floordiv__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.FloorDiv, self, other)

    def __rfloordiv__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.FloorDiv, other, self)

    def __mod__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.FloorMod, self, other)

    def __rmod__(self, other: ExprLike) -> expr.PrimExpr:
        return binary(expr.FloorMod, other, self)

    def __neg__(self) -> expr.PrimExpr:
        value = expr.convert(self)
        if isinstance(value, expr.FloatImm):
            return expr.FloatImm(value.dtype, -value.value)
        kind = parse(value.dtype)
        if kind.is_float:
            return binary(expr.Mul, value, expr.FloatImm(kind.element, -1.0))
        if kind.is_integer and kind.min_value < 0:
            return binary(expr.Mul, value, expr.const(-1, value.dtype))
        return binary(expr.Sub, expr.const(0, value.dtype), value)

    def __lt__(self, other: ExprLike) -> expr.PrimExpr:
        return compare(expr.LT, self, other)

    def __le__(self, other: ExprLike) -> expr.PrimExpr:
        return compare(expr.LE, self, other)

    def __gt__(self, other: ExprLike) -> expr.PrimExpr:
        return compare(expr.GT, self, other)

    def __ge__(self, other: ExprLike) -> expr.PrimExpr:
        return compare(expr.GE, self, other)

    def __eq__(self, other: Any) -> Any:
        try:
            return compare(expr.EQ, self, other)
        except (TypeError, TilewrightError):
            return False

    def __ne__(self, other: Any) -> Any:
        try:
            return compare(expr.NE, self, other)
        except (TypeError, TilewrightError):
            return True

    def equal(self, other: Any) -> expr.PrimExpr:
        """`self == other` as an expression."""
        return compare(expr.EQ, self, other)

    __hash__ = object.__hash__  # in C: no other call is made as often

    def __lshift__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.shift_left", self, other)

    def __rlshift__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.shift_left", other, self)

    def __rshift__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.shift_right", self, other)

    def __rrshift__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.shift_right", other, self)

    def __and__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.bitwise_and", self, other)

    def __rand__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.bitwise_and", other, self)

    def __or__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.bitwise_or", self, other)

    def __ror__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.bitwise_or", other, self)

    def __xor__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.bitwise_xor", self, other)

    def __rxor__(self, other: ExprLike) -> expr.PrimExpr:
        return bitwise("tir.bitwise_xor", other, self)

    def __invert__(self) -> expr.PrimExpr:
        value = expr.convert(self)
        if parse(value.dtype).is_float:
            raise TilewrightError(f"~ needs an integer, got {value.dtype}")
        if parse(value.dtype).is_bool:
            return logical_not(value)
        return expr.Call(value.dtype, "tir.bitwise_not", (value,))

    def __bool__(self) -> bool:
        raise ValueError(
            "Cannot use and / or / not / if on an expression: its value is not known yet. "
            "Use tvm.tir.all / tvm.tir.any / te.if_then_else instead (of chained comparisons, too; "
            "te.max / te.min in place of max / min)"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return by_element(self, ufunc, method, inputs, options)

    def __index__(self) -> int:
        raise TypeError(
            "an expression has no value yet, so Python cannot take it for a number (in range(), "
            "int(), float(), math, or as an index of a list). Loops are axes of te.compute and "
            "te.reduce_axis; functions are te.exp and others; x.astype(dtype) converts; a table is "
            "read as a te.placeholder"
        )

    def astype(self, dtype: str, span: object = None) -> expr.PrimExpr:
        """This value converted to another type."""
        return expr.cast(dtype, self)


ExprLike = ExprOps | float | np.generic  # what `convert` takes where a number is wanted


def binary(cls: type[expr.BinaryOp], a: Any, b: Any) -> expr.PrimExpr:
    """An arithmetic node with its operands brought to one type, or what it folds to. Raises
    OperandError where `a` or `b` is neither a number nor an expression, and TilewrightError where
    the divisor is the constant 0, where `a` and `b` are vectors of different lengths or one is a
    handle."""
    if getattr(b, "is_tensor", False) or getattr(a, "is_tensor", False):
        return NotImplemented
    a, b = expr.match_types(a, b)
    if type(a) in (expr.IntImm, expr.FloatImm) and type(b) in (expr.IntImm, expr.FloatImm):
        value = fold_binary(cls.fold_name, a.dtype, a.number, b.number)
        if value is not None:
            return expr.const(value, a.dtype)
        if cls is expr.Div and b.number == 0:
            raise TilewrightError(f"division by zero: {a} by {b}")
    elif type(b) is expr.IntImm:
        if b.value == 0 and cls in (expr.Add, expr.Sub):
            return a
        if b.value == 1 and cls in (expr.Mul, expr.Div, expr.FloorDiv):
            return a
        if b.value == 0 and cls is expr.Mul:
            return b
        if b.value == 1 and cls in (expr.Mod, expr.FloorMod):
            return expr.const(0, a.dtype)
    elif type(a) is expr.IntImm:
        if a.value == 0 and cls is expr.Add:
            return b
        if a.value == 1 and cls is expr.Mul:
            return b
        if a.value == 0 and cls in (expr.Mul, expr.Div, expr.Mod, expr.FloorDiv, expr.FloorMod):
            return a
    if (
        cls in (expr.FloorDiv, expr.FloorMod, expr.Mod, expr.Div)
        and type(b) is expr.IntImm
        and b.value == 0
    ):
        raise TilewrightError(f"division by zero: {a} by {b}")
    if parse(a.dtype).is_bool and cls not in (expr.Min, expr.Max):
        a, b = expr.cast(parse(a.dtype).with_lanes(1) and "int32", a), expr.cast("int32", b)
    return cls(a, b)


def folds(kind: Any, a: Any, b: Any) -> bool:
    """Whether Python's operator on these operands gives something else than the node `kind(a, b)`.

    The operands have one type.
    """
    number = (expr.IntImm, expr.FloatImm)
    if isinstance(a, number) and isinstance(b, number):
        return True
    if not issubclass(kind, expr.BinaryOp):
        return False
    if not isinstance(a, number) and not isinstance(b, number) and a.dtype[:4] != "bool":
        return False
    if a.dtype == b.dtype and a.dtype[:4] != "bool":
        known = a if isinstance(a, number) else b
        if type(known) is expr.FloatImm or known.value not in (0, 1):
            return False  # `binary` makes the node of these; printing asks for each of thousands
    try:
        made: Any = binary(kind, a, b)
    except TilewrightError:
        return True
    return not (type(made) is kind and made.a is a and made.b is b)


def factors(e: Any) -> list[Any]:
    """What is multiplied in a product, from left to right; an expression that is none, alone."""
    found, stack = [], [e]
    while stack:
        x = stack.pop()
        if type(x) is expr.Mul:
            stack += (x.b, x.a)
        else:
            found.append(x)
    return found


def constants_last(e: Any) -> Any:
    """A product with its constants at the end, as the simplifier writes products."""
    ordered = sorted(factors(e), key=lambda f: type(f) is expr.IntImm)
    return functools.reduce(expr.Mul, ordered)


def divide(a: Any, b: Any) -> expr.PrimExpr:
    """Python's `/`: for floats only, since integers have four divisions of their own."""
    if getattr(b, "is_tensor", False) or getattr(a, "is_tensor", False):
        return NotImplemented
    left, right = expr.match_types(a, b)
    if not parse(left.dtype).is_float:
        raise TilewrightError(
            "TVM supports multiple types of integer divisions, please call div, indexdiv/indexmod, "
            "floordiv/floormod or truncdiv/truncmod directly to avoid ambiguity in the code. "
            "a // b is floordiv; for a fraction convert first: a.astype('float32') / b"
        )
    return binary(expr.Div, left, right)


_COMPARE = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


def compare(cls: type[expr.CmpOp], a: Any, b: Any) -> expr.PrimExpr:
    """A comparison node, or the constant it folds to."""
    if getattr(b, "is_tensor", False) or getattr(a, "is_tensor", False):
        return NotImplemented
    if isinstance(a, (expr.StringImm, str)) or isinstance(b, (expr.StringImm, str)):
        raise TypeError("strings are not compared in expressions")
    a, b = expr.match_types(a, b)
    if type(a) in (expr.IntImm, expr.FloatImm) and type(b) in (expr.IntImm, expr.FloatImm):
        return expr.IntImm("bool", int(_COMPARE[cls.__name__](a.number, b.number)))
    return cls(a, b)


def logical_and(a: Any, b: Any) -> expr.PrimExpr:
    """Whether both conditions hold; a constant one is left out. Raises OperandError where `a` or
    `b` is neither a number nor an expression, and TilewrightError where `a` and `b` are vectors of
    different lengths or one is a handle."""
    a, b = expr.match_types(as_bool(a), as_bool(b))
    for x, y in ((a, b), (b, a)):
        if isinstance(x, expr.IntImm):
            return y if x.value else x
    return expr.And(a, b)


def logical_or(a: Any, b: Any) -> expr.PrimExpr:
    """Whether one of two conditions holds; a constant one is left out. Raises OperandError where
    `a` or `b` is neither a number nor an expression, and TilewrightError where `a` and `b` are
    vectors of different lengths or one is a handle."""
    a, b = expr.match_types(as_bool(a), as_bool(b))
    for x, y in ((a, b), (b, a)):
        if isinstance(x, expr.IntImm):
            return x if x.value else y
    return expr.Or(a, b)


def logical_not(a: Any) -> expr.PrimExpr:
    a = as_bool(a)
    if isinstance(a, expr.IntImm):
        return expr.IntImm("bool", 1 - a.value)
    return a.a if isinstance(a, expr.Not) else expr.Not(a)


def as_bool(a: Any) -> expr.PrimExpr:
    """A condition: `a` itself if bool, else whether it is not zero."""
    e = expr.convert(a)
    if parse(e.dtype).is_bool:
        return e
    return compare(expr.NE, e, expr.const(0, parse(e.dtype).element))


def _of_the_other(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands of which a plain integer, where one is, has the type of the other, if it fits:
    `x >> 4` of bytes is of bytes."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, (int, np.integer)) and isinstance(y, ExprOps):
            kind = parse(expr.convert(y).dtype)
            if kind.is_integer and kind.min_value <= x <= kind.max_value:
                typed = expr.const(int(x), kind.element)
                return (typed, b) if x is a else (a, typed)
    return a, b


def bitwise(name: str, a: Any, b: Any) -> expr.PrimExpr:
    """A bit operation on integers (on bools: the logical one), or another that is exact. Raises
    TilewrightError where `a`, `b` or `name` is not of an integer type, or shifts by more than its
    bits, and OperandError where `a` or `b` is neither a number nor an expression."""
    if getattr(b, "is_tensor", False) or getattr(a, "is_tensor", False):
        return NotImplemented
    a, b = expr.match_types(*_of_the_other(a, b))
    t = parse(a.dtype)
    if t.is_float:
        raise TilewrightError(f"{name[4:]} needs integers, got {a.dtype}")
    if t.is_bool and name in ("tir.bitwise_and", "tir.bitwise_or"):
        return logical_and(a, b) if name == "tir.bitwise_and" else logical_or(a, b)
    if "shift" in name and isinstance(b, expr.IntImm) and not 0 <= b.value < t.bits:
        raise TilewrightError(f"shift by {b.value} is not in [0, {t.bits})")
    if isinstance(a, expr.IntImm) and isinstance(b, expr.IntImm):
        fold: Any = expr.Op.named(name).row.fold
        return expr.const(wrap_int(a.dtype, fold(a.value, b.value)), a.dtype)
    return expr.Call(a.dtype, name, (a, b))
