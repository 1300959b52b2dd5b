"""Proof that a linear form is never below zero.

`L >= 0` holds if bounds of the atoms say so. Else, from facts F >= 0, it is enough to prove
m*L - k*F >= 0 with m, k > 0 that remove an atom whose bound is the trouble; since L is an integer,
m*L - k*F > -m does. This is a depth-first search for Farkas multipliers, bounded by a number of
steps. Facts are those of the context, and those that atoms carry in themselves:

- q = x // c:  c*q <= x <= c*q + c - 1
- r = x % c:   r <= x where x >= 0
- min(a, b) is at most a and b; where it must be large, both cases are proved. Maxima likewise.
- products: what is known of one factor, times another factor that is not negative
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..loopir import expr as E
from .forms import (
    INF,
    Atom,
    DivAtom,
    Lin,
    MaxAtom,
    MinAtom,
    ModAtom,
    MulAtom,
    OpaqueAtom,
    SplitAtom,
    SumAtom,
    atom_lin,
    combined,
)

if TYPE_CHECKING:
    from .context import Context

SIMPLIFY_STEPS = 12
PROOF_STEPS = 300
_DEPTH = 8


def proves(ctx: Context, x: Lin, steps: int = SIMPLIFY_STEPS) -> bool:
    """Whether x >= 0 is proved; False says nothing."""
    low, high = ctx.lin_bound(x)
    if low >= 0:
        return True
    if high < 0 or not x.terms:
        return False
    return _search(ctx, x, [steps], _DEPTH)


def tight_bound(ctx: Context, x: Lin) -> tuple[float, float]:
    """Constant bounds of a form: those of its atoms, and what facts add to them."""
    low, high = ctx.lin_bound(x)
    if low == high or not x.terms:
        return low, high
    opposite = Lin({a: -k for a, k in x.terms.items()}, -x.const)
    return max(low, _lowest(ctx, x, 1, 2)), min(high, -_lowest(ctx, opposite, 1, 2))


def _lowest(ctx: Context, x: Lin, scale: int, depth: int) -> float:
    """A lower bound of x / scale from facts, rounded up."""
    low, _ = ctx.lin_bound(x)
    best = low if low == -INF else -(-low // scale)
    if not depth:
        return best
    for atom, k in x.terms.items():
        for fact in _facts(ctx, atom, k):
            f = fact.terms.get(atom, 0)
            if f * k > 0:
                g = math.gcd(k, f)
                m, n = abs(f) // g, abs(k) // g
                rest = combined(Lin({a: c * m for a, c in x.terms.items()}, x.const * m), -n, fact)
                best = max(best, _lowest(ctx, rest, scale * m, depth - 1))
    return best


def _search(ctx: Context, x: Lin, budget: list[int], depth: int) -> bool:
    if budget[0] <= 0:
        return False
    budget[0] -= 1
    low, high = ctx.lin_bound(x)
    if low >= 0:
        return True
    if high < 0 or not depth:
        return False
    endless = [a for a, k in x.terms.items() if abs(ctx.bound(a)[k < 0]) == INF]
    cases = _cases(ctx, x)
    if cases is not None and all(_search(ctx, c, budget, depth - 1) for c in cases):
        return True
    next_forms = []
    for atom in endless or x.terms:
        k = x.terms[atom]
        for fact in _facts(ctx, atom, k):
            f = fact.terms.get(atom, 0)
            if f * k <= 0:
                continue
            next_forms.append(_eliminated(x, fact, k, f))
    next_forms.sort(key=lambda y: len(y.terms))
    return any(_search(ctx, y, budget, depth - 1) for y in next_forms)


def _eliminated(x: Lin, fact: Lin, k: int, f: int) -> Lin:
    """m*x + (m - 1) - n*fact with the atom of coefficients k and f gone."""
    g = math.gcd(k, f)
    m, n = abs(f) // g, abs(k) // g
    terms = {a: c * m for a, c in x.terms.items()} if m > 1 else dict(x.terms)
    for a, c in fact.terms.items():
        total = terms.get(a, 0) - n * c
        if total:
            terms[a] = total
        else:
            del terms[a]
    const = x.const * m + (m - 1) - n * fact.const
    g = math.gcd(*terms.values()) if terms else 1
    if g > 1:
        terms = {a: c // g for a, c in terms.items()}
        const //= g
    return Lin(terms, const)


def _cases(ctx: Context, x: Lin) -> list[Lin] | None:
    """Forms that must all be proved, for an atom that is one of two values."""
    for atom, k in x.terms.items():
        t = type(atom)
        if (t is MinAtom and k > 0) or (t is MaxAtom and k < 0):
            return [_with(x, atom, k, atom.a), _with(x, atom, k, atom.b)]  # type: ignore[attr-defined]
        if t is OpaqueAtom:
            choice = _choices(ctx, atom)
            if choice is not None:
                return [_with(x, atom, k, c) for c in choice]
    return None


def _choices(ctx: Context, atom: Atom) -> tuple[Lin, Lin] | None:
    """The two values that a selection may have."""
    e: Any = atom.expr
    if type(e) is E.Select:
        return ctx.plain.lin(e.true_value), ctx.plain.lin(e.false_value)
    if type(e) is E.Call and e.op.name == "tir.if_then_else":
        return ctx.plain.lin(e.args[1]), ctx.plain.lin(e.args[2])
    return None


def _with(x: Lin, atom: Atom, k: int, value: Lin) -> Lin:
    terms = dict(x.terms)
    del terms[atom]
    return combined(Lin(terms, x.const), k, value)


def _facts(ctx: Context, atom: Atom, k: int) -> list[Lin]:
    """Forms >= 0 in which `atom` has a coefficient of the sign of k."""
    found = list(ctx.facts.get(atom, ()))
    rule = _RULES.get(type(atom))
    if rule is not None:
        rule(ctx, atom, k, found)
    return found


def _split_facts(ctx: Context, atom: SplitAtom, k: int, found: list[Lin]) -> None:
    x, c = atom.x, atom.lower
    if not atom.upper:
        if k < 0:
            found.append(combined(x, -c, atom_lin(atom)))
        else:
            low = combined(Lin({atom: c}, c - 1), -1, x)
            found.append(low)
    elif k < 0 and ctx.lin_bound(x)[0] >= 0:
        found.append(combined(x, -c, atom_lin(atom)))


def _div_facts(ctx: Context, atom: DivAtom, k: int, found: list[Lin]) -> None:
    if ctx.lin_bound(atom.b)[0] < 1:
        return
    if k < 0 and ctx.lin_bound(atom.a)[0] >= 0:
        found.append(combined(atom.a, -1, atom_lin(atom)))  # x // n <= x


def _mod_facts(ctx: Context, atom: ModAtom, k: int, found: list[Lin]) -> None:
    if ctx.lin_bound(atom.b)[0] < 1:
        return
    if k < 0:
        found.append(combined(Lin(atom.b.terms, atom.b.const - 1), -1, atom_lin(atom)))
        if ctx.lin_bound(atom.a)[0] >= 0:
            found.append(combined(atom.a, -1, atom_lin(atom)))


def _min_facts(ctx: Context, atom: MinAtom, k: int, found: list[Lin]) -> None:
    if k < 0:
        found.append(combined(atom.a, -1, atom_lin(atom)))
        found.append(combined(atom.b, -1, atom_lin(atom)))


def _max_facts(ctx: Context, atom: MaxAtom, k: int, found: list[Lin]) -> None:
    if k > 0:
        found.append(combined(atom_lin(atom), -1, atom.a))
        found.append(combined(atom_lin(atom), -1, atom.b))


def _sum_facts(ctx: Context, atom: SumAtom, k: int, found: list[Lin]) -> None:
    sign = 1 if k > 0 else -1
    found.append(combined(Lin({atom: sign}, 0), -sign, atom.x))


def _product_facts(ctx: Context, atom: MulAtom, k: int, found: list[Lin]) -> None:
    """For each factor p with the others q >= 0: F(p) >= 0 gives F*q >= 0, multiplied out."""
    if len(atom.factors) == 2:
        _quotient_facts(ctx, atom, k, found)
    for i, p in enumerate(atom.factors):
        others = atom.factors[:i] + atom.factors[i + 1 :]
        if any(ctx.bound(q)[0] < 0 for q in others):
            continue
        low, high = ctx.bound(p)
        rows = [f for f in ctx.facts.get(p, ()) if f.terms[p] * k > 0]
        rule = _RULES.get(type(p))
        if rule is not None and type(p) is not MulAtom:
            rule(ctx, p, k, rows)
        if k > 0 and low > -INF:
            rows.append(Lin({p: 1}, -int(low)))
        elif k < 0 and high < INF:
            rows.append(Lin({p: -1}, int(high)))
        for row in rows:
            if row.terms.get(p, 0) * k > 0:
                found.append(_times(ctx, row, others, atom.dtype))


def _quotient_facts(ctx: Context, atom: MulAtom, k: int, found: list[Lin]) -> None:
    """n*(x//n) <= x and x <= n*(x//n) + n - 1, for n > 0."""
    for n, q in (atom.factors, atom.factors[::-1]):
        if type(q) is DivAtom and ctx.space.factor(q.b, q.dtype) is n and ctx.bound(n)[0] > 0:
            if k < 0:
                found.append(combined(q.a, -1, atom_lin(atom)))
            else:
                low = combined(atom_lin(atom), 1, q.b)
                found.append(combined(Lin(low.terms, low.const - 1), -1, q.a))


def _times(ctx: Context, row: Lin, others: tuple[Atom, ...], dtype: str) -> Lin:
    """row * others, a sum of products; multiples of a factor that is a sum are kept together."""
    space = ctx.space
    terms: dict[Atom, int] = {}
    for q in others:
        if type(q) is SumAtom:
            row = _recognised(row, q)
    for a, c in row.terms.items():
        factors = (*(a.factors if type(a) is MulAtom else (a,)), *others)
        product = space.product(factors, dtype)
        terms[product] = terms.get(product, 0) + c
    if row.const:
        product = others[0] if len(others) == 1 else space.product(others, dtype)
        terms[product] = terms.get(product, 0) + row.const
    return Lin({a: c for a, c in terms.items() if c}, 0)


def _recognised(row: Lin, q: SumAtom) -> Lin:
    """`row` with a multiple of the sum q replaced by that multiple of the atom q."""
    first, k = next(iter(q.x.terms.items()))
    c = row.terms.get(first, 0)
    if not c or c % k:
        return row
    n = c // k
    if any(row.terms.get(a, 0) != n * b for a, b in q.x.terms.items()):
        return row
    return combined(combined(row, -n, q.x), n, atom_lin(q))


_RULES: dict[type[Atom], Any] = {
    SplitAtom: _split_facts,
    DivAtom: _div_facts,
    ModAtom: _mod_facts,
    MinAtom: _min_facts,
    MaxAtom: _max_facts,
    MulAtom: _product_facts,
    SumAtom: _sum_facts,
}
