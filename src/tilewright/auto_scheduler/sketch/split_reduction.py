"""Rule (ours): a long reduction to few results is cut twice, for the cores and for the vectors.

The paper's rule factors out one part of the reduction, which runs either in parallel or in vectors.
Here the outer part runs in parallel, and inside each piece the inner part becomes a data loop of
partial results, innermost and vectorised.
"""

from __future__ import annotations

from typing import Any

from ..state import State
from .rule import Condition, Results, SketchRule, choose, fused_reduction

MIN_LENGTH = 2048


class SplitReduction(SketchRule):
    """rfactor of the outer part, then of the inner one; the second is computed inside the first."""

    name = "SplitReduction"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        op = state.stage_at(stage_id).op
        cores = policy.hardware.num_cores
        if policy.is_gpu or not policy.params["split_reduction"]:
            return Condition.PASS
        if state.has_cache_write(stage_id) or op.num_outputs != 1:
            return Condition.PASS
        if not state.access.needs_rfactor(op, cores):
            return Condition.PASS
        space, length = state.access.lengths(op)
        return choose(space < cores * 16 and length >= MIN_LENGTH, Condition.APPLY)

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        data, fused = fused_reduction(new, stage_id)
        parts = new.split(stage_id, fused, [None, None])
        new.rfactor(stage_id, parts[0], data)
        pieces = new[stage_id].iters
        new.rfactor(stage_id, pieces[-1], data + 1)
        loops = list(range(len(new[stage_id].iters)))
        loops.append(loops.pop(data + 1))
        new.reorder(stage_id, loops)
        new.compute_at(stage_id, stage_id + 1, data)
        return [(new, stage_id - 1)]
