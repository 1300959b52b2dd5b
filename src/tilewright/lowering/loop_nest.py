"""From a schedule to loops: the first step of lowering.

Needs a normalised schedule and its bounds. Guarantees: every tensor has a buffer (an argument's, or
an internal one of the size of its region, whose indices start at 0); every stage stands in the
loops its schedule asks for, at its attach point, before its readers; what bound inference could not
prove is guarded by `if likely(...)`. Buffers still have all their dimensions.

A stage with a reduction becomes `common loops { initialisation nest; update nest }`, where the
common loops are those before the first one that comes from a reduction axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import Recursive
from ..base.dtype import parse
from ..base.errors import CompileError, ScheduleError
from ..loopir.buffer import Buffer
from ..loopir.calls import tvm_tuple
from ..loopir.expr import PrimExpr, Var, cast, const, is_const
from ..loopir.iter import IterVar, Range
from ..loopir.stmt import (
    Allocate,
    AttrStmt,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    no_op,
    seq,
)
from ..loopir.subst import substitute
from ..loopir.visit import free_vars
from ..schedule.placement import (
    attach_point,
    first_reduction_loop,
    is_ragged,
    reduction_axes,
)
from ..schedule.relations import derived_from_both
from ..schedule.stage_bounds import Bounds, StageBounds, root_offsets
from ..schedule.state import StageState
from ..schedule.thread_memory import each_its_own, idle_threads, in_kernel
from ..tensor.op import ComputeOp, ExternOp, HybridOp, PlaceholderOp, ScanOp, TensorComputeOp
from ..tensor.tensor import Tensor
from .skip_zeros import PRAGMA as SKIP_ZEROS
from .skip_zeros import skip_conditions
from .stage_body import compute_body, extern_body, reader_of, zero_body, zeros_beyond
from .stage_cross_thread import cross_thread_body, reduces_across_threads
from .stage_guards import region_guards
from .stage_hybrid import hybrid_body
from .stage_memory import Memory, check_view, is_view, plan_memory
from .stage_overrun import Overrun
from .stage_tensorize import tensor_compute_body, tensorized_body
from .stage_threads import StageThreads

KINDS = {
    IterVar.Unrolled: ForKind.UNROLLED,
    IterVar.Vectorized: ForKind.VECTORIZED,
    IterVar.Parallelized: ForKind.PARALLEL,
}


def make_loop_nest(
    sch: Any,
    bounds: Bounds,
    args: Sequence[Any],
    name: str,
    binds: Mapping[Any, Buffer] | None,
    keep_single: bool = False,
) -> PrimFunc:
    """The function that computes the schedule's outputs from `args` (tensors, buffers,
    variables). `keep_single`: loops of one iteration are loops too."""
    memory, params, buffer_map = plan_memory(sch, bounds, args, binds or {})
    body = NestBuilder(sch, bounds, memory, keep_single).root()
    attrs = {"from_legacy_te_schedule": True, "global_symbol": name, "tir.noalias": True}
    return PrimFunc(params, body, None, buffer_map, attrs)


class NestBuilder(Recursive):
    """Emits stages, each with the stages attached in it."""

    recursive = ("pipeline",)

    def __init__(self, sch: Any, bounds: Bounds, memory: Memory, keep_single: bool = False) -> None:
        self.bounds = bounds
        self.keep_single = keep_single
        self.memory = memory
        self.stage_of: Mapping[Any, StageState] = sch.stage_of
        self.uniform: set[int] = set()  # stages without branches on threads around them
        self.threads = StageThreads(sch, bounds)
        self.overrun = Overrun(sch, bounds, memory)
        self.initial: dict[int, list[Any]] = {}
        self.at_root: list[Any] = []
        self.attached: dict[tuple[int, int], list[Any]] = {}
        for stage in sch.stages:
            if isinstance(stage.op, PlaceholderOp):
                continue
            point = attach_point(stage)
            scan = self.threads.launched_by.get(stage.id)
            if scan is not None:
                self.initial.setdefault(scan.id, []).append(stage)
            if point is None:
                self.at_root.append(stage)
            else:
                self.attached.setdefault((point[0].id, id(point[1])), []).append(stage)
        self.missing = {s.id: s.name for group in self.attached.values() for s in group}

    def root(self) -> Stmt:
        body = no_op()
        for stage in reversed(self.at_root):
            with in_kernel(self.bounds, stage) as self.threads.launches:
                body = self.pipeline(stage, body)
        if self.missing:
            names = ", ".join(self.missing.values())
            raise CompileError(f"did not find attachment point of stage {names}")
        return body

    def pipeline(self, stage: StageState, consumer: Stmt) -> Stmt:
        """The stage, then its readers, with the stage's memory around both."""
        self.missing.pop(stage.id, None)
        # initial values that run in a scan's launch are emitted with the scan
        producer = no_op() if stage.id in self.threads.launched_by else self.stage(stage)
        buffers = self.memory.internal(stage)
        if stage.double_buffered:
            for buffer in buffers:
                producer = AttrStmt(buffer, "double_buffer_scope", 1, producer)
        if stage.rolling:
            for place in (self.memory.place(t) for t in stage.op.outputs):
                minima = tvm_tuple(*(place.minima or ()))
                producer = AttrStmt(place.buffer, "rolling_buffer_scope", minima, producer)
        body = seq(producer, consumer)
        for buffer in reversed(buffers):
            body = Allocate(buffer, body)
        return body

    def stage(self, stage: StageState) -> Stmt:
        op = stage.op
        if is_view(stage):
            check_view(stage, self.stage_of.values(), self.memory)
            return no_op()
        if isinstance(op, HybridOp):
            return hybrid_body(stage, extern_body(stage, self.memory), self.bounds.analyzer)
        if isinstance(op, ExternOp):
            return extern_body(stage, self.memory)
        if isinstance(op, ScanOp):
            return self._scan(stage)
        if isinstance(op, TensorComputeOp):
            return self._plain(stage, tensor_compute_body)
        across = reduces_across_threads(stage, reduction_axes(stage))
        if any(stage.attr(leaf).tensor_intrin is not None for leaf in stage.leaf_iter_vars):
            return tensorized_body(self, stage)
        if isinstance(op, ComputeOp) and op.reduce_axis:
            return self._across_threads(stage) if across else self._reduction(stage)
        return self._plain(stage, compute_body)

    # -- the three shapes of a stage

    def _plain(self, stage: StageState, make_body: Any) -> Stmt:
        values = self.values(stage)
        body = make_body(stage, self.bounds, self.memory, values)
        if stage.id in self.overrun.filled:
            edges = self.overrun.edges(stage, values)
            if self.bounds.threads:
                body = zeros_beyond(body, edges)
            else:
                # what is no number would take long, or be found to be none
                numbers = all(parse(t.dtype).is_integer for t in stage.op.outputs)
                needed = not numbers or stage.id in self.overrun.zeros
                for condition in edges:
                    zero = zero_body(stage, self.memory, values) if needed else None
                    body = IfThenElse(condition, body, zero)
        body = self.guarded(stage, values, body)
        body = self.nest(stage, stage.leaf_iter_vars, body)
        for thread, var in self.threads.chosen_within(stage):
            body = self.launch(_with_var(thread, var), self.threads.count(var), body)
        return body

    def _reduction(self, stage: StageState) -> Stmt:
        split = first_reduction_loop(stage)
        common, rest = stage.leaf_iter_vars[:split], stage.leaf_iter_vars[split:]
        values = self.values(stage)
        update = compute_body(stage, self.bounds, self.memory, values)
        for condition in skip_conditions(stage, self.bounds, values):
            update = IfThenElse(condition, update)
        update = self.guarded(stage, values, update)
        update = self.nest(stage, rest, update)
        if is_ragged(stage):
            reduction = reduction_axes(stage)
            if all(leaf in reduction for leaf in rest):
                # elements past the end of a tile have no extents
                update = self.guarded(stage, values, update, skip=reduction)
            update = reader_of(self.bounds, self.memory, values).stmt(update)
        init = self.init_nest(stage, rest)
        return self.nest(stage, common, seq(init, update))

    def _across_threads(self, stage: StageState) -> Stmt:
        split = first_reduction_loop(stage)
        self.uniform.add(stage.id)
        leaves = stage.leaf_iter_vars
        return cross_thread_body(self, stage, leaves[:split], leaves[split:])

    def init_nest(self, stage: StageState, rest: Sequence[IterVar]) -> Stmt:
        """Loops over the data axes among `rest` that store the identity. Axes fused of data and
        reduction axes go over the data once, as if the reduction had one step."""
        fused = derived_from_both(stage.relations, stage.op)
        mine = whole = self.bounds[stage]
        if fused:
            mine = self.bounds.of[stage.id] = whole.of_one_step(stage, self.bounds.analyzer)
        try:
            return self._init_nest(stage, rest, mine)
        finally:
            self.bounds.of[stage.id] = whole

    def _init_nest(self, stage: StageState, rest: Sequence[IterVar], mine: StageBounds) -> Stmt:
        reduction = reduction_axes(stage)
        loops: list[tuple[IterVar, Var]] = []
        leaves: dict[IterVar, PrimExpr] = {}
        for leaf in stage.leaf_iter_vars:
            value = mine.offset(leaf)
            if leaf in reduction:
                continue
            if any(leaf is r for r in rest) and (isinstance(value, Var) or self.keep_single):
                value = mine.var[leaf]
                thread = stage.attr(leaf).bind_thread
                if thread is None:
                    value = Var(f"{value.name}.init", value.dtype)
                    self.bounds.analyzer.bind(value, _range(mine.extent[leaf]))
                loops.append((leaf, value))
            leaves[leaf] = value
        values = self.values(stage, leaves)
        body = compute_body(stage, self.bounds, self.memory, values, init=True)
        body = self.guarded(stage, values, body, reduction, leaves, starts=True)
        for leaf, var in reversed(loops):
            body = self.wrap(stage, leaf, body, var)
        return body

    def _scan(self, stage: StageState) -> Stmt:
        axis = stage.op.scan_axis
        body = self.nest(stage, [axis], no_op())
        body = seq([self.stage(first) for first in self.initial.get(stage.id, ())], body)
        for thread in reversed(stage.threads):
            extent = thread.dom.extent if thread.dom else const(1)
            body = self.launch(_with_var(thread, self.threads.vars[thread.var]), extent, body)
        return body

    # -- loops

    def values(
        self, stage: StageState, leaves: Mapping[IterVar, PrimExpr] | None = None
    ) -> dict[IterVar, PrimExpr]:
        """The value of each root axis (its minimum included) in terms of loop variables."""
        mine = self.bounds[stage]
        offsets = root_offsets(self.bounds, stage, leaves)
        simplify = self.bounds.analyzer.simplify
        return {
            a: simplify(mine.min[a] + offsets[a]) for a in stage.op.root_iter_vars() if a in offsets
        }

    def guarded(
        self,
        stage: StageState,
        values: Mapping[IterVar, PrimExpr],
        body: Stmt,
        skip: frozenset[IterVar] = frozenset(),
        leaves: Mapping[IterVar, PrimExpr] | None = None,
        starts: bool = False,
    ) -> Stmt:
        """`body` under the conditions that bound inference could not prove. `starts`: it stores
        where a reduction starts."""
        predicate = self.store_predicate(stage, values)
        if predicate is not None:
            body = IfThenElse(predicate, body)
        free = self.overrun.summed(stage, values) if leaves is None else ()
        guards = region_guards(self.bounds, stage, values, skip, leaves, free)
        whole = stage.id in self.overrun.filled or (starts and self.overrun.starts_whole(stage))
        if not whole:
            guards += self.overrun.edges(stage, values, skip)
        for condition in reversed(guards):
            body = IfThenElse(condition, body)
        if isinstance(stage.op, ComputeOp) and stage.op.reduce_axis:
            for condition in idle_threads(stage, self.bounds, self.threads.around(stage)):
                body = IfThenElse(condition, body)
        return body

    def store_predicate(
        self, stage: StageState, values: Mapping[IterVar, PrimExpr]
    ) -> PrimExpr | None:
        """The user's condition for storing, in terms of loop and thread variables."""
        if stage.store_predicate is None:
            return None
        # what an axis is in loops may be wider than the variable that the user wrote
        axes = {a.var: cast(a.var.dtype, v) for a, v in values.items()}
        table: dict[Var, PrimExpr] = {**self.threads.vars, **axes}
        predicate: PrimExpr = substitute(stage.store_predicate, table)
        own = self.bounds[stage].var
        here = {own[leaf] for leaf in stage.leaf_iter_vars}
        here.update(var for _, var, _ in self.threads.around(stage))
        here.update(var for _, var in self.threads.chosen_within(stage))
        threads = set(self.threads.vars.values())
        for v in free_vars(predicate):
            if v in threads and v not in here:
                raise ScheduleError(
                    f"set_store_predicate on stage {stage.name}: the condition uses {v.name}, "
                    "which does not run there; bind one of the stage's axes to it, or compute the "
                    "stage inside a loop that is bound to it"
                )
        return predicate

    def nest(self, stage: StageState, leaves: Sequence[IterVar], body: Stmt) -> Stmt:
        """Loops around `body`, outermost first, with the stages attached at each."""
        for leaf in reversed(leaves):
            body = self.attach(stage, leaf, body)
            body = self.wrap(stage, leaf, body)
        return body

    def present(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for one that the user named, after its stage was rewritten."""
        stage = self.stage_of.get(tensor.op)
        return tensor if stage is None else stage.op.output(tensor.value_index)

    def attach(self, stage: StageState, leaf: IterVar, body: Stmt) -> Stmt:
        for child in reversed(self.attached.get((stage.id, id(leaf)), [])):
            body = self.pipeline(child, body)
        return body

    def wrap(self, stage: StageState, leaf: IterVar, body: Stmt, var: Var | None = None) -> Stmt:
        """One loop, as its axis says."""
        mine = self.bounds[stage]
        attr = stage.attr(leaf)
        extent = mine.extent[leaf]
        for tensor, ahead in reversed(attr.prefetch):
            place = self.memory.places.get(self.memory.owner(self.present(tensor)))
            if place is not None:  # else it was inlined
                body = AttrStmt(place.buffer, "prefetch_scope", ahead, body)
        if attr.bind_thread is not None:
            body = self.bound(stage, leaf, attr.bind_thread, body)
        elif self.keep_single or not is_const(extent, 1):
            kind = KINDS.get(stage.kind_of(leaf), ForKind.SERIAL)
            if kind == ForKind.PARALLEL and var is not None:
                kind = ForKind.SERIAL
            zero = const(0, extent.dtype)
            body = For(var if var is not None else mine.var[leaf], zero, extent, kind, body)
        for key, value in reversed(attr.pragmas):
            if key == SKIP_ZEROS:  # done by now
                continue
            body = AttrStmt(leaf, f"pragma_{key}", value, body)
        return body

    def bound(self, stage: StageState, leaf: IterVar, thread: IterVar, body: Stmt) -> Stmt:
        """A loop on the threads of an axis: a launch, unless a loop around the stage has made
        it.
        """
        mine = self.bounds[stage]
        if self.threads.launched(stage, thread) is not None:
            inside = self.threads.surplus(stage, leaf)
            if inside is None or stage.id in self.uniform:
                return body
            return IfThenElse(inside, body)
        alike = each_its_own(stage, self.bounds, leaf)
        count = self.threads.count(mine.var[leaf]) if alike else mine.extent[leaf]
        return self.launch(_with_var(thread, mine.var[leaf]), count, body)

    def launch(self, thread: IterVar, extent: PrimExpr, body: Stmt) -> Stmt:
        virtual = thread.thread_tag.startswith(("vthread", "cthread"))
        return AttrStmt(thread, "virtual_thread" if virtual else "thread_extent", extent, body)


def _with_var(thread: IterVar, var: Var) -> IterVar:
    """A thread axis that runs under another variable."""
    if var is thread.var:
        return thread
    return IterVar(thread.dom, var, thread.iter_type, thread.thread_tag)


def _range(extent: PrimExpr) -> Range:
    return Range.from_min_extent(const(0, extent.dtype), extent)
