"""Turn conditions and ranges into facts of a context."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.data import is_data
from ..loopir.effects import is_pure
from ..loopir.iter import Range
from .forms import (
    INF,
    LINEAR_TYPES,
    Atom,
    Lin,
    SplitAtom,
    VarAtom,
    combined,
    scaled,
)
from .modular import meet
from .prove import proves

if TYPE_CHECKING:
    from .context import Context

_SWAPPED = {E.LT: E.GE, E.LE: E.GT, E.GT: E.LE, E.GE: E.LT, E.EQ: E.NE, E.NE: E.EQ}


def assume(ctx: Context, cond: Any, truth: bool = True) -> None:
    """Learn that `cond` is true (or false), in the layer that is open."""
    if ctx.plain is ctx:
        return
    stack = [(cond, truth)]
    while stack:
        e, truth = stack.pop()
        t = type(e)
        if t is E.Call and e.op.name == "tir.likely":
            stack.append((e.args[0], truth))
        elif t is E.Broadcast:
            stack.append((e.value, truth))
        elif t is E.Not:
            stack.append((e.a, not truth))
        elif t is (E.And if truth else E.Or):
            stack.append((e.b, truth))
            stack.append((e.a, truth))
        elif t is E.IntImm:
            continue
        else:
            if t in _SWAPPED and e.a.dtype in LINEAR_TYPES:
                _assume_comparison(ctx, t if truth else _SWAPPED[t], e)
                if t not in (E.EQ, E.NE):
                    continue  # the facts say it all
            elif t in (E.And, E.Or):
                _learn_disjunction(ctx, e if truth else None)
            _learn_truth(ctx, e, truth)


def _assume_comparison(ctx: Context, op: type, e: Any) -> None:
    a, b = ctx.lin(e.a), ctx.lin(e.b)
    if op is E.LT:
        learn(ctx, _minus_one(combined(b, -1, a)))
    elif op is E.LE:
        learn(ctx, combined(b, -1, a))
    elif op is E.GT:
        learn(ctx, _minus_one(combined(a, -1, b)))
    elif op is E.GE:
        learn(ctx, combined(a, -1, b))
    elif op is E.EQ:
        difference = combined(a, -1, b)
        _learn_residue(ctx, difference)
        learn(ctx, difference)
        learn(ctx, scaled(difference, -1))
    else:
        _learn_unequal(ctx, combined(a, -1, b))


def _minus_one(x: Lin) -> Lin:
    return Lin(x.terms, x.const - 1)


def _learn_truth(ctx: Context, e: Any, truth: bool) -> None:
    uid = ctx.space.uid(e)
    old = ctx.truths.get(uid)
    if old is truth:
        return
    ctx.truths[uid] = truth

    def undo() -> None:
        if old is None:
            del ctx.truths[uid]
        else:
            ctx.truths[uid] = old

    ctx.learned(undo)


def _learn_disjunction(ctx: Context, e: Any) -> None:
    if e is not None:
        ctx.disjunctions.append(e)
        ctx.learned(ctx.disjunctions.pop)


@recursive
def learn(ctx: Context, x: Lin) -> None:
    """Learn that x >= 0."""
    g = math.gcd(*x.terms.values()) if x.terms else 1
    if g > 1:
        x = Lin({a: k // g for a, k in x.terms.items()}, x.const // g)
    if ctx.unequal and is_unequal(ctx, x):
        x = _minus_one(x)
    if len(x.terms) > 1:
        for atom in x.terms:
            _learn_fact(ctx, atom, x)
    _tighten(ctx, x)


def _learn_fact(ctx: Context, atom: Atom, fact: Lin) -> None:
    rows = ctx.facts.get(atom)
    if rows is None:
        rows = ctx.facts[atom] = []
    rows.append(fact)
    ctx.learned(rows.pop)


def _tighten(ctx: Context, x: Lin) -> None:
    """Constant bounds of each atom that follow from x >= 0 and the bounds of the others."""
    highs = []
    for a, k in x.terms.items():
        low, high = ctx.bound(a)
        highs.append(k * high if k > 0 else k * low)
    endless = sum(1 for h in highs if h == INF)
    if endless > 1:
        return
    total = x.const + sum(h for h in highs if h != INF)
    for (a, k), h in zip(list(x.terms.items()), highs):
        if endless and h != INF:
            continue
        rest = total - (0 if h == INF else h)  # k*a + rest >= 0
        if k > 0:
            learn_bound(ctx, a, -(rest // k), INF)
        else:
            learn_bound(ctx, a, -INF, rest // -k)


def learn_bound(ctx: Context, atom: Atom, low: float, high: float) -> None:
    """Learn constant bounds of an atom (and of the number whose quotient it is)."""
    old = ctx.known.get(atom)
    before = ctx.bound(atom)
    low, high = max(low, before[0]), min(high, before[1])
    if (low, high) == before:
        return
    ctx.known[atom] = (low, high)

    def undo() -> None:
        if old is None:
            del ctx.known[atom]
        else:
            ctx.known[atom] = old

    ctx.learned(undo)
    if type(atom) is SplitAtom and not atom.upper:
        x, c = atom.x, atom.lower
        if low > -INF and low > before[0]:
            learn(ctx, Lin(x.terms, x.const - int(low) * c))
        if high < INF and high < before[1]:
            learn(ctx, combined(Lin({}, int(high) * c + c - 1), -1, x))


def _learn_residue(ctx: Context, x: Lin) -> None:
    """x = 0: where x is `r - const` for a remainder r of one atom, a residue of that atom."""
    if len(x.terms) != 1:
        return
    ((atom, k),) = x.terms.items()
    divided: Any = atom.expr
    if type(atom) is SplitAtom and atom.upper and atom.lower == 1 and abs(k) == 1:
        y, m = atom.x, atom.upper
    elif type(divided) is E.Mod and E.const_int(divided.b) and abs(k) == 1:
        y, m = ctx.lin(divided.a), abs(divided.b.value)
    else:
        return
    if len(y.terms) != 1:
        return
    ((inner, c),) = y.terms.items()
    if math.gcd(c, m) == 1:
        base = (-x.const * k - y.const) * pow(c, -1, m) % m
        learn_residue(ctx, inner, m, base)


def learn_residue(ctx: Context, atom: Atom, m: int, base: int) -> None:
    """Learn that an atom is `base` modulo m."""
    old = ctx.residues.get(atom)
    ctx.residues[atom] = (m, base) if old is None else meet(old, (m, base))

    def undo() -> None:
        if old is None:
            del ctx.residues[atom]
        else:
            ctx.residues[atom] = old

    ctx.learned(undo)


def _learn_unequal(ctx: Context, x: Lin) -> None:
    """x != 0: helps where zero is an end of what x may be, now or by what is learned later."""
    ctx.unequal.append(x)
    ctx.learned(ctx.unequal.pop)
    if proves(ctx, x):
        learn(ctx, _minus_one(x))
    elif proves(ctx, scaled(x, -1)):
        learn(ctx, _minus_one(scaled(x, -1)))


def is_unequal(ctx: Context, x: Lin) -> bool:
    """Whether it was said that x != 0."""
    forms = ((x.terms, x.const), (scaled(x, -1).terms, -x.const))
    return any((y.terms, y.const) in forms for y in ctx.unequal)


def bind_range(ctx: Context, var: E.Var, r: Range) -> None:
    """Learn that a variable lies in a range, for as long as it occurs."""
    atom = renewed(ctx, var)
    if var.dtype not in LINEAR_TYPES:
        return
    start, extent = ctx.lin(r.min), ctx.lin(r.extent)
    if not extent.terms and extent.const == 1:
        bind_value(ctx, var, r.min)
        return
    last = combined(start, 1, Lin(extent.terms, extent.const - 1))
    low, high = ctx.lin_bound(start)[0], ctx.lin_bound(last)[1]
    if (low, high) != (-INF, INF):
        ctx.known[atom] = (low, max(low, high))
    rows = []
    if start.terms:
        rows.append(combined(Lin({atom: 1}, 0), -1, start))
    if last.terms:
        rows.append(combined(last, -1, Lin({atom: 1}, 0)))
    if rows:
        ctx.ranges[atom] = rows


def bind_value(ctx: Context, var: E.Var, value: Any) -> None:
    """Let a variable stand for an expression wherever it occurs."""
    atom = renewed(ctx, var)
    ctx.values[atom] = ctx.lin(value) if var.dtype in LINEAR_TYPES else ctx.simp(value)


def let_var(ctx: Context, var: E.Var, value: Any) -> None:
    """Learn of a variable what its value says, which is not written in its place."""
    if is_data(value, ctx.space.lets):
        ctx.space.let(var)
    if var.dtype in LINEAR_TYPES and is_pure(value):
        atom = renewed(ctx, var)
        ctx.known[atom] = ctx.lin_bound(ctx.lin(value))


def renewed(ctx: Context, var: E.Var) -> VarAtom:
    """The atom of a variable of which nothing is known (any more)."""
    met = id(var) in ctx.space.vars
    atom = ctx.space.var(var)
    if met:  # results so far may rest on what was known
        forget(ctx, atom)
    return atom


def forget(ctx: Context, atom: VarAtom) -> None:
    """Drop what is known of a variable that is bound anew."""
    known = (ctx.known, ctx.ranges, ctx.values, ctx.residues)
    for table in known:
        table.pop(atom, None)
    ctx.clear()
