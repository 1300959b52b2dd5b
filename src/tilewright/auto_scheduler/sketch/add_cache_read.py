"""Rule for GPUs: what a tiled stage reads is copied into shared memory, a tile at a time."""

from __future__ import annotations

from typing import Any

from ...loopir.iter import IterVar
from ..access import CONST_TENSOR_ATTR, has_cross_thread_reduction
from ..state import State
from .rule import Condition, Results, SketchRule, choose
from .tiling import kept_whole


class AddCacheRead(SketchRule):
    """cache_read into "shared" at the last loop of the outermost reduction tile of the reader.

    The walk stays at the stage, whose only reader is now the copy.
    """

    name = "AddCacheRead"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        op = state.stage_at(stage_id).op
        readers = state.readers(stage_id)
        if len(readers) != 1 or op.num_outputs != 1 or state.access.is_output(op):
            return Condition.PASS
        reader = state.stage_at(readers[0])
        if not state.access.needs_multi_level_tiling(reader.op):
            return Condition.PASS
        if has_cross_thread_reduction(reader) or not reader.relations:
            return Condition.PASS
        if CONST_TENSOR_ATTR in (getattr(reader.op, "attrs", None) or {}):
            return Condition.PASS  # that reduction is written out, not tiled
        return choose(op in state.access.get_direct_producers(reader.op))

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        (reader,) = new.readers(stage_id)
        new.cache_read(stage_id, "shared", [reader])
        new.compute_at(stage_id + 1, reader + 1, outer_reduction_loop(new, reader + 1))
        return [(new, stage_id)]


def outer_reduction_loop(state: State, stage_id: int) -> int:
    """The place of the last loop of a tiled stage's outermost reduction tile; without a reduction,
    of its outermost data tile."""
    stage = state.stage_at(stage_id)
    whole = kept_whole(state, stage_id)
    leaves = stage.leaf_iter_vars
    reduces = [a for a in stage.op.reduce_axis if a.var.name.removesuffix(".c") not in whole]
    first = next((n for n, a in enumerate(leaves) if a.iter_type == IterVar.CommReduce), None)
    if first is None:
        return len(stage.op.axis) - 1
    return first + max(len(reduces), 1) - 1
