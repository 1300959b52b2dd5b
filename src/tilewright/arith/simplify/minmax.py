"""Minima and maxima of linear forms: decided, or reduced to what differs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...base.deep import recursive
from ..forms import Lin, MaxAtom, MinAtom, combined, scaled
from ..prove import proves
from ..wrap import fits, fitting

if TYPE_CHECKING:
    from ..context import Context


def min_form(ctx: Context, e: Any) -> Lin:
    return extreme(ctx, MinAtom, ctx.lin(e.a), ctx.lin(e.b), e.dtype)


def max_form(ctx: Context, e: Any) -> Lin:
    return extreme(ctx, MaxAtom, ctx.lin(e.a), ctx.lin(e.b), e.dtype)


@recursive
def extreme(ctx: Context, cls: Any, a: Lin, b: Lin, dtype: str) -> Lin:
    """min(a, b) or max(a, b), by class of atom; terms and factors in common go out."""
    winner = _decided(ctx, cls, a, b)
    if winner is not None:
        return winner
    x, y = a, b
    common = {t: k for t, k in a.terms.items() if b.terms.get(t) == k}
    const = 0
    if common or (a.terms and b.terms):
        const = _common_constant(a.const, b.const)
    if common or const:
        a = Lin({t: k for t, k in a.terms.items() if t not in common}, a.const - const)
        b = Lin({t: k for t, k in b.terms.items() if t not in common}, b.const - const)
    k = math.gcd(a.const, b.const, *a.terms.values(), *b.terms.values())
    if k > 1:
        a = Lin({t: c // k for t, c in a.terms.items()}, a.const // k)
        b = Lin({t: c // k for t, c in b.terms.items()}, b.const // k)
    if not (fits(ctx, a, dtype) and fits(ctx, b, dtype)):
        a, b = fitting(ctx, x, dtype), fitting(ctx, y, dtype)
        common, const, k = {}, 0, 1
    inner = _nested(cls, a, b)
    if inner is None:
        inner = Lin({ctx.space.pair(cls, a, b, dtype): 1}, 0)
    if not common and not const:
        return scaled(inner, k)
    return combined(Lin(common, const), k, inner)


def _decided(ctx: Context, cls: Any, a: Lin, b: Lin) -> Lin | None:
    difference = combined(b, -1, a)  # zero or more: a is the smaller one
    if proves(ctx, difference):
        return a if cls is MinAtom else b
    if proves(ctx, scaled(difference, -1)):
        return b if cls is MinAtom else a
    # min(min(p, q), r): the same, if r is decided against p or q
    for this, other in ((a, b), (b, a)):
        atom = _only(cls, this)
        if atom is None:
            continue
        for part, rest in ((atom.a, atom.b), (atom.b, atom.a)):
            gap = combined(other, -1, part) if cls is MinAtom else combined(part, -1, other)
            if proves(ctx, gap):
                return this
            if proves(ctx, scaled(gap, -1)):
                return extreme(ctx, cls, rest, other, atom.dtype)
    return None


def _only(cls: Any, x: Lin) -> Any:
    """The minimum or maximum that `x` is."""
    if len(x.terms) != 1 or x.const:
        return None
    ((atom, k),) = x.terms.items()
    return atom if k == 1 and type(atom) is cls else None


def _common_constant(a: int, b: int) -> int:
    """What can be taken out of both constants so that one is left at zero, if both have some."""
    if a == 0 or b == 0 or (a > 0) != (b > 0):
        return 0
    return min(a, b) if a > 0 else max(a, b)


def _nested(cls: Any, a: Lin, b: Lin) -> Lin | None:
    """min(max(p, q), p) -> p, and the other way round."""
    opposite = MaxAtom if cls is MinAtom else MinAtom
    for this, other in ((a, b), (b, a)):
        atom = _only(opposite, this)
        if atom is not None and any(_same(other, part) for part in (atom.a, atom.b)):
            return other
    return None


def _same(x: Lin, y: Lin) -> bool:
    return x.const == y.const and x.terms == y.terms
