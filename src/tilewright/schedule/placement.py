"""Where a stage stands: the loops around it, the threads it runs on, the memory it is kept in."""

from __future__ import annotations

from collections.abc import Iterator

from ..base.errors import InternalError, ScheduleError
from ..loopir.expr import Var
from ..loopir.iter import IterVar, ProducerLoad, Reduce
from ..loopir.visit import walk
from ..tensor.op import ComputeOp, ScanOp, loaded_tensors
from .relations import derived_from
from .state import GROUP_ROOT, INLINED_ALREADY, SCAN_UPDATE, SCOPE, StageState


def attach_point(stage: StageState) -> tuple[StageState, IterVar] | None:
    """The loop inside which a stage is computed, or None at the root."""
    spec = stage.attach_spec()
    if spec.attach_type in (SCOPE, SCAN_UPDATE):
        if spec.attach_stage is None or spec.attach_ivar is None:
            parent = "" if spec.attach_stage is None else spec.attach_stage.name
            raise ScheduleError(
                f"did not find attachment point of stage {stage.name}: the loop of {parent} that "
                f"it was computed at is gone since rfactor or cache_write replaced {parent}; call "
                f"compute_at after these, with an axis of s[{parent}].op"
            )
        if spec.attach_stage.attach_type == INLINED_ALREADY:
            raise ScheduleError(
                f"did not find attachment point of stage {stage.name}: it is computed at "
                f"{spec.attach_stage.name}, which is inlined and has no loops"
            )
        return spec.attach_stage, spec.attach_ivar
    if spec.attach_type != GROUP_ROOT:
        raise InternalError(f"stage {stage.name} has attach type {spec.attach_type}")
    return None


def attach_path(stage: StageState) -> Iterator[tuple[StageState, IterVar]]:
    """The loops around a stage that belong to other stages, innermost first."""
    seen: set[tuple[int, int]] = set()
    point = attach_point(stage)
    while point is not None:
        parent, axis = point
        key = (parent.id, id(axis))
        if key in seen:
            raise ScheduleError(f"Find loop in compute_at attach group: stage {stage.name}")
        seen.add(key)
        position = _leaf_index(parent, axis, stage)
        for leaf in reversed(parent.leaf_iter_vars[: position + 1]):
            yield parent, leaf
        point = attach_point(parent)


def in_scan(stage: StageState) -> bool:
    """Whether a stage is computed anew in each step of a scan."""
    return any(isinstance(holder.op, ScanOp) for holder, _ in attach_path(stage))


def is_tile(stage: StageState) -> bool:
    """Whether a stage computes what a loop of its reader needs, and nothing else, into memory of
    its own."""
    if attach_point(stage) is None or type(stage.op) is not ComputeOp or in_scan(stage):
        return False
    return not stage.rolling and stage.store_predicate is None


def threads_around(stage: StageState) -> Iterator[tuple[StageState, IterVar]]:
    """Loops of other stages that run around a stage on threads: those of `attach_path`, and where a
    reduction is shared out among threads all of these, which stand around its serial loops."""
    point = attach_point(stage)
    while point is not None:
        parent, axis = point
        position = _leaf_index(parent, axis, stage)
        summed = derived_from(parent.relations, getattr(parent.op, "reduce_axis", ()))
        summed -= derived_from(parent.relations, getattr(parent.op, "axis", ()))
        within = any(leaf in summed for leaf in parent.leaf_iter_vars[: position + 1])
        for i, leaf in enumerate(parent.leaf_iter_vars):
            thread = parent.attr(leaf).bind_thread
            if thread is None:
                continue
            if i <= position or (within and leaf in summed and not is_virtual(thread)):
                yield parent, leaf
        point = attach_point(parent)


def reduction_axes(stage: StageState) -> frozenset[IterVar]:
    """Axes that come from reduction axes alone."""
    from_data: set[IterVar] = set(stage.op.axis)
    from_reduction: set[IterVar] = set(stage.op.reduce_axis)
    for relation in stage.relations:
        for group in (from_data, from_reduction):
            if any(p in group for p in relation.parents):
                group.update(relation.children)
    return frozenset(from_reduction - from_data)


def first_reduction_loop(stage: StageState) -> int:
    """Where the loops of the initialisation part from those of the update: one that is fused of
    data and reduction axes runs in both."""
    reduction = derived_from(stage.relations, stage.op.reduce_axis)
    for i, leaf in enumerate(stage.leaf_iter_vars):
        if leaf in reduction:
            return i
    return len(stage.leaf_iter_vars)


def is_ragged(stage: StageState) -> bool:
    """Whether how far a reduction goes depends on the element or on data, as in sparse formats."""
    own = {axis.var for axis in stage.op.axis}
    return any(
        isinstance(e, ProducerLoad) or e in own
        for axis in stage.op.reduce_axis
        if axis.dom is not None
        for end in (axis.dom.min, axis.dom.extent)
        for e in walk(end)
        if isinstance(e, (ProducerLoad, Var))
    )


def check_initial(stage: StageState, reader: StageState) -> None:
    """ScheduleError where a stage is computed inside a reduction whose initial value reads it."""
    point = attach_point(stage)
    if point is None or point[0] is not reader or not isinstance(reader.op, ComputeOp):
        return
    first = reader.op.body[0]
    if not isinstance(first, Reduce) or stage.op not in [t.op for t in loaded_tensors(*first.init)]:
        return
    start = first_reduction_loop(reader)
    inner = [reader.attr(leaf).bind_thread for leaf in reader.leaf_iter_vars[start:]]
    together = all(t is not None and not is_virtual(t) for t in inner)
    if together or _leaf_index(reader, point[1], stage) < start:
        return
    raise ScheduleError(
        f"compute_at: {stage.name} is computed at {reader.name}, axis {point[1].var.name}, but the "
        f"initial value of {reader.name} reads it before the loops of the reduction begin; compute "
        "it at a loop outside of these, at the root, or inline"
    )


def _leaf_index(parent: StageState, axis: IterVar, stage: StageState) -> int:
    for i, leaf in enumerate(parent.leaf_iter_vars):
        if leaf is axis:
            return i
    raise ScheduleError(
        f"did not find attachment point of stage {stage.name}: {axis.var.name} is not a loop of "
        f"{parent.name}, whose loops are {', '.join(a.var.name for a in parent.leaf_iter_vars)}"
    )


def same_thread(a: IterVar, b: IterVar) -> bool:
    """Whether two thread axes are one: real ones by tag, virtual ones by identity."""
    return a is b or (a.thread_tag == b.thread_tag and not is_virtual(a))


def is_virtual(thread: IterVar) -> bool:
    return thread.thread_tag.startswith(("vthread", "cthread"))


def runs_on(stage: StageState, thread: IterVar) -> bool:
    """Whether a stage is computed by the threads of an axis: bound to it, or inside a loop that
    is.
    """
    own = [(stage, leaf) for leaf in stage.leaf_iter_vars]
    for holder, leaf in [*own, *threads_around(stage)]:
        bound = holder.attr(leaf).bind_thread
        if bound is not None and same_thread(bound, thread):
            return True
    return False


def storage_scope(stage: StageState) -> str:
    """Where a stage's results are kept: as set, else by the threads it is computed in."""
    if stage.scope:
        return stage.scope
    rank = -1
    for parent, leaf in attach_path(stage):
        thread = parent.attr(leaf).bind_thread
        if thread is not None:
            rank = max(rank, 0 if thread.thread_tag.startswith("blockIdx") else 1)
    return ("global", "shared", "local")[rank + 1]
