"""The innermost statements of a stage: reads and writes of buffers in place of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import ScheduleError
from ..loopir.buffer import Buffer
from ..loopir.expr import BufferLoad, PrimExpr, SizeVar, Var, convert, is_const
from ..loopir.iter import IterVar, ProducerLoad, Reduce
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq
from ..loopir.subst import substitute
from ..loopir.visit import free_vars
from ..schedule.bounds import Bounds
from ..schedule.state import StageState
from .stage_memory import Memory


class ReadBuffers(Rewriter):
    """Tensor reads become buffer loads; axis variables become their values."""

    def __init__(self, memory: Memory, values: Mapping[Var, Any], simplify: Any) -> None:
        self.memory = memory
        self.values = values
        self.simplify = simplify

    @handles(Var, SizeVar)
    def _var(self, e: Var) -> Any:
        return self.values.get(e, e)

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        indices = [self.expr(i) for i in e.indices]
        buffer, indices = self.memory.locate(e.producer, indices)
        return BufferLoad(buffer, [self.simplify(i) for i in indices])


def reader_of(bounds: Bounds, memory: Memory, values: Mapping[IterVar, PrimExpr]) -> ReadBuffers:
    table = {a.var: v for a, v in values.items()}
    return ReadBuffers(memory, table, bounds.analyzer.simplify)


def compute_body(
    stage: StageState,
    bounds: Bounds,
    memory: Memory,
    values: Mapping[IterVar, PrimExpr],
    init: bool = False,
) -> Stmt:
    """Stores of one element of each output: of the initial values of a reduction, its update, or
    the value."""
    op = stage.op
    read = reader_of(bounds, memory, values)
    point = [values[a] for a in op.axis]
    targets = []
    for t in op.outputs:
        buffer, indices = memory.locate(t, point)
        targets.append((buffer, [bounds.analyzer.simplify(i) for i in indices]))
    first = op.body[0]
    if not isinstance(first, Reduce):
        stores = [BufferStore(b, read.expr(e), i) for (b, i), e in zip(targets, op.body)]
        return seq(stores)
    if init:
        initial = first.init if first.init else first.combiner.identity_element
        return seq([BufferStore(b, read.expr(e), i) for (b, i), e in zip(targets, initial)])
    return update_body(first, targets, read)


def update_body(first: Reduce, targets: Any, read: ReadBuffers) -> Stmt:
    """targets = combine(targets, sources), where the reduction's condition holds."""
    combiner = first.combiner
    old = [BufferLoad(b, i) for b, i in targets]
    table = dict(zip(combiner.lhs, old))
    table.update(zip(combiner.rhs, (read.expr(e) for e in first.source)))
    new = [substitute(e, table) for e in combiner.result]
    body: Stmt
    if len(new) == 1:
        body = BufferStore(targets[0][0], new[0], targets[0][1])
    else:
        # all values are computed before any is stored
        names = [Var(f"{b.name}.new", v.dtype) for (b, _), v in zip(targets, new)]
        body = seq([BufferStore(b, n, i) for (b, i), n in zip(targets, names)])
        for name, value in zip(reversed(names), reversed(new)):
            body = LetStmt(name, value, body)
    condition = read.expr(first.condition)
    return body if is_const(condition, 1) else guard(condition, body)


def guard(condition: PrimExpr, body: Stmt) -> Stmt:
    return IfThenElse(convert(condition), body)


def extern_body(stage: StageState, memory: Memory) -> Stmt:
    """The user's statement, on the buffers that take the place of its placeholders."""
    op = stage.op
    buffers: dict[Buffer, Buffer] = {}
    values: dict[Var, Any] = {}
    pairs = list(zip(op.input_placeholders, op.inputs))
    pairs += list(zip(op.output_placeholders, op.outputs))
    for declared, tensor in pairs:
        actual = memory.buffer(tensor)
        if actual.strides and not declared.strides and declared.data in free_vars(op.body):
            raise ScheduleError(
                f"storage_align: {stage.name} passes the address of {tensor.op.name} on, whose "
                "rows would not lie one behind the other; give te.extern a buffer with variable "
                "strides for it, or leave storage_align out"
            )
        bind_buffer(declared, actual, values)
        buffers[declared] = actual
    return substitute_buffers(op.body, values, buffers)


def bind_buffer(declared: Buffer, actual: Buffer, values: dict[Var, Any]) -> None:
    """Let the variables of a declared buffer stand for the fields of the actual one."""
    values[declared.data] = actual.data
    if isinstance(declared.elem_offset, Var):
        values[declared.elem_offset] = actual.elem_offset
    for want, have in zip(declared.shape, actual.shape):
        if isinstance(want, Var):
            values.setdefault(want, have)
    for want, have in zip(declared.strides, strides_of(actual)):
        if isinstance(want, Var):
            values.setdefault(want, have)


def strides_of(buffer: Buffer) -> list[PrimExpr]:
    """Strides of a buffer, also of a compact one."""
    if buffer.strides:
        return list(buffer.strides)
    strides: list[PrimExpr] = []
    stride: PrimExpr = convert(1)
    for extent in reversed(buffer.shape):
        strides.append(stride)
        stride = stride * extent
    return list(reversed(strides))


def substitute_buffers(body: Stmt, values: Mapping[Var, Any], buffers: Any) -> Stmt:
    result: Stmt = substitute(body, values, buffers)
    return result
