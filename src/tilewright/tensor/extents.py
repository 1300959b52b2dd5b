"""Shapes: reading them as users write them, and comparing extents."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ..arith import Analyzer
from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir.expr import FloatImm, IntImm, PrimExpr, StringImm, const, convert
from ..loopir.visit import children


def as_shape(shape: Any) -> tuple[PrimExpr, ...]:
    """One extent or several, as expressions; whole numbers become int32 where they fit."""
    one = getattr(shape, "is_tensor", False) or getattr(shape, "ndim", 1) == 0
    if one or not isinstance(shape, Iterable):
        shape = (shape,)
    return tuple(as_extent(d) for d in shape)


def as_extent(extent: Any) -> PrimExpr:
    """One extent; raises TilewrightError for what is no whole number of zero or more."""
    if isinstance(extent, float) and extent.is_integer():
        extent = int(extent)
    if not hasattr(extent, "asexpr"):
        try:
            extent = operator.index(extent)
        except TypeError:
            raise TilewrightError(f"a shape holds integers, got {extent!r}") from None
    e = const(extent) if isinstance(extent, int) else convert(extent)
    if not parse(e.dtype).is_integer:
        raise TilewrightError(f"a shape holds integers, got {e} of type {e.dtype}")
    if isinstance(e, IntImm) and e.value < 0:
        raise TilewrightError(f"a shape holds extents of zero or more, got {e.value}")
    return e


def dimension(axis: Any, rank: int) -> int:
    """The dimension that `axis` means of a tensor of `rank` dimensions; negative numbers count from
    the end. TilewrightError for what is no dimension."""
    try:
        number = operator.index(axis)
    except TypeError:
        raise TilewrightError(f"an axis is a whole number, got {axis!r}") from None
    if not -rank <= number < rank:
        allowed = f"it is {-rank} to {rank - 1}" if rank else "it has none"
        raise TilewrightError(
            f"axis {number} is out of range for a tensor of {rank} dimensions: {allowed}"
        )
    return number % rank


def same_extent(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two extents are surely equal."""
    if a is b or same_tree(a, b):
        return True
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return False
    analyzer = Analyzer()
    return same_tree(analyzer.simplify(a), analyzer.simplify(b))


def same_tree(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two expressions are the same operations on the same variables and constants."""
    stack: list[tuple[Any, Any]] = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if type(x) is not type(y):
            return False
        below_x, below_y = children(x), children(y)
        if not below_x or len(below_x) != len(below_y):
            if isinstance(x, (IntImm, FloatImm, StringImm)) and x.value == y.value:
                continue
            return False
        for name in ("op", "dtype", "producer", "buffer", "combiner", "axis", "value_index"):
            if getattr(x, name, None) != getattr(y, name, None):
                return False
        stack.extend(zip(below_x, below_y))
    return True
