"""Quotients and remainders, rounded down, of linear forms.

x // c and x % c are taken together: x = c*Q + R, where Q takes what the divisor divides (of the
constant too), so that x // c = Q + R // c and x % c = R % c. Then, for the rest R:

- its bounds lie in one period: the quotient is a constant
- a common divisor g of its coefficients and c:
  (g*S + r) // (g*d) = S // d and (g*S + r) % (g*d) = g*(S % d) + r
- terms that only fill the gap below a larger common divisor: with 0 <= L < g,
  (g*S + L) // (g*d) = S // d and (g*S + L) % (g*d) = g*(S % d) + L
- only negative coefficients: (-S) // c = -((S + c-1) // c), (-S) % c = c-1 - (S + c-1) % c
- one digit of another number: (x%u//l) // c = x%u//(l*c), (x%u//l) % c = x%(l*c)//l
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...base.deep import recursive
from ..forms import (
    LIMITS,
    ZERO,
    Atom,
    DivAtom,
    Lin,
    ModAtom,
    MulAtom,
    SplitAtom,
    add_into,
    combined,
    constant,
    floor_div,
    scaled,
)
from ..modular import lin_residue
from ..prove import proves, tight_bound
from ..wrap import Unfit, fitting, in_type, is_data
from .add import add, melt
from .mul import multiply, product_of

if TYPE_CHECKING:
    from ..context import Context


def floordiv_form(ctx: Context, e: Any) -> Lin:
    return divide(ctx, ctx.lin(e.a), ctx.lin(e.b), e.dtype)


def floormod_form(ctx: Context, e: Any) -> Lin:
    return modulo(ctx, ctx.lin(e.a), ctx.lin(e.b), e.dtype)


def divide(ctx: Context, x: Lin, y: Lin, dtype: str) -> Lin:
    """x // y, rounded down."""
    c = y.const
    if not y.terms and c and c != LIMITS[dtype][0]:
        if c > 0:
            return quotient(ctx, x, c, dtype)
        return in_type(ctx, quotient(ctx, scaled(x, -1), -c, dtype), dtype)
    _divisible(ctx, x, y)
    if _opposed(y):
        return divide(ctx, scaled(x, -1), scaled(y, -1), dtype)
    whole, rest = _symbolic_split(ctx, x, y, dtype)
    if (rest.terms or rest.const) and not _within(ctx, rest, y):
        less = _cancelled(ctx, rest, y, dtype)
        if less is not None:
            return combined(whole, 1, divide(ctx, less[0], less[1], dtype))
        atom = ctx.space.pair(DivAtom, fitting(ctx, rest, dtype), y, dtype)
        whole = combined(whole, 1, Lin({atom: 1}, 0))
    return melt(ctx, dict(whole.terms), whole.const)


def modulo(ctx: Context, x: Lin, y: Lin, dtype: str) -> Lin:
    """x % y, with the sign of y."""
    c = y.const
    if not y.terms and c and c != LIMITS[dtype][0]:
        if c > 0:
            return remainder(ctx, x, c, dtype)
        return scaled(remainder(ctx, scaled(x, -1), -c, dtype), -1)
    _divisible(ctx, x, y)
    if _opposed(y):
        return scaled(modulo(ctx, scaled(x, -1), scaled(y, -1), dtype), -1)
    _, rest = _symbolic_split(ctx, x, y, dtype)
    if not rest.terms and not rest.const:
        return ZERO
    if _within(ctx, rest, y):
        return rest
    less = _cancelled(ctx, rest, y, dtype)
    if less is not None:
        return multiply(ctx, modulo(ctx, less[0], less[1], dtype), less[2], dtype)
    return Lin({ctx.space.pair(ModAtom, fitting(ctx, rest, dtype), y, dtype): 1}, 0)


def _cancelled(ctx: Context, x: Lin, y: Lin, dtype: str) -> tuple[Lin, Lin, Lin] | None:
    """Two products of indices without their common factors, and these; None if there are none."""
    if x.const or y.const or len(x.terms) != 1 or len(y.terms) != 1 or ctx.space.data:
        return None
    ((a, k),), ((b, c),) = x.terms.items(), y.terms.items()
    top, bottom = ([*f.factors] if type(f) is MulAtom else [f] for f in (a, b))
    common = []
    for f in list(top):
        if f in bottom:
            top.remove(f)
            bottom.remove(f)
            common.append(f)
    g = math.gcd(k, c)
    if not common and g == 1:
        return None
    pairs = ((k // g, top), (c // g, bottom), (g, common))
    p, q, r = (scaled(product_of(ctx, fs, dtype), n) for n, fs in pairs)
    return p, q, r


def _opposed(y: Lin) -> bool:
    """Whether a divisor has no positive term: its opposite divides the opposite alike."""
    return y.const <= 0 and all(k < 0 for k in y.terms.values())


def _divisible(ctx: Context, x: Lin, y: Lin) -> None:
    """The rules are for divisors that are not zero, and quotients that fit their type: so with
    data, they are for divisors above zero."""
    if not y.terms:
        raise Unfit  # by zero, or by what has no opposite in its type
    if ctx.space.data and (is_data(ctx, y) or is_data(ctx, x)):
        low = ctx.lin_bound(y)[0]
        if low < 0 or (low == 0 and is_data(ctx, y)):
            raise Unfit


def _digits(ctx: Context, x: Lin, lower: int, upper: int, dtype: str) -> Lin:
    return Lin({ctx.space.split(fitting(ctx, x, dtype), lower, upper, dtype): 1}, 0)


def quotient(ctx: Context, x: Lin, c: int, dtype: str) -> Lin:
    """x // c for a constant c above zero."""
    if c == 1:
        return x
    whole, rest = _periods(ctx, x, c)
    if not rest.terms:
        return whole
    low = _rest_quotient(ctx, rest, c, dtype)
    if not whole.terms and not whole.const:
        return low
    terms = dict(whole.terms)
    add_into(terms, low.terms, 1)
    return melt(ctx, terms, whole.const + low.const)


def remainder(ctx: Context, x: Lin, c: int, dtype: str) -> Lin:
    """x % c for a constant c above zero."""
    if c == 1:
        return ZERO
    _, rest = _periods(ctx, x, c)
    return _rest_remainder(ctx, rest, c, dtype) if rest.terms else constant(rest.const)


def _periods(ctx: Context, x: Lin, c: int) -> tuple[Lin, Lin]:
    """x = c * whole + rest, with the constant of rest in [0, c)."""
    whole: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for a, k in x.terms.items():
        q = k // c if k >= 0 else -(-k // c)
        r = k - q * c
        if q:
            whole[a] = q
        if r:
            rest[a] = r
    return Lin(whole, x.const // c), Lin(rest, x.const % c)


def _one_period(ctx: Context, x: Lin, c: int) -> int | None:
    """The constant x // c, if the bounds of x leave but one."""
    low, high = ctx.lin_bound(x)
    q = floor_div(low, c)
    if q != floor_div(high, c) and any(ctx.facts.get(a) for a in x.terms):
        low, high = tight_bound(ctx, x)  # a condition around it says more than each atom by itself
        q = floor_div(low, c)
    return int(q) if q == floor_div(high, c) and -math.inf < q < math.inf else None


def _low_part(ctx: Context, x: Lin, c: int) -> tuple[Lin, Lin] | None:
    """x = high + low with coefficients of `high` divisible by some g | c, and 0 <= low < g."""
    steps = {a: math.gcd(k, c) for a, k in x.terms.items()}
    for g in sorted(set(steps.values()), reverse=True):
        if g == 1:
            break
        low = Lin({a: k for a, k in x.terms.items() if steps[a] % g}, x.const)
        period = _one_period(ctx, low, g)
        if period is not None:
            high = {a: k for a, k in x.terms.items() if not steps[a] % g}
            return Lin(high, period * g), Lin(low.terms, low.const - period * g)
    return None


def _known_residue(ctx: Context, x: Lin, c: int) -> int | None:
    if not ctx.residues and not is_data(ctx, x):
        return None
    m, b = lin_residue(ctx, x)
    return b % c if m % c == 0 else None


@recursive
def _rest_quotient(ctx: Context, x: Lin, c: int, dtype: str) -> Lin:
    period = _one_period(ctx, x, c)
    if period is not None:
        return constant(period)
    g = math.gcd(c, *x.terms.values())
    if g > 1:
        part = Lin({a: k // g for a, k in x.terms.items()}, x.const // g)
        return quotient(ctx, part, c // g, dtype)
    if len(x.terms) > 1 or x.const:
        parts = _low_part(ctx, x, c)
        if parts is not None:
            return quotient(ctx, parts[0], c, dtype)
    if len(x.terms) == 1:
        ((atom, k),) = x.terms.items()
        if type(atom) is SplitAtom and k == 1 and atom.lower * c <= LIMITS[dtype][1]:
            if not atom.upper:
                inner = Lin(atom.x.terms, atom.x.const + x.const * atom.lower)
                return quotient(ctx, inner, c * atom.lower, dtype)
            if not x.const:
                return _digits(ctx, atom.x, atom.lower * c, atom.upper, dtype)
    if all(k < 0 for k in x.terms.values()):
        return scaled(quotient(ctx, combined(constant(c - 1), -1, x), c, dtype), -1)
    return _digits(ctx, x, c, 0, dtype)


@recursive
def _rest_remainder(ctx: Context, x: Lin, c: int, dtype: str) -> Lin:
    period = _one_period(ctx, x, c)
    if period is not None:
        return Lin(x.terms, x.const - period * c)
    g = math.gcd(c, *x.terms.values())
    if g > 1:
        part = Lin({a: k // g for a, k in x.terms.items()}, x.const // g)
        inner = remainder(ctx, part, c // g, dtype)
        return combined(constant(x.const % g), g, inner)
    if len(x.terms) > 1 or x.const:
        parts = _low_part(ctx, x, c)
        if parts is not None:
            high = remainder(ctx, parts[0], c, dtype)
            return add(ctx, high, 1, parts[1])
    if len(x.terms) == 1 and not x.const:
        ((atom, k),) = x.terms.items()
        if type(atom) is SplitAtom and k == 1 and atom.lower * c <= LIMITS[dtype][1]:
            width = atom.lower * c
            if not atom.upper or atom.upper % width == 0:
                return _digit(ctx, atom.x, atom.lower, width, dtype)
    residue = _known_residue(ctx, x, c)
    if residue is not None:
        return constant(residue)
    if all(k < 0 for k in x.terms.values()):
        opposite = combined(constant(c - 1), -1, x)
        return combined(constant(c - 1), -1, remainder(ctx, opposite, c, dtype))
    return _digits(ctx, x, 1, c, dtype)


def _digit(ctx: Context, x: Lin, lower: int, upper: int, dtype: str) -> Lin:
    """x % upper // lower."""
    return quotient(ctx, remainder(ctx, x, upper, dtype), lower, dtype)


def _symbolic_split(ctx: Context, x: Lin, y: Lin, dtype: str) -> tuple[Lin, Lin]:
    """x = y * whole + rest, for a divisor that is not a constant."""
    if len(y.terms) == 1 and not y.const:
        ((divisor, size),) = y.terms.items()
    else:
        divisor, size = ctx.space.factor(y, dtype), 1
    needed = list(divisor.factors) if type(divisor) is MulAtom else [divisor]
    whole, rest = ZERO, dict(x.terms)
    for a, k in x.terms.items():
        if k % size:
            continue
        left = list(a.factors) if type(a) is MulAtom else [a]
        for f in needed:
            if f not in left:
                break
            left.remove(f)
        else:
            whole = combined(whole, k // size, product_of(ctx, left, dtype))
            del rest[a]
    remaining = Lin(rest, x.const)
    if len(y.terms) > 1 or y.const:
        remaining, times = _whole_multiples(remaining, y)
        whole = combined(whole, times, constant(1))
    return whole, remaining


def _whole_multiples(x: Lin, y: Lin) -> tuple[Lin, int]:
    """x - q*y and q, where the terms of x are a multiple of those of y; else x and 0."""
    first, k = next(iter(y.terms.items()))
    c = x.terms.get(first, 0)
    if not c or c % k:
        return x, 0
    q = c // k
    if any(x.terms.get(a, 0) != q * b for a, b in y.terms.items()):
        return x, 0
    return combined(x, -q, y), q


def _within(ctx: Context, x: Lin, y: Lin) -> bool:
    """Whether 0 <= x < y is proved."""
    return proves(ctx, x) and proves(ctx, combined(combined(y, -1, x), -1, constant(1)))
