"""One stage of a skeleton: its loops and axes."""

from __future__ import annotations

from typing import Any

from ...loopir.expr import Var
from ...loopir.iter import IterVar
from .program import Slot
from .value import Loop, Value


class Axis:
    """A root axis: its region starts at `base` (which moves with the loops around the stage) and
    has `extent` values; `own` is the distance from there. Memory for it has `room` values, enough
    for the region at every place."""

    __slots__ = ("base", "extent", "own", "room")

    def __init__(self, base: Value, extent: Slot, room: Slot) -> None:
        self.base = base
        self.extent = extent
        self.room = room
        self.own = Value()


class StageNest:
    """One computed stage: the first `outside` of the loops in `path` belong to other stages."""

    __slots__ = ("axes", "extents", "ident", "limits", "outside", "path", "stage")

    def __init__(self, stage: Any, path: list[Loop]) -> None:
        """`limits`: how many iterations of loops around it, which are threads, have work in it."""
        self.limits: dict[Loop, Slot] = {}
        self.stage = stage
        self.ident: int = stage.id
        self.outside = len(path)
        self.path = path
        self.axes: dict[Var, Axis] = {}
        self.extents: dict[IterVar, Slot] = {}
