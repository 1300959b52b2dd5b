"""Rule: split a long reduction in parts, so that there is something to do in parallel."""

from __future__ import annotations

from typing import Any

from ..state import State
from .rule import Condition, Results, SketchRule, choose, fused_reduction


class AddRfactor(SketchRule):
    """Fuse the reduction loops, cut them once (the length is open), and factor out either part."""

    name = "AddRfactor"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        op = state.stage_at(stage_id).op
        if state.has_cache_write(stage_id) or not state.access.needs_rfactor(
            op, policy.hardware.num_cores
        ):
            return Condition.PASS
        return choose(True, Condition.APPLY)

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        results: Results = []
        for part in (0, 1):
            new = state.copy()
            data, fused = fused_reduction(new, stage_id)
            parts = new.split(stage_id, fused, [None])
            new.rfactor(stage_id, parts[part], data)
            if part == 1:
                # the new data loop innermost, to be vectorised
                loops = list(range(len(new[stage_id].iters)))
                loops.append(loops.pop(data))
                new.reorder(stage_id, loops)
            results.append((new, stage_id - 1))
        return results
