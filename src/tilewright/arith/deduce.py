"""For which values of one variable does a condition hold, whatever some others are.

Loop partitioning asks this of each `likely` condition: `var` is the loop to split, the loops inside
it are relaxed over their ranges, all else stays symbolic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.deep import deep_call
from ..loopir import expr as E
from ..loopir.iter import IterVar, Range
from ..loopir.visit import uses_var, walk
from .analyzer import Analyzer
from .context import Context
from .emit import OutOfRange, emit
from .forms import (
    LINEAR_TYPES,
    ZERO,
    Atom,
    Lin,
    MaxAtom,
    MinAtom,
    SplitAtom,
    combined,
    constant,
    scaled,
)
from .int_set import Infinity, IntervalSet, as_set, intersect, neg_inf, pos_inf
from .linear import coefficients, conjuncts, gaps_of
from .simplify.divmod import divide, modulo, quotient
from .simplify.minmax import extreme
from .symbolic import Evaluation
from .wrap import fitting

Limits = tuple[Lin | None, Lin | None]
EVERYWHERE: Limits = (None, None)
ONE = constant(1)


def deduce_bound(
    var: Any,
    cond: Any,
    hint_map: Mapping[Any, Any] | None = None,
    relax_map: Mapping[Any, Any] | None = None,
) -> IntervalSet:
    """An interval of `var` in which `cond` holds for all values of the variables in `relax_map`.

    `hint_map` says in which sets (or Ranges) variables lie; it sharpens the result only. Where
    nothing is found, the result is `IntervalSet.nothing()`: so it is where `var` stands in a
    comparison twice, or below a division that is to be equal to something. `limits_where` finds
    intervals there, too. Raises OperandError where `cond` is neither a number nor an expression.
    """
    v = var.var if isinstance(var, IterVar) else var
    for part in conjuncts(E.convert(cond)):
        nodes = list(walk(part))
        divided = type(part) is E.EQ and any(
            type(x) is E.FloorDiv and uses_var(x, v.same_as) for x in nodes
        )
        if divided or sum(x is v for x in nodes) > 1:
            return IntervalSet.nothing()
    return limits_where(v, cond, hint_map, relax_map)


def limits_where(
    var: Any,
    cond: Any,
    hint_map: Mapping[Any, Any] | None = None,
    relax_map: Mapping[Any, Any] | None = None,
) -> IntervalSet:
    """What `deduce_bound` gives, of any condition.

    The interval is the largest one where every relaxed variable moves on its own and the factor of
    `var` is a constant. With another factor, whose sign must be known, the lower end may be one too
    high.
    """
    var = var.var if isinstance(var, IterVar) else var
    analyzer = Analyzer()
    for key, value in (hint_map or {}).items():
        _bind(analyzer, key, value)
    return deep_call(_deduce, analyzer, var, E.convert(cond), relax_map or {})


def _bind(analyzer: Analyzer, key: Any, value: Any) -> None:
    v = key.var if isinstance(key, IterVar) else key
    if v.dtype not in LINEAR_TYPES:
        return
    if isinstance(value, Range):
        analyzer.bind(v, value)
        return
    s = as_set(value)
    if isinstance(s.min_value, Infinity) or isinstance(s.max_value, Infinity):
        return
    analyzer.bind(v, Range.from_min_extent(s.min_value, s.max_value - s.min_value + 1))


def _deduce(
    analyzer: Analyzer, var: E.Var, cond: E.PrimExpr, relax: Mapping[Any, Any]
) -> IntervalSet:
    ctx = analyzer.context
    dom = {}
    for key, value in relax.items():
        s = as_set(value)
        inner = ctx.space.var(key.var if isinstance(key, IterVar) else key)
        dom[inner] = (
            None if isinstance(s.min_value, Infinity) else ctx.lin(s.min_value),
            None if isinstance(s.max_value, Infinity) else ctx.lin(s.max_value),
        )
    target = ctx.space.var(var)
    solver = _Solver(ctx, target, Evaluation(ctx, dom))
    sets = []
    try:
        for part in conjuncts(cond):
            gaps = gaps_of(ctx, part)
            if gaps is None:
                return IntervalSet.nothing()
            for gap in gaps:
                limits = solver.solve(gap, 0)
                if limits is None:
                    return IntervalSet.nothing()
                sets.append(_interval(ctx, limits, var.dtype))
        return intersect(sets, analyzer)
    except OutOfRange:
        return IntervalSet.nothing()


def _interval(ctx: Context, limits: Limits, dtype: str) -> IntervalSet:
    low, high = limits
    for x in limits:
        dtype = dtype if x is None else _width(x, dtype)
    return IntervalSet(
        neg_inf if low is None else emit(fitting(ctx, low, dtype), dtype),
        pos_inf if high is None else emit(fitting(ctx, high, dtype), dtype),
    )


def _width(x: Lin, dtype: str) -> str:
    """The type of a limit: int32 cannot hold what int64 atoms add up to."""
    return "int64" if any(atom.dtype == "int64" for atom in x.terms) else dtype


class _Solver:
    """Solves `form >= 0` for one variable."""

    def __init__(self, ctx: Context, target: Any, relaxed: Evaluation) -> None:
        self.ctx = ctx
        self.target = target
        self.relaxed = relaxed
        self.of_target = Evaluation(ctx, {target: EVERYWHERE})

    def solve(self, x: Lin, depth: int) -> Limits | None:
        """Limits of the variable that make x >= 0 for all relaxed values; None if not found."""
        holders = [a for a in x.terms if self.of_target.moves(a)]
        if not holders:
            low = self.relaxed.lin(x)[0]
            proved = low is not None and self.ctx.lin_bound(low)[0] >= 0
            return EVERYWHERE if proved else None
        if depth > 8:
            return None
        for a in holders:
            k = x.terms[a]
            if (type(a) is MinAtom and k > 0) or (type(a) is MaxAtom and k < 0):
                return self._both(x, a, depth)
        if len(holders) == 1 and type(holders[0]) is SplitAtom:
            return self._quotient(x, holders[0], depth)
        return self._linear(x)

    def _both(self, x: Lin, atom: Any, depth: int) -> Limits | None:
        k = x.terms[atom]
        rest = Lin({a: c for a, c in x.terms.items() if a is not atom}, x.const)
        results = [self.solve(combined(rest, k, part), depth + 1) for part in (atom.a, atom.b)]
        if results[0] is None or results[1] is None:
            return None
        (a, b), (c, d) = results[0], results[1]
        return self._extreme(MaxAtom, a, c), self._extreme(MinAtom, b, d)

    def _extreme(self, cls: Any, x: Lin | None, y: Lin | None) -> Lin | None:
        if x is None or y is None:
            return x or y
        return extreme(self.ctx, cls, x, y, _width(x, _width(y, self.target.dtype)))

    def _quotient(self, x: Lin, atom: SplitAtom, depth: int) -> Limits | None:
        """k*(y//c) + rest >= 0: a limit of the quotient is one of y."""
        if atom.upper:
            return None
        k, c = x.terms[atom], atom.lower
        rest = Lin({a: v for a, v in x.terms.items() if a is not atom}, x.const)
        low = self.relaxed.lin(rest)[0]
        if low is None:
            return None
        q = quotient(self.ctx, low, abs(k), _width(low, atom.dtype))
        if k > 0:  # y//c >= -q, so y >= -q*c
            return self.solve(combined(atom.x, c, q), depth + 1)
        return self.solve(combined(combined(constant(c - 1), c, q), -1, atom.x), depth + 1)

    def _linear(self, x: Lin) -> Limits | None:
        atoms: list[Atom] = [self.target]
        parts = coefficients(self.ctx, x, atoms)
        if parts is None:
            return None
        factor = parts[0]
        low = self.relaxed.lin(parts[1])[0]
        least, most = self.ctx.lin_bound(factor)
        if low is None or least <= 0 <= most:
            return None
        if not factor.terms:
            limit = quotient(self.ctx, low, abs(factor.const), _width(low, self.target.dtype))
            return (combined(ZERO, -1, limit), None) if least > 0 else (None, limit)
        if any(self.relaxed.moves(a) for a in factor.terms):
            return None
        return self._by_variable(low, factor, least > 0)

    def _by_variable(self, low: Lin, factor: Lin, rises: bool) -> Limits:
        """factor * target + low >= 0, for a factor above zero, or below: what its hints say beyond
        that stays out of the limit."""
        plain, dtype = self.ctx.plain, _width(low, _width(factor, self.target.dtype))
        if not rises:
            return None, divide(plain, low, scaled(factor, -1), dtype)
        opposite = scaled(low, -1)
        rest = modulo(plain, opposite, factor, dtype)
        limit = divide(plain, opposite, factor, dtype)
        return (limit if not rest.terms and not rest.const else combined(limit, 1, ONE)), None
