"""What threads of a kernel do to one stage's memory: what its schedule must not say, and what only
one thread may do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.errors import ScheduleError
from ..loopir.expr import EQ, PrimExpr, Var, const
from ..loopir.iter import IterVar
from ..tensor.op import ComputeOp
from .placement import is_virtual, same_thread, storage_scope
from .relations import derived_from
from .state import StageState

SCOPE_RANK = {"global": 0, "shared": 1, "warp": 2, "local": 3}


def sees_all(stage: StageState, thread: IterVar) -> bool:
    """Whether the threads of an axis see each other's results of a stage."""
    scope = storage_scope(stage).split(".")[0]
    if scope == "warp" and thread.thread_tag == "threadIdx.x":
        return True
    return SCOPE_RANK.get(scope, 3) <= (0 if thread.thread_tag.startswith("blockIdx") else 1)


def check_private(sch: Any, bounds: Any) -> None:
    """ScheduleError where threads share out a stage that each of them keeps for itself: none would
    have more than its own share of what it needs. Reductions over threads are no such case: all of
    them get the result."""
    for stage in sch.stages:
        if not isinstance(stage.op, ComputeOp):
            continue
        scope = storage_scope(stage)
        summed = derived_from(stage.relations, stage.op.reduce_axis)
        summed -= derived_from(stage.relations, stage.op.axis)
        for leaf in stage.leaf_iter_vars:
            thread = stage.attr(leaf).bind_thread
            known = scope.split(".")[0] in SCOPE_RANK
            if thread is None or leaf in summed or not known or is_virtual(thread):
                continue
            count = bounds.extents.get(bounds[stage].var[leaf])
            if sees_all(stage, thread) or count is None or bounds.analyzer.can_prove(count <= 1):
                continue
            raise ScheduleError(
                f"bind on stage {stage.name}: each thread of {thread.thread_tag} has its own "
                f'memory of scope "{scope}" and needs all of it, so axis {leaf.var.name} cannot be '
                "shared out among them; leave the axis unbound, or set a scope that they share"
            )


def idle_threads(
    stage: StageState, bounds: Any, launched: Iterable[tuple[IterVar, Var, PrimExpr]]
) -> list[PrimExpr]:
    """Conditions that leave a reduction to one of several threads that would all do it, in memory
    that they share: each would add to what the others have stored. `launched`: threads around the
    stage, their variables and how many they are."""
    own = [stage.attr(leaf).bind_thread for leaf in stage.leaf_iter_vars]
    bound = [t for t in own if t is not None]
    found: list[PrimExpr] = []
    for thread, var, count in launched:
        if is_virtual(thread) or any(same_thread(thread, t) for t in bound):
            continue
        if sees_all(stage, thread) and not bounds.analyzer.can_prove(count <= 1):
            found.append(EQ(var, const(0, var.dtype)))
    return found
