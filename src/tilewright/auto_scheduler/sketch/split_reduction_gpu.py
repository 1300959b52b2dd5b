"""Rule for GPUs (ours): a long reduction to few results is cut once for blocks, then for threads.

A cross-thread reduction gives each result one block; where there are fewer results than a device
has processors, most of it idles. Here parts of the reduction are summed by blocks of their own, and
a second kernel sums the parts.
"""

from __future__ import annotations

from typing import Any

from ..state import State
from .cross_thread_reduction import CrossThreadReduction
from .rule import Condition, Results, SketchRule, choose, fused_reduction

MIN_LENGTH = 8192
MOST_RESULTS = 64


class SplitReductionGPU(SketchRule):
    """rfactor of the outer part (its length, the number of blocks, is open); then both reductions
    are shared by threads."""

    name = "SplitReductionGPU"

    def __init__(self) -> None:
        self.cross = CrossThreadReduction()

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        op = state.stage_at(stage_id).op
        if not policy.params["split_reduction"] or op.num_outputs != 1:
            return Condition.PASS
        if self.cross.meet(policy, state, stage_id) == Condition.PASS:
            return Condition.PASS
        if state.access.needs_multi_level_tiling(op):
            return Condition.PASS
        space, length = state.access.lengths(op)
        return choose(space < MOST_RESULTS and length >= MIN_LENGTH, Condition.APPLY)

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        data, fused = fused_reduction(new, stage_id)
        parts = new.split(stage_id, fused, [None], inner_to_outer=False)
        new.rfactor(stage_id, parts[0], data)
        ((new, _),) = self.cross.apply(policy, new, stage_id + 1)
        ((new, _),) = self.cross.apply(policy, new, stage_id)
        return [(new, stage_id - 1)]
