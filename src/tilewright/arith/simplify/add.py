"""Sums: collect terms, and let digits of one number melt together.

With x//c = SplitAtom(x, c, 0) and x%c = SplitAtom(x, 1, c), a sum may hold

- neighbouring digits: k*(x%m//a) + k*(m/a)*(x%u//m)  ->  k*(x%u//a)      a | m | u
  (also of two numbers that differ by a multiple of m)
- a number and its high digits: k*(x%u//a) - k*(m/a)*(x%u//m)  ->  k*(x%m//a)
- quotients of shifted numbers: (x + d)//c - x//c  ->  (x%c + d)//c
- a number and its low digits: k*(x%u//a) - k*(x%m//a)  ->  k*(m/a)*(x%u//m)

where `x%u//a` may be x itself (a = 1, no u). Sums with a minimum or maximum take the other terms
into it where this leaves fewer: `min(i*32 + 32, n) - i*32 -> min(32, n - i*32)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING, Any

from ...loopir import expr as E
from ..emit import OutOfRange
from ..forms import (
    Atom,
    DivAtom,
    Lin,
    MaxAtom,
    MinAtom,
    ModAtom,
    OpaqueAtom,
    SplitAtom,
    add_into,
)
from ..modular import lin_residue
from ..wrap import fits, fitting, in_type, is_data, unwrapped
from .minmax import extreme

if TYPE_CHECKING:
    from ..context import Context

_MELTING = frozenset((SplitAtom, MinAtom, MaxAtom, ModAtom, OpaqueAtom))


def sum_form(ctx: Context, e: Any) -> Lin:
    """The form of a sum, difference or product by a constant, however deeply nested."""
    terms: dict[Atom, int] = {}
    const = 0
    plain, data = True, False
    dtype = e.dtype
    stack: list[tuple[Any, int]] = [(e, 1)]
    variables = ctx.space.vars
    known, values = ctx.known, ctx.values
    while stack:
        e, k = stack.pop()
        t = type(e)
        if t is E.Add:
            stack.append((e.b, k))
            stack.append((e.a, k))
        elif t is E.Var or t is E.SizeVar:
            atom = variables.get(id(e)) or ctx.space.var(e)
            low, high = known.get(atom, (0, 1))
            if low != high and atom not in values:
                terms[atom] = terms.get(atom, 0) + k
                data = data or atom.data
            else:
                x = ctx.var(e)
                data = data or is_data(ctx, x)
                for a, c in x.terms.items():
                    terms[a] = terms.get(a, 0) + k * c
                const += k * x.const
                plain = plain and len(x.terms) == 1
        elif t is E.IntImm:
            const += k * e.value
        elif t is E.Sub:
            stack.append((e.b, -k))
            stack.append((e.a, k))
        elif t is E.Mul and type(e.b) is E.IntImm:
            stack.append((e.a, k * e.b.value))
        elif t is E.Mul and type(e.a) is E.IntImm:
            stack.append((e.b, k * e.a.value))
        else:
            x = ctx.lin(e)
            for a, c in x.terms.items():
                terms[a] = terms.get(a, 0) + k * c
            const += k * x.const
            plain = False
            data = data or is_data(ctx, x)
    if 0 in terms.values():
        terms = {a: k for a, k in terms.items() if k}
    if data:
        return _sum_of_data(ctx, terms, const, dtype)
    if plain or (len(terms) < 2 and not ctx.residues):
        return Lin(terms, const)
    return melt(ctx, terms, const)


def _sum_of_data(ctx: Context, terms: dict[Atom, int], const: int, dtype: str) -> Lin:
    """A sum that may wrap, taken together with the sums in it that do."""
    x = Lin(terms, const)
    if not fits(ctx, x, dtype):
        x = unwrapped(x, dtype)
    return in_type(ctx, melt(ctx, dict(x.terms), x.const), dtype, True)


def add(ctx: Context, x: Lin, k: int, y: Lin) -> Lin:
    """x + k * y, melted."""
    terms = dict(x.terms)
    add_into(terms, y.terms, k)
    return melt(ctx, terms, x.const + k * y.const)


def melt(ctx: Context, terms: dict[Atom, int], const: int) -> Lin:
    """The form of a sum that may hold digits of one number, minima or maxima. Owns `terms`."""
    if _MELTING.isdisjoint([type(a) for a in terms]):
        return Lin(terms, const)
    while True:
        try:
            step = _melt_step(ctx, terms, const)
        except OutOfRange:  # a step that is not for data
            step = None
        if step is None:
            return Lin(terms, const)
        terms, const = step


Sum = tuple[dict[Atom, int], int]


def _melt_step(ctx: Context, terms: dict[Atom, int], const: int) -> Sum | None:
    splits = [a for a in terms if type(a) is SplitAtom]
    if len(splits) > 1:
        for low, high in _pairs(splits):
            if low.x.const == high.x.const:
                found = _join(ctx, terms, const, low, high)
            elif terms[high] == -terms[low] and high.lower == low.lower:
                found = _carry(ctx, terms, const, high, low)
            else:
                continue
            if found is not None:
                return found
        found = _join_alike(ctx, terms, const, splits)
        if found is not None:
            return found
    if ctx.residues:
        for s in splits:
            found = _exact(ctx, terms, const, s)
            if found is not None:
                return found
    for s in splits:
        found = _join_whole(ctx, terms, const, s)
        if found is not None:
            return found
    for a in list(terms):
        if (type(a) is MinAtom or type(a) is MaxAtom) and abs(terms[a]) == 1:
            found = _absorb(ctx, terms, const, a)
            if found is not None:
                return found
        elif type(a) is ModAtom:
            found = _join_symbolic(ctx, terms, const, a)
            if found is not None:
                return found
        elif type(a) is OpaqueAtom and type(a.expr) is E.Mod and not a.data:
            found = _join_truncated(ctx, terms, const, a)
            if found is not None:
                return found
    return None


def _pairs(splits: list[SplitAtom]) -> Iterator[tuple[SplitAtom, SplitAtom]]:
    """Pairs of digits of numbers that differ by a constant at most."""
    if len(splits) == 2:
        p, q = splits
        if p.x is q.x or p.x.terms == q.x.terms:
            yield p, q
            yield q, p
        return
    groups: dict[Any, list[SplitAtom]] = {}
    for s in splits:
        groups.setdefault(frozenset(s.x.terms.items()), []).append(s)
    for group in groups.values():
        yield from permutations(group, 2)


def _join(
    ctx: Context, terms: dict[Atom, int], const: int, p: SplitAtom, q: SplitAtom
) -> Sum | None:
    """Two digits of the same number, as the three rules of the module's head."""
    kp, kq = terms[p], terms[q]
    a, m, u = p.lower, q.lower, q.upper
    if p.upper == m and kp * m == kq * a and m % a == 0 and (not u or u % m == 0):
        return _replace(ctx, terms, const, p, q, _Digit(p, a, u, kp))
    if p.upper == u and m > a and kp * m == -kq * a and m % a == 0 and (not u or u % m == 0):
        return _replace(ctx, terms, const, p, q, _Digit(p, a, m, kp))
    if a == m and kp == -kq and u and p.upper != u and p.upper % u == 0 and u % a == 0:
        return _replace(ctx, terms, const, p, q, _Digit(p, u, p.upper, kp * (u // a)))
    return None


def _join_alike(
    ctx: Context, terms: dict[Atom, int], const: int, splits: list[SplitAtom]
) -> Sum | None:
    """Neighbouring digits x%m//a and y%u//m of numbers that differ by a multiple of m, as o*8 + v
    and (o%3)*8 + v do by one of 12, which therefore have the same low digits."""
    for p, q in permutations(splits, 2):
        a, m, u = p.lower, q.lower, q.upper
        if p.upper != m or m % a or (u and u % m) or terms[p] * m != terms[q] * a:
            continue
        step, rest = lin_residue(ctx, add(ctx, p.x, -1, q.x))
        if rest % m == 0 and step % m == 0:
            return _replace(ctx, terms, const, p, q, _Digit(q, a, u, terms[p]))
    return None


def _carry(
    ctx: Context, terms: dict[Atom, int], const: int, p: SplitAtom, q: SplitAtom
) -> Sum | None:
    """(x + d)//c - x//c -> (x%c + d)//c, which is 0 or 1 for d < c."""
    c, step = p.lower, p.x.const - q.x.const
    if p.upper or q.upper or not 0 < step < c or p.x.terms != q.x.terms:
        return None
    low = ctx.space.split(q.x, 1, c, p.dtype)
    carry = ctx.space.split(fitting(ctx, Lin({low: 1}, step), p.dtype), c, 0, p.dtype)
    result: dict[Atom, int] = {}
    for atom, k in terms.items():
        if atom is p:
            add_into(result, {carry: k}, 1)
        elif atom is not q:
            add_into(result, {atom: k}, 1)
    return result, const


class _Digit:
    """k * SplitAtom(like.x, lower, upper), to be put into a sum."""

    __slots__ = ("k", "like", "lower", "upper")

    def __init__(self, like: SplitAtom, lower: int, upper: int, k: int) -> None:
        self.like = like
        self.lower = lower
        self.upper = upper
        self.k = k


def _replace(
    ctx: Context, terms: dict[Atom, int], const: int, p: Atom, q: Atom, new: _Digit
) -> Sum:
    """`terms` with the digit `new` in the place of p, and without q."""
    x = new.like.x
    result: dict[Atom, int] = {}
    for atom, k in terms.items():
        if atom is p:
            if new.lower == 1 and not new.upper:
                add_into(result, x.terms, new.k)
                const += new.k * x.const
            else:
                digit = ctx.space.split(x, new.lower, new.upper, new.like.dtype)
                add_into(result, {digit: new.k}, 1)
        elif atom is not q:
            add_into(result, {atom: k}, 1)
    return result, const


def _exact(ctx: Context, terms: dict[Atom, int], const: int, s: SplitAtom) -> Sum | None:
    """c*(x//c) -> x - r, where x is known to be r modulo c."""
    c, k = s.lower, terms[s]
    if s.upper or k % c:
        return None
    m, base = lin_residue(ctx, s.x)
    if m % c:
        return None
    result: dict[Atom, int] = {}
    for atom, coefficient in terms.items():
        add_into(
            result, s.x.terms if atom is s else {atom: coefficient}, k // c if atom is s else 1
        )
    return result, const + k // c * (s.x.const - base % c)


def _join_whole(ctx: Context, terms: dict[Atom, int], const: int, s: SplitAtom) -> Sum | None:
    """k*x - k*c*(x//c) -> k*(x%c), and k*x - k*(x%c) -> k*c*(x//c)."""
    x, k = s.x, terms[s]
    if s.lower > 1 and not s.upper:
        if k % s.lower:
            return None
        whole, lower, upper, factor = -k // s.lower, 1, s.lower, -k // s.lower
    elif s.lower == 1 and s.upper:
        whole, lower, upper, factor = -k, s.upper, 0, -k * s.upper
    else:
        return None
    for a, c in x.terms.items():
        if terms.get(a) != whole * c:
            return None
    new = ctx.space.split(x, lower, upper, s.dtype)
    result: dict[Atom, int] = {}
    for a, c in terms.items():
        if a is s:
            add_into(result, {new: factor}, 1)
        elif a not in x.terms:
            add_into(result, {a: c}, 1)
    return result, const - whole * x.const


def _join_symbolic(ctx: Context, terms: dict[Atom, int], const: int, r: ModAtom) -> Sum | None:
    """n*(x//n) + x%n -> x."""
    space, k = ctx.space, terms[r]
    quotient = space.pair(DivAtom, r.a, r.b, r.dtype)
    for order in (True, False):
        pair = (quotient, space.factor(r.b, r.dtype))
        product = space.product(pair if order else pair[::-1], r.dtype)
        if terms.get(product) == k:
            result = {a: c for a, c in terms.items() if a is not r and a is not product}
            add_into(result, r.a.terms, k)
            return result, const + k * r.a.const
    return None


def _join_truncated(ctx: Context, terms: dict[Atom, int], const: int, r: OpaqueAtom) -> Sum | None:
    """c*tdiv(x, c) + tmod(x, c) -> x."""
    e: Any = r.expr
    c, k, uid = E.const_int(e.b), terms[r], ctx.space.uid(e.a)
    for q in terms:
        d: Any = q.expr if type(q) is OpaqueAtom else None
        if type(d) is not E.Div or not c or E.const_int(d.b) != c or terms[q] != k * c:
            continue
        if ctx.space.uid(d.a) == uid:
            x = ctx.lin(e.a)
            result = {a: v for a, v in terms.items() if a is not r and a is not q}
            add_into(result, x.terms, k)
            return result, const + k * x.const
    return None


def _weight(x: Lin) -> int:
    return 2 * len(x.terms) + (x.const != 0)


def _absorb(ctx: Context, terms: dict[Atom, int], const: int, m: Any) -> Sum | None:
    """Other terms into a minimum or maximum, where this leaves fewer in all."""
    sign = terms[m]
    rest = {a: k for a, k in terms.items() if a in m.a.terms or a in m.b.terms}
    before = _weight(m.a) + _weight(m.b) + 2 * len(rest)
    if not rest and not (const and (m.a.const == -sign * const or m.b.const == -sign * const)):
        return None
    best = None
    for c in (0, const) if const else (0,):
        a = _shifted(m.a, rest, c, sign)
        b = _shifted(m.b, rest, c, sign)
        after = _weight(a) + _weight(b) + (const != 0 and not c) + 1
        if after <= before + (const != 0) and (best is None or after < best[0]):
            best = (after, a, b, c)
    if best is None:
        return None
    _, a, b, c = best
    result: dict[Atom, int] = {}
    for atom, k in terms.items():
        if atom is m:
            x = extreme(ctx, type(m), a, b, m.dtype)
            add_into(result, x.terms, sign)
            const += sign * x.const
        elif atom not in rest:
            add_into(result, {atom: k}, 1)
    return result, const - c


def _shifted(x: Lin, rest: dict[Atom, int], c: int, sign: int) -> Lin:
    terms = dict(x.terms)
    add_into(terms, rest, sign)
    return Lin(terms, x.const + sign * c)
