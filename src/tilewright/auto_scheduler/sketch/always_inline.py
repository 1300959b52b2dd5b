"""Rule: an element-wise stage is computed where it is read."""

from __future__ import annotations

from typing import Any

from ..state import State
from .rule import Condition, Results, SketchRule, choose


class AlwaysInline(SketchRule):
    """On GPUs every stage without reduction, on CPUs those that cost nothing to repeat."""

    name = "AlwaysInline"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        return choose(should_inline(policy, state, stage_id))

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        new.compute_inline(stage_id)
        return [(new, stage_id - 1)]


def should_inline(policy: Any, state: State, stage_id: int) -> bool:
    stage = state.stage_at(stage_id)
    access = state.access
    if not access.is_compute(stage.op) or access.is_output(stage.op):
        return False
    if stage.op.reduce_axis or stage.op.num_outputs != 1 or state.packed.get(stage.id) is not None:
        return False
    if not state.has_compute_readers(stage_id):
        return False
    return policy.is_gpu or access.is_strictly_inlineable(stage.op)
