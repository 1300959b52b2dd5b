"""What atoms say of themselves, as linear forms that are zero or more.

- q = x // c:  c*q <= x <= c*q + c - 1;  r = x % c = x - c*q, and r <= x where x >= 0
- the same for divisors that are no constants (a divisor that is not negative is above zero, since
  division by zero has no value)
- min(a, b) is at most a and b; max(a, b) is at least a and b
- products: what is known of one factor, times another that is not negative
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .forms import (
    INF,
    Atom,
    DivAtom,
    Lin,
    MaxAtom,
    MinAtom,
    ModAtom,
    MulAtom,
    SplitAtom,
    SumAtom,
    add_into,
    atom_lin,
    combined,
)

if TYPE_CHECKING:
    from .context import Context
    from .prove import Search


def _split_facts(search: Search, atom: SplitAtom, k: int, found: list[Lin]) -> None:
    x, c, ctx = atom.x, atom.lower, search.ctx
    if not atom.upper:
        low, high = 0, c - 1  # of the remainder
        if ctx.known:
            low, high = map(int, ctx.bound(ctx.space.split(x, 1, c, atom.dtype)))
        terms: dict[Atom, int] = {atom: c if k > 0 else -c}
        add_into(terms, x.terms, -1 if k > 0 else 1)
        found.append(Lin(terms, high - x.const if k > 0 else x.const - low))
        return
    if c == 1:
        quotient = ctx.space.split(x, atom.upper, 0, atom.dtype)
        sign = -1 if k < 0 else 1
        terms = {atom: sign, quotient: sign * atom.upper}
        add_into(terms, x.terms, -sign)
        found.append(Lin(terms, -sign * x.const))
    if k < 0 and ctx.lin_bound(x)[0] >= 0:
        found.append(combined(x, -c, atom_lin(atom)))


def _div_facts(search: Search, atom: DivAtom, k: int, found: list[Lin]) -> None:
    bound = search.ctx.lin_bound
    if k < 0 and bound(atom.b)[0] >= 0 and bound(atom.a)[0] >= 0:
        found.append(combined(atom.a, -1, atom_lin(atom)))  # x // n <= x


def _mod_facts(search: Search, atom: ModAtom, k: int, found: list[Lin]) -> None:
    bound = search.ctx.lin_bound
    if k < 0 and bound(atom.b)[0] >= 0:
        found.append(combined(Lin(atom.b.terms, atom.b.const - 1), -1, atom_lin(atom)))
        if bound(atom.a)[0] >= 0:
            found.append(combined(atom.a, -1, atom_lin(atom)))


def _min_facts(_: Search, atom: MinAtom, k: int, found: list[Lin]) -> None:
    if k < 0:
        found.append(combined(atom.a, -1, atom_lin(atom)))
        found.append(combined(atom.b, -1, atom_lin(atom)))


def _max_facts(_: Search, atom: MaxAtom, k: int, found: list[Lin]) -> None:
    if k > 0:
        found.append(combined(atom_lin(atom), -1, atom.a))
        found.append(combined(atom_lin(atom), -1, atom.b))


def _sum_facts(_: Search, atom: SumAtom, k: int, found: list[Lin]) -> None:
    sign = 1 if k > 0 else -1
    found.append(combined(Lin({atom: sign}, 0), -sign, atom.x))


def _product_facts(search: Search, atom: MulAtom, k: int, found: list[Lin]) -> None:
    """For each factor p with the others q >= 0: F(p) >= 0 gives F*q >= 0, multiplied out."""
    ctx = search.ctx
    if len(atom.factors) == 2:
        _quotient_facts(ctx, atom, k, found)
    for i, p in enumerate(atom.factors):
        others = atom.factors[:i] + atom.factors[i + 1 :]
        if any(ctx.bound(q)[0] < 0 for q in others):
            continue
        low, high = ctx.bound(p)
        rows = [] if type(p) is MulAtom else list(search.facts(p, k))
        if k > 0 and low > -INF:
            rows.append(Lin({p: 1}, -int(low)))
        elif k < 0 and high < INF:
            rows.append(Lin({p: -1}, int(high)))
        for row in rows:
            if row.terms.get(p, 0) * k > 0:
                found.append(_times(ctx, row, others, atom.dtype))
                for q in others:
                    if type(q) is SumAtom:
                        other = _recognised(row, q)
                        if other is not row:
                            found.append(_times(ctx, other, others, atom.dtype))


def _quotient_facts(ctx: Context, atom: MulAtom, k: int, found: list[Lin]) -> None:
    """n*(x//n) <= x and x <= n*(x//n) + n - 1, for n > 0."""
    for n, q in (atom.factors, atom.factors[::-1]):
        if type(q) is DivAtom and ctx.space.factor(q.b, q.dtype) is n and ctx.bound(n)[0] >= 0:
            if k < 0:
                found.append(combined(q.a, -1, atom_lin(atom)))
            else:
                low = combined(atom_lin(atom), 1, q.b)
                found.append(combined(Lin(low.terms, low.const - 1), -1, q.a))


def _times(ctx: Context, row: Lin, others: tuple[Atom, ...], dtype: str) -> Lin:
    """row * others, multiplied out."""
    space = ctx.space
    terms: dict[Atom, int] = {}
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


def divisor_form(ctx: Context, x: Lin, atom: DivAtom, k: int) -> Lin | None:
    """For x = rest + k*(y//n), k = 1 or -1, n > 0: a form that is >= 0 only if x is, without y//n.

    n*x > -n is what must be proved, and n*(y//n) lies in [y - n + 1, y].
    """
    n = atom.b
    if ctx.lin_bound(n)[0] < 0:
        return None
    divisor = ctx.space.factor(n, atom.dtype)
    terms = {a: c for a, c in x.terms.items() if a is not atom}
    product = _times(ctx, Lin(terms, x.const), (divisor,), atom.dtype)
    product = combined(product, k, atom.a)
    if k > 0:
        return product  # n*rest + n - 1 + (y - n + 1)
    product = combined(product, 1, n)
    return Lin(product.terms, product.const - 1)  # n*rest + n - 1 - y


ATOM_FACTS: dict[type[Atom], Any] = {
    SplitAtom: _split_facts,
    DivAtom: _div_facts,
    ModAtom: _mod_facts,
    MinAtom: _min_facts,
    MaxAtom: _max_facts,
    MulAtom: _product_facts,
    SumAtom: _sum_facts,
}
