"""Rule: leave a stage as it is."""

from __future__ import annotations

from typing import Any

from ..state import State
from .rule import Condition, Results, SketchRule


class SkipStage(SketchRule):
    """Always applies, and comes last: where no rule before it took the stage for itself."""

    name = "SkipStage"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        return Condition.APPLY

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        return [(state, stage_id - 1)]
