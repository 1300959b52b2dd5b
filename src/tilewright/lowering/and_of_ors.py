"""Conditions as conjunctions of disjunctions, for those who ask for that form."""

from __future__ import annotations

from itertools import product
from typing import Any

from ..arith.analyzer import Analyzer
from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir.equal import structural_equal
from ..loopir.operators import logical_not

MOST = 64  # the form of n products of two is 2^n sums: beyond this the condition stays as it is
Clause = tuple[Any, ...]


class TooMany(Exception):
    """There are more disjunctions than `MOST`."""


class AndOfOrs(Recursive):
    """Brings conditions into the form, as an analyzer simplifies their parts."""

    recursive = ("clauses",)

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def of(self, e: Any) -> Any:
        """An equal condition, a conjunction of disjunctions; `e` itself where that is too long."""
        if e.dtype != "bool" or type(e) not in (E.And, E.Or, E.Not):
            return e
        try:
            clauses = self.clauses(e)
        except TooMany:
            return e
        kept: list[Clause] = []
        for clause in map(self.shortened, clauses):
            if any(E.is_const(x, 1) for x in clause) or any(implies(k, clause) for k in kept):
                continue
            kept = [k for k in kept if not implies(clause, k)]
            kept.append(clause)
        return joined(E.And, [joined(E.Or, clause, False) for clause in kept], True)

    def clauses(self, e: Any) -> list[Clause]:
        """The disjunctions that have to hold, each as its parts."""
        if type(e) is E.And:
            return [*self.clauses(e.a), *self.clauses(e.b)]
        if type(e) is E.Or:
            pairs = list(product(self.clauses(e.a), self.clauses(e.b)))
            if len(pairs) > MOST:
                raise TooMany
            return [(*a, *(x for x in b if not holds(a, x))) for a, b in pairs]
        if type(e) is E.Not:
            inner: Any = e.a
            if type(inner) in (E.And, E.Or):
                other: Any = E.Or if type(inner) is E.And else E.And
                return self.clauses(other(E.Not(inner.a), E.Not(inner.b)))
            return self.clauses(inner.a) if type(inner) is E.Not else [(logical_not(inner),)]
        return [(e,)]

    def shortened(self, clause: Clause) -> Clause:
        """A disjunction without parts that its other parts make superfluous."""
        parts = list(clause)
        while True:
            pairs = ((i, j) for i in range(len(parts)) for j in range(i + 1, len(parts)))
            for i, j in pairs:
                both = self.analyzer.simplify(E.Or(parts[i], parts[j]))
                if type(both) is not E.Or:
                    del parts[j]
                    parts[i] = both
                    break
            else:
                break
        return tuple(x for x in parts if not E.is_const(x, 0)) or (E.const(False, "bool"),)


def holds(clause: Clause, part: Any) -> bool:
    """Whether a disjunction has that part."""
    return any(structural_equal(x, part) for x in clause)


def implies(a: Clause, b: Clause) -> bool:
    """Whether all parts of `a` are parts of `b`."""
    return all(holds(b, x) for x in a)


def joined(kind: Any, parts: Any, empty: bool) -> Any:
    """Parts under And or Or; of none, the constant."""
    parts = list(parts)
    if not parts:
        return E.const(empty, "bool")
    made = parts[0]
    for x in parts[1:]:
        made = kind(made, x)
    return made
