"""Proof of conditions: by their structure, then by cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..loopir import expr as E
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import walk
from ..target.target import Target
from .assume import assume, learn_bound
from .emit import OutOfRange
from .forms import LINEAR_TYPES, Lin, VarAtom, combined
from .prove import PROOF_STEPS
from .simplify.cmp import holds
from .simplify.logic import constant_truth, negate

if TYPE_CHECKING:
    from .context import Context

MAX_VALUES = 64
MAX_GOALS = 40
LENGTHS = range(1, 17)  # of SVE's registers, in 128 bits


class Effort:
    """How many goals a question may still raise: conditions joined by `or`, under disjunctions that
    are known, raise a number that grows exponentially with that of their parts."""

    __slots__ = ("goals",)

    def __init__(self) -> None:
        self.goals = MAX_GOALS


def condition_holds(ctx: Context, cond: Any, cases: int = 2, effort: Effort | None = None) -> bool:
    """Whether a condition is proved, trying at most 2^cases branches of known disjunctions and at
    most MAX_GOALS goals in all."""
    effort = effort or Effort()
    if effort.goals <= 0:
        return False
    effort.goals -= 1
    e = ctx.simp(cond)
    truth = constant_truth(e)
    if truth is not None:
        return truth
    if _by_structure(ctx, e, cases, effort):
        return True
    if cases and ctx.disjunctions:
        return _by_cases(ctx, e, cases, effort)
    return False


def _by_structure(ctx: Context, e: Any, cases: int, effort: Effort) -> bool:
    t = type(e)
    if t is E.Call and e.op.name == "tir.likely":
        return condition_holds(ctx, e.args[0], cases, effort)
    if t is E.And:
        return all(condition_holds(ctx, x, cases, effort) for x in (e.a, e.b))
    if t is E.Or:
        for this, other in ((e.a, e.b), (e.b, e.a)):
            if _under(ctx, negate(this), other, cases, effort):
                return True
        return False
    if t in (E.LT, E.LE, E.EQ, E.NE) and e.a.dtype in LINEAR_TYPES:
        a, b = ctx.lin(e.a), ctx.lin(e.b)
        if holds(ctx, t, a, b, PROOF_STEPS):
            return True
        if (
            t is E.EQ
            and holds(ctx, E.LE, a, b, PROOF_STEPS)
            and holds(ctx, E.LE, b, a, PROOF_STEPS)
        ):
            return True
        return _one_by_one(ctx, t, a, b)
    return False


def _one_by_one(ctx: Context, cls: Any, a: Lin, b: Lin) -> bool:
    """Try each value of variables with few values that occur where intervals lose track of them."""
    gap = combined(b, -1, a)
    counts: dict[Any, int] = {}
    for atom in gap.terms:
        for v in ctx.space.vars_of(atom):
            counts[v] = counts.get(v, 0) + 1 + (type(atom) is not VarAtom)
    few = []
    product = 1
    for v, count in counts.items():
        low, high = ctx.bound(v)
        if count > 1 and high - low < MAX_VALUES and product * (high - low + 1) <= MAX_VALUES:
            few.append(v)
            product *= int(high - low + 1)
    return bool(few) and _for_values(ctx, cls, a, b, few)


def _for_values(ctx: Context, cls: Any, a: Lin, b: Lin, few: list[Any]) -> bool:
    if not few:
        return holds(ctx, cls, a, b)
    var, rest = few[0], few[1:]
    low, high = map(int, ctx.bound(var))
    for value in range(low, high + 1):
        ctx.push()
        try:
            learn_bound(ctx, var, value, value)
            possible = all(ctx.lin_bound(f)[1] >= 0 for f in ctx.facts.get(var, ()))
            if possible and not _for_values(ctx, cls, a, b, rest):
                return False
        finally:
            ctx.pop()
    return True


def _under(ctx: Context, assumption: Any, e: Any, cases: int, effort: Effort) -> bool:
    ctx.push()
    try:
        assume(ctx, ctx.simp(assumption))
        return condition_holds(ctx, e, cases, effort)
    except OutOfRange:
        return False
    finally:
        ctx.pop()


def _by_cases(ctx: Context, e: Any, cases: int, effort: Effort) -> bool:
    either: Any = ctx.disjunctions[-1]
    ctx.push()
    try:
        ctx.disjunctions.pop()
        ctx.learned(lambda: ctx.disjunctions.append(either))
        return all(_under(ctx, x, e, cases - 1, effort) for x in (either.a, either.b))
    finally:
        ctx.pop()


class _OfLength(Rewriter):
    """Puts a number in the place of vscale()."""

    def __init__(self, length: int) -> None:
        self.length = length

    @handles(E.Call)
    def _call(self, e: Any) -> Any:
        if e.op.name == "tir.vscale":
            return E.const(self.length, e.dtype)
        return Rewriter.table[E.Call](self, e)


def holds_for_lengths(ctx: Context, cond: Any) -> bool:
    """Whether a condition on vscale() is proved for each length that the active target's vectors
    can have; False where the target, or the condition, has none of unknown length."""
    target = Target.current()
    if target is None or "+sve" not in target.mattr:
        return False
    if not any(type(e) is E.Call and e.op.name == "tir.vscale" for e in walk(cond)):
        return False
    return all(condition_holds(ctx, _OfLength(n).expr(cond)) for n in LENGTHS)
