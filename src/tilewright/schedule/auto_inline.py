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


def loads_of(op: ComputeOp) -> list[ProducerLoad]:
    """All reads of an operation's body."""
    return [e for body in op.body for e in walk(body) if isinstance(e, ProducerLoad)]


def is_injective(op: Any) -> bool:
    """Every element comes from elements, not from a reduction."""
    return isinstance(op, ComputeOp) and not op.reduce_axis and op.num_outputs == 1


def is_broadcast(op: Any) -> bool:
    """Element (i, j, ...) reads its inputs at some of its own indices, in order."""
    if not is_injective(op):
        return False
    places = {id(a.var): k for k, a in enumerate(op.axis)}
    for load in loads_of(op):
        order = [places.get(id(i), -1) for i in load.indices]
        if -1 in order or order != sorted(set(order)):
            return False
    return True


def is_elemwise(op: Any) -> bool:
    """Element (i, j, ...) reads its inputs at (i, j, ...)."""
    return is_broadcast(op) and all(len(x.indices) == len(op.axis) for x in loads_of(op))


def _inline(s: Schedule, chosen: Any) -> None:
    for stage in list(s.stages):
        if not stage.is_output and chosen(stage.op):
            stage.compute_inline()


def auto_inline_elemwise(s: Schedule) -> None:
    """Inline every stage that is element-wise and no output."""
    _inline(s, is_elemwise)


def auto_inline_broadcast(s: Schedule) -> None:
    """Inline every stage that is element-wise up to broadcasting and no output."""
    _inline(s, is_broadcast)


def auto_inline_injective(s: Schedule) -> None:
    """Inline every stage that is no reduction and no output."""
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
