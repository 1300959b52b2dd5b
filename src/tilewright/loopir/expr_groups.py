"""Groups of classes of expressions for isinstance, by the names of TVM's base classes."""

from __future__ import annotations

from typing import Any, ClassVar

from . import expr as E
from .operators import ExprOps as ExprOp

__all__ = [
    "BinaryOpExpr",
    "CmpExpr",
    "ConstExpr",
    "EqualOp",
    "ExprOp",
    "LogicalExpr",
    "NotEqualOp",
    "PrimExprWithOp",
]


class _Group(type):
    kinds: tuple[type, ...]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.kinds)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.kinds)


class PrimExprWithOp(metaclass=_Group):
    """All expressions."""

    kinds: ClassVar[tuple[type, ...]] = (E.PrimExpr,)


class ConstExpr(metaclass=_Group):
    """Constants: integers, floats, text."""

    kinds: ClassVar[tuple[type, ...]] = (E.IntImm, E.FloatImm, E.StringImm)


class BinaryOpExpr(metaclass=_Group):
    """Arithmetic on two operands."""

    kinds: ClassVar[tuple[type, ...]] = (E.BinaryOp,)


class CmpExpr(metaclass=_Group):
    """Comparisons."""

    kinds: ClassVar[tuple[type, ...]] = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)


class EqualOp(metaclass=_Group):
    """What `==` gives: an EQ, whose truth is whether both are one object."""

    kinds: ClassVar[tuple[type, ...]] = (E.EQ,)


class NotEqualOp(metaclass=_Group):
    """What `!=` gives: an NE, whose truth is whether both are two objects."""

    kinds: ClassVar[tuple[type, ...]] = (E.NE,)


def any_size(span: object = None) -> E.Var:
    """A size of which nothing is known (`tir.Any()`): a variable of its own."""
    return E.Var("?", "int32")


class LogicalExpr(metaclass=_Group):
    """And, Or, Not."""

    kinds: ClassVar[tuple[type, ...]] = (E.And, E.Or, E.Not)
