"""Products of linear forms: constants go out, the rest stays a product as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...loopir import expr as E
from ..forms import Atom, Lin, MulAtom, SumAtom, add_into, scaled
from ..wrap import in_type

if TYPE_CHECKING:
    from ..context import Context


def mul_form(ctx: Context, e: Any) -> Lin:
    """The form of a product."""
    if type(e.a) is E.IntImm or type(e.b) is E.IntImm:
        return ctx.lin_table[E.Add](ctx, e)  # type: ignore[no-any-return]
    return in_type(ctx, multiply(ctx, ctx.lin(e.a), ctx.lin(e.b), e.dtype), e.dtype)


def multiply(ctx: Context, x: Lin, y: Lin, dtype: str) -> Lin:
    """x * y; sums are not expanded."""
    if not x.terms:
        return scaled(y, x.const)
    if not y.terms:
        return scaled(x, y.const)
    k = 1
    factors: list[Atom] = []
    for side in (x, y):
        if len(side.terms) == 1 and not side.const:
            ((atom, c),) = side.terms.items()
            k *= c
            if type(atom) is MulAtom:
                factors.extend(atom.factors)
            else:
                factors.append(atom)
        else:
            factors.append(ctx.space.factor(side, dtype))
    return Lin({ctx.space.product(tuple(factors), dtype): k}, 0)


def product_of(ctx: Context, factors: list[Atom], dtype: str) -> Lin:
    """The form of a product of atoms (one for none)."""
    if not factors:
        return Lin({}, 1)
    if len(factors) == 1:
        only = factors[0]
        return only.x if type(only) is SumAtom else Lin({only: 1}, 0)
    return Lin({ctx.space.product(tuple(factors), dtype): 1}, 0)


def expand(ctx: Context, x: Lin) -> Lin:
    """The same value with products of sums multiplied out: equal polynomials become equal forms."""
    if not any(type(a) is MulAtom or type(a) is SumAtom for a in x.terms):
        return x
    terms: dict[Atom, int] = {}
    const = x.const
    for atom, k in x.terms.items():
        if type(atom) is MulAtom:
            y = Lin({}, 1)
            for f in atom.factors:
                y = _distribute(ctx, y, ctx.space.factor_lin(f), atom.dtype)
        else:
            y = ctx.space.factor_lin(atom)
        add_into(terms, y.terms, k)
        const += k * y.const
    return Lin(terms, const)


def _distribute(ctx: Context, x: Lin, y: Lin, dtype: str) -> Lin:
    terms: dict[Atom, int] = {}
    const = x.const * y.const
    add_into(terms, x.terms, y.const)
    add_into(terms, y.terms, x.const)
    for a, k in x.terms.items():
        for b, c in y.terms.items():
            product = multiply(ctx, Lin({a: 1}, 0), Lin({b: 1}, 0), dtype)
            add_into(terms, product.terms, k * c)
    return Lin(terms, const)
