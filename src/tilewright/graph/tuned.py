"""Groups of nodes as tuning tasks, and the schedules that were found for them.

A task is a group as `compile` builds it, activations in blocks of channels, so that a schedule
found for it takes the place of the default one and nothing else changes. Constant weights that an
operation reads have a free layout: they are laid out ahead of time as the schedule wants them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..auto_scheduler.dag import ComputeDAG
from ..auto_scheduler.hardware import HardwareParams
from ..auto_scheduler.history import DispatchContext
from ..auto_scheduler.lines import row_as_json
from ..auto_scheduler.rows import is_plain_default
from ..auto_scheduler.state import State
from ..auto_scheduler.task import SearchTask
from ..auto_scheduler.transform import LayoutRewriteOption, Rearranged, apply_state
from ..base.errors import CompileError, ScheduleError
from ..base.mapped import give_back
from ..loopir.expr import const_int
from ..schedule.api import Schedule
from ..target.host import has_llvm
from ..target.target import Target
from ..tensor.tensor import Tensor
from ..topi.schedules.constants import Constants
from ..topi.schedules.default import default_schedule
from ..topi.schedules.machine import likely_sizes
from .ir import Value, constant
from .kernel import symbols_of, tensors
from .ops import ANCHOR
from .passes.fuse import Group

_SEVERAL_REDUCTIONS = frozenset(("softmax", "log_softmax"))
_SHORT = {
    "conv_nchwc": "conv2d", "conv2d_nhwc": "conv2d", "depthwise_nchwc": "depthwise",
    "depthwise_nhwc": "depthwise", "dense_packed": "dense", "conv3d_ndhwc": "conv_nd",
}  # fmt: skip


_IN_PANELS = frozenset(("dense", "matmul", "batch_matmul", "conv2d"))
"""Operations whose default schedule reads a constant side in panels; others lie as they do."""


@dataclass(frozen=True)
class Tuned:
    """A schedule of a group, the one that records have (`recorded`) or the default one: its
    arguments, and which of them are constants that have to be laid out anew."""

    steps: str
    schedule: Schedule
    args: Sequence[Tensor]
    rearranged: Sequence[Rearranged]
    recorded: bool = True


def is_complex(group: Group) -> bool:
    """Whether a group has an operation that is worth a search: a convolution, a product, pooling or
    another reduction."""
    return ANCHOR in group.kinds or any(n.op in _SEVERAL_REDUCTIONS for n in group.nodes)


def task_of(group: Group, target: Target, hardware: HardwareParams | None = None) -> SearchTask:
    """The task of a group."""
    inputs, out = tensors(group)
    return SearchTask(
        compute_dag=ComputeDAG([*inputs, out]),
        target=target,
        hardware_params=hardware,
        layout_rewrite_option=LayoutRewriteOption.get_target_default(target, True),
        desc=title(group),
    )


def title(group: Group) -> str:
    """Operations and the sizes that tell layers apart, in one line."""
    anchor = next((n for n in group.nodes if n.op not in ("reshape", "transpose")), group.nodes[0])
    names = "+".join(_SHORT.get(n.op, n.op) for n in group.nodes)
    sizes = "x".join(map(str, group.output.shape))
    if len(anchor.inputs) < 2:
        return f"{names} {sizes}"
    kernel = "x".join(map(str, anchor.inputs[1].shape))
    strides = tuple(anchor.attrs.get("strides", ()))
    stepped = f" /{strides[0]}" if max(strides, default=1) > 1 else ""
    return f"{names} {sizes} of {kernel}{stepped}"


def find_tuned(group: Group, target: Target, history: DispatchContext) -> Tuned | None:
    """What the records say of a group; None where they know nothing of it, or nothing faster than
    the default schedule. CompileError for steps that do not fit it."""
    if any(0 in v.shape for n in group.nodes for v in (*n.inputs, *n.outputs)):
        return None  # no search is for nothing
    task = task_of(group, target)
    rows = history.steps(target, task.workload_key)
    if rows is None or is_plain_default(rows):
        return None
    try:
        state = State.from_rows(task.compute_dag, rows)
    except ScheduleError as error:
        names = ", ".join(n.name for n in group.nodes)
        raise CompileError(f"the record of {names} does not fit it: {error}") from error
    return of_state(task, state)


def in_panels(group: Group, target: Target) -> Tuned | None:
    """The default schedule, for constants that lie in the panels that it would copy them into at
    each call; None where it reads everything as it lies."""
    if "gpu" in target.keys:
        return _laid_ahead(group, target)
    weights = (n.inputs[1] for n in group.nodes if n.op in _IN_PANELS)
    if not any(v.is_constant for v in weights):
        return None
    if any(0 in v.shape for v in group.inputs):  # nothing is read
        return None
    with likely_sizes(symbols_of(group)):
        task = task_of(group, target)
        found = of_state(task, State.default(task), recorded=False)
    return found if found.rearranged else None


def _laid_ahead(group: Group, target: Target) -> Tuned | None:
    """The default schedule for a device, for constants that lie as its products read them; None
    where it reads all as it lies, or nothing is there to lay them."""
    constant_inputs = [v.is_constant for v in group.inputs]
    if ANCHOR not in group.kinds or not any(constant_inputs) or not has_llvm():
        return None
    with target, likely_sizes(symbols_of(group)):
        inputs, out = tensors(group)
        known = Constants(t for t, is_constant in zip(inputs, constant_inputs) if is_constant)
        schedule = default_schedule(out, target, constants=known)
    instead = {given: new for new, (given, _) in known.made.items()}
    read = {t for stage in schedule.stages for t in stage.op.input_tensors}
    if not instead or len(instead) < len(known.made) or read & instead.keys():
        return None
    args = [instead.get(t, t) for t in inputs]
    rearranged = [
        Rearranged(k, tuple(const_int(d) or 0 for d in new.shape), None, known.made[new])
        for k, new in enumerate(args)
        if new in known.made
    ]
    return Tuned("laid", schedule, [*args, out], rearranged, recorded=False)


def of_state(task: SearchTask, state: State, recorded: bool = True) -> Tuned:
    """A task's schedule with the arguments that it wants."""
    schedule, args, rearranged = apply_state(state, int(task.layout_rewrite_option or 0))
    steps = json.dumps([row_as_json(row) for row in state.rows], separators=(",", ":"))
    return Tuned(steps, schedule, args, rearranged, recorded)


class Layouts:
    """Constants laid out anew, each once for each order."""

    def __init__(self) -> None:
        self._made: dict[tuple[Value, Any], Value] = {}

    def inputs(self, group: Group, tuned: Tuned | None) -> list[Value]:
        """What the kernel of a group reads."""
        values = list(group.inputs)
        for one in tuned.rearranged if tuned is not None else ():
            old = values[one.index]
            assert old.data is not None
            key = (old, one.key)
            if key not in self._made:
                self._made[key] = constant(old.name + ".laid", np.asarray(one.apply(old.data)))
                give_back(old.data)
            values[one.index] = self._made[key]
        return values
