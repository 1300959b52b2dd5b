"""`auto_scheduler._ffi_api`: what TVM's programs ask of states by these names."""

from __future__ import annotations

import json
from typing import Any

from ..base.errors import TilewrightError
from ..loopir.iter import IterVar
from .lines import checked_task
from .records import RecordedTask, task_fields
from .rows import THREAD_X
from .stages import StageView
from .state import State


def SerializeSearchTask(task: Any) -> str:
    """A task as JSON: its workload, target, hardware, host, layout option, names of inputs."""
    return json.dumps(list(task_fields(task)))


def DeserializeSearchTask(text: str) -> RecordedTask:
    """What `SerializeSearchTask` gave, also with fewer fields; TilewrightError for other text."""
    try:
        return RecordedTask(checked_task(json.loads(text)))
    except ValueError as problem:
        raise TilewrightError(f"this is no search task: {problem}") from None


def SearchPolicyUtilsIsTiled(stage: StageView) -> bool:
    """Whether a stage has other loops than its operation's axes."""
    axes = len(getattr(stage.op, "axis", ())) + len(getattr(stage.op, "reduce_axis", ()))
    return len(stage.iters) != axes


def SearchPolicyUtilsHasCacheWriteStage(state: State, stage_id: int) -> bool:
    """Whether a stage is what a cache_write made."""
    return _made_by(state, stage_id, "CHW")


def SearchPolicyUtilsHasCacheReadStage(state: State, stage_id: int) -> bool:
    """Whether the stage behind one is a copy of it that a cache_read made."""
    return _made_by(state, stage_id, "CHR")


def SearchPolicyUtilsHasRfactorStage(state: State, stage_id: int) -> bool:
    """Whether a stage is the first half of a reduction that rfactor has split."""
    return _made_by(state, stage_id, "RF")


def SearchPolicyUtilsHasCrossThreadReduction(state: State, stage_id: int) -> bool:
    """Whether threads of a block reduce together, in a stage or one computed inside of it."""
    stage = state.stages[stage_id]
    inside = [s for s in state.stages if s.live.attach_stage is stage.live]
    return any(
        it.annotation == THREAD_X and it.axis.iter_type == IterVar.CommReduce
        for view in (stage, *inside)
        for it in view.iters
    )


def _made_by(state: State, stage_id: int, step: str) -> bool:
    """Whether a step of this name stands for a stage; those behind it may have moved its place."""
    for row in reversed(state.rows):
        if row[0] == step and row[1] == stage_id:
            return True
        if row[0] in ("CHW", "CHR", "RF", "PK") and stage_id > row[1]:
            stage_id -= 1
    return False
