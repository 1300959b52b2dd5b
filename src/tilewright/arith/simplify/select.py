"""Choices: each branch is simplified under its condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.effects import is_pure
from ...loopir.subst import substitute
from ..assume import assume, let_var
from ..forms import LINEAR_TYPES
from .logic import constant_truth, may_fail

if TYPE_CHECKING:
    from ..context import Context

_LEAVES = frozenset((E.Var, E.SizeVar, E.IntImm, E.FloatImm))
_SMALL_LET = frozenset((E.Var, E.SizeVar, E.IntImm, E.FloatImm))


def _under(ctx: Context, cond: Any, truth: bool, e: Any) -> Any:
    if type(e) in _LEAVES:
        return ctx.simp(e)
    ctx.push()
    try:
        assume(ctx, cond, truth)
        return ctx.simp(e)
    finally:
        ctx.pop()


def _chosen(ctx: Context, cond: Any, truth: bool, e: Any) -> Any:
    """A branch of a Select, which is evaluated also where it is not chosen.

    What might fail there does not learn the condition: a read whose index the condition makes
    simpler, a division.
    """
    if type(e) in _LEAVES:
        return ctx.simp(e)
    return ctx.simp(e) if may_fail(e) else _under(ctx, cond, truth, e)


def select(ctx: Context, e: Any) -> Any:
    """A simplified Select."""
    c = ctx.simp(e.condition)
    truth = constant_truth(c)
    if truth is not None:
        return ctx.simp(e.true_value if truth else e.false_value)
    if parse(c.dtype).lanes > 1:
        t, f = ctx.simp(e.true_value), ctx.simp(e.false_value)
    else:
        t, f = _chosen(ctx, c, True, e.true_value), _chosen(ctx, c, False, e.false_value)
    if ctx.space.uid(t) == ctx.space.uid(f):
        return t
    if c is e.condition and t is e.true_value and f is e.false_value:
        return e
    return E.Select(c, t, f)


def if_then_else(ctx: Context, e: Any) -> Any:
    """A simplified call of tir.if_then_else."""
    cond, yes, no = e.args
    c = ctx.simp(cond)
    truth = constant_truth(c)
    if truth is not None:
        return ctx.simp(yes if truth else no)
    t, f = _under(ctx, c, True, yes), _under(ctx, c, False, no)
    if ctx.space.uid(t) == ctx.space.uid(f):
        return t
    if c is cond and t is yes and f is no:
        return e
    return E.Call(e.dtype, e.op, (c, t, f))


def let(ctx: Context, e: Any) -> Any:
    """A let of a number, variable or pure sum of variables goes away; others stay."""
    value = ctx.simp(e.value)
    small = type(value) in _SMALL_LET
    if not small and value.dtype in LINEAR_TYPES and is_pure(value):
        small = len(ctx.lin(value).terms) <= 2
    if small:
        return ctx.simp(substitute(e.body, {e.var: value}))
    let_var(ctx, e.var, value)
    body = ctx.simp(e.body)
    if value is e.value and body is e.body:
        return e
    return E.Let(e.var, value, body)
