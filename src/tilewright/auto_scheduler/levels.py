"""Which open length each loop of a stage has: its split, and its level there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loopir.expr import Var
from ..loopir.visit import free_vars
from ..schedule.relations import Split

Level = tuple[int, int]
"""The number of a group of lengths, and the level in it; 0: outermost, what the others leave."""


def levels_of(
    groups: Sequence[Any], factors: Sequence[Any], stage: Any, count: int
) -> list[Level | None]:
    """The levels of a stage's outermost `count` loops; None for those that no open split made."""
    place: dict[Any, Level] = {}
    for number, g in enumerate(groups):
        for column in range(g.start, g.stop):
            place[factors[column].var] = number, column - g.start + 1
    return [_level(stage, leaf, place) for leaf in stage.leaf_iter_vars[:count]]


def _level(stage: Any, leaf: Any, place: dict[Any, Level]) -> Level | None:
    for r in stage.relations:
        if isinstance(r, Split) and r.factor is not None and leaf in (r.outer, r.inner):
            own = _first(r.factor, place)
            return own if own is None or leaf is r.inner else (own[0], 0)
    extent = None if leaf.dom is None else leaf.dom.extent
    own = None if extent is None else _first(extent, place)
    # an axis that rfactor made: as long as a length says, or what the lengths leave
    return own if own is None or isinstance(extent, Var) else (own[0], 0)


def _first(size: Any, place: dict[Any, Level]) -> Level | None:
    known = [place[v] for v in free_vars(size) if v in place]
    return min(known, default=None)


def edges(levels: Sequence[Level | None]) -> list[Level]:
    """Of each axis that these loops are of, the innermost: what it loses goes to a loop inside."""
    inner: dict[int, int] = {}
    for level in levels:
        if level is not None:
            inner[level[0]] = max(inner.get(level[0], 0), level[1])
    return list(inner.items())
