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
from ..loopir.node import Node
from ..loopir.visit import uses_var
from .analyzer import Analyzer
from .emit import emit
from .forms import LINEAR_TYPES, ZERO, Lin, VarAtom, combined, constant, scaled
from .int_set import IntervalSet, eval_set
from .linear import coefficients, conjuncts, gaps_of
from .prove import proves
from .simplify.add import melt
from .simplify.divmod import quotient, remainder
from .smith import Matrix, identity, smith_normal_form, unimodular_inverse
from .symbolic import Evaluation

MAX_ROWS = 400


class LinearSolution:
    """All integer solutions: `values` of the variables in terms of `free` ones (new, any integer).

    There are solutions just where `conditions` hold. `ranges` are those of the free variables, as
    far as the ranges of the old ones limit them; `inverse` gives the free variables in terms of the
    old ones. `rest` is what was not solved: no equation, or none with constant factors.
    """

    __slots__ = ("conditions", "free", "inverse", "ranges", "rest", "values")

    def __init__(
        self,
        values: dict[E.Var, E.PrimExpr],
        free: list[E.Var],
        conditions: list[E.PrimExpr],
        ranges: dict[E.Var, Range],
        inverse: dict[E.Var, E.PrimExpr],
        rest: list[E.PrimExpr],
    ) -> None:
        self.values = values
        self.free = free
        self.conditions = conditions
        self.ranges = ranges
        self.inverse = inverse
        self.rest = rest


class IntConstraints(Node):
    """Variables, the ranges that are known of them, and conditions (`relations`) on them. Raises
    OperandError where `relations` holds what is neither a number nor an expression."""

    __slots__ = ("ranges", "relations", "variables")
    schema = "variables:any ranges:any relations:any"
    abstract = True

    def __init__(
        self,
        variables: Sequence[E.Var] | None,
        ranges: Mapping[E.Var, Range] | None,
        relations: Sequence[E.PrimExpr],
    ) -> None:
        self.variables = list(variables or ())
        self.ranges = dict(ranges or {})
        self.relations = [E.convert(e) for e in relations]

    def __repr__(self) -> str:
        return f"IntConstraints({self.variables}, {self.ranges}, {self.relations})"


def solve_linear_equations(
    equations: Sequence[Any], variables: Sequence[Any], ranges: Mapping[Any, Range] | None = None
) -> LinearSolution:
    """Solve `equations` (EQ nodes or conjunctions of them) for integer `variables`.

    Coefficients of the variables must be constants; the rest may be any expression without them.
    Other conditions are given back in `rest`.
    """
    analyzer = Analyzer()
    names = [v.var if isinstance(v, IterVar) else v for v in variables]
    limits = {(k.var if isinstance(k, IterVar) else k): r for k, r in (ranges or {}).items()}
    for v, r in limits.items():
        analyzer.bind(v, r)
    return deep_call(_solve_equations, analyzer, list(equations), names, limits)


def _solve_equations(
    analyzer: Analyzer, equations: list[Any], names: list[E.Var], ranges: dict[E.Var, Range]
) -> LinearSolution:
    ctx = analyzer.context
    a, sides, others = _rows(analyzer, equations, names)
    dtype = names[0].dtype if names else "int32"
    u, d, v = smith_normal_form(a) if a else ([], [], identity(len(names)))
    sides = [_row_times(ctx, row, sides) for row in u]
    new: list[Lin] = []
    free: dict[int, E.Var] = {}
    conditions: list[E.PrimExpr] = []
    rows = unimodular_inverse(v)
    for i, side in enumerate(sides):
        k = d[i][i] if i < len(names) else 0
        _need(analyzer, remainder(ctx, side, k, dtype) if k else side, dtype, conditions)
    for i in range(len(names)):
        if i < len(sides) and d[i][i]:
            new.append(quotient(ctx, sides[i], d[i][i], dtype))
            continue
        alone = [x.name for k, x in zip(rows[i], names) if k]
        same = "_" + alone[0] if len(alone) == 1 and sum(rows[i]) == 1 else ""
        free[i] = E.Var(f"n{len(free)}{same}", dtype)
        new.append(Lin({ctx.space.var(free[i]): 1}, 0))
    values = {x: emit(_row_times(ctx, v[i], new), dtype) for i, x in enumerate(names)}
    inverse = {}
    for i, x in free.items():
        e: Any = E.const(0, x.dtype)
        for k, y in zip(rows[i], names):
            e = e + y * k
        inverse[x] = Analyzer().simplify(e)
    found = _free_ranges(analyzer, inverse, ranges)
    return LinearSolution(values, list(inverse), conditions, found, inverse, others)


def _rows(
    analyzer: Analyzer, equations: list[Any], names: list[E.Var]
) -> tuple[Matrix, list[Lin], list[E.PrimExpr]]:
    """Equations as factors of the variables and right sides, and those that have no such form."""
    ctx = analyzer.context
    atoms = [ctx.space.var(v) for v in names]
    a: Matrix = []
    sides: list[Lin] = []
    others: list[E.PrimExpr] = []
    for e in equations:
        for part in conjuncts(E.convert(e)):
            parts = None
            if type(part) is E.EQ and part.a.dtype in LINEAR_TYPES and names:
                gap = combined(ctx.plain.lin(part.a), -1, ctx.plain.lin(part.b))
                parts = coefficients(ctx, gap, atoms)
            if parts is None or any(p.terms for p in parts[:-1]):
                others.append(part)
                continue
            a.append([p.const for p in parts[:-1]])
            sides.append(scaled(parts[-1], -1))
    return a, sides, others


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
    analyzer: Analyzer, inverse: dict[E.Var, E.PrimExpr], ranges: dict[E.Var, Range]
) -> dict[E.Var, Range]:
    """The ranges of free variables follow from those of the old ones, where all of these are
    known."""
    dom = {x: IntervalSet.from_range(r) for x, r in ranges.items()}
    result: dict[E.Var, Range] = {}
    for new, e in inverse.items():
        cover = eval_set(e, dom, analyzer).cover_range(None, analyzer)
        if cover is not None and not uses_var(e, lambda v: v not in dom):
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

    Together these say the same as `conditions` and `ranges`. What is left has none of the
    variables, or one of them with a factor that is no constant, or is no comparison of integers.
    TilewrightError where elimination would make more than 400 rows.
    """
    analyzer = Analyzer()
    names = [v.var if isinstance(v, IterVar) else v for v in variables]
    limits = {(k.var if isinstance(k, IterVar) else k): r for k, r in (ranges or {}).items()}
    return deep_call(_solve_inequalities, analyzer, list(conditions), names, limits)


def _solve_inequalities(
    analyzer: Analyzer, conditions: list[Any], names: list[E.Var], ranges: dict[E.Var, Range]
) -> tuple[dict[E.Var, VarLimits], list[E.PrimExpr]]:
    ctx = analyzer.context
    rows: list[Lin] = []
    others: list[E.PrimExpr] = []
    for e in conditions:
        for part in conjuncts(E.convert(e)):
            if isinstance(part, E.IntImm):
                rows.append(constant(0 if part.value else -1))
                continue
            gaps = gaps_of(ctx, part)
            if gaps is None:
                others.append(part)
            rows += gaps or ()
    for x, r in ranges.items():
        low, extent = ctx.lin(r.min), ctx.lin(r.extent)
        here = Lin({ctx.space.var(x): 1}, 0)
        rows.append(combined(here, -1, low))
        rows.append(combined(combined(combined(low, 1, extent), -1, here), -1, constant(1)))
    found: dict[E.Var, VarLimits] = {}
    unused: list[Lin] = []
    for x in names:
        rows, found[x], hidden = _eliminate(analyzer, rows, ctx.space.var(x))
        unused += hidden
    zero = E.const(0)
    left = [analyzer.simplify(E.LE(zero, emit(row, "int32"))) for row in _distinct(rows)]
    left += [E.LE(emit(scaled(row, -1), "int32"), zero) for row in _distinct(unused)] + others
    return found, [e for e in left if not (isinstance(e, E.IntImm) and e.value)]


def _eliminate(
    analyzer: Analyzer, rows: list[Lin], atom: VarAtom
) -> tuple[list[Lin], VarLimits, list[Lin]]:
    """Rows without a variable, its limits, and the rows in which it is no linear term."""
    ctx = analyzer.context
    moves = Evaluation(ctx, {atom: (None, None)}).moves
    hidden = [r for r in rows if any(a is not atom and moves(a) for a in r.terms)]
    rows = [r for r in rows if r not in hidden]
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
    rest = [r for r in _distinct(rest) if r.terms or r.const < 0 or not proves(ctx, r)]
    return rest, limits, hidden


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
