"""Systems of linear equations and inequalities in TVM's vocabulary; solve.py solves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from ..base.errors import UsageError
from ..loopir import expr as E
from ..loopir.equal import structural_equal
from ..loopir.iter import Range
from ..loopir.node import Node
from ..loopir.subst import substitute
from .analyzer import Analyzer
from .emit import OutOfRange, emit, int_imm
from .forms import Lin, scaled
from .int_set import IntervalSet, eval_set
from .linear import gaps_of
from .solve import IntConstraints, VarLimits
from .solve import solve_linear_equations as _equations
from .solve import solve_linear_inequalities as _inequalities


class IntGroupBounds(Node):
    """Bounds of `coef * variable`: at least `lower`, at most `upper`, and `equal`. Raises
    OperandError where `coef` or `upper` is neither a number nor an expression."""

    __slots__ = ("coef", "equal", "lower", "upper")
    schema = "coef:expr lower:any equal:any upper:any"
    abstract = True

    def __init__(
        self, coef: Any, lower: Sequence[Any], equal: Sequence[Any], upper: Sequence[Any]
    ) -> None:
        self.coef: E.PrimExpr = E.convert(coef)
        self.lower = [E.convert(e) for e in lower]
        self.equal = [E.convert(e) for e in equal]
        self.upper = [E.convert(e) for e in upper]

    @staticmethod
    def from_range(rng: Range) -> IntGroupBounds:
        """The bounds that a range is."""
        one = E.const(1, rng.min.dtype)
        last = Analyzer().simplify(rng.min + rng.extent - 1)
        if E.const_int(rng.extent) == 1:
            return IntGroupBounds(one, [], [rng.min], [])
        return IntGroupBounds(one, [rng.min], [], [last])

    def find_best_range(self, ranges: Mapping[Any, Range] | None = None) -> Range | None:
        """The smallest range of the variable that is known; None if a side has no bound."""
        k = E.const_int(self.coef)
        if k is None or k < 1:
            return None
        lower = [(e + (k - 1)) // k if k > 1 else e for e in (*self.lower, *self.equal)]
        upper = [e // k if k > 1 else e for e in (*self.upper, *self.equal)]
        found = best_range(lower, upper, ranges or {})
        return None if found is None else found[0]


class IntConstraintsTransform(Node):
    """Two systems that say the same of different variables, and each variable in terms of those of
    the other system."""

    __slots__ = ("dst", "dst_to_src", "src", "src_to_dst")
    schema = "src:any dst:any src_to_dst:any dst_to_src:any"
    abstract = True

    def __init__(
        self,
        src: IntConstraints,
        dst: IntConstraints,
        src_to_dst: Mapping[E.Var, Any],
        dst_to_src: Mapping[E.Var, Any],
    ) -> None:
        self.src, self.dst = src, dst
        self.src_to_dst = dict(src_to_dst)
        self.dst_to_src = dict(dst_to_src)


def best_range(
    lower: Sequence[Any], upper: Sequence[Any], ranges: Mapping[Any, Range]
) -> tuple[Range, Any, Any] | None:
    """The range from a lower to an upper limit of the least extent, and both limits; the extent is
    a constant where the variables in `ranges` allow one."""
    analyzer = Analyzer()
    for var, r in ranges.items():
        analyzer.bind(var, r)
    dom = {v: IntervalSet.from_range(r) for v, r in ranges.items()}
    best: tuple[int | None, Any, Any, Any] | None = None
    for low in lower:
        for high in upper:
            extent = analyzer.simplify(E.convert(high) - low + 1)
            most: Any = eval_set(extent, dom, analyzer).max_value
            size = E.const_int(most)
            better = best is None or (size is not None and (best[0] is None or size < best[0]))
            if better:
                best = (size, most if size is not None else extent, low, high)
    if best is None:
        return None
    size, extent, low, high = best
    if size is not None and size < 0:
        extent = E.const(0, E.convert(low).dtype)
    return Range.from_min_extent(analyzer.simplify(low), extent), low, high


def _given(
    system: Any, variables: Sequence[Any] | None, ranges: Mapping[Any, Range] | None
) -> tuple[list[Any], list[Any], dict[Any, Range]]:
    if isinstance(system, IntConstraints):
        if variables is not None or ranges is not None:
            raise UsageError("IntConstraints hold the variables and ranges themselves")
        return list(system.relations), list(system.variables), dict(system.ranges)
    relations = list(system) if isinstance(system, (list, tuple)) else [system]
    return relations, list(variables or ()), dict(ranges or {})


def _never(conditions: Sequence[Any]) -> bool:
    return any(isinstance(e, E.IntImm) and not e.value for e in conditions)


def _unsolvable(src: IntConstraints) -> IntConstraintsTransform:
    """What a system without solutions becomes."""
    return IntConstraintsTransform(src, IntConstraints([], {}, [E.const(False)]), {}, {})


def solve_linear_equations(
    equations: Any,
    variables: Sequence[Any] | None = None,
    ranges: Mapping[Any, Range] | None = None,
) -> IntConstraintsTransform:
    """Solve equations (EQ nodes, or IntConstraints) for integer variables.

    `src_to_dst` gives each variable in terms of new, free ones; `dst` holds their ranges, those of
    other variables, and the conditions under which there is a solution. Inequalities, and equations
    whose factors are no constants, are conditions of `dst` too. By the Smith normal form
    (Schrijver, Theory of Linear and Integer Programming, 1986, section 4.4). Raises UsageError
    where variables or ranges are given beside IntConstraints.
    """
    relations, names, limits = _given(equations, variables, ranges)
    found = _equations(relations, names, limits)
    src = IntConstraints(names, limits, relations)
    if _never(found.conditions):
        return _unsolvable(src)
    known = {v: r for v, r in limits.items() if v not in found.values} | found.ranges
    analyzer = Analyzer()
    for v, r in known.items():
        analyzer.bind(v, r)
    extra = []
    for v, r in limits.items():
        value: Any = found.values.get(v)
        if value is not None:
            extra += [analyzer.simplify(E.LE(r.min, value))]
            extra += [analyzer.simplify(value < r.min + r.extent)]
    extra = [e for e in extra if not E.is_const(e, 1)]
    rest = [substitute(e, found.values) for e in found.rest]
    dst = IntConstraints(found.free, known, [*found.conditions, *extra, *rest])
    return IntConstraintsTransform(src, dst, found.values, found.inverse)


@overload
def solve_linear_inequalities(
    equations: Any,
    variables: Sequence[Any] | None = None,
    ranges: Mapping[Any, Range] | None = None,
    deskew_range: Literal[False] = False,
) -> IntConstraints: ...
@overload
def solve_linear_inequalities(
    equations: Any,
    variables: Sequence[Any] | None = None,
    ranges: Mapping[Any, Range] | None = None,
    *,
    deskew_range: Literal[True],
) -> IntConstraintsTransform: ...
@overload
def solve_linear_inequalities(
    equations: Any,
    variables: Sequence[Any] | None = None,
    ranges: Mapping[Any, Range] | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform: ...
def solve_linear_inequalities(
    equations: Any,
    variables: Sequence[Any] | None = None,
    ranges: Mapping[Any, Range] | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform:
    """Ranges of variables that inequalities allow, each in terms of the variables after it.

    What no range says is left in `relations`. With `deskew_range` the ranges begin at zero: they
    are those of new variables, and the result is an IntConstraintsTransform. By Fourier-Motzkin
    elimination (Schrijver, Theory of Linear and Integer Programming, 1986, section 12.2). Raises
    UsageError where variables or ranges are given beside IntConstraints.
    """
    relations, names, limits = _given(equations, variables, ranges)
    found, left = _inequalities(relations, names, limits)
    known: dict[Any, Range] = {}
    said = {v: _range_of(v, found[v], known) for v in reversed(names)}
    rest = [e for v in names for e in said[v]] + left
    src = IntConstraints(names, limits, relations)
    if _never(rest):
        unsolvable = _unsolvable(src)
        return unsolvable if deskew_range else unsolvable.dst
    ordered = {v: known[v] for v in names if v in known}
    if not deskew_range:
        return IntConstraints(names, ordered, rest)
    return _deskewed(src, names, known, rest)


def solve_inequalities_as_condition(
    variables: Sequence[Any], ranges: Mapping[Any, Range], inequalities: Sequence[Any]
) -> list[E.PrimExpr]:
    """The limits of each variable in terms of those after it, as conditions, then what is left.

    Limits that others imply are left out.
    """
    relations, names, bounds = _given(list(inequalities), variables, ranges)
    found, left = _inequalities(relations, names, bounds)
    analyzer = Analyzer()
    parts: list[list[E.PrimExpr]] = []
    known: dict[Any, Range] = {}
    for v in reversed(names):
        best = best_range(found[v].lower, found[v].upper, known)
        lower = _strongest(found[v].lower, analyzer.can_prove_greater_equal)
        upper = _strongest(found[v].upper, analyzer.can_prove_less_equal)
        parts.append([E.GE(v, e) for e in lower] + [E.LE(v, e) for e in upper])
        if best is not None:
            known[v] = best[0]
            analyzer.bind(v, best[0])
    return [*(c for part in reversed(parts) for c in part), *left]


def _strongest(limits: Sequence[Any], beats: Any) -> list[Any]:
    """Limits without those that another one implies."""
    kept: list[Any] = []
    for e in limits:
        if any(beats(k, e) for k in kept):
            continue
        kept = [k for k in kept if not beats(e, k)] + [e]
    return kept


def _range_of(v: E.Var, limits: VarLimits, known: dict[Any, Range]) -> list[E.PrimExpr]:
    """Enter the range of a variable in `known`; what it does not say."""
    best = best_range(limits.lower, limits.upper, known)
    said: list[E.PrimExpr] = []
    analyzer = Analyzer()
    for w, r in known.items():
        analyzer.bind(w, r)
    low: Any = None
    last: Any = None
    if best is not None:
        known[v], low, _ = best
        analyzer.bind(v, known[v])
        last = known[v].min + known[v].extent - 1
    for e in _shared(limits.lower, limits.upper):
        if not analyzer.can_prove_equal(v, e):
            said.append(E.EQ(v, e))
    for e in _apart(limits.lower, limits.upper):
        if low is None or not analyzer.can_prove_greater_equal(low, e):
            said.append(E.GE(v, e))
    for e in _apart(limits.upper, limits.lower):
        if last is None or not analyzer.can_prove_less_equal(last, e):
            said.append(E.LE(v, e))
    return said


def _shared(limits: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The limits that stand among the others too."""
    return [e for e in limits if any(structural_equal(e, x) for x in others)]


def _apart(limits: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The limits that do not."""
    return [e for e in limits if not any(structural_equal(e, x) for x in others)]


def _deskewed(
    src: IntConstraints, names: list[E.Var], known: dict[Any, Range], rest: list[E.PrimExpr]
) -> IntConstraintsTransform:
    forward: dict[E.Var, Any] = {}
    back: dict[E.Var, Any] = {}
    new_ranges: dict[E.Var, Range] = {}
    analyzer = Analyzer()
    new = {v: E.Var(f"{v.name}.shifted", v.dtype) for v in names}
    for v in reversed(names):
        if v not in known:
            new[v] = forward[v] = back[v] = v
            continue
        low, extent = known[v].min, known[v].extent
        if E.const_int(extent) == 1:
            forward[v] = analyzer.simplify(substitute(low, forward))
            del new[v]
            continue
        forward[v] = new[v] + analyzer.simplify(substitute(low, forward))
        back[new[v]] = analyzer.simplify(v - low)
        zero = E.const(0, v.dtype)
        new_ranges[new[v]] = Range.from_min_extent(zero, substitute(extent, forward))
        analyzer.bind(new[v], new_ranges[new[v]])
    left = [_gathered(analyzer, substitute(e, forward)) for e in rest]
    variables = [new[v] for v in names if v in new]
    ordered = {v: new_ranges[v] for v in variables if v in new_ranges}
    left = [e for e in left if not (isinstance(e, E.IntImm) and e.value)]
    dst = IntConstraints(variables, ordered, left)
    return IntConstraintsTransform(src, dst, forward, back)


def _gathered(analyzer: Analyzer, e: Any) -> Any:
    """A condition, simplified; a comparison of several variables with all of them on one side."""
    e, ctx = analyzer.simplify(e), analyzer.context
    gaps = gaps_of(ctx, e) if type(e) in (E.LT, E.LE) else None
    if gaps is None or len(gaps[0].terms) < 2:
        return e
    gap = gaps[0]
    terms = dict(sorted(gap.terms.items(), key=lambda item: -abs(item[1])))
    dtype = e.a.dtype
    try:
        if next(iter(terms.values())) > 0:
            return E.LE(int_imm(dtype, -gap.const), emit(Lin(terms, 0), dtype))
        return E.LE(emit(scaled(Lin(terms, 0), -1), dtype), int_imm(dtype, gap.const))
    except OutOfRange:
        return e
