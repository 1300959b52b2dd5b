"""The innermost statements of a stage: reads and writes of buffers in place of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from ..base.dtype import parse
from ..base.errors import ScheduleError
from ..loopir.buffer import Buffer
from ..loopir.copies import strip_likely
from ..loopir.expr import (
    BufferLoad,
    Call,
    IntImm,
    PrimExpr,
    SizeVar,
    Var,
    cast,
    const,
    convert,
    is_const,
    match_types,
)
from ..loopir.iter import IterVar, ProducerLoad, Reduce
from ..loopir.op import if_then_else
from ..loopir.operators import logical_and
from ..loopir.rewrite import ARITH, Rewriter, handles
from ..loopir.stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq
from ..loopir.subst import substitute
from ..loopir.visit import walk
from ..schedule.stage_bounds import Bounds
from ..schedule.state import StageState
from ..tensor.tensor import Tensor
from .stage_memory import Memory


class ReadBuffers(Rewriter):
    """Tensor reads become buffer loads; axis variables become their values, which in indices may be
    wider than the variables."""

    def __init__(self, memory: Memory, values: Mapping[Var, Any], simplify: Any) -> None:
        self.memory = memory
        self.values = values
        self.simplify = simplify
        self.in_index = False

    @handles(Var, SizeVar)
    def _var(self, e: Var) -> Any:
        value = self.values.get(e, e)
        return value if self.in_index or value.dtype == e.dtype else cast(e.dtype, value)

    @handles(*ARITH)
    def _arith(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        if a is e.a and b is e.b:
            return e
        return type(e)(a, b) if a.dtype == b.dtype else type(e)(*match_types(a, b))

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        outside, self.in_index = self.in_index, all(map(_on_axes, e.indices))
        indices = [self.expr(i) for i in e.indices]
        self.in_index = outside
        buffer, indices = self.memory.locate(e.producer, indices)
        return BufferLoad(buffer, [self.simplify(i) for i in indices])


def _on_axes(index: Any) -> bool:
    """Whether an index is arithmetic on variables alone."""
    return all(isinstance(x, (Var, IntImm, *ARITH)) for x in walk(index))


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
        return seq([_store(b, read.expr(e), i) for (b, i), e in zip(targets, op.body)])
    if init:
        initial = first.init if first.init else first.combiner.identity_element
        return seq([_store(b, read.expr(e), i) for (b, i), e in zip(targets, initial)])
    return update_body(first, targets, read)


def zero_body(stage: StageState, memory: Memory, values: Mapping[IterVar, PrimExpr]) -> Stmt:
    """Stores of 0 in one element of each output."""
    point = [values[a] for a in stage.op.axis]
    places = [(t.dtype, memory.locate(t, point)) for t in stage.op.outputs]
    return seq([BufferStore(b, const(0, dtype), i) for dtype, (b, i) in places])


def zeros_beyond(body: Stmt, conditions: Sequence[PrimExpr]) -> Stmt:
    """Stores of values where all conditions hold, and of 0 elsewhere: by a choice of values, which
    threads make together, and no branch, for which loops would be taken apart."""
    if not conditions:
        return body
    inside = reduce(logical_and, map(strip_likely, conditions))
    result: Stmt = _Zeros(inside).stmt(body)
    return result


class _Zeros(Rewriter):
    def __init__(self, inside: PrimExpr) -> None:
        self.inside = inside

    @handles(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        value = if_then_else(self.inside, s.value, const(0, s.value.dtype))
        return BufferStore(s.buffer, value, s.indices, s.predicate)


def _store(buffer: Buffer, value: Any, indices: list[PrimExpr]) -> Stmt:
    """A store, by a branch where a tile's or a copy's padding has another value: guards are
    statements, which later passes take out of loops."""
    if type(value) is Call and value.op.name == "tir.if_then_else":
        condition, inside, outside = value.args
        if type(condition) is Call and condition.op.name == "tir.likely":
            stores = [BufferStore(buffer, v, indices) for v in (inside, outside)]
            return IfThenElse(condition, *stores)
    return BufferStore(buffer, value, indices)


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
    body: Stmt = op.loops()
    buffers: dict[Buffer, Buffer] = {}
    values: dict[Var, Any] = {}
    pairs = list(zip(op.input_placeholders, op.inputs))
    pairs += list(zip(op.output_placeholders, op.outputs))
    for declared, tensor in pairs:
        place = memory.place(tensor)
        if place.layout is not None:
            body = _InLayout(stage, memory, declared, tensor).stmt(body)
            continue
        if place.buffer.strides and not declared.strides:
            body = _WithStrides(declared, place.buffer).stmt(body)
            if _by_pointer(body, declared):
                raise ScheduleError(
                    f"{stage.name} passes the address of {tensor.op.name} on, whose rows need not "
                    "lie one behind the other (they are aligned, or of an argument with strides); "
                    "give te.extern a buffer with variable strides for it"
                )
        bind_buffer(declared, place.buffer, values)
        buffers[declared] = place.buffer
    return substitute_buffers(body, values, buffers)


class _WithStrides(Rewriter):
    """Gives the arrays that are made of a buffer for functions of the runtime its strides."""

    def __init__(self, declared: Buffer, actual: Buffer) -> None:
        self.declared, self.actual = declared, actual

    @handles(Call)
    def _call(self, e: Call) -> Any:
        new = Rewriter.table[Call](self, e)
        if e.op.name != "tir.tvm_stack_make_array" or e.args[0] is not self.declared.data:
            return new
        strides = Call("handle", "tir.tvm_stack_make_shape", self.actual.strides)
        return Call(e.dtype, e.op, (self.actual.data, new.args[1], strides, *new.args[3:]))


class _InLayout(Rewriter):
    """Accesses of one declared buffer as accesses of the array that transform_layout arranged;
    ScheduleError where the body has no element of it but a pointer or a vector."""

    def __init__(self, stage: StageState, memory: Memory, declared: Buffer, t: Tensor) -> None:
        self.stage, self.memory, self.declared, self.tensor = stage, memory, declared, t
        self.fields = {declared.data, *declared.strides, declared.elem_offset}

    @handles(BufferLoad)
    def _load(self, e: BufferLoad) -> Any:
        if e.buffer is not self.declared:
            return Rewriter.table[BufferLoad](self, e)
        return BufferLoad(*self._element(e))

    @handles(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        if s.buffer is not self.declared:
            return Rewriter.table[BufferStore](self, s)
        buffer, indices = self._element(s)
        return BufferStore(buffer, self.expr(s.value), indices)

    def _element(self, access: Any) -> tuple[Buffer, list[PrimExpr]]:
        indices = [self.expr(i) for i in access.indices]
        if access.predicate is not None or any(parse(i.dtype).lanes > 1 for i in indices):
            raise _opaque(self.stage, self.tensor, "transform_layout rearranged it")
        return self.memory.locate(self.tensor, indices)

    @handles(Var, SizeVar)
    def _var(self, e: Var) -> Any:
        if e in self.fields:
            raise _opaque(self.stage, self.tensor, "transform_layout rearranged it")
        return e

    @handles(Call)
    def _call(self, e: Call) -> Any:
        if _address_of(e, self.declared):
            raise _opaque(self.stage, self.tensor, "transform_layout rearranged it")
        return Rewriter.table[Call](self, e)

    def buffer(self, b: Buffer) -> Buffer:
        if b is self.declared or b.data is self.declared.data:
            raise _opaque(self.stage, self.tensor, "transform_layout rearranged it")
        return b


def _by_pointer(body: Stmt, declared: Buffer) -> bool:
    """Whether a statement takes the address of a buffer, besides reading and writing elements."""
    return any(
        e is declared.data or (type(e) is Call and _address_of(e, declared)) for e in walk(body)
    )


def _address_of(e: Call, buffer: Buffer) -> bool:
    """Whether a call makes a pointer of an element."""
    element = e.args[0] if e.op.name == "tir.address_of" else None
    return type(element) is BufferLoad and element.buffer is buffer


def _opaque(stage: StageState, tensor: Tensor, why: str) -> ScheduleError:
    return ScheduleError(
        f"the body of {stage.name} takes {tensor.op.name} by pointer or by vectors, as it was "
        f"declared, but {why}; leave the layout of {tensor.op.name} as it is, or let "
        f"{stage.name} read a copy of it (cache_read)"
    )


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
