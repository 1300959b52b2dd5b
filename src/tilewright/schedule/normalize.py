"""Bring a schedule to the form that bound inference reads.

Three things: stages marked inline vanish into their readers; a stage attached at an axis that has
been split or fused since moves to the axis that took its place; everything happens on copies of
the stages, so the user's schedule stays as it is.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from ..base.errors import ScheduleError
from ..loopir.construct import cast
from ..loopir.expr import PrimExpr
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.rewrite import Rewriter, handles
from ..loopir.subst import substitute
from ..tensor.op import ComputeOp
from ..tensor.tensor import Tensor
from .relations import Fuse, Split, Transform
from .state import INLINE, INLINED_ALREADY, SCOPE, ScheduleState, StageState


def normalize(sch: Any) -> Any:
    """A copy of the schedule without inlined stages and with valid attachments."""
    new = copy_state(sch)
    inline_stages(new)
    for stage in new.by_id:
        _move_attachment(stage)
    return new


def copy_state(sch: Any) -> Any:
    """A copy whose stages can be changed without changing the original's."""
    new = copy(sch)
    table: dict[int, Any] = {}
    for stage in sch.by_id:
        twin = copy(stage)
        twin.schedule = new
        twin.axes = list(stage.axes)
        twin.leaf_iter_vars = list(stage.leaf_iter_vars)
        twin.relations = list(stage.relations)
        twin.attrs = dict(stage.attrs)
        table[id(stage)] = twin
    for twin in table.values():
        if twin.group is not None:
            twin.group = table[id(twin.group)]
        if twin.attach_stage is not None:
            twin.attach_stage = table[id(twin.attach_stage)]
    new.by_id = [table[id(s)] for s in sch.by_id]
    new.stages = [table[id(s)] for s in sch.stages]
    new.groups = [table[id(s)] for s in sch.groups]
    new.stage_of = {op: table[id(s)] for op, s in sch.stage_of.items()}
    new.outputs = list(sch.outputs)
    new.steps = list(sch.steps)
    new.thread_axes = list(sch.thread_axes)
    new.schedule_record = list(sch.schedule_record)
    new.primitive_record = list(sch.primitive_record)
    return new


class _InlineReads(Rewriter):
    """Replaces reads of inlined tensors by their expressions."""

    def __init__(self, bodies: dict[Tensor, tuple[tuple[Any, ...], PrimExpr]]) -> None:
        self.bodies = bodies

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        indices = self.exprs(e.indices)
        found = self.bodies.get(e.producer)
        if found is None:
            return e if indices is e.indices else ProducerLoad(e.producer, indices)
        variables, body = found
        # what is an index in int32 is computed in int32, whatever type the table of indices has
        return substitute(body, {v: cast(v.dtype, i) for v, i in zip(variables, indices)})


def inline_stages(sch: ScheduleState) -> None:
    """Replace reads of stages marked inline, from producers to consumers, and drop those stages."""
    bodies: dict[Tensor, tuple[tuple[Any, ...], PrimExpr]] = {}
    moved: dict[Tensor, Tensor] = {}
    kept = []
    for stage in sch.stages:
        present = {t: n for t, n in moved.items() if t in stage.op.input_tensors}
        old = stage.op
        if present:
            sch.replace_inputs_of(stage, present)
        if any(t in bodies for t in stage.op.input_tensors):
            sch.set_op(stage, _inlined(stage, bodies))
        for i in range(old.num_outputs):
            if stage.op is not old:
                moved[old.output(i)] = stage.op.output(i)
        if stage.attach_type == INLINE:
            axes = tuple(a.var for a in stage.op.axis)
            bodies[stage.op.output(0)] = (axes, stage.op.body[0])
            stage.attach_type = INLINED_ALREADY
        else:
            kept.append(stage)
    sch.stages = kept


def _inlined(stage: StageState, bodies: Any) -> Any:
    op = stage.op
    if not isinstance(op, ComputeOp):
        names = ", ".join(t.op.name for t in op.input_tensors if t in bodies)
        raise ScheduleError(
            f"compute_inline: {names} cannot be inlined into {op.name}, which is no compute "
            "operation"
        )
    rewriter = _InlineReads(bodies)
    body = op.body
    if op.reduce_axis:
        # outputs of one reduction share their sources: rewrite once
        first: Any = rewriter.expr(body[0])
        new = [
            type(first)(first.combiner, first.source, first.axis, first.condition, i, first.init)
            for i in range(len(body))
        ]
    else:
        new = [rewriter.expr(e) for e in body]
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, new)


def _move_attachment(stage: StageState) -> None:
    if stage.attach_type != SCOPE or stage.attach_stage is None:
        return
    parent, axis = stage.attach_stage, stage.attach_ivar
    while axis is not None and not any(axis is leaf for leaf in parent.leaf_iter_vars):
        axis = _successor(parent, axis)
    stage.attach_ivar = axis


def _successor(parent: StageState, axis: IterVar) -> IterVar | None:
    """The axis whose iterations stand for those of an axis that was split or fused."""
    for relation in parent.relations:
        if isinstance(relation, Split) and relation.parent is axis:
            return relation.inner
        if isinstance(relation, Fuse) and axis in relation.parents:
            return relation.fused
        if isinstance(relation, Transform) and any(axis is a for a in relation.parents):
            return relation.children[-1]
    return None
