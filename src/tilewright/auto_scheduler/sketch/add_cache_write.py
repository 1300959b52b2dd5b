"""Rule: a stage with data reuse but no reader to fuse with gets one, its own copy."""

from __future__ import annotations

from typing import Any

from ..state import State
from .rule import Condition, Results, SketchRule, choose


class AddCacheWrite(SketchRule):
    """cache_write into "local"; the walk stays at the new stage, which then has a fusible
    reader."""

    name = "AddCacheWrite"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        op = state.stage_at(stage_id).op
        wanted = (
            state.access.needs_multi_level_tiling(op) and state.fusible_reader(stage_id) is None
        )
        gpu = Condition.APPLY_AND_SKIP_REST
        return choose(wanted, gpu if policy.is_gpu else Condition.APPLY)

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        new.cache_write(stage_id, "local")
        return [(new, stage_id)]
