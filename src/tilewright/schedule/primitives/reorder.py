"""reorder, tile: the order of loops.

for i in range(n):                 for j in range(m):
    for j in range(m):     ->          for i in range(n):
        B[i, j] = ...                      B[i, j] = ...
"""

from __future__ import annotations

from typing import Any

from ...loopir.iter import IterVar
from ..state import Illegal, StageState
from .split import split

_MOVABLE = (
    IterVar.DataPar,
    IterVar.CommReduce,
    IterVar.ThreadIndex,
    IterVar.Unrolled,
    IterVar.Vectorized,
    IterVar.Parallelized,
)


def reorder(stage: StageState, *axes: IterVar) -> None:
    """Put the given leaf axes in this order, on the places that they hold together now. Raises
    ScheduleError where an axis is no loop of the stage, stands twice, or is of a kind that cannot
    move."""
    positions = []
    for axis in axes:
        positions.append(stage.leaf_position(axis))
        if axis.iter_type not in _MOVABLE:
            raise Illegal(f"Cannot reorder IterVar({IterVar.KINDS[axis.iter_type]})", axis)
    if len(set(positions)) != len(positions):
        raise Illegal("Same axis can not appear more than once in reorder", axes[-1])
    for place, axis in zip(sorted(positions), axes):
        stage.leaf_iter_vars[place] = axis


def tile(
    stage: StageState,
    x_parent: IterVar,
    y_parent: IterVar,
    x_factor: Any,
    y_factor: Any,
) -> tuple[IterVar, IterVar, IterVar, IterVar]:
    """Split two axes and reorder to (x_outer, y_outer, x_inner, y_inner). Raises ScheduleError
    where the axes are not two loops of the stage, or a factor is no integer above 0."""
    if x_parent is y_parent:
        raise Illegal("tile needs two different axes", x_parent)
    stage.leaf_position(y_parent)
    xo, xi = split(stage, x_parent, factor=x_factor)
    try:
        yo, yi = split(stage, y_parent, factor=y_factor)
    except Illegal:
        undo_split(stage, xo)
        raise
    reorder(stage, xo, yo, xi, yi)
    return xo, yo, xi, yi


def undo_split(stage: StageState, outer: IterVar) -> None:
    """Take back the split made last, so that a primitive that fails leaves no trace."""
    relation = stage.relations.pop()
    place = stage.leaf_position(outer)
    stage.leaf_iter_vars[place : place + 2] = [relation.parents[0]]
    del stage.axes[-2:]
