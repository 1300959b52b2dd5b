"""The nodes of index maps in TVM's vocabulary, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base.deep import deep_call, recursive
from ..loopir import expr as E
from ..loopir.equal import structural_equal
from ..loopir.node import Node
from .analyzer import Analyzer


class IterMapExpr(E.PrimExpr):
    """Base of the expressions that index maps are made of."""

    __slots__ = ()
    abstract = True

    def __str__(self) -> str:
        return str(normalize_iter_map_to_expr(self))

    __repr__ = __str__


class IterMark(Node):
    """`source`, an expression, as an iterator over [0, extent). Raises OperandError where `extent`
    or `source` is neither a number nor an expression."""

    __slots__ = ("extent", "source")
    schema = "source:any extent:expr"
    abstract = True

    def __init__(self, source: Any, extent: Any) -> None:
        self.source: Any = E.convert(source)
        self.extent: Any = E.convert(extent)

    def __repr__(self) -> str:
        return f"IterMark({self.source}, extent={self.extent})"


class IterSplitExpr(IterMapExpr):
    """floormod(floordiv(source, lower_factor), extent) * scale, of a marked iterator. Raises
    OperandError where `extent`, `lower_factor` or `scale` is neither a number nor an expression."""

    __slots__ = ("extent", "lower_factor", "scale", "source")
    schema = "source:any lower_factor:expr extent:expr scale:expr"
    abstract = True

    if TYPE_CHECKING:
        source: IterMark

    def __init__(self, source: IterMark, lower_factor: Any, extent: Any, scale: Any) -> None:
        self.source = source
        self.lower_factor: Any = E.convert(lower_factor)
        self.extent: Any = E.convert(extent)
        self.scale: Any = E.convert(scale)
        self.dtype = source.source.dtype

    def with_(
        self, source: Any = None, lower: Any = None, extent: Any = None, scale: Any = None
    ) -> IterSplitExpr:
        """The split with some of its fields changed."""
        return IterSplitExpr(
            self.source if source is None else source,
            self.lower_factor if lower is None else lower,
            self.extent if extent is None else extent,
            self.scale if scale is None else scale,
        )


class IterSumExpr(IterMapExpr):
    """sum(args) + base. Raises OperandError where `base` is neither a number nor an expression."""

    __slots__ = ("args", "base")
    schema = "args:any base:expr"
    abstract = True

    def __init__(self, args: Sequence[IterSplitExpr], base: Any) -> None:
        self.args = tuple(args)
        self.base: Any = E.convert(base)
        self.dtype = self.base.dtype


def whole(mark: IterMark, scale: Any = 1) -> IterSplitExpr:
    """All of a marked iterator as one split."""
    one = E.const(1, mark.source.dtype)
    return IterSplitExpr(mark, one, mark.extent, one if E.is_const(scale, 1) else scale)


def is_one(e: Any) -> bool:
    """Whether an expression is the constant 1."""
    return E.const_int(e) == 1


def is_zero(e: Any) -> bool:
    """Whether an expression is the constant 0."""
    return E.const_int(e) == 0


def same_split(a: IterSplitExpr, b: IterSplitExpr, scales: bool = True) -> bool:
    """Whether two splits are the same part of the same iterator, with the same scale."""
    names = ("lower_factor", "extent", "scale") if scales else ("lower_factor", "extent")
    return same_mark(a.source, b.source) and all(
        structural_equal(getattr(a, f), getattr(b, f)) for f in names
    )


def same_mark(a: IterMark, b: IterMark) -> bool:
    """Whether two marks are the same iterator."""
    return a is b or structural_equal(a, b)


@recursive
def _value(e: Any, analyzer: Analyzer) -> Any:
    if isinstance(e, IterMark):
        return _value(e.source, analyzer)
    if isinstance(e, IterSumExpr):
        total: Any = None
        for a in e.args:
            part = _value(a, analyzer)
            total = part if total is None else total + part
        if total is None:
            return e.base
        return total if is_zero(e.base) else total + e.base
    if not isinstance(e, IterSplitExpr):
        return E.convert(e)
    inner: Any = _value(e.source.source, analyzer)
    extent, all_of = e.extent, e.source.extent
    if is_one(e.lower_factor) and analyzer.can_prove_equal(extent, all_of):
        return inner if is_one(e.scale) else inner * e.scale
    span = analyzer.simplify(e.lower_factor * extent)
    if not analyzer.can_prove_equal(span, all_of):
        inner = inner % span
    elif is_one(extent) and not is_one(all_of):
        return E.const(0, e.dtype)
    part = inner if is_one(e.lower_factor) else inner // e.lower_factor
    return part if is_one(e.scale) else part * e.scale


def normalize_iter_map_to_expr(expr: Any, analyzer: Analyzer | None = None) -> E.PrimExpr:
    """The value of an IterMapExpr as a plain expression of the iterators."""
    found: E.PrimExpr = deep_call(_value, expr, analyzer or Analyzer())
    return found
