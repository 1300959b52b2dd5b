"""compute_at, compute_inline, compute_root, set_scope and other things said of a whole stage.

for i in range(n):                 for i in range(n):
    A[i] = ...             ->          A[0] = ...
for i in range(n):                     B[i] = f(A[0])
    B[i] = f(A[i])
"""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir.iter import IterVar
from ...loopir.operators import as_bool
from ...tensor.op import ComputeOp, HybridOp, PlaceholderOp, ScanOp
from ..state import (
    GROUP_ROOT,
    INLINE,
    SCAN_UPDATE,
    SCOPE,
    Illegal,
    StageState,
    groups_around,
)
from .arguments import check_scope, thread_axes


def compute_at(stage: StageState, parent: StageState, scope: IterVar) -> None:
    """Compute what an iteration of `scope`, a loop of stage `parent`, needs, inside that
    iteration. Raises ScheduleError where `scope` is no loop of `parent`, `parent` is the stage
    itself, a hybrid script or outside the stage's group, or the stage is an input, an output or the
    update of a scan.
    """
    _check_attachable(stage)
    if stage is parent:
        raise Illegal(
            f"cannot compute {stage.name} at itself", scope, f"a stage that reads {stage.name}"
        )
    if isinstance(stage.op, PlaceholderOp):
        raise Illegal(f"{stage.name} is an input: there is nothing to compute")
    if stage.is_output:
        raise Illegal(
            "Output must be attached at root",
            legal=f"{stage.name} is an output; add a cache_write stage and attach that",
        )
    if isinstance(parent.op, HybridOp):
        raise Illegal(
            f"{parent.name} is a hybrid script, which may read all of its inputs in each step",
            scope,
            legal=f"leave {stage.name} at the root",
        )
    if stage.group is not None and stage.group not in groups_around(parent):
        raise Illegal("Can only assign compute_at to stages within the same group")
    if not any(scope is leaf for leaf in parent.leaf_iter_vars):
        if any(scope is a for a in parent.axes):
            parent.require_present(scope)
            stage.attach_type, stage.attach_ivar, stage.attach_stage = SCOPE, scope, parent
            return  # split or fused since: resolved when the schedule is normalised
        name = scope.var.name if isinstance(scope, IterVar) else repr(scope)
        raise Illegal(
            f"Cannot find the axis {name} in parent's leaf_iter_vars: parent={parent.name}",
            legal=f"a loop of {parent.name}, from s[{parent.name}].op.axis and what split, fuse "
            "and others returned: one of " + ", ".join(a.var.name for a in parent.leaf_iter_vars),
        )
    stage.attach_type, stage.attach_ivar, stage.attach_stage = SCOPE, scope, parent


def compute_inline(stage: StageState) -> None:
    """Put the stage's expression in place of each read of it. Raises ScheduleError where the stage
    is no te.compute of one output, an output of the schedule, a reduction, or read by another kind
    of operation."""
    _check_attachable(stage)
    if not isinstance(stage.op, ComputeOp):
        raise Illegal(f"can only inline compute op, {stage.name} is a {type(stage.op).__name__}")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: it must be stored")
    if stage.op.num_outputs != 1:
        raise Illegal("can only inline compute op with 1 output")
    if stage.op.reduce_axis:
        raise Illegal(
            f"cannot inline the reduction {stage.name}", legal="use compute_at to move it closer"
        )
    for reader in _readers(stage):
        if not isinstance(reader.op, ComputeOp):
            raise Illegal(
                f"cannot inline {stage.name} into {reader.name}, which is no compute operation",
                legal="leave it at the root, or use compute_at",
            )
    stage.attach_type, stage.attach_ivar, stage.attach_stage = INLINE, None, None


def _readers(stage: StageState) -> list[StageState]:
    """The stages that read a stage's results."""
    mine = set(stage.op.outputs)
    return [s for s in stage.schedule.stages if any(t in mine for t in s.op.input_tensors)]


def compute_root(stage: StageState) -> None:
    """Compute the whole stage before its first consumer. Raises ScheduleError where the stage is
    the group of what a scan's update computes."""
    _check_attachable(stage)
    stage.attach_type, stage.attach_ivar, stage.attach_stage = GROUP_ROOT, None, None


def _check_attachable(stage: StageState) -> None:
    if stage.attach_type == SCAN_UPDATE:
        raise Illegal("Cannot specify compute_at for scan updates")


def set_scope(stage: StageState, scope: str) -> None:
    """Keep the stage's results in storage scope "global", "shared", "local", "warp", ... Raises
    ScheduleError where `scope` is unknown, or the stage is a group."""
    if stage.is_group:
        raise Illegal("a group has no storage of its own")
    check_scope(scope)
    stage.scope = scope


def env_threads(stage: StageState, threads: Any) -> None:
    """Thread axes that run the whole scan, with all that is computed inside it. Raises
    ScheduleError where the stage is no scan, has its threads already, or `threads` are no axes of
    threads."""
    if not isinstance(stage.op, ScanOp):
        raise Illegal("env_threads is only valid for composite ops such as ScanOp")
    if stage.threads:
        raise Illegal("Already set env_threads")
    stage.threads = thread_axes(threads)


def set_store_predicate(stage: StageState, predicate: Any) -> None:
    """Store results only where `predicate` holds. Raises ScheduleError where `predicate` is no
    condition."""
    try:
        stage.store_predicate = as_bool(predicate)
    except TilewrightError as problem:
        raise Illegal(f"the predicate is no condition: {problem}") from None


def double_buffer(stage: StageState) -> None:
    """Keep two copies of the stage's buffer, so that the next is filled while one is read. Raises
    ScheduleError where the stage is an output or an input."""
    _check_internal(stage)
    stage.double_buffered = True


def rolling_buffer(stage: StageState) -> None:
    """Keep only the part of the buffer that overlapping tiles still need. Raises ScheduleError
    where the stage is an output or an input."""
    _check_internal(stage)
    stage.rolling = True


def _check_internal(stage: StageState) -> None:
    if stage.is_output:
        raise Illegal("Cannot apply buffering on output", legal="apply it to an intermediate stage")
    if isinstance(stage.op, PlaceholderOp):
        raise Illegal(f"{stage.name} is an input: its memory is the caller's")
