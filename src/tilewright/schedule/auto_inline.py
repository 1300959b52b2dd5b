"""Inline all stages of a kind at once, as operator libraries' schedules do; and bounds as users
ask.
"""

from __future__ import annotations

from typing import Any

from ..loopir.expr import PrimExpr
from ..loopir.iter import IterVar, ProducerLoad, Range
from ..loopir.visit import walk
from ..tensor.op import ComputeOp
from .api import Schedule
from .bounds import infer_bounds
from .state import GROUP_ROOT


def loads_of(op: ComputeOp) -> list[ProducerLoad]:
    """All reads of an operation's body."""
    return [e for body in op.body for e in walk(body) if isinstance(e, ProducerLoad)]


def is_injective(op: Any) -> bool:
    """Every element comes from elements, not from a reduction."""
    return isinstance(op, ComputeOp) and not op.reduce_axis and op.num_outputs == 1


def is_broadcast(op: Any) -> bool:
    """No reduction, and of tag "broadcast"."""
    return is_injective(op) and op.tag == "broadcast"


def is_elemwise(op: Any) -> bool:
    """Element (i, j, ...) reads its inputs at (i, j, ...)."""
    if not is_injective(op):
        return False
    own = [id(a.var) for a in op.axis]
    return all([id(i) for i in load.indices] == own for load in loads_of(op))


def _inline(s: Schedule, chosen: Any) -> None:
    for stage in list(s.stages):
        scheduled = stage.relations or stage.attach_type != GROUP_ROOT
        scheduled = scheduled or list(stage.all_iter_vars) != stage.leaf_iter_vars
        if not stage.is_output and not scheduled and chosen(stage.op):
            stage.compute_inline()


def auto_inline_elemwise(s: Schedule) -> None:
    """Inline every stage that is element-wise, no output, and not yet scheduled."""
    _inline(s, is_elemwise)


def auto_inline_broadcast(s: Schedule) -> None:
    """Inline every stage of tag "broadcast" that is no reduction, no output, not yet scheduled."""
    _inline(s, is_broadcast)


def auto_inline_injective(s: Schedule) -> None:
    """Inline every stage that is no reduction, no output, and not yet scheduled."""
    _inline(s, is_injective)


def infer_bound(s: Schedule) -> dict[IterVar, Range]:
    """The range of every axis of a schedule: root axes with their region, others from 0."""
    bounds = infer_bounds(s.normalize())
    result: dict[IterVar, Range] = {}
    for stage in bounds.schedule.stages:
        mine = bounds[stage]
        for axis, extent in mine.extent.items():
            low: PrimExpr | int = mine.min.get(axis, 0)
            result[axis] = Range.from_min_extent(low, extent)
    return result
