"""The walk from the output to the inputs in which the rules derive all sketches.

A state of the walk is (S, i): the sketch so far and the stage at work. Every rule that applies
derives successors, up to one that says that none behind it may; where i is before the first stage,
S is a sketch (Zheng et al., OSDI 2020, section 4.1).
"""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ..state import State
from .add_cache_read import AddCacheRead
from .add_cache_write import AddCacheWrite
from .add_rfactor import AddRfactor
from .always_inline import AlwaysInline
from .cross_thread_reduction import CrossThreadReduction
from .multi_level_tiling import MultiLevelTiling, MultiLevelTilingWithFusion
from .pack import PackOperands
from .rule import Condition, SketchRule
from .simplify_const import SimplifyComputeWithConstTensor
from .skip_stage import SkipStage
from .special_location_gpu import SpecialComputeLocationGPU
from .split_reduction import SplitReduction
from .split_reduction_gpu import SplitReductionGPU

CPU_RULES: tuple[SketchRule, ...] = (
    AlwaysInline(),
    SimplifyComputeWithConstTensor(),
    AddRfactor(),
    SplitReduction(),
    AddCacheWrite(),
    PackOperands(),
    MultiLevelTilingWithFusion(),
    MultiLevelTiling(),
    SkipStage(),
)
GPU_RULES: tuple[SketchRule, ...] = (
    AddCacheRead(),
    SpecialComputeLocationGPU(),
    AlwaysInline(),
    SimplifyComputeWithConstTensor(),
    SplitReductionGPU(),
    CrossThreadReduction(),
    AddCacheWrite(),
    MultiLevelTilingWithFusion(),
    MultiLevelTiling(),
    SkipStage(),
)
MALI_RULES: tuple[SketchRule, ...] = (
    AlwaysInline(),
    SimplifyComputeWithConstTensor(),
    AddRfactor(),
    AddCacheWrite(),
    MultiLevelTilingWithFusion(),
    MultiLevelTiling(),
    SkipStage(),
)
LIMIT = 10_000


def generate_sketches(policy: Any, rules: tuple[SketchRule, ...]) -> list[State]:
    """All sketches of the policy's computation, in the order in which the rules derive them."""
    start = State(policy.task.compute_dag)
    queue: list[tuple[State, int]] = [(start, len(start.order) - 1)]
    sketches: list[State] = []
    steps = 0
    while queue:
        state, stage_id = queue.pop(0)
        if stage_id < 0:
            sketches.append(state)
            continue
        steps += 1
        if steps > LIMIT:
            raise TilewrightError(
                "the sketch rules do not come to an end: does a rule of yours return the stage it "
                "was given?"
            )
        for rule in rules:
            condition = rule.meet(policy, state, stage_id)
            if condition == Condition.PASS:
                continue
            queue.extend(rule.apply(policy, state, stage_id))
            if condition == Condition.APPLY_AND_SKIP_REST:
                break
    if not sketches:
        raise TilewrightError(
            f"the sketch rules ({', '.join(r.name for r in rules)}) derive no sketch: a rule that "
            "gives no state and skips the rest ends the walk"
        )
    return sketches
