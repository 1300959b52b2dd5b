"""Conditions without some of their variables that hold only where they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.deep import deep_call, recursive
from ..base.errors import OperandError
from ..loopir import expr as E
from ..loopir.iter import IterVar, Range
from ..loopir.operators import compare, logical_and, logical_not, logical_or

_ORDERED = {E.LT: -1, E.LE: -1, E.GT: 1, E.GE: 1}
_RISING = (E.Add, E.Min, E.Max)


class _Unknown(Exception):
    """A part of which no monotone bound is known."""


def narrow_predicate_expression(expr: Any, free_parameters: Mapping[Any, Range]) -> E.PrimExpr:
    """A condition that implies `expr` whatever values the free parameters have in their ranges, and
    that does not name them: `i > n` for n in [0, 8) gives `i > 7`.

    `expr`: a bool. A comparison that reads memory or takes a remainder, or that divides by what may
    be zero, becomes False. OperandError for another type than bool.
    """
    expr = E.convert(expr)
    if expr.dtype != "bool":
        raise OperandError(f"narrow_predicate_expression takes a condition, got {expr.dtype}")
    ends = {
        (v.var if isinstance(v, IterVar) else v): (r.min, r.min + r.extent - 1)
        for v, r in free_parameters.items()
    }
    found: E.PrimExpr = deep_call(_narrowed, expr, ends, True)
    return found


@recursive
def _narrowed(e: Any, ends: Any, truth: bool) -> Any:
    """A condition that implies `e`; or with truth=False, one that `e` implies."""
    kind = type(e)
    if kind in (E.And, E.Or):
        a, b = (_narrowed(x, ends, truth) for x in (e.a, e.b))
        return e if a is e.a and b is e.b else kind(a, b)
    if kind is E.Not:
        inner = _narrowed(e.a, ends, not truth)
        return e if inner is e.a else logical_not(inner)
    if kind in (E.EQ, E.NE):
        cls, join = (E.LE, logical_and) if kind is E.EQ else (E.LT, logical_or)
        sides = (compare(cls, e.a, e.b), compare(cls, e.b, e.a))
        return join(*(_narrowed(x, ends, truth) for x in sides))
    try:
        if kind not in _ORDERED:
            return _end(e, ends, not truth)
        up = (_ORDERED[kind] < 0) is truth  # whether the left side has to be as great as it gets
        a, b = _end(e.a, ends, up), _end(e.b, ends, not up)
    except _Unknown:
        return E.const(not truth)
    return e if a is e.a and b is e.b else kind(a, b)


@recursive
def _end(e: Any, ends: Any, up: bool) -> Any:
    """The greatest value of an expression over the parameters, or the least."""
    kind = type(e)
    if isinstance(e, E.Var):
        return ends[e][up] if e in ends else e
    if isinstance(e, (E.IntImm, E.FloatImm)):
        return e
    if kind is E.FloorDiv:
        factor = E.const_int(e.b)
        if factor is None or factor == 0:
            raise _Unknown
        a = _end(e.a, ends, up is (factor > 0))
        return e if a is e.a else a // e.b
    if kind is E.Mul:
        x, k = (e.a, e.b) if E.const_int(e.b) is not None else (e.b, e.a)
        factor = E.const_int(k)
        if factor is None:
            raise _Unknown
        a = _end(x, ends, up is (factor >= 0))
        return e if a is x else E.Mul(a, k)
    if kind in _RISING or kind is E.Sub:
        a, b = _end(e.a, ends, up), _end(e.b, ends, up if kind in _RISING else not up)
        return e if a is e.a and b is e.b else kind(a, b)
    raise _Unknown
