"""What the primitives change: stages with their axes, relations and attachments; and the dataflow.

A `Stage` is one operation with its loop structure so far. Stages are numbered by creation (`id`)
and so are the axes of a stage (`axes`): the numbers never shift and are what a trace speaks of.
`op` changes when a primitive rewrites the computation (cache_write, rfactor, new inputs);
`origin_op` is the one the user made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import ScheduleError, TilewrightError
from ..loopir.expr import PrimExpr, StringImm
from ..loopir.iter import IterVar, Range
from ..tensor.bounds import check_program
from ..tensor.op import (
    ComputeOp,
    ExternOp,
    Operation,
    ScanOp,
    domain,
    replace_inputs,
)
from ..tensor.tensor import Tensor
from .relations import Relation

GROUP_ROOT, INLINE, INLINED_ALREADY, SCOPE, SCAN_UPDATE = 1, 2, 3, 4, 5
VIEW = "global.view"
"""The scope of a stage that is never computed, but lies where its input does."""
ATTACH_NAMES = {1: "root", 2: "inline", 3: "inlined", 4: "compute_at", 5: "scan update"}


class Illegal(Exception):
    """A primitive's check failed; turned into a ScheduleError that shows the place."""

    def __init__(self, message: str, axis: Any = None, legal: str = "") -> None:
        super().__init__(message)
        self.axis = axis
        self.legal = legal


class AxisAttrs:
    """What is said about one leaf axis. Immutable: `with_` gives a changed copy."""

    __slots__ = (
        "align",
        "annotations",
        "bind_thread",
        "iter_type",
        "pragmas",
        "prefetch",
        "tensor_intrin",
    )

    def __init__(self) -> None:
        self.iter_type: int | None = None
        self.bind_thread: IterVar | None = None
        self.pragmas: tuple[tuple[str, Any], ...] = ()
        self.prefetch: tuple[tuple[Tensor, PrimExpr], ...] = ()
        self.align: tuple[int, int] | None = None
        self.tensor_intrin: Any = None

    def with_(self, **changes: Any) -> AxisAttrs:
        new = AxisAttrs()
        for key in ("iter_type", "bind_thread", "pragmas", "prefetch", "align", "tensor_intrin"):
            setattr(new, key, changes.get(key, getattr(self, key)))
        return new

    # TVM's names of the same

    @property
    def prefetch_data(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor, _ in self.prefetch)

    @property
    def prefetch_offset(self) -> tuple[PrimExpr, ...]:
        return tuple(ahead for _, ahead in self.prefetch)

    @property
    def pragma_keys(self) -> tuple[StringImm, ...]:
        return tuple(StringImm(key) for key, _ in self.pragmas)

    @property
    def pragma_values(self) -> tuple[Any, ...]:
        return tuple(value for _, value in self.pragmas)

    @property
    def dim_align_factor(self) -> int:
        return self.align[0] if self.align else 0

    @property
    def dim_align_offset(self) -> int:
        return self.align[1] if self.align else 0


_PLAIN = AxisAttrs()


class StageState:
    """One operation and how its loops are arranged. TVM's names where users look at them."""

    def __init__(self, schedule: Any, op: Operation | None, name: str, ident: int) -> None:
        self.schedule = schedule
        self.op: Any = op
        self.origin_op: Any = op
        self.name = name
        self.id = ident
        self.axes: list[IterVar] = []
        self.leaf_iter_vars: list[IterVar] = []
        self.relations: list[Relation] = []
        self.attrs: dict[IterVar, AxisAttrs] = {}
        self.attach_type = GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: StageState | None = None
        self.scope = ""
        self.is_output = False
        self.double_buffered = False
        self.rolling = False
        self.store_predicate: PrimExpr | None = None
        self.threads: tuple[IterVar, ...] = ()
        self.group: StageState | None = None
        self.layout: Any = None
        self.axis_separators: tuple[int, ...] = ()
        if op is not None:
            self.set_root_axes(op.root_iter_vars())

    @property
    def is_group(self) -> bool:
        return self.op is None

    @property
    def num_child_stages(self) -> int:
        """How many stages and groups stand directly in this group; 0 for a stage."""
        return sum(x.group is self for x in (*self.schedule.stages, *self.schedule.groups))

    @property
    def iter_var_attrs(self) -> dict[IterVar, AxisAttrs]:
        """What is said about the axes, of those about which anything is."""
        return dict(self.attrs)

    @property
    def all_iter_vars(self) -> tuple[IterVar, ...]:
        """The axes of the present operation, and all that were made of them."""
        roots = () if self.op is None else self.op.root_iter_vars()
        return tuple(dict.fromkeys([*roots, *(c for r in self.relations for c in r.children)]))

    def set_root_axes(self, axes: Iterable[IterVar]) -> None:
        """Start over with the axes of a new operation; earlier axes keep their numbers."""
        self.leaf_iter_vars = list(axes)
        self.relations = []
        for axis in self.leaf_iter_vars:
            self.add_axis(axis)

    def add_axis(self, axis: IterVar) -> IterVar:
        if not any(axis is a for a in self.axes):
            self.axes.append(axis)
        return axis

    def attr(self, axis: IterVar) -> AxisAttrs:
        return self.attrs.get(axis, _PLAIN)

    def kind_of(self, axis: IterVar) -> int:
        """The iteration type of an axis, as set by vectorize and others."""
        kind = self.attr(axis).iter_type
        return axis.iter_type if kind is None else kind

    def leaf_position(self, axis: Any) -> int:
        """Where an axis stands among the leaves; Illegal if it does not."""
        for i, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return i
        if not isinstance(axis, IterVar):
            raise Illegal(f"expected an axis (IterVar), got {axis!r}")
        if any(axis is a for a in self.axes):
            self.require_present(axis)
            raise Illegal(
                f"Operate on iter var {axis.var.name} that has already been split or fused",
                legal="use the axes that the split, fuse or transform_layout returned",
            )
        raise Illegal(
            f"Operate on iter var {axis.var.name} that is not part of the schedule of stage "
            f"{self.name}",
            legal=f"the axes of {self.name} are s[{self.name}].op.axis and op.reduce_axis",
        )

    def require_present(self, axis: IterVar) -> None:
        """Illegal for an axis that went with the operation which rfactor or cache_write replaced;
        one that was split or fused since is still there in its children."""
        if not any(axis is a for a in self.all_iter_vars):
            raise Illegal(
                f"Operate on iter var {axis.var.name} of an operation that rfactor or "
                f"cache_write has replaced by another {self.name}",
                legal=f"take the axes from the stage: s[{self.name}].op.axis and "
                f"s[{self.name}].op.reduce_axis",
            )

    def attach_spec(self) -> StageState:
        """The stage whose attachment counts: the outermost group's, for a stage at its group's
        root.
        """
        spec = self
        while spec.attach_type == GROUP_ROOT and spec.group is not None:
            spec = spec.group
        return spec

    def describe(self, marked: Any = None) -> str:
        """The loops of the stage, one a line, with a mark at an axis."""
        lines = []
        for depth, axis in enumerate(self.leaf_iter_vars):
            kind = IterVar.KINDS[self.kind_of(axis)]
            thread = self.attr(axis).bind_thread
            extra = f", bound to {thread.thread_tag}" if thread is not None else ""
            dom = f" in {axis.dom}" if axis.dom is not None else ""
            mark = "   <-- here" if axis is marked else ""
            lines.append(f"{'  ' * depth}{axis.var.name}{dom} ({kind}{extra}){mark}")
        return "\n".join(lines) if lines else "(no loops)"

    def __repr__(self) -> str:
        return f"stage({self.name}, {self.op})"


class ScheduleState:
    """Stages in the order of computation, and which operation is computed by which stage."""

    stage_class: type[StageState] = StageState

    def __init__(self) -> None:
        self.outputs: list[Operation] = []
        self.stages: list[Any] = []
        self.groups: list[Any] = []
        self.by_id: list[Any] = []
        self.stage_of: dict[Operation, Any] = {}
        self.inherited: dict[IterVar, IterVar] = {}
        self.narrowed: Mapping[IterVar, Range] | None = None

    def domain(self, axis: IterVar) -> Range:
        """What an axis may run over: its domain, or less where its operation declares more than it
        can compute. Axes that a primitive made for others' sake have theirs."""
        own: Range = domain(axis)
        while axis in self.inherited:
            axis = self.inherited[axis]
        return self._less().get(axis, own)

    def _less(self) -> Mapping[IterVar, Range]:
        if self.narrowed is None:
            try:
                self.narrowed = check_program([s.origin_op for s in self.by_id if s.is_output])
            except TilewrightError:
                self.narrowed = {}  # it is said when the schedule is lowered
        return self.narrowed

    def new_stage(self, op: Operation | None, name: str, position: int | None = None) -> Any:
        """Add a stage (or, without an op, a group) and number it."""
        stage = self.stage_class(self, op, name, len(self.by_id))
        self.by_id.append(stage)
        if op is None:
            self.groups.append(stage)
        else:
            self.stages.insert(len(self.stages) if position is None else position, stage)
            self.stage_of[op] = stage
        return stage

    def find(self, key: Any) -> Any:
        """The stage of a tensor or operation, by its original or its present operation."""
        if isinstance(key, StageState):
            if key.schedule is not self:
                raise ScheduleError(f"{key.name} is a stage of another schedule")
            return key
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise ScheduleError(f"a stage is found by its tensor or operation, got {key!r}")
        stage = self.stage_of.get(op)
        if stage is None:
            known = ", ".join(s.name for s in self.stages)
            raise ScheduleError(
                f"Cannot find the stage for {op.name}: it is no tensor of this schedule; "
                f"its stages are {known}"
            )
        return stage

    def consumers(self) -> dict[Tensor, list[Any]]:
        """Which stages read each tensor."""
        readers: dict[Tensor, list[Any]] = {}
        for stage in self.stages:
            for t in stage.op.input_tensors:
                readers.setdefault(t, []).append(stage)
        return readers

    def set_op(self, stage: Any, op: Operation) -> None:
        """Let a stage compute a new form of its operation (same results)."""
        if op is stage.op:
            return
        stage.op = op
        self.stage_of[op] = stage
        if stage.is_output:
            self.outputs = [op if self.stage_of.get(o) is stage else o for o in self.outputs]

    def replace_inputs_of(self, stage: Any, table: Mapping[Tensor, Tensor]) -> None:
        """Let one stage read other tensors."""
        self.set_op(stage, replace_inputs(stage.op, table))

    def replace_dataflow(self, table: Mapping[Tensor, Tensor], only: Sequence[Any] = ()) -> None:
        """Let readers read other tensors, and let that change run through the rest of the graph.

        Stages in `only` (all, if empty) read `table[t]` instead of t; since operations are
        immutable, each changed operation's outputs are new tensors, which the stages behind it
        read in turn.
        """
        chosen = {id(s) for s in only}
        moved: dict[Tensor, Tensor] = {}
        for stage in self.stages:
            local = dict(moved)
            if not chosen or id(stage) in chosen:
                local.update(table)
            local = {t: n for t, n in local.items() if t in stage.op.input_tensors}
            if not local:
                continue
            old = stage.op
            self.replace_inputs_of(stage, local)
            for i in range(old.num_outputs):
                moved[old.output(i)] = stage.op.output(i)


def groups_around(stage: StageState) -> list[StageState]:
    """The groups that a stage belongs to, from the innermost outwards."""
    found: list[StageState] = []
    while stage.group is not None:
        stage = stage.group
        found.append(stage)
    return found


def post_order(outputs: Sequence[Operation]) -> list[Operation]:
    """Operations that the outputs need, producers first."""
    order: list[Operation] = []
    done: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if op in done:
            continue
        if ready:
            done.add(op)
            order.append(op)
            continue
        stack.append((op, True))
        stack.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in done)
    return order


def ops_between(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], closed: bool
) -> list[Operation]:
    """Operations on the way from `inputs` to `outputs`; with `closed`, the inputs' as well."""
    stop = {t.op for t in inputs}
    found: list[Operation] = []
    seen: set[Operation] = set()
    reach: dict[Operation, bool] = {}

    def reaches(op: Operation) -> bool:
        if op in stop:
            return True
        if op not in reach:
            reach[op] = False
            reach[op] = any(reaches(t.op) for t in op.input_tensors)
        return reach[op]

    stack = [t.op for t in outputs]
    for op in stack:
        reaches(op)
    while stack:
        op = stack.pop()
        if op in seen or (op in stop and not closed):
            continue
        seen.add(op)
        found.append(op)
        if op in stop:
            continue
        stack.extend(t.op for t in op.input_tensors if reaches(t.op))
    return found


__all__ = [
    "AxisAttrs", "ComputeOp", "ExternOp", "Illegal", "ScanOp", "ScheduleState", "StageState",
    "groups_around", "ops_between", "post_order",
]  # fmt: skip
