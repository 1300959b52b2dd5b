"""Rules: tile a stage with data reuse, alone or with its reader fused at one of its levels."""

from __future__ import annotations

from typing import Any

from ..state import State
from .rule import Condition, Results, SketchRule, choose
from .tiling import follow, tile

CPU_LEVELS = (1, 2)
GPU_LEVELS = (3,)


class MultiLevelTiling(SketchRule):
    """Tile the stage, its reader apart from it."""

    name = "MultiLevelTiling"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        return choose(state.access.needs_multi_level_tiling(state.stage_at(stage_id).op))

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        tile(new, stage_id, policy.structure)
        return [(new, stage_id - 1)]


class MultiLevelTilingWithFusion(SketchRule):
    """Tile the stage and compute it inside its only, element-wise reader, which is tiled alike."""

    name = "MultiLevelTilingWithFusion"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        op = state.stage_at(stage_id).op
        if not state.access.needs_multi_level_tiling(op) or state.fusible_reader(stage_id) is None:
            return Condition.PASS
        alone = state.has_cache_write(stage_id) or policy.is_gpu
        return Condition.APPLY_AND_SKIP_REST if alone else Condition.APPLY

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        reader = state.fusible_reader(stage_id)
        assert reader is not None
        results: Results = []
        for level in GPU_LEVELS if policy.is_gpu else CPU_LEVELS:
            if level >= policy.structure.count("S"):
                continue
            new = state.copy()
            splits = tile(new, stage_id, policy.structure)
            follow(new, reader, splits, level)
            new.compute_at(stage_id, reader, level * len(splits) - 1)
            results.append((new, stage_id - 1))
        return results
