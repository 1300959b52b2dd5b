"""Systems of linear equations and inequalities over the integers.

Equations by the Smith normal form: for integer A there are unimodular U, V with U*A*V diagonal, so
that A*x = b turns into one division a variable (A. Schrijver, Theory of Linear and Integer
Programming, section 4.4). Inequalities by Fourier-Motzkin elimination (the same, section 12.2),
which gives each variable limits in terms of the variables that are eliminated after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import deep_call
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.iter import IterVar, Range
from .analyzer import Analyzer
from .emit import emit
from .forms import ZERO, Lin, VarAtom, combined, constant, scaled
from .int_set import IntervalSet, eval_set
from .linear import coefficients, conjuncts, gaps_of
from .prove import proves
from .simplify.add import melt
from .simplify.divmod import quotient, remainder
from .smith import Matrix, identity, smith_normal_form, unimodular_inverse

MAX_ROWS = 400


class LinearSolution:
    """All integer solutions: `values` of the variables in terms of `free` ones (new, any integer).

    There are solutions just where `conditions` hold. `ranges` are those of the free variables, as
    far as the ranges of the old ones limit them.
    """

    __slots__ = ("conditions", "free", "ranges", "values")

    def __init__(
        self,
        values: dict[E.Var, E.PrimExpr],
        free: list[E.Var],
        conditions: list[E.PrimExpr],
        ranges: dict[E.Var, Range],
    ) -> None:
        self.values = values
        self.free = free
        self.conditions = conditions
        self.ranges = ranges

    # TVM's names of the same

    @property
    def src_to_dst(self) -> dict[E.Var, E.PrimExpr]:
        return self.values

    @property
    def dst(self) -> IntConstraints:
        """The system in the free variables."""
        return IntConstraints(self.free, self.ranges, self.conditions)


class IntConstraints:
    """Variables, the ranges that are known of them, and conditions (`relations`) on them."""

    __slots__ = ("ranges", "relations", "variables")

    def __init__(
        self,
        variables: Sequence[E.Var],
        ranges: Mapping[E.Var, Range],
        relations: Sequence[E.PrimExpr],
    ) -> None:
        self.variables = list(variables)
        self.ranges = dict(ranges)
        self.relations = list(relations)


def solve_linear_equations(
    equations: Sequence[Any], variables: Sequence[Any], ranges: Mapping[Any, Range] | None = None
) -> LinearSolution:
    """Solve `equations` (EQ nodes or conjunctions of them) for integer `variables`.

    Coefficients of the variables must be constants; the rest may be any expression without them.
    Raises TilewrightError where an equation is not linear.
    """
    analyzer = Analyzer()
    names = [v.var if isinstance(v, IterVar) else v for v in variables]
    limits = {(k.var if isinstance(k, IterVar) else k): r for k, r in (ranges or {}).items()}
    return deep_call(_solve_equations, analyzer, list(equations), names, limits)


def _solve_equations(
    analyzer: Analyzer, equations: list[Any], names: list[E.Var], ranges: dict[E.Var, Range]
) -> LinearSolution:
    ctx = analyzer.context
    atoms = [ctx.space.var(v) for v in names]
    a: Matrix = []
    rest: list[Lin] = []
    for e in equations:
        for part in conjuncts(E.convert(e)):
            if type(part) is not E.EQ:
                raise TilewrightError(f"{part} is not an equation")
            gap = combined(ctx.lin(part.a), -1, ctx.lin(part.b))
            parts = _linear_parts(analyzer, gap, atoms, part)
            a.append([p.const for p in parts[:-1]])
            rest.append(scaled(parts[-1], -1))
    dtype = names[0].dtype if names else "int32"
    u, d, v = smith_normal_form(a) if a else ([], [], identity(len(names)))
    sides = [_row_times(ctx, row, rest) for row in u]
    new: list[Lin] = []
    free: list[E.Var] = []
    conditions: list[E.PrimExpr] = []
    rank = sum(1 for i in range(min(len(d), len(names))) if d[i][i])
    for i in range(len(names)):
        if i < rank:
            _need(analyzer, remainder(ctx, sides[i], d[i][i], dtype), dtype, conditions)
            new.append(quotient(ctx, sides[i], d[i][i], dtype))
        else:
            free.append(E.Var(f"n{len(free)}", dtype))
            new.append(Lin({ctx.space.var(free[-1]): 1}, 0))
    for side in sides[rank:]:
        _need(analyzer, side, dtype, conditions)
    values = {x: emit(_row_times(ctx, v[i], new), dtype) for i, x in enumerate(names)}
    free_ranges = _free_ranges(analyzer, names, ranges, v, rank, free)
    return LinearSolution(values, free, conditions, free_ranges)


def _linear_parts(analyzer: Analyzer, gap: Lin, atoms: list[VarAtom], source: Any) -> list[Lin]:
    parts = coefficients(analyzer.context, gap, atoms)
    if parts is None or any(p.terms for p in parts[:-1]):
        raise TilewrightError(f"{source} is not linear in the variables, with constant factors")
    return parts


def _row_times(ctx: Any, row: Sequence[int], forms: Sequence[Lin]) -> Lin:
    result = ZERO
    for k, x in zip(row, forms):
        if k:
            result = combined(result, k, x)
    return melt(ctx, dict(result.terms), result.const)


def _need(analyzer: Analyzer, x: Lin, dtype: str, conditions: list[E.PrimExpr]) -> None:
    """Add the condition x == 0, unless it holds always."""
    if x.terms or x.const:
        zero = E.const(0, dtype)
        conditions.append(analyzer.simplify(E.EQ(emit(x, dtype), zero)))


def _free_ranges(
    analyzer: Analyzer,
    names: list[E.Var],
    ranges: dict[E.Var, Range],
    v: Matrix,
    rank: int,
    free: list[E.Var],
) -> dict[E.Var, Range]:
    """Free variables are rows of inverse(v) * x; their ranges follow from those of x."""
    result: dict[E.Var, Range] = {}
    if not free:
        return result
    inverse = unimodular_inverse(v)
    dom = {x: IntervalSet.from_range(r) for x, r in ranges.items()}
    for i, new in enumerate(free):
        e: Any = E.const(0, new.dtype)
        for k, x in zip(inverse[rank + i], names):
            e = e + x * k
        found = eval_set(e, dom, analyzer)
        cover = found.cover_range(None, analyzer)
        if cover is not None and all(x in dom for k, x in zip(inverse[rank + i], names) if k):
            result[new] = cover
    return result


class VarLimits:
    """lower <= x <= upper for every expression in the two lists."""

    __slots__ = ("lower", "upper")

    def __init__(self, lower: list[E.PrimExpr], upper: list[E.PrimExpr]) -> None:
        self.lower = lower
        self.upper = upper


def solve_linear_inequalities(
    conditions: Sequence[Any],
    variables: Sequence[Any],
    ranges: Mapping[Any, Range] | None = None,
) -> tuple[dict[E.Var, VarLimits], list[E.PrimExpr]]:
    """Limits of each variable in terms of the variables after it in `variables`, and what is left.

    Together these say the same as `conditions` (comparisons of integers, conjunctions of them) and
    `ranges`; what is left has none of the variables. Coefficients of the variables must be
    constants: TilewrightError otherwise, or where elimination would make more than 400 rows.
    """
    analyzer = Analyzer()
    names = [v.var if isinstance(v, IterVar) else v for v in variables]
    limits = {(k.var if isinstance(k, IterVar) else k): r for k, r in (ranges or {}).items()}
    return deep_call(_solve_inequalities, analyzer, list(conditions), names, limits)


def _solve_inequalities(
    analyzer: Analyzer, conditions: list[Any], names: list[E.Var], ranges: dict[E.Var, Range]
) -> tuple[dict[E.Var, VarLimits], list[E.PrimExpr]]:
    ctx = analyzer.context
    atoms = [ctx.space.var(v) for v in names]
    rows: list[Lin] = []
    for e in conditions:
        for part in conjuncts(E.convert(e)):
            if isinstance(part, E.IntImm):
                rows.append(constant(0 if part.value else -1))
                continue
            gaps = gaps_of(ctx, part)
            if gaps is None:
                raise TilewrightError(f"{part} is not a comparison of integers")
            rows += gaps
    for x, r in ranges.items():
        low, extent = ctx.lin(r.min), ctx.lin(r.extent)
        here = Lin({ctx.space.var(x): 1}, 0)
        rows.append(combined(here, -1, low))
        rows.append(combined(combined(combined(low, 1, extent), -1, here), -1, constant(1)))
    for row in rows:
        _linear_parts(analyzer, row, atoms, emit(row, names[0].dtype if names else "int32"))
    found: dict[E.Var, VarLimits] = {}
    for x, atom in zip(names, atoms):
        rows, found[x] = _eliminate(analyzer, rows, atom)
    zero = E.const(0)
    left = [analyzer.simplify(E.LE(zero, emit(row, "int32"))) for row in _distinct(rows)]
    return found, [e for e in left if not (isinstance(e, E.IntImm) and e.value)]


def _eliminate(analyzer: Analyzer, rows: list[Lin], atom: VarAtom) -> tuple[list[Lin], VarLimits]:
    ctx = analyzer.context
    above = [r for r in rows if r.terms.get(atom, 0) > 0]
    below = [r for r in rows if r.terms.get(atom, 0) < 0]
    rest = [r for r in rows if atom not in r.terms]
    limits = VarLimits([], [])
    for r in above:
        others = Lin({a: c for a, c in r.terms.items() if a is not atom}, r.const)
        limit = scaled(quotient(ctx, others, r.terms[atom], atom.dtype), -1)
        limits.lower.append(emit(limit, atom.dtype))
    for r in below:
        others = Lin({a: c for a, c in r.terms.items() if a is not atom}, r.const)
        limits.upper.append(emit(quotient(ctx, others, -r.terms[atom], atom.dtype), atom.dtype))
    if len(rest) + len(above) * len(below) > MAX_ROWS:
        raise TilewrightError("too many inequalities: solve for fewer variables at once")
    for p in above:
        for q in below:
            k, m = p.terms[atom], -q.terms[atom]
            g = math.gcd(k, m)
            rest.append(combined(scaled(p, m // g), k // g, q))
    return [r for r in _distinct(rest) if r.terms or r.const < 0 or not proves(ctx, r)], limits


def _distinct(rows: list[Lin]) -> list[Lin]:
    """Rows divided by their common factors; of parallel ones, the strongest."""
    best: dict[Any, Lin] = {}
    for r in rows:
        g = math.gcd(*r.terms.values()) if r.terms else 0
        if g > 1:
            r = Lin({a: c // g for a, c in r.terms.items()}, r.const // g)
        key = frozenset(r.terms.items())
        if key not in best or r.const < best[key].const:
            best[key] = r
    return list(best.values())
