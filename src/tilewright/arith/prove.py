"""Proof that a linear form is never below zero.

`L >= 0` holds if bounds of the atoms say so. Else, from facts F >= 0, it is enough to prove
m*L - k*F >= 0 with m, k > 0 that remove an atom whose bound is the trouble; since L is an integer,
m*L - k*F > -m does. This is a depth-first search for Farkas multipliers, bounded by a number of
steps. Facts are the constraints of the context, the symbolic ranges of variables that occur in the
question, and what atoms say themselves (atom_facts.py). Where an atom is one of two values (a
minimum that must be large, a selection), both are proved.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..loopir import expr as E
from .atom_facts import ATOM_FACTS, divisor_form
from .forms import INF, Atom, DivAtom, Lin, MaxAtom, MinAtom, OpaqueAtom, VarAtom, combined
from .samples import is_refuted

if TYPE_CHECKING:
    from .context import Context

SIMPLIFY_STEPS = 12
PROOF_STEPS = 150
_DEPTH = 8
_COMPARED = {E.LT: (1, 0), E.LE: (0, 0), E.GT: (1, 1), E.GE: (0, 1)}  # margin, swapped


def proves(ctx: Context, x: Lin, steps: int = SIMPLIFY_STEPS) -> bool:
    """Whether x >= 0 is proved; False says nothing."""
    low, high = ctx.lin_bound(x)
    if low >= 0:
        return True
    if high < 0 or not x.terms:
        return False
    if not ctx.ranges:
        facts = ctx.facts
        for atom in x.terms:
            if type(atom) is not VarAtom or facts.get(atom):
                break
        else:
            return False
    key = (tuple(x.terms.items()), x.const, steps)  # the order of terms is that of the search
    known = ctx.proofs.get(key)
    if known is None:
        known = not is_refuted(ctx, x) and Search(ctx, x, steps).proves(x, _DEPTH)
        ctx.proofs[key] = known
    return known


def tight_bound(ctx: Context, x: Lin) -> tuple[float, float]:
    """Constant bounds of a form: those of its atoms, and what facts add to them."""
    low, high = ctx.lin_bound(x)
    if low == high or not x.terms:
        return low, high
    opposite = Lin({a: -k for a, k in x.terms.items()}, -x.const)
    search = Search(ctx, x, SIMPLIFY_STEPS)
    return max(low, search.lowest(x, 1, 2)), min(high, -search.lowest(opposite, 1, 2))


class Search:
    """One question: what may be used for it, and how many steps are left."""

    __slots__ = ("_listed", "ctx", "scope", "seen", "steps")

    def __init__(self, ctx: Context, x: Lin, steps: int) -> None:
        self.ctx = ctx
        self.steps = steps
        self.seen: set[Any] = set()
        self._listed: dict[tuple[Atom, bool], list[Lin]] = {}
        self.scope: dict[Atom, list[Lin]] = ctx.ranges_in_scope(x) if ctx.ranges else {}

    def proves(self, x: Lin, depth: int) -> bool:
        ctx = self.ctx
        low, high = ctx.lin_bound(x)
        if low >= 0:
            return True
        if high < 0 or not depth or self.steps <= 0:
            return False
        key = (frozenset(x.terms.items()), x.const)
        if key in self.seen:
            return False
        self.seen.add(key)
        self.steps -= 1
        if self._by_cases(x, depth):
            return True
        following = self._eliminations(x)
        following.sort(key=_difficulty)
        return any(self.proves(y, depth - 1) for y in following)

    def _eliminations(self, x: Lin) -> list[Lin]:
        found = []
        listed, bound = self._listed, self.ctx.bound
        for atom, k in x.terms.items():
            facts = listed.get((atom, k > 0))
            for fact in self.facts(atom, k) if facts is None else facts:
                found.append(_eliminated(x, fact, k, fact.terms[atom]))
            if type(atom) is DivAtom and abs(k) == 1 and bound(atom)[k < 0] in (INF, -INF):
                multiplied = divisor_form(self.ctx, x, atom, k)
                if multiplied is not None:
                    found.append(multiplied)
        return found

    def facts(self, atom: Atom, k: int) -> list[Lin]:
        """Forms >= 0 that hold `atom` with a coefficient of the sign of k."""
        key = (atom, k > 0)
        found = self._listed.get(key)
        if found is None:
            rows = self._facts(atom, k)
            found = [row for row in rows if row.terms.get(atom, 0) * k > 0]
            self._listed[key] = found
        return found

    def _facts(self, atom: Atom, k: int) -> list[Lin]:
        found = list(self.ctx.facts.get(atom, ()))
        more = self.scope.get(atom)
        if more:
            found += more
        rule = ATOM_FACTS.get(type(atom))
        if rule is not None:
            rule(self, atom, k, found)
        return found

    def _by_cases(self, x: Lin, depth: int) -> bool:
        for atom, k in x.terms.items():
            t = type(atom)
            if (t is MinAtom and k > 0) or (t is MaxAtom and k < 0):
                both: Any = atom
                return all(
                    self.proves(_with(x, atom, k, part), depth - 1) for part in (both.a, both.b)
                )
            if t is OpaqueAtom:
                e: Any = atom.expr
                if type(e) is E.Select:
                    branches: Any = e.condition, e.true_value, e.false_value
                elif type(e) is E.Call and e.op.name == "tir.if_then_else":
                    branches = e.args
                else:
                    continue
                return self._by_branches(x, atom, branches, depth)
        return False

    def _by_branches(self, x: Lin, atom: Atom, branches: Any, depth: int) -> bool:
        """Both branches of a selection, each with what its condition says."""
        cond, yes, no = branches
        plain, k = self.ctx.plain, x.terms[atom]
        gap = _condition_gap(self.ctx, cond)
        for value, fact in ((yes, gap), (no, _negated(gap))):
            y = _with(x, atom, k, plain.lin(value))
            if not (self._proves_with(y, fact, depth) if fact else self.proves(y, depth - 1)):
                return False
        return True

    def _proves_with(self, x: Lin, fact: Lin, depth: int) -> bool:
        scope, self.scope = self.scope, {a: list(rows) for a, rows in self.scope.items()}
        seen, self.seen = self.seen, set()
        listed, self._listed = self._listed, {}
        for a in fact.terms:
            self.scope.setdefault(a, []).append(fact)
        try:
            return self.proves(x, depth - 1)
        finally:
            self.scope, self.seen, self._listed = scope, seen, listed

    def lowest(self, x: Lin, scale: int, depth: int) -> float:
        """A lower bound of x / scale from facts, rounded up."""
        low, _ = self.ctx.lin_bound(x)
        best = low if low == -INF else -(-low // scale)
        if not depth:
            return best
        for atom, k in x.terms.items():
            for fact in self.facts(atom, k):
                f = fact.terms[atom]
                g = math.gcd(k, f)
                m, n = abs(f) // g, abs(k) // g
                more = Lin({a: c * m for a, c in x.terms.items()}, x.const * m)
                rest = combined(more, -n, fact)
                best = max(best, self.lowest(rest, scale * m, depth - 1))
        return best


def _difficulty(x: Lin) -> int:
    return len(x.terms)


def _eliminated(x: Lin, fact: Lin, k: int, f: int) -> Lin:
    """m*x + (m - 1) - n*fact with the atom of coefficients k and f gone."""
    if k == f:  # mostly
        terms = x.terms.copy()
        for a, c in fact.terms.items():
            total = terms.get(a, 0) - c
            if total:
                terms[a] = total
            else:
                del terms[a]
        const = x.const - fact.const
    else:
        g = math.gcd(k, f)
        m, n = abs(f) // g, abs(k) // g
        terms = {a: c * m for a, c in x.terms.items()}
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


def _with(x: Lin, atom: Atom, k: int, value: Lin) -> Lin:
    terms = dict(x.terms)
    del terms[atom]
    return combined(Lin(terms, x.const), k, value)


def _condition_gap(ctx: Context, cond: Any) -> Lin | None:
    """A form that is >= 0 exactly where a comparison holds; None for other conditions."""
    margin = _COMPARED.get(type(cond))
    if margin is None or cond.a.dtype not in ("int32", "int64"):
        return None
    a, b = ctx.plain.lin(cond.a), ctx.plain.lin(cond.b)
    gap = combined(a, -1, b) if margin[1] else combined(b, -1, a)
    return Lin(gap.terms, gap.const - margin[0])


def _negated(gap: Lin | None) -> Lin | None:
    """-gap - 1, which is >= 0 exactly where gap is not."""
    return None if gap is None else Lin({a: -k for a, k in gap.terms.items()}, -gap.const - 1)
