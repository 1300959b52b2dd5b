"""What a sketch rule is: a condition and an action on (state, stage)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any

from ...loopir.iter import IterVar
from ..state import State

Results = list[tuple[State, int]]


class Condition(IntEnum):
    """What a rule says of a state and a stage."""

    PASS = 0
    APPLY = 1
    APPLY_AND_SKIP_REST = 2


class SketchRule(ABC):
    """A way of going on from a state at a stage.

    `apply` gives new states, each with the stage to go on from: as a rule the one before.
    """

    name = ""

    @abstractmethod
    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        """Whether the rule applies, and whether those behind it still may. Raises TilewrightError
        where the condition gives none of its three answers."""

    @abstractmethod
    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        """The states that the rule leads to. Raises TilewrightError where the action does not give
        a list of [state, next stage]."""


def choose(condition: bool, then: Condition = Condition.APPLY_AND_SKIP_REST) -> Condition:
    return then if condition else Condition.PASS


def fused_reduction(state: State, stage_id: int) -> tuple[int, Any]:
    """How many data loops a stage has, and its reduction loops as one."""
    iters = state[stage_id].iters
    data = sum(i.axis.iter_type == IterVar.DataPar for i in iters)
    reduces = [i for i in iters if i.axis.iter_type == IterVar.CommReduce]
    return data, state.fuse(stage_id, reduces) if len(reduces) > 1 else reduces[0]
