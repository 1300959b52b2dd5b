"""Which elements of a computation read a given element: index equations solved for the axes.

A computation over axes v reads its input at f(v). Element j of the input is read where f(v) = j: an
affine system over integers. One axis after the other is eliminated, the one with the largest extent
first, so that few are left to sum over; what is not implied by the solution stays as guards.
Floor divisions and remainders by constants become affine with a new axis each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith import Analyzer
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.expr import IntImm, PrimExpr, Var, const
from ..loopir.iter import IterVar, Range
from ..loopir.subst import substitute
from ..loopir.visit import free_vars
from .operations import domain


class Affine:
    """sum(coefficient * axis) + rest, where `rest` has no axes."""

    __slots__ = ("rest", "terms")

    def __init__(self, terms: dict[Var, int], rest: PrimExpr) -> None:
        self.terms = {v: c for v, c in terms.items() if c}
        self.rest = rest

    def plus(self, other: Affine, k: int) -> Affine:
        terms = dict(self.terms)
        for v, c in other.terms.items():
            terms[v] = terms.get(v, 0) + k * c
        return Affine(terms, self.rest + other.rest * k)

    def times(self, k: int) -> Affine:
        return Affine({v: c * k for v, c in self.terms.items()}, self.rest * k)

    def expr(self) -> PrimExpr:
        result = self.rest
        for v, c in self.terms.items():
            result = result + v * c
        return result


class Solution:
    """Values of axes in terms of the parameters and of the axes `left`, valid where `guards` hold.

    `analyzer` knows the ranges of all of these.
    """

    __slots__ = ("analyzer", "guards", "left", "values")

    def __init__(
        self,
        values: dict[Var, PrimExpr],
        guards: list[PrimExpr],
        left: list[IterVar],
        analyzer: Analyzer,
    ) -> None:
        self.values = values
        self.guards = guards
        self.left = left
        self.analyzer = analyzer


class _System:
    def __init__(self, axes: Sequence[IterVar]) -> None:
        self.doms: dict[Var, Range] = {a.var: domain(a) for a in axes}
        self.equations: list[Affine] = []
        self.guards: list[PrimExpr] = []
        self.solved: list[tuple[Var, PrimExpr]] = []
        self.splits: dict[tuple[Any, ...], tuple[Var, Var]] = {}

    # --- affine forms

    @recursive
    def affine(self, e: Any) -> Affine | None:
        """`e` as an affine form of the axes, or None."""
        kind = type(e)
        if isinstance(e, Var) and e in self.doms:
            return Affine({e: 1}, const(0, e.dtype))
        if kind in (E.Add, E.Sub):
            a, b = self.affine(e.a), self.affine(e.b)
            return None if a is None or b is None else a.plus(b, 1 if kind is E.Add else -1)
        if kind is E.Mul:
            for x, y in ((e.a, e.b), (e.b, e.a)):
                if isinstance(y, IntImm):
                    a = self.affine(x)
                    return None if a is None else a.times(y.value)
        if kind in (E.FloorDiv, E.FloorMod) and isinstance(e.b, IntImm) and e.b.value > 0:
            inner = self.affine(e.a)
            if inner is not None and inner.terms:
                quotient, rest = self.split(inner, e.b.value)
                return Affine({quotient if kind is E.FloorDiv else rest: 1}, const(0, e.dtype))
        if not any(v in self.doms for v in free_vars(e)):
            return Affine({}, e)
        return None

    def split(self, inner: Affine, divisor: int) -> tuple[Var, Var]:
        """New axes q, r with inner = q * divisor + r."""
        key = (divisor, tuple(sorted((id(v), c) for v, c in inner.terms.items())), str(inner.rest))
        if key not in self.splits:
            dtype = inner.rest.dtype
            q, r = Var("q", dtype), Var("r", dtype)
            low, high = self._limits(inner)
            analyzer = Analyzer()
            low, high = analyzer.simplify(low // divisor), analyzer.simplify(high // divisor)
            self.doms[q] = Range.from_min_extent(low, analyzer.simplify(high - low + 1))
            self.doms[r] = Range.from_min_extent(const(0, dtype), const(divisor, dtype))
            self.splits[key] = (q, r)
            equation = inner.plus(Affine({q: 1}, const(0, dtype)), -divisor)
            self.equations.append(equation.plus(Affine({r: 1}, const(0, dtype)), -1))
        return self.splits[key]

    def _limits(self, x: Affine) -> tuple[PrimExpr, PrimExpr]:
        """The least and greatest value of a form over its axes' domains."""
        low, high = x.rest, x.rest
        for v, c in x.terms.items():
            first, last = self.doms[v].min * c, (self.doms[v].min + self.doms[v].extent - 1) * c
            low, high = low + (first if c > 0 else last), high + (last if c > 0 else first)
        return low, high

    # --- elimination

    def run(self) -> None:
        while any(e.terms for e in self.equations):
            single = next((e for e in self.equations if len(e.terms) == 1), None)
            if single is None and self._split_digits():
                continue
            equation, v = (single, next(iter(single.terms))) if single else self._choose()
            self.equations.remove(equation)
            self._eliminate(equation, v)
        for equation in self.equations:
            self.guards.append(equation.expr().equal(const(0, equation.rest.dtype)))

    def _split_digits(self) -> bool:
        """Turn c * v + x == p, where x is in [0, c), into v == p // c and x == p % c."""
        for equation in self.equations:
            parts = self._leading_digit(equation)
            if parts is not None:
                self.equations.remove(equation)
                self.equations += parts
                return True
        return False

    def _leading_digit(self, equation: Affine) -> list[Affine] | None:
        if len(equation.terms) < 2:
            return None
        v, c = max(equation.terms.items(), key=lambda item: abs(item[1]))
        if c < 0:
            equation, c = equation.times(-1), -c
        zero = const(0, equation.rest.dtype)
        lower = Affine({w: k for w, k in equation.terms.items() if w is not v}, zero)
        low, high = self._limits(lower)
        if not (
            isinstance(low, IntImm) and isinstance(high, IntImm) and high.value - low.value < c
        ):
            return None
        value = zero - equation.rest - low
        return [Affine({v: 1}, zero - value // c), lower.plus(Affine({}, low + value % c), -1)]

    def _choose(self) -> tuple[Affine, Var]:
        """The axis of the largest extent, where it has no coefficient if there is a choice."""

        def rank(candidate: tuple[Affine, Var]) -> tuple[int, bool]:
            extent = self.doms[candidate[1]].extent
            size = extent.value if isinstance(extent, IntImm) else 1 << 62
            return size, abs(candidate[0].terms[candidate[1]]) == 1

        return max(((e, v) for e in self.equations for v in e.terms), key=rank)

    def _eliminate(self, equation: Affine, v: Var) -> None:
        c = equation.terms[v]
        other = Affine({w: k for w, k in equation.terms.items() if w is not v}, equation.rest)
        numerator = other.times(-1 if c > 0 else 1)  # |c| * v
        scale = abs(c)
        value = numerator.expr()
        if scale > 1:
            self.guards.append((value % scale).equal(const(0, value.dtype)))
            value = value // scale
        self.solved.append((v, value))
        dom = self.doms.pop(v)
        self.guards += [value >= dom.min, value < dom.min + dom.extent]
        # other equations, times the divisor, with |c| * v replaced
        changed = []
        for e in self.equations:
            k = e.terms.get(v, 0)
            rest = Affine({w: x for w, x in e.terms.items() if w is not v}, e.rest)
            changed.append(rest.times(scale).plus(numerator, k) if k else e)
        self.equations = changed


def solve_reads(
    axes: Sequence[IterVar],
    equations: Sequence[tuple[PrimExpr, PrimExpr]],
    known: dict[Var, Range],
) -> Solution:
    """Solve `index == parameter` for `axes`; `known` holds the ranges of parameters' variables."""
    system = _System(axes)
    opaque: list[PrimExpr] = []
    for index, parameter in equations:
        affine = system.affine(index)
        if affine is None:
            opaque.append(index.equal(parameter))
        else:
            system.equations.append(affine.plus(Affine({}, parameter), -1))
    system.run()
    analyzer = Analyzer()
    for v, r in known.items():
        analyzer.bind(v, r)
    left: list[IterVar] = []
    rename: dict[Var, PrimExpr] = {}
    by_var = {a.var: a for a in axes}
    for v, dom in system.doms.items():
        if E.is_const(dom.extent, 1):
            rename[v] = dom.min
            continue
        name = by_var[v].var.name if v in by_var else v.name
        fresh = IterVar(dom, Var(name, v.dtype), IterVar.CommReduce)
        left.append(fresh)
        rename[v] = fresh.var
        analyzer.bind(fresh.var, dom)
    values: dict[Var, PrimExpr] = dict(rename)
    for v, e in reversed(system.solved):
        values[v] = analyzer.simplify(substitute(e, values))
    guards = _needed_guards(analyzer, [substitute(g, values) for g in system.guards + opaque])
    return Solution(values, guards, left, analyzer)


def _needed_guards(analyzer: Analyzer, guards: Sequence[PrimExpr]) -> list[PrimExpr]:
    needed: list[PrimExpr] = []
    for g in guards:
        g = analyzer.simplify(g)
        if not E.is_const(g, 1) and not analyzer.can_prove(g):
            needed.append(g)
    return needed
