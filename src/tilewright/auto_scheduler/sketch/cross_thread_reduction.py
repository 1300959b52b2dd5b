"""Rule for GPUs: the threads of a block share each reduction."""

from __future__ import annotations

from typing import Any

from ...schedule.relations import Split
from ...schedule.state import GROUP_ROOT, SCOPE, StageState
from ..access import has_cross_thread_reduction
from ..state import State
from .rule import Condition, Results, SketchRule, choose, fused_reduction


class CrossThreadReduction(SketchRule):
    """Fuse the reduction loops, cut them by a number of threads (open), bind the inner part.

    Where the only reader (or the stage that all readers are computed in) shares outer axes, the
    reduction is computed inside it, by the same threads that then work on its inner axes.
    """

    name = "CrossThreadReduction"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        stage = state.stage_at(stage_id)
        if state.has_cache_write(stage_id) or stage.relations or not policy.is_gpu:
            return Condition.PASS
        hw = policy.hardware
        wanted = state.access.is_compute(stage.op) and state.access.needs_cross_thread_reduction(
            stage.op, hw.max_threads_per_block, hw.warp_size
        )
        return choose(wanted, Condition.APPLY)

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        _, fused = fused_reduction(new, stage_id)
        target = _common_root(new, stage_id)
        common = 0
        if target is not None:
            ops = new.stage_at(stage_id).op, new.stage_at(target).op
            if not new.access.needs_multi_level_tiling(ops[1]):
                common = new.access.get_num_common_outer_iterator(*ops)
        inside = target is not None and common > 0 and _takes_part(new, target)
        row = _thread_split(new, target, common) if inside and target is not None else None
        if row is None:
            parts = new.split(stage_id, fused, [None])
        else:
            parts = new.follow_split(stage_id, fused, row, 1)
        if inside and target is not None:
            new.compute_at(stage_id, target, common - 1)
        new.bind(stage_id, parts[1], "threadIdx.x")
        return [(new, stage_id - 1)]


def _common_root(state: State, stage_id: int) -> int | None:
    """The only reader, or the stage at the root that all readers are or are computed in."""
    readers = state.readers(stage_id)
    if len(readers) == 1:
        return readers[0]
    roots = set()
    for place in readers:
        stage: StageState = state.stage_at(place)
        while stage.attach_type == SCOPE and stage.attach_stage is not None:
            stage = stage.attach_stage
        roots.add(stage.id)
    return state.order.index(roots.pop()) if len(roots) == 1 else None


def _takes_part(state: State, target: int) -> bool:
    """Whether reductions can be computed inside a stage: it is at the root, and untouched or made
    for this by an earlier one."""
    stage = state.stage_at(target)
    if stage.attach_type != GROUP_ROOT or has_cross_thread_reduction(stage):
        return False
    fresh = not stage.relations and not stage.op.reduce_axis
    return fresh or split_row(state, target) is not None


def _thread_split(state: State, target: int, common: int) -> int | None:
    """The row that splits the target's last axis between threads, added where there is none.

    None where the reduction takes all axes: one thread then does what is left.
    """
    stage = state.stage_at(target)
    last = len(stage.leaf_iter_vars) - 1
    if stage.relations:
        return split_row(state, target)
    if common > last:
        return None
    row = len(state.rows)
    parts = state.split(target, last, [None])
    state.bind(target, parts[1], "threadIdx.x")
    return row


def split_row(state: State, stage_id: int) -> int | None:
    """The row that split a stage's axis between threads."""
    stage = state.stage_at(stage_id)
    bound = [a for a in stage.leaf_iter_vars if stage.attr(a).bind_thread is not None]
    sizes = [r.factor for r in stage.relations if isinstance(r, Split) and r.inner in bound]
    found = [f.row for f in state.open if any(size is f.var for size in sizes)]
    return found[0] if found else None
