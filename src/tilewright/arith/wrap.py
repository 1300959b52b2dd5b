"""Where forms of data fit their type, and what becomes of those that do not (see forms.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .emit import OutOfRange
from .forms import INF, LIMITS, Atom, Lin, MulAtom, SumAtom, WrapAtom, add_into, atom_lin

if TYPE_CHECKING:
    from .context import Context

_EXACT = (MulAtom, SumAtom)  # atoms that are only parts of forms: alone, they may not fit


class Unfit(OutOfRange):
    """A rule would compute with a value of data that may not fit its type."""


def is_data(ctx: Context, x: Lin) -> bool:
    """Whether a form holds data."""
    return ctx.space.data and any(a.data for a in x.terms)


def fits(ctx: Context, x: Lin, dtype: str) -> bool:
    """Whether the value of a form is one of the type: proved of data; assumed of indices, unless
    a rule has added a constant so that it is known not to be."""
    least, most = LIMITS[dtype]
    if not is_data(ctx, x):
        if not x.const:
            return True
        low, high = ctx.lin_bound(x)
        return (low >= least or low == -INF) and (high <= most or high == INF)
    if len(x.terms) == 1 and not x.const:
        ((atom, k),) = x.terms.items()
        if k == 1 and type(atom) not in _EXACT and (atom.dtype == dtype or dtype == "int64"):
            return True
    low, high = ctx.lin_bound(x)
    return least <= low and high <= most


def fitting(ctx: Context, x: Lin, dtype: str) -> Lin:
    """`x`, which has to fit its type."""
    if not fits(ctx, x, dtype):
        raise Unfit
    return x


def unwrapped(x: Lin, dtype: str) -> Lin:
    """A form that is equal to `x` modulo 2^bits, with wrapped sums taken apart."""
    terms: dict[Atom, int] = {}
    const = x.const
    for atom, k in x.terms.items():
        if type(atom) is WrapAtom and atom.dtype == dtype:
            const += k * atom.x.const
            add_into(terms, atom.x.terms, k)
        else:
            add_into(terms, {atom: k}, 1)
    return Lin(terms, const)


def in_type(ctx: Context, x: Lin, dtype: str, data: bool = False) -> Lin:
    """The form of what an operation whose exact result is `x` gives in its type. `data`: some of
    its operands are, though they may be gone."""
    if fits(ctx, x, dtype) or not (data or is_data(ctx, x)):
        return x
    x = unwrapped(x, dtype)
    least, most = LIMITS[dtype]
    size = most - least + 1
    terms = {a: (k - least) % size + least for a, k in x.terms.items() if k % size}
    x = Lin(terms, (x.const - least) % size + least)
    return x if fits(ctx, x, dtype) else atom_lin(ctx.space.wrap(x, dtype))
