"""Interval sets: the integers from one expression to another, both included.

Ends are expressions, `neg_inf` or `pos_inf`. `eval_set` gives the interval that an expression runs
through as some variables run through theirs; the other variables stay symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..base.deep import deep_call
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.iter import IterVar, Range
from .emit import emit, int_imm
from .forms import LINEAR_TYPES, Lin, MaxAtom, MinAtom, combined
from .prove import PROOF_STEPS, proves
from .simplify.minmax import extreme
from .symbolic import Ends, Evaluation
from .wrap import fits

if TYPE_CHECKING:
    from .analyzer import Analyzer


class Infinity:
    """The end of an interval that has none."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> Infinity:
        """Itself: TVM's users write `neg_inf()`."""
        return self

    def same_as(self, other: object) -> bool:
        """Whether this is the same end."""
        return self is other

    def __repr__(self) -> str:
        return self.name


pos_inf = Infinity("pos_inf")
neg_inf = Infinity("neg_inf")
End = E.PrimExpr | Infinity


class IntervalSet:
    """The integers in [min_value, max_value]. Raises OperandError where `max_value` or `min_value`
    is neither a number nor an expression."""

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: Any, max_value: Any) -> None:
        self.min_value: Any = _end(min_value)
        self.max_value: Any = _end(max_value)

    @staticmethod
    def single_point(e: Any) -> IntervalSet:
        """The set of one value. Raises OperandError where `e` is neither a number nor an
        expression."""
        e = E.convert(e)
        return IntervalSet(e, e)

    @staticmethod
    def from_range(r: Range) -> IntervalSet:
        """The values of a range (nothing, if its extent is a constant below one)."""
        extent = E.const_int(r.extent)
        if extent is not None and extent < 1:
            return IntervalSet.nothing()
        return IntervalSet(r.min, r.min if extent == 1 else r.min + (r.extent - 1))

    @staticmethod
    def vector(e: Any) -> IntervalSet:
        """The values of the lanes of a vector whose steps are constant; of a scalar: its value.
        Raises OperandError where `e` is neither a number nor an expression."""
        e = E.convert(e)
        if type(e) is E.Broadcast:
            return IntervalSet.single_point(e.value)
        if parse(e.dtype).lanes == 1:
            return IntervalSet.single_point(e)
        if type(e) is E.Ramp:
            step = E.const_int(e.stride)
            if step is not None and not isinstance(e.lanes, int):
                some = IntervalSet(e.base, pos_inf)
                return some if step >= 0 else IntervalSet(neg_inf, e.base)
            if step is not None:
                last = e.base + step * (e.lanes - 1)
                return IntervalSet(e.base, last) if step >= 0 else IntervalSet(last, e.base)
        return IntervalSet.everything()

    @staticmethod
    def everything() -> IntervalSet:
        """All integers."""
        return IntervalSet(neg_inf, pos_inf)

    @staticmethod
    def nothing() -> IntervalSet:
        """The empty set."""
        return IntervalSet(pos_inf, neg_inf)

    def is_nothing(self) -> bool:
        """Whether the set is known to be empty."""
        if self.min_value is pos_inf or self.max_value is neg_inf:
            return True
        low, high = E.const_int(self.min_value), E.const_int(self.max_value)
        return low is not None and high is not None and low > high

    def is_everything(self) -> bool:
        """Whether it has no bound on either side."""
        return self.min_value is neg_inf and self.max_value is pos_inf

    def is_single_point(self) -> bool:
        """Whether both ends are one expression."""
        low, high = self.min_value, self.max_value
        if isinstance(low, E.IntImm) and isinstance(high, E.IntImm):
            return low.value == high.value
        return low is high and isinstance(low, E.PrimExpr)

    def has_lower_bound(self) -> bool:
        """Whether it ends below."""
        return isinstance(self.min_value, E.PrimExpr)

    def has_upper_bound(self) -> bool:
        """Whether it ends above."""
        return isinstance(self.max_value, E.PrimExpr)

    def cover_range(self, default: Range | None, analyzer: Analyzer | None = None) -> Range | None:
        """The range from end to end; `default` if an end is missing. The extent is simplified."""
        low, high = self.min_value, self.max_value
        if isinstance(low, Infinity) or isinstance(high, Infinity):
            return default
        analyzer = _analyzer(analyzer)
        if self.is_single_point():
            return Range.from_min_extent(low, E.const(1, low.dtype))
        extent = analyzer.simplify(high - low + 1)
        bound = analyzer.const_int_bound(extent)
        if bound.min_value == bound.max_value:
            extent = int_imm(extent.dtype, bound.min_value)
        return Range.from_min_extent(analyzer.simplify(low), extent)

    def as_index(self, dtype: str) -> IntervalSet:
        """The set in the type of a tensor's extents, for data that are read as indices may have a
        narrow or unsigned one; a number beyond that type becomes its nearest. Raises
        TilewrightError where `dtype` is the type of a handle."""
        return IntervalSet(_as_index(self.min_value, dtype), _as_index(self.max_value, dtype))

    def __repr__(self) -> str:
        return f"IntervalSet[{self.min_value}, {self.max_value}]"


IntSet = IntervalSet  # there is one kind of set


def _as_index(end: Any, dtype: str) -> Any:
    if isinstance(end, Infinity) or end.dtype in ("int32", "int64"):
        return end
    if isinstance(end, E.IntImm):
        kind = parse(dtype)
        return E.const(min(max(end.value, int(kind.min_value)), int(kind.max_value)), dtype)
    return E.cast(dtype, end)


def _end(value: Any) -> Any:
    return value if isinstance(value, Infinity) else E.convert(value)


def _analyzer(analyzer: Analyzer | None) -> Analyzer:
    if analyzer is not None:
        return analyzer
    from .analyzer import Analyzer

    return Analyzer()


def as_set(value: Any) -> IntervalSet:
    """An IntervalSet of what can stand for one: a set, a Range, an expression."""
    if isinstance(value, IntervalSet):
        return value
    return IntervalSet.from_range(value) if isinstance(value, Range) else IntervalSet.vector(value)


def eval_set(e: Any, dom: Mapping[Any, Any], analyzer: Analyzer | None = None) -> IntervalSet:
    """The interval of `e` while each variable in `dom` runs through its set (or Range).

    All variables are replaced at once: ends that name other variables of `dom` keep them. The
    result is exact for sums in which every term moves on its own, else it encloses the values.
    Raises OperandError where `e` is neither a number nor an expression.
    """
    e = E.convert(e)
    analyzer = _analyzer(analyzer)
    if parse(e.dtype).lanes > 1:
        e = analyzer.simplify(e)
        if type(e) not in (E.Ramp, E.Broadcast):
            return IntervalSet.everything()
        ends = IntervalSet.vector(e)
        if ends.is_everything():
            return ends
        return union(
            [eval_set(x, dom, analyzer) for x in (ends.min_value, ends.max_value)], analyzer
        )
    if e.dtype not in LINEAR_TYPES:
        return _constant_set(e, dom, analyzer)
    return deep_call(_eval, e, dom, analyzer)


def _eval(e: E.PrimExpr, dom: Mapping[Any, Any], analyzer: Analyzer) -> IntervalSet:
    ctx = analyzer.context
    x = ctx.lin(e)
    evaluation = Evaluation(ctx, _domains(dom, analyzer))
    low, high = evaluation.lin(x)
    if low is high and low is not None:
        return IntervalSet.single_point(emit(low, e.dtype))
    low, high = (None if y is None or not fits(ctx, y, e.dtype) else y for y in (low, high))
    return IntervalSet(
        neg_inf if low is None else emit(low, e.dtype),
        pos_inf if high is None else emit(high, e.dtype),
    )


def _domains(dom: Mapping[Any, Any], analyzer: Analyzer) -> dict[Any, Ends]:
    ctx = analyzer.context
    result: dict[Any, Ends] = {}
    for key, value in dom.items():
        var = key.var if isinstance(key, IterVar) else key
        if var.dtype not in LINEAR_TYPES:
            continue
        s = as_set(value)
        result[ctx.space.var(var)] = (
            None if isinstance(s.min_value, Infinity) else ctx.lin(s.min_value),
            None if isinstance(s.max_value, Infinity) else ctx.lin(s.max_value),
        )
    return result


def _constant_set(e: E.PrimExpr, dom: Mapping[Any, Any], analyzer: Analyzer) -> IntervalSet:
    """The set of a value of another type: itself if it is fixed, else constants."""
    from ..loopir.visit import uses_var

    keys = {k.var if isinstance(k, IterVar) else k for k in dom}
    if not uses_var(e, keys.__contains__):
        return IntervalSet.single_point(analyzer.simplify(e))
    t = parse(e.dtype)
    if t.is_float or t.is_handle:
        return IntervalSet.everything()
    return IntervalSet(E.const(t.min_value, t.text), E.const(t.max_value, t.text))


def union(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval around all sets; of none: nothing."""
    parts = [s for s in sets if not s.is_nothing()]
    if not parts:
        return IntervalSet.nothing()
    return _merged(parts, analyzer, MinAtom, MaxAtom)


def intersect(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """What lies in all sets; of none: everything. Proved to be empty: nothing."""
    parts = list(sets)
    if not parts:
        return IntervalSet.everything()
    if any(s.is_nothing() for s in parts):
        return IntervalSet.nothing()
    analyzer = _analyzer(analyzer)
    result = _merged(parts, analyzer, MaxAtom, MinAtom)
    if result.has_lower_bound() and result.has_upper_bound():
        ctx = analyzer.context
        gap = combined(ctx.lin(result.min_value), -1, ctx.lin(result.max_value))
        if proves(ctx, Lin(gap.terms, gap.const - 1), PROOF_STEPS):
            return IntervalSet.nothing()
    return result


def _merged(
    parts: list[IntervalSet], analyzer: Analyzer | None, low_class: Any, high_class: Any
) -> IntervalSet:
    if len(parts) == 1:
        return parts[0]
    analyzer = _analyzer(analyzer)
    widest = low_class is MinAtom
    low = _fold([p.min_value for p in parts], analyzer, low_class, neg_inf, widest)
    high = _fold([p.max_value for p in parts], analyzer, high_class, pos_inf, widest)
    return IntervalSet(low, high)


def union_lower_bound(sets: Iterable[IntervalSet]) -> IntervalSet:
    """An interval inside the union of sets; see region.py."""
    from .region import union_lower_bound as found

    return found(list(sets))


def _fold(ends: list[Any], analyzer: Analyzer, cls: Any, infinity: Infinity, widest: bool) -> Any:
    finite = [e for e in ends if not isinstance(e, Infinity)]
    if (widest and len(finite) < len(ends)) or not finite:
        return infinity
    ctx = analyzer.context
    dtype = max((e.dtype for e in finite), key=lambda d: parse(d).bits)
    if dtype not in LINEAR_TYPES:
        best = finite[0]
        for e in finite[1:]:
            best = analyzer.simplify((E.Min if cls is MinAtom else E.Max)(best, e))
        return best
    x = ctx.lin(finite[0])
    for e in finite[1:]:
        x = extreme(ctx, cls, x, ctx.lin(e), dtype)
    return emit(x, dtype)
