"""Where flexible stages may be computed: which places exist, and which go together.

A flexible stage is one that no rule has placed. It may be inlined, computed at the root, or at a
loop of the stage that reads it; where several read it, at a loop of the last of them, if the others
are computed inside that loop too (as in a softmax, whose rows are then finished one by one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..loopir.iter import IterVar
from ..schedule.state import GROUP_ROOT, SCOPE
from .state import State

Options = dict[int, Any]
Matrix = np.ndarray[Any, np.dtype[np.int64]]


def flexible_stages(sketch: State) -> list[tuple[int, tuple[Any, ...]]]:
    """Stages that no rule has placed, and where they may go: "inline", "root", (stage, loop)."""
    found: list[tuple[int, tuple[Any, ...]]] = []
    access = sketch.access
    for place in reversed(range(len(sketch.order))):
        stage = sketch.stage_at(place)
        op = stage.op
        if not access.is_compute(op) or access.is_output(op) or stage.attach_type != GROUP_ROOT:
            continue
        if stage.relations or access.needs_multi_level_tiling(op) or op.num_outputs != 1:
            continue
        if stage.id in sketch.packed or not sketch.has_compute_readers(place):
            continue
        options: list[Any] = []
        if not op.reduce_axis:
            options.append("inline")
        options += _attach_points(sketch, place)
        options.append("root")
        if len(options) > 1:
            found.append((stage.id, tuple(options)))
    return found


def _attach_points(sketch: State, place: int) -> list[tuple[int, int]]:
    """Loops of the last reader, and of the stage that one is computed in, outermost first.

    Where there are other readers, they have to be computed inside that loop as well: `Places.legal`
    sees to it.
    """
    readers = sketch.readers(place)
    if not readers:
        return []
    reader = sketch.stage_at(readers[-1])
    if len(readers) > 1 and reader.attach_type == SCOPE:
        return []
    tiled = bool(reader.relations)
    points: list[tuple[int, int]] = []
    nested = reader.attach_type == SCOPE
    outer = reader.attach_stage
    if nested and outer is not None:
        for n, leaf in enumerate(outer.leaf_iter_vars):
            points.append((outer.id, n))
            if leaf is reader.attach_ivar:
                break
    points_above = tuple(points)
    reduced = False
    for n, leaf in enumerate(reader.leaf_iter_vars[:-1]):
        if leaf.iter_type == IterVar.CommReduce:
            if not tiled:
                break
            reduced = True
        elif reduced:
            break
        if nested and n < len(points_above):
            continue  # of one iteration inside the stage it is computed in
        points.append((reader.id, n))
    return points


class Places:
    """The combinations of places of a sketch's flexible stages, one number for each stage."""

    def __init__(self, sketch: State, locations: Sequence[Any]) -> None:
        """`locations`: the choices, those of readers before those of what they read."""
        self.locations = list(locations)
        self.readers: dict[int, list[int]] = {}
        self.fixed: dict[int, tuple[int, int]] = {}
        for place, stage in enumerate(sketch.live_stages):
            self.readers[stage.id] = [sketch.order[r] for r in sketch.readers(place)]
            outer = stage.attach_stage
            if stage.attach_type == SCOPE and outer is not None and stage.attach_ivar is not None:
                loop = outer.leaf_position(stage.attach_ivar)
                self.fixed[stage.id] = (outer.id, loop)

    def nested(self) -> Matrix:
        """For each loop that a stage may be computed at: everything that can be is computed there,
        the rest as far inside its reader as possible, or inlined."""
        spots = {v: None for c in self.locations for v in c.values if isinstance(v, tuple)}
        found: list[list[int]] = []
        for spot in spots:
            for inlining in (True, False):
                found.append([_nearest(c, spot, inlining) for c in self.locations])
        if not found:
            return np.zeros((0, len(self.locations)), np.int64)
        return np.unique(self.legal(np.array(found, np.int64)), axis=0)

    def legal(self, places: Matrix) -> Matrix:
        """The same with stages at the root whose place is not inside all that needs them."""
        result = places.copy()
        for row in result:
            options: Options = {c.node: c.values[v] for c, v in zip(self.locations, row)}
            for n, c in enumerate(self.locations):
                option = options[c.node]
                if isinstance(option, tuple) and not self._is_legal(c.node, option, options):
                    row[n] = c.count - 1
                    options[c.node] = c.values[-1]
        return result

    def _is_legal(self, node: int, spot: tuple[int, int], options: Options) -> bool:
        if options.get(spot[0]) == "inline":
            return False
        return all(self._inside(r, spot, options) for r in self.readers[node])

    def _inside(self, node: int, spot: tuple[int, int], options: Options) -> bool:
        """Whether a stage is computed inside a loop, or is the one that has it."""
        if node == spot[0]:
            return True
        option = options.get(node, self.fixed.get(node))
        if option == "inline":
            return all(self._inside(r, spot, options) for r in self.readers[node])
        if not isinstance(option, tuple):
            return False
        if option[0] == spot[0]:
            return bool(option[1] >= spot[1])
        return self._inside(option[0], spot, options)


def _nearest(choice: Any, spot: tuple[int, int], inlining: bool) -> int:
    """The number of `spot` among the values of a choice, or of the next best place."""
    values = list(choice.values)
    if spot in values:
        return values.index(spot)
    if inlining and "inline" in values:
        return values.index("inline")
    loops = [n for n, v in enumerate(values) if isinstance(v, tuple)]
    return loops[-1] if loops else len(values) - 1
