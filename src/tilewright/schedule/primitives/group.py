"""create_group: stages that move together."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..state import Illegal, ScheduleState, StageState, groups_around, ops_between
from .arguments import tensor_list


def create_group(
    sch: ScheduleState, outputs: Any, inputs: Any, include_inputs: bool = False
) -> StageState:
    """A virtual stage for all operations between `inputs` and `outputs`.

    compute_at of the group moves all of its stages that stand at its root. Raises ScheduleError
    where the outputs are not computed from the inputs, or it would overlap another group in part.
    """
    outs, ins = tensor_list(outputs, "outputs"), tensor_list(inputs, "inputs")
    current = [sch.find(t).op.output(t.value_index) for t in outs]
    limits = [_now(sch, t) for t in ins]
    members = [sch.stage_of[op] for op in ops_between(current, limits, include_inputs)]
    if not members:
        raise Illegal("the group is empty", legal="outputs must be computed from the inputs")
    parent = _common_parent(members)
    tops = {id(top): top for top in (_below(stage, parent) for stage in members)}
    inside = {id(stage) for stage in members}
    for top in tops.values():
        if top.is_group and any(
            top in groups_around(s) and id(s) not in inside for s in sch.stages
        ):
            raise Illegal(
                "the new group overlaps another group only in part",
                legal="groups contain each other or have no stage in common",
            )
    group: StageState = sch.new_stage(None, "group")
    group.group = parent
    for top in tops.values():
        top.group = group
    return group


def _now(sch: ScheduleState, t: Tensor) -> Tensor:
    stage = sch.stage_of.get(t.op)
    return t if stage is None else stage.op.output(t.value_index)


def _common_parent(stages: list[StageState]) -> StageState | None:
    common = groups_around(stages[0])
    for stage in stages[1:]:
        common = [g for g in common if g in groups_around(stage)]
    return common[0] if common else None


def _below(stage: StageState, parent: StageState | None) -> StageState:
    """The stage itself or the group around it that stands directly in `parent`."""
    item = stage
    while item.group is not parent:
        assert item.group is not None
        item = item.group
    return item
