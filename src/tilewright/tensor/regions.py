"""Which part of its inputs an operation reads, given the values that its axes take."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from ..arith import Analyzer, IntervalSet, eval_set
from ..base.dtype import parse
from ..loopir.expr import IntImm, PrimExpr, Var, const
from ..loopir.iter import ProducerLoad, Range, Reduce
from ..loopir.visit import nodes, post_order_visit
from .op import ComputeOp, Operation, TensorComputeOp
from .tensor import Tensor

Domains = Mapping[Var, IntervalSet]

_WIDE = [parse(f"{kind}{bits}") for kind in ("int", "uint") for bits in (32, 64)]
_TYPES_END = {int(end) for t in _WIDE for end in (t.min_value, t.max_value) if end}


Known = Callable[[PrimExpr], IntervalSet | None]
"""The values that an index takes, where more is known than those of each axis by itself."""


def reads_of(
    op: Operation,
    domains: Domains,
    analyzer: Analyzer,
    wanted: Container[Tensor],
    known: Known | None = None,
) -> Iterator[tuple[Tensor, list[IntervalSet]]]:
    """For each read of a tensor in `wanted` an interval a dimension. Scans have no reads of their
    own, and what a statement of the user's reads is not known: all of it."""
    if isinstance(op, ComputeOp):
        bodies = op.body[:1] if isinstance(op.body[0], Reduce) else op.body
        found: list[Any] = []
        for body in bodies:
            post_order_visit(body, found.append)
        for load in found:
            if type(load) is ProducerLoad and load.producer in wanted:
                yield load.producer, read_by(load, domains, analyzer, known)
    elif isinstance(op, TensorComputeOp):
        for t, region in zip(op.tensors, op.regions):
            if t in wanted:
                taken = [span(analyzer, r.min, r.min + r.extent - 1, domains) for r in region]
                yield t, _in_shape(analyzer, t, taken)
    else:
        for t in op.input_tensors:
            if t in wanted:
                yield t, [whole_of(extent) for extent in t.shape]


def read_by(
    load: ProducerLoad, domains: Domains, analyzer: Analyzer, known: Known | None = None
) -> list[IntervalSet]:
    """What one read touches."""
    told = [known(i) if known is not None else None for i in load.indices]
    taken = [eval_set(i, domains, analyzer) if k is None else k for i, k in zip(load.indices, told)]
    return _in_shape(analyzer, load.producer, taken)


def whole_of(extent: PrimExpr) -> IntervalSet:
    """All indices of a dimension."""
    return IntervalSet.from_range(Range.from_min_extent(const(0, extent.dtype), extent))


def span(analyzer: Analyzer, low: PrimExpr, last: PrimExpr, domains: Domains) -> IntervalSet:
    """From the least value of `low` to the greatest of `last`."""
    start, end = eval_set(low, domains, analyzer), eval_set(last, domains, analyzer)
    return IntervalSet(start.min_value, end.max_value)


def finite(e: Any) -> bool:
    """Whether an end of an interval is an expression."""
    return isinstance(e, PrimExpr)


def _in_shape(analyzer: Analyzer, t: Tensor, taken: list[IntervalSet]) -> list[IntervalSet]:
    return [_in_dimension(analyzer, extent, i) for extent, i in zip(t.shape, taken)]


def _in_dimension(analyzer: Analyzer, extent: PrimExpr, interval: IntervalSet) -> IntervalSet:
    """The whole dimension where it is proved tighter at both ends, else the interval."""
    last = extent - 1
    interval = interval.as_index(last.dtype)
    low, high = (_without_data(e) for e in (interval.min_value, interval.max_value))
    if (not finite(low) or analyzer.can_prove(low <= 0)) and (
        not finite(high) or analyzer.can_prove(high >= last)
    ):
        return whole_of(extent)
    low = low if finite(low) else const(0, extent.dtype)
    high = high if finite(high) else last
    return IntervalSet(low, high)


def _without_data(end: Any) -> Any:
    """An end of an interval; none where it is read from memory, which has no value yet where the
    loops around a stage are made, or is only the end of a type (of data, as an index)."""
    if not finite(end) or any(type(e) is ProducerLoad for e in nodes(end)):
        return None
    return None if isinstance(end, IntImm) and end.value in _TYPES_END else end
