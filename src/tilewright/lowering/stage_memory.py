"""Where each tensor lives: arguments in the caller's arrays, the rest in buffers as large as their
region.

A scan's initial values, its update and its state are one array: the scan's own output. With a
transformed layout the dimensions of what is stored are mapped. A stage in scope VIEW is never
computed: it lies where its one input does, and the tensor intrinsics that read it, by places of the
stage, know which elements of the input these are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..arith import IntervalSet, eval_set
from ..base.dtype import parse
from ..base.errors import CompileError, ScheduleError
from ..loopir import op as ops
from ..loopir.buffer import Buffer
from ..loopir.expr import IntImm, PrimExpr, Select, Var, const, const_int, is_const
from ..loopir.iter import IterVar
from ..loopir.subst import substitute
from ..loopir.visit import free_vars
from ..schedule.placement import storage_scope
from ..schedule.stage_bounds import Bounds
from ..schedule.state import VIEW, StageState
from ..tensor.op import BaseComputeOp, PlaceholderOp, ScanOp
from ..tensor.regions import finite
from ..tensor.tensor import Tensor

MAX_CONSTANT_EXTENT = 1 << 31
MAX_VIRTUAL = 64  # virtual threads whose memory is compared one by one


class Place:
    """A tensor's buffer, and the region's minima that its indices start from (None: no shift).
    `repeated`: where a dimension has one element, every index means this one. `array`: of a view
    the buffer that it lies in."""

    __slots__ = ("array", "buffer", "layout", "minima", "repeated")

    def __init__(
        self,
        buffer: Buffer,
        minima: Sequence[PrimExpr] | None = None,
        layout: Any = None,
        repeated: bool = False,
        array: Buffer | None = None,
    ) -> None:
        self.array = array
        self.buffer = buffer
        self.minima = minima
        self.layout = layout
        self.repeated = repeated


class Memory:
    """The place of every tensor."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.places: dict[Tensor, Place] = {}
        self.alias: dict[Tensor, Tensor] = {}
        self.arguments: set[Tensor] = set()

    def owner(self, t: Tensor) -> Tensor:
        while t in self.alias:
            t = self.alias[t]
        return t

    def buffer(self, t: Tensor) -> Buffer:
        place = self.places.get(self.owner(t))
        if place is None:
            raise CompileError(
                f"tensor {t.op.name} is neither computed nor an argument: add it to the arguments"
            )
        return place.buffer

    def place(self, t: Tensor) -> Place:
        self.buffer(t)
        return self.places[self.owner(t)]

    def internal(self, stage: StageState) -> list[Buffer]:
        """Buffers that must be allocated around a stage and its readers.

        A scan's array is allocated around its initial values, which are written first.
        """
        result = []
        for t in () if isinstance(stage.op, ScanOp) or is_view(stage) else stage.op.outputs:
            owner = self.owner(t)
            if owner in self.arguments:
                continue
            if owner is t or any(t is i for i in getattr(owner.op, "init", ())):
                result.append(self.places[owner].buffer)
        return result

    def locate(self, t: Tensor, indices: Sequence[PrimExpr]) -> tuple[Buffer, list[PrimExpr]]:
        """Buffer and indices of one element, given its indices in the tensor."""
        place = self.place(t)
        if place.minima is not None:
            indices = [i - low for i, low in zip(indices, place.minima)]
        if place.repeated:
            indices = [_repeated(i, n) for i, n in zip(indices, place.buffer.shape)]
        if place.layout is not None:
            variables = place.layout.variables
            table = {v: _as_wide(i, v.dtype) for v, i in zip(variables, indices)}
            indices = [substitute(e, table) for e in place.layout.forward]
        return place.buffer, list(indices)


def _repeated(index: PrimExpr, extent: PrimExpr) -> PrimExpr:
    """An index into a dimension of which one element stands for all."""
    if const_int(extent) is not None:
        return index
    return Select(extent.equal(1), const(0, index.dtype), index)


def _as_wide(index: PrimExpr, dtype: str) -> PrimExpr:
    """An index at least as wide as the layout's variables: one read from memory may be narrow."""
    own, wanted = parse(index.dtype), parse(dtype)
    return index if own.bits >= wanted.bits and own.is_int else index.astype(dtype)


def plan_memory(
    sch: Any, bounds: Bounds, args: Sequence[Any], binds: Mapping[Any, Buffer]
) -> tuple[Memory, list[Var], dict[Var, Buffer]]:
    """Places of all tensors, the function's parameters, and the buffers of those that are
    arrays."""
    memory = Memory(bounds)
    for stage in sch.stages:
        if isinstance(stage.op, ScanOp):
            for k, t in enumerate(stage.op.outputs):
                for other in (stage.op.init[k], stage.op.update[k], stage.op.state_placeholder[k]):
                    memory.alias[other] = t
    params: list[Var] = []
    buffer_map: dict[Var, Buffer] = {}
    for k, arg in enumerate(args):
        if isinstance(arg, Tensor) and any(arg is other for other in args[:k]):
            raise CompileError(f"argument {arg.name} is given twice; name each tensor once")
        _plan_argument(sch, memory, arg, binds, params, buffer_map)
    for stage in sch.stages:
        for t in stage.op.outputs:
            if memory.owner(t) is t and t not in memory.places:
                _plan_internal(memory, bounds, stage, t)
    return memory, params, buffer_map


def _plan_argument(
    sch: Any,
    memory: Memory,
    arg: Any,
    binds: Mapping[Any, Buffer],
    params: list[Var],
    buffer_map: dict[Var, Buffer],
) -> None:
    if isinstance(arg, Var):
        params.append(arg)
        return
    if isinstance(arg, Buffer):
        buffer, tensors = arg, [t for t, b in binds.items() if b is arg]
    elif isinstance(arg, Tensor):
        stage = sch.stage_of.get(arg.op)
        if stage is None and not isinstance(arg.op, PlaceholderOp):
            known = ", ".join(s.name for s in sch.stages)
            raise CompileError(
                f"argument {arg.op.name} is no tensor of this schedule, so nothing would compute "
                f"it; the schedule has {known}"
            )
        t = arg if stage is None else stage.op.output(arg.value_index)
        layout = stage.layout if stage is not None else None
        bound = binds.get(arg)
        buffer = bound if bound is not None else _argument_buffer(t, layout)
        tensors = [t]
        repeated = bound is not None and bound.buffer_kind == "auto_broadcast"
        place = Place(buffer, None, layout, repeated and isinstance(t.op, PlaceholderOp))
        memory.places[memory.owner(t)] = place
    else:
        raise CompileError(f"an argument is a Tensor, Buffer or Var, got {arg!r}")
    for t in tensors:
        memory.arguments.add(memory.owner(t))
        memory.places.setdefault(memory.owner(t), Place(buffer))
    param = Var(buffer.name, "handle")
    if any(b.data is buffer.data for b in buffer_map.values()):
        raise CompileError(f"argument {buffer.name} is given twice")
    params.append(param)
    buffer_map[param] = buffer


def _argument_buffer(t: Tensor, layout: Any) -> Buffer:
    """Strides are read at run time where a dimension is a plain variable, as TVM does."""
    name = t.op.name if t.op.num_outputs == 1 else f"{t.op.name}.v{t.value_index}"
    if layout is not None:
        return Buffer(layout.extents, t.dtype, name)
    if any(isinstance(d, Var) for d in t.shape):
        strides = [Var("stride", "int32") for _ in t.shape]
        return Buffer(t.shape, t.dtype, name, strides=strides, buffer_type="auto_broadcast")
    return Buffer(t.shape, t.dtype, name)


def _plan_internal(memory: Memory, bounds: Bounds, stage: StageState, t: Tensor) -> None:
    if isinstance(stage.op, PlaceholderOp):
        return
    name = t.op.name if t.op.num_outputs == 1 else f"{t.op.name}.v{t.value_index}"
    scope = storage_scope(stage)
    if not isinstance(stage.op, BaseComputeOp):
        memory.places[t] = Place(Buffer(t.shape, t.dtype, name, scope=scope))
        return
    mine = bounds[stage]
    axes = stage.op.axis
    if scope == VIEW:
        memory.places[t] = _view_of(memory, stage, t)
        return
    if stage.layout is not None:
        part = stage.layout.of_part([mine.extent[a] for a in axes])
        buffer = Buffer(part.extents, t.dtype, name, scope=scope)
        minima = [mine.min[a] for a in axes]
        whole = all(is_const(low, 0) for low in minima)
        memory.places[t] = Place(buffer, None if whole else minima, part)
        return
    extents = [_largest(bounds, mine.extent[a]) for a in axes]
    strides = _aligned_strides(stage, axes, extents)
    buffer = Buffer(extents, t.dtype, name, strides=strides, scope=scope)
    minima = [mine.min[a] for a in axes]
    memory.places[t] = Place(buffer, minima)


def is_view(stage: StageState) -> bool:
    """Whether a stage is never computed, but lies where its input does."""
    return bool(stage.scope == VIEW)


def check_view(view: StageState, stages: Iterable[StageState], memory: Memory) -> None:
    """Whoever wants elements of a view is a tensor intrinsic that takes places of its array."""
    if any(memory.owner(t) in memory.arguments for t in view.op.outputs):
        raise _no_view(view)
    for reader in stages:
        if view.op not in [t.op for t in reader.op.input_tensors]:
            continue
        found = [reader.attr(leaf).tensor_intrin for leaf in reader.leaf_iter_vars]
        if not any(x is not None and x.clips for x in found):
            raise ScheduleError(
                f"stage {view.name} is in scope {VIEW}, so that it is never computed, and "
                f"{reader.name} reads its elements; tensorize that by an intrinsic that clips"
            )


def _view_of(memory: Memory, stage: StageState, t: Tensor) -> Place:
    inputs = stage.op.input_tensors
    if len(inputs) != 1 or inputs[0].dtype != t.dtype:
        raise _no_view(stage)
    array = memory.buffer(inputs[0])
    if not _is_array(memory, inputs[0]):
        raise ScheduleError(
            f"stage {stage.name} is in scope {VIEW}, and what it lies in, {inputs[0].op.name}, is "
            "no array in the device's memory of all its elements, those of a row side by side; "
            "leave out transform_layout, scopes, and strides of the last dimension"
        )
    buffer = Buffer(t.shape, t.dtype, t.op.name, array.data, None, array.elem_offset)
    return Place(buffer, array=array)


def _no_view(stage: StageState) -> ScheduleError:
    return ScheduleError(
        f"stage {stage.name} is in scope {VIEW}: it is no argument, and reads one tensor, of its "
        "own type"
    )


def _is_array(memory: Memory, t: Tensor) -> bool:
    """Whether all elements of a tensor lie in the device's memory, those of a row side by side."""
    place, prove = memory.place(t), memory.bounds.analyzer.can_prove_equal
    buffer = place.buffer
    pairs = [*zip(buffer.shape, t.shape), *((low, const(0)) for low in place.minima or ())]
    pairs += [(step, const(1)) for step in buffer.strides[-1:]]
    fits = place.layout is None and not place.repeated and buffer.scope() == "global"
    return fits and len(buffer.shape) == len(t.shape) and all(prove(a, b) for a, b in pairs)


def _largest(bounds: Bounds, extent: PrimExpr) -> PrimExpr:
    """A constant that the extent never exceeds, where there is one: memory of known size is
    cheap. All virtual threads get the same size.
    """
    if isinstance(extent, IntImm):
        return extent
    virtual = [v for v in free_vars(extent) if v in bounds.virtual]
    if virtual:
        spans = {v: IntervalSet(const(0, v.dtype), bounds.extents[v] - 1) for v in virtual}
        most = eval_set(extent, spans, bounds.analyzer).max_value
        if not finite(most):  # a form in which the threads' numbers cannot be told from the rest
            most = _of_all_threads(bounds, extent, virtual)
        extent = bounds.analyzer.simplify(most)
    bound = bounds.analyzer.const_int_bound(extent)
    if 0 < bound.max_value < MAX_CONSTANT_EXTENT:
        return const(bound.max_value, extent.dtype)
    return extent


def _of_all_threads(bounds: Bounds, extent: PrimExpr, virtual: Sequence[Var]) -> PrimExpr:
    """The largest of the extents that virtual threads have, one by one."""
    counts = [bounds.extents[v] for v in virtual]
    known = [n.value for n in counts if isinstance(n, IntImm)]
    if len(known) < len(counts) or math.prod(known) > MAX_VIRTUAL:
        raise CompileError(
            f"virtual threads need memory of {extent} elements in a dimension, which differs from "
            f"one to the other, and they are too many to compare ({MAX_VIRTUAL} at most)"
        )
    most: PrimExpr = const(0, extent.dtype)
    for place in itertools.product(*map(range, known)):
        of_one = substitute(extent, {v: const(k, v.dtype) for v, k in zip(virtual, place)})
        most = ops.max(most, of_one)
    return most


def _aligned_strides(
    stage: StageState, axes: Sequence[IterVar], extents: Sequence[PrimExpr]
) -> list[PrimExpr] | None:
    """Strides that satisfy storage_align, or None for the compact layout."""
    if all(stage.attr(a).align is None for a in axes):
        return None
    strides: list[PrimExpr] = []
    stride: PrimExpr = const(1, extents[-1].dtype)
    for axis, extent in zip(reversed(axes), reversed(extents)):
        align = stage.attr(axis).align
        if align is not None:
            factor, offset = align
            stride = stride + (const(factor + offset) - stride % factor) % factor
        strides.append(stride)
        stride = stride * extent
    return list(reversed(strides))
