"""Proof of conditions: by their structure, then by cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..loopir import expr as E
from .assume import assume
from .emit import OutOfRange
from .forms import LINEAR_TYPES
from .prove import PROOF_STEPS
from .simplify.cmp import decide
from .simplify.logic import constant_truth, negate

if TYPE_CHECKING:
    from .context import Context


def condition_holds(ctx: Context, cond: Any, cases: int = 2) -> bool:
    """Whether a condition is proved, trying at most 2^cases branches of known disjunctions."""
    e = ctx.simp(cond)
    truth = constant_truth(e)
    if truth is not None:
        return truth
    if _by_structure(ctx, e, cases):
        return True
    if cases and ctx.disjunctions:
        return _by_cases(ctx, e, cases)
    return False


def _by_structure(ctx: Context, e: Any, cases: int) -> bool:
    t = type(e)
    if t is E.Call and e.op.name == "tir.likely":
        return condition_holds(ctx, e.args[0], cases)
    if t is E.And:
        return condition_holds(ctx, e.a, cases) and condition_holds(ctx, e.b, cases)
    if t is E.Or:
        for this, other in ((e.a, e.b), (e.b, e.a)):
            if _under(ctx, negate(this), other, cases):
                return True
        return False
    if t in (E.LT, E.LE, E.EQ, E.NE) and e.a.dtype in LINEAR_TYPES:
        return decide(ctx, t, ctx.lin(e.a), ctx.lin(e.b), PROOF_STEPS) is True
    return False


def _under(ctx: Context, assumption: Any, e: Any, cases: int) -> bool:
    ctx.push()
    try:
        assume(ctx, ctx.simp(assumption))
        return condition_holds(ctx, e, cases)
    except OutOfRange:
        return False
    finally:
        ctx.pop()


def _by_cases(ctx: Context, e: Any, cases: int) -> bool:
    either: Any = ctx.disjunctions[-1]
    ctx.push()
    try:
        ctx.disjunctions.pop()
        ctx.learned(lambda: ctx.disjunctions.append(either))
        return _under(ctx, either.a, e, cases - 1) and _under(ctx, either.b, e, cases - 1)
    finally:
        ctx.pop()
