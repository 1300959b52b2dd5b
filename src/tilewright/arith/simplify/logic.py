"""Conditions joined by and, or, not; each part is simplified under what those before it imply.

A part may be evaluated whatever the others are: what might fail then, a read whose index they make
simpler, a division, does not learn them, unless they decide it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base.deep import recursive
from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.iter import ProducerLoad
from ...loopir.visit import walk
from ..assume import assume
from ..forms import LINEAR_TYPES, combined
from .cmp import NEGATED, boolean

if TYPE_CHECKING:
    from ..context import Context

_MAX_PARTS = 24
_READS = frozenset((E.BufferLoad, ProducerLoad, E.Call))
_DIVISIONS = frozenset((E.Div, E.Mod, E.FloorDiv, E.FloorMod))


def constant_truth(e: Any) -> bool | None:
    """The value of a condition that is constant (in all lanes)."""
    if type(e) is E.Broadcast:
        e = e.value
    return e.value != 0 if type(e) is E.IntImm else None


def may_fail(e: Any) -> bool:
    """Whether an expression may be undefined where it is not needed: a choice by itself is not."""
    return any(
        (type(x) in _READS and not (type(x) is E.Call and x.op.name == "tir.if_then_else"))
        or (type(x) in _DIVISIONS and type(x.b) is not E.IntImm)
        for x in walk(e)
    )


def and_form(ctx: Context, e: Any) -> Any:
    return _joined(ctx, e, E.And, True)


def or_form(ctx: Context, e: Any) -> Any:
    return _joined(ctx, e, E.Or, False)


def _parts(e: Any, cls: Any) -> list[Any]:
    parts: list[Any] = []
    stack: list[Any] = [e]
    while stack:
        x: Any = stack.pop()
        if type(x) is cls:
            stack.append(x.b)
            stack.append(x.a)
        else:
            parts.append(x)
    return parts


def _joined(ctx: Context, e: Any, cls: Any, unit: bool) -> Any:
    """And (unit True) or Or (unit False) of all parts."""
    parts = _parts(e, cls)
    kept = _in_turn(ctx, parts, unit)
    if kept is None:
        return boolean(not unit, e.dtype)
    if 1 < len(kept) <= 6 and _related(ctx, kept):
        # what comes first may follow from what comes later
        kept = _in_turn(ctx, kept[::-1], unit)
        if kept is None:
            return boolean(not unit, e.dtype)
        kept = kept[::-1]
    if not kept:
        return boolean(unit, e.dtype)
    if len(kept) == len(parts) and all(a is b for a, b in zip(kept, parts)):
        return _known(ctx, e)
    result = kept[0]
    for part in kept[1:]:
        result = cls(result, part)
    return _known(ctx, result)


def _in_turn(ctx: Context, parts: list[Any], unit: bool) -> list[Any] | None:
    """Each part simplified where those before are `unit`; None if one is not."""
    kept: list[Any] = []
    if parse(parts[0].dtype).lanes > 1 or len(parts) > _MAX_PARTS:
        kept = [ctx.simp(p) for p in parts]
        truths = [constant_truth(p) for p in kept]
        if (not unit) in truths:
            return None
        return [p for p, truth in zip(kept, truths) if truth is None]
    # the first has nothing to learn from
    alone = [None, *(ctx.simp(p) if may_fail(p) else None for p in parts[1:])]
    ctx.push()
    try:
        for i, (part, failing) in enumerate(zip(parts, alone)):
            s = ctx.simp(part)
            truth = constant_truth(s)
            if truth is None:
                s = s if failing is None else failing
                kept.append(s)
                if i + 1 < len(parts):
                    assume(ctx, s, unit)
            elif truth is not unit:
                return None
    finally:
        ctx.pop()
    return kept


def _related(ctx: Context, parts: list[Any]) -> bool:
    """Whether two comparisons limit the same sum from the same side."""
    seen: set[frozenset[Any]] = set()
    for p in parts:
        if type(p) in NEGATED and p.a.dtype in LINEAR_TYPES:
            gap = combined(ctx.lin(p.b), -1, ctx.lin(p.a))
            key = frozenset(gap.terms.items())
            if key in seen or type(p) in (E.EQ, E.NE):
                return True
            seen.add(key)
    return False


def _known(ctx: Context, e: Any) -> Any:
    if ctx.truths:
        known = ctx.truths.get(ctx.space.uid(e))
        if known is not None:
            return boolean(known, e.dtype)
    return e


def not_form(ctx: Context, e: Any) -> Any:
    a = ctx.simp(e.a)
    truth = constant_truth(a)
    if truth is not None:
        return boolean(not truth, e.dtype)
    negated = negate(a)
    if type(negated) is E.Not:
        return _known(ctx, e if a is e.a else negated)
    return ctx.simp(negated)


@recursive
def negate(e: Any) -> Any:
    """`not e`, pushed inwards. A comparison of floats keeps its Not: NaN compares false."""
    t = type(e)
    if t is E.Not:
        return e.a
    if t is E.IntImm:
        return boolean(e.value == 0)
    if t in NEGATED and (t in (E.EQ, E.NE) or not parse(e.a.dtype).is_float):
        return NEGATED[t](e.a, e.b)
    if t is E.And:
        return E.Or(negate(e.a), negate(e.b))
    if t is E.Or:
        return E.And(negate(e.a), negate(e.b))
    return E.Not(e)


def bool_var(ctx: Context, e: Any) -> Any:
    """A variable of a type without linear forms."""
    if ctx.values:
        value = ctx.values.get(ctx.space.var(e))
        if value is not None:
            return value
    return _known(ctx, e) if e.dtype == "bool" else e
