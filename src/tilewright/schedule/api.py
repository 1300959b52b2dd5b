"""Schedules as users write them: `s = te.create_schedule(C.op)`, `s[C].split(...)`.

Methods only record: each calls its primitive in primitives/ and appends to the trace.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar, overload

from ..arith.index_map import AXIS_SEPARATOR as AXIS_SEPARATOR
from ..base import config
from ..base.errors import ScheduleError
from ..base.pictured import Shown
from ..loopir.iter import IterVar
from ..tensor.op import Operation, ScanOp
from ..tensor.tensor import Tensor
from . import trace
from .normalize import copy_state, normalize
from .primitives import annotate, attach, cache, fuse, group, layout, reorder, rfactor, split
from .primitives.reorder import tile as tile_loops
from .state import SCAN_UPDATE, Illegal, ScheduleState, StageState, post_order

F = TypeVar("F", bound=Callable[..., Any])


def _says(primitive: Callable[..., Any]) -> Callable[[F], F]:
    """A method has the docstring of its primitive, with the loops before and after."""

    def document(method: F) -> F:
        loops = (sys.modules[primitive.__module__].__doc__ or "").partition("\n")[2].strip("\n")
        picture = "\n".join(f"    {line}".rstrip() for line in loops.splitlines())
        method.__doc__ = f"{inspect.cleandoc(primitive.__doc__ or '')}\n\n{picture}".rstrip()
        return method

    return document


class Stage(StageState):
    """One operation of a schedule and the primitives that arrange its loops.

    See docs/primitives.md for the loops before and after each. All raise ScheduleError where the
    use would be illegal; the message shows the loops and what would be legal.
    """

    op: Operation
    schedule: Schedule

    def _apply(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.schedule.record(name, self, function, args, kwargs)

    @_says(split.split)
    def split(
        self,
        parent: IterVar,
        factor: Any = None,
        nparts: Any = None,
        disable_predication: bool = False,
    ) -> tuple[IterVar, IterVar]:
        kwargs: dict[str, Any] = {"factor": factor, "nparts": nparts}
        if disable_predication:
            kwargs["disable_predication"] = True
        result: tuple[IterVar, IterVar] = self._apply("split", split.split, parent, **kwargs)
        return result

    @_says(fuse.fuse)
    def fuse(self, *args: IterVar) -> IterVar:
        axes = _flat(args)
        if len(axes) > 2 and self.schedule.keep_schedule_record:
            rehearse(self, fuse.fuse, *axes)
            axes = (reduce(lambda a, b: self._apply("fuse", fuse.fuse, a, b), axes[:-1]), axes[-1])
        result: IterVar = self._apply("fuse", fuse.fuse, *axes)
        if axes:
            keep_version(self.schedule, "fuse")  # as TVM, whose primitive calls one of two axes
        return result

    @_says(reorder.reorder)
    def reorder(self, *args: IterVar) -> None:
        self._apply("reorder", reorder.reorder, *_flat(args))

    @_says(tile_loops)
    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        if self.schedule.keep_schedule_record:
            rehearse(self, tile_loops, x_parent, y_parent, x_factor, y_factor)
            (xo, xi), (yo, yi) = self.split(x_parent, x_factor), self.split(y_parent, y_factor)
            self.reorder(xo, yo, xi, yi)
            return xo, yo, xi, yi
        result: tuple[IterVar, IterVar, IterVar, IterVar] = self._apply(
            "tile", tile_loops, x_parent, y_parent, x_factor, y_factor
        )
        return result

    @_says(annotate.vectorize)
    def vectorize(self, var: IterVar) -> None:
        self._apply("vectorize", annotate.vectorize, var)

    @_says(annotate.unroll)
    def unroll(self, var: IterVar) -> None:
        self._apply("unroll", annotate.unroll, var)

    @_says(annotate.parallel)
    def parallel(self, var: IterVar) -> None:
        self._apply("parallel", annotate.parallel, var)

    @_says(annotate.bind)
    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        self._apply("bind", annotate.bind, ivar, thread_ivar)

    @_says(annotate.pragma)
    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        args = (var, pragma_type) if pragma_value is None else (var, pragma_type, pragma_value)
        self._apply("pragma", annotate.pragma, *args)

    @_says(annotate.prefetch)
    def prefetch(self, tensor: Tensor, var: IterVar, offset: Any) -> None:
        self._apply("prefetch", annotate.prefetch, tensor, var, offset)

    @_says(annotate.storage_align)
    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        self._apply("storage_align", annotate.storage_align, axis, factor, offset)

    @_says(annotate.tensorize)
    def tensorize(self, var: IterVar, tensor_intrin: Any) -> None:
        self._apply("tensorize", annotate.tensorize, var, tensor_intrin)

    @_says(attach.compute_at)
    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        parent = self.schedule[parent]
        self._apply("compute_at", attach.compute_at, parent, scope)

    @_says(attach.compute_inline)
    def compute_inline(self) -> None:
        self._apply("compute_inline", attach.compute_inline)

    @_says(attach.compute_root)
    def compute_root(self) -> None:
        self._apply("compute_root", attach.compute_root)

    @_says(attach.set_scope)
    def set_scope(self, scope: str) -> None:
        self._apply("set_scope", attach.set_scope, scope)

    @_says(attach.env_threads)
    def env_threads(self, threads: Any) -> None:
        self._apply("env_threads", attach.env_threads, threads)

    @_says(attach.set_store_predicate)
    def set_store_predicate(self, predicate: Any) -> None:
        self._apply("set_store_predicate", attach.set_store_predicate, predicate)

    @_says(attach.double_buffer)
    def double_buffer(self) -> None:
        self._apply("double_buffer", attach.double_buffer)

    @_says(attach.rolling_buffer)
    def rolling_buffer(self) -> None:
        self._apply("rolling_buffer", attach.rolling_buffer)

    @_says(layout.transform_layout)
    def transform_layout(self, mapping_function: Callable[..., Any]) -> Any:
        try:
            mapping = layout.read_map(self, mapping_function)
        except Illegal as problem:
            raise _explain("transform_layout", self, problem) from None
        return self._apply("transform_layout", layout.transform_layout, mapping)


def _flat(axes: Sequence[Any]) -> Sequence[Any]:
    """Axes given one by one or as one list."""
    return axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes


class Schedule(ScheduleState, Shown):
    """How a computation is carried out: stages with their loops, and the trace that led to them."""

    stage_class = Stage

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[trace.Step] = []
        self.thread_axes: list[IterVar] = []
        self.initial_stages = 0
        self.output_ids: list[int] = []
        self.keep_schedule_record: bool = config.get("keep_schedule_record")
        self.schedule_record: list[Schedule] = []
        self.primitive_record: list[str] = []

    def __repr__(self) -> str:
        return f"schedule({', '.join(stage.name for stage in self.stages)})"

    def __getitem__(self, key: Any) -> Stage:
        """The stage of a tensor or operation."""
        stage: Stage = self.find(key)
        return stage

    @property
    def stage_map(self) -> dict[Operation, Any]:
        """The stage of each operation."""
        return self.stage_of

    def record(
        self,
        name: str,
        stage: Stage | None,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Apply a primitive and append it to the trace; a failed one changes nothing. Raises
        ScheduleError where the primitive would be illegal."""
        target = self if stage is None else stage
        near = trace.stages_in(self, args)
        if stage is not None:
            near.append(stage)
        step = trace.Step(
            name,
            None if stage is None else stage.id,
            [trace.encode(self, a, near) for a in args],
            {k: trace.encode(self, v, near) for k, v in kwargs.items() if v is not None},
        )
        try:
            result = function(target, *args, **kwargs)
        except Illegal as problem:
            raise _explain(name, stage, problem) from None
        step.results = None if result is None else trace.encode(self, result, near)
        self.steps.append(step)
        if name != "create_group":
            keep_version(self, "split_by_nparts" if "nparts" in step.kwargs else name)
        return result

    @_says(cache.cache_read)
    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        result: Tensor = self.record(
            "cache_read", None, cache.cache_read, (tensor, scope, readers), {}
        )
        return result

    @overload
    def cache_write(self, tensor: Tensor, scope: str) -> Tensor: ...

    @overload
    def cache_write(self, tensor: Sequence[Tensor], scope: str) -> list[Tensor]: ...

    @_says(cache.cache_write)
    def cache_write(self, tensor: Any, scope: str) -> Any:
        return self.record("cache_write", None, cache.cache_write, (tensor, scope), {})

    @_says(rfactor.rfactor)
    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        default = isinstance(factor_axis, int) and factor_axis == 0
        kwargs = {} if default else {"factor_axis": factor_axis}
        return self.record("rfactor", None, rfactor.rfactor, (tensor, axis), kwargs)

    @_says(group.create_group)
    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Any:
        kwargs = {"include_inputs": True} if include_inputs else {}
        return self.record("create_group", None, group.create_group, (outputs, inputs), kwargs)

    def normalize(self) -> Schedule:
        """A schedule of the same loops with inlined stages gone and attachments resolved."""
        result: Schedule = normalize(self)
        return result

    def as_python(self) -> str:
        """Python code that makes this schedule."""
        return trace.as_python(self)

    def save_json(self) -> str:
        """The trace as JSON; `load_schedule(text, outputs)` applies it again."""
        return trace.to_json(self.steps)

    def copy(self) -> Schedule:
        """An independent schedule with the same trace, on the same tensors."""
        outputs = [self.by_id[i].origin_op for i in self.output_ids]
        new = create_schedule(outputs)
        trace.replay(new, self.steps)
        return new


def rehearse(stage: Stage, primitive: Callable[..., Any], *args: Any) -> None:
    """Apply a primitive to a copy, so that one that is illegal as a whole is not begun."""
    try:
        primitive(copy_state(stage.schedule).by_id[stage.id], *args)
    except Illegal as problem:
        raise _explain(primitive.__name__, stage, problem) from None


def keep_version(sch: Schedule, primitive: str) -> None:
    """Add the schedule as it is after a primitive to those that `te.keep_schedule_record` keeps."""
    if sch.keep_schedule_record:
        sch.schedule_record.append(copy_state(sch))
        sch.primitive_record.append(primitive)


def _explain(name: str, stage: Stage | None, problem: Illegal) -> ScheduleError:
    where = "" if stage is None else f" on stage {stage.name}"
    axis = problem.axis
    if isinstance(axis, IterVar):
        where += f", axis {axis.var.name}"
    text = f"{name}{where}: {problem}"
    if stage is not None and not stage.is_group:
        loops = "\n".join("  " + line for line in stage.describe(axis).splitlines())
        text += f"\nloops of {stage.name}:\n{loops}"
    if problem.legal:
        text += f"\nlegal: {problem.legal}"
    return ScheduleError(text)


def create_schedule(ops: Any) -> Schedule:
    """A schedule of the given operations (or tensors) with default loops.

    All they need is computed at the root, each stage with one loop per axis, reductions innermost.
    Raises ScheduleError where an item is neither an operation nor a tensor.
    """
    items = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    outputs: list[Operation] = []
    for item in items:
        op = item.op if isinstance(item, Tensor) else item
        if not isinstance(op, Operation):
            raise ScheduleError(f"create_schedule takes operations or tensors, got {item!r}")
        if op not in outputs:
            outputs.append(op)
    sch = Schedule()
    sch.outputs = outputs
    for op in post_order(outputs):
        stage = sch.new_stage(op, op.name)
        stage.is_output = op in outputs
    for stage in list(sch.stages):
        if isinstance(stage.op, ScanOp):
            _group_scan(sch, stage)
    sch.initial_stages = len(sch.by_id)
    sch.output_ids = [sch.stage_of[op].id for op in outputs]
    keep_version(sch, "vanilla")
    return sch


def _group_scan(sch: Schedule, stage: Stage) -> None:
    """All that a scan's update needs of its state runs inside the scan's loop."""
    scan: Any = stage.op
    inner = group.create_group(sch, scan.update, [*scan.state_placeholder, *scan.inputs])
    inner.attach_type = SCAN_UPDATE
    inner.attach_ivar = scan.scan_axis
    inner.attach_stage = stage


def load_schedule(text: str, outputs: Any) -> Schedule:
    """A schedule of `outputs` with the primitives that `Schedule.save_json` wrote. Raises
    ScheduleError where an item is neither an operation nor a tensor, where text is no saved
    schedule of this version."""
    sch = create_schedule(outputs)
    trace.replay(sch, trace.from_json(text))
    return sch
