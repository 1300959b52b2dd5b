"""Walks over tensor programs, and replacing the inputs of an operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.deep import deep_call
from ..base.errors import InternalError
from ..loopir.iter import ProducerLoad, Range, Reduce
from ..loopir.rewrite import Rewriter, handles
from .hybrid_op import HybridOp
from .operations import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, TensorComputeOp
from .operations import loaded_tensors as loaded_tensors
from .tensor import Tensor


def post_order(outputs: Iterable[Tensor | Operation]) -> list[Operation]:
    """Every operation that `outputs` need, producers before consumers, in order of first use."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    roots = [t.op if isinstance(t, Tensor) else t for t in outputs]
    stack = [(op, False) for op in reversed(roots)]
    while stack:
        op, done = stack.pop()
        if done:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors))
    return order


class _ReplaceProducers(Rewriter):
    def __init__(self, table: Mapping[Tensor, Tensor]) -> None:
        self.replacement = table

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        indices = self.exprs(e.indices)
        producer = self.replacement.get(e.producer, e.producer)
        if producer is e.producer and indices is e.indices:
            return e
        return ProducerLoad(producer, indices)


def replace_loads(e: Any, table: Mapping[Tensor, Tensor]) -> Any:
    """An expression (or statement) with reads of some tensors turned to others."""
    return deep_call(_ReplaceProducers(table).stmt, e)


def rewrite_body(op: ComputeOp, rewriter: Any) -> tuple[Any, ...]:
    """`rewriter` applied to the elements of `op`; a reduction to several values stays one."""
    first = op.body[0]
    if not isinstance(first, Reduce):
        return tuple(deep_call(rewriter, e) for e in op.body)
    new = deep_call(rewriter, first)
    if new is first:
        return tuple(op.body)
    return tuple(
        Reduce(new.combiner, new.source, new.axis, new.condition, e.value_index, new.init)
        for e in op.body
        if isinstance(e, Reduce)
    )


def replace_inputs(op: Operation, table: Mapping[Tensor, Tensor]) -> Operation:
    """`op` reading other tensors in place of some; `op` itself where nothing changes."""
    if not any(t in table for t in op.input_tensors):
        return op
    result: Operation = _REPLACE[type(op)](op, table)
    return result


def _swap(tensors: Sequence[Tensor], table: Mapping[Tensor, Tensor]) -> tuple[Tensor, ...]:
    return tuple(table.get(t, t) for t in tensors)


def _compute(op: ComputeOp, table: Mapping[Tensor, Tensor]) -> Operation:
    body = rewrite_body(op, _ReplaceProducers(table).expr)
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, body)


def _tensor_compute(op: TensorComputeOp, table: Mapping[Tensor, Tensor]) -> Operation:
    rewriter = _ReplaceProducers(table)
    regions: list[list[Range]] = [[rewriter.range(r) for r in region] for region in op.regions]
    return TensorComputeOp(
        op.name,
        op.tag,
        op.axis,
        op.reduce_axis,
        op.schedulable_ndim,
        op.intrin,
        _swap(op.tensors, table),
        regions,
        rewriter.exprs(op.scalar_inputs),
    )


def _scan(op: ScanOp, table: Mapping[Tensor, Tensor]) -> Operation:
    return ScanOp(
        op.name,
        op.tag,
        op.attrs,
        op.scan_axis,
        _swap(op.init, table),
        _swap(op.update, table),
        op.state_placeholder,
        _swap(op.inputs, table),
        op.spatial_axis_,
    )


def _extern(op: ExternOp, table: Mapping[Tensor, Tensor]) -> Operation:
    return ExternOp(
        op.name,
        op.tag,
        op.attrs,
        _swap(op.inputs, table),
        op.input_placeholders,
        op.output_placeholders,
        op.body,
    )


def _placeholder(op: PlaceholderOp, table: Mapping[Tensor, Tensor]) -> Operation:
    raise InternalError(f"placeholder {op.name} has no inputs")


def _hybrid(op: HybridOp, table: Mapping[Tensor, Tensor]) -> Operation:
    return HybridOp(
        op.name,
        op.tag,
        op.attrs,
        _swap(op.inputs, table),
        op.input_placeholders,
        op.output_placeholders,
        op.statement,
        op.axis,
    )


_REPLACE: dict[type, Any] = {
    PlaceholderOp: _placeholder,
    ComputeOp: _compute,
    TensorComputeOp: _tensor_compute,
    ScanOp: _scan,
    ExternOp: _extern,
    HybridOp: _hybrid,
}
