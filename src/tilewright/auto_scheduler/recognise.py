"""From the rows of a record back to the candidate of a search: sketch, lengths, places, limits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from . import rows as R
from .population import AnySkeleton, Candidate, Population
from .rows import Row
from .space import Space


def recognise(population: Population, rows: Sequence[Row]) -> Candidate | None:
    """The candidate whose rows these are; None where no sketch of this search has it."""
    plain = [_plain(r) for r in rows]
    for number, space in enumerate(population.spaces):
        lengths = _lengths(space, plain)
        if lengths is None:
            continue
        rest = plain[len(space.sketch.rows) :]
        choices = _choices(space, rest)
        if choices is None:
            continue
        skeleton, _ = population.skeleton(number, choices)
        own = [_plain(r) for r in skeleton.rows]
        if rest[: len(own)] != own:
            continue
        row = np.full(space.width, -1, np.int64)
        row[: len(lengths)] = lengths
        for c, value in zip(space.locations, choices):
            row[c.column] = value
        _read_annotations(skeleton, rest[len(own) :], row)
        if [_plain(r) for r in skeleton.close(row).rows] == plain:
            return population.canonical(Candidate(number, row))
    return None


def _choices(space: Space, rows: Sequence[Row]) -> list[int] | None:
    """The places of the flexible stages, which rows tell in their order; None where one is new."""
    order = space.sketch.order
    found: list[int] = []
    rest = list(rows)
    for c in space.locations:
        option: Any = "root"
        if rest and rest[0][0] in ("CI", "CA") and rest[0][1] == order.index(c.node):
            row = rest.pop(0)
            option = "inline" if row[0] == "CI" else (_ident(order, row[2]), row[3])
        if option not in c.values:
            return None
        found.append(c.values.index(option))
    return found


def _ident(order: Sequence[int], place: Any) -> int | None:
    """The stage at a place that a record tells."""
    return order[place] if isinstance(place, int) and 0 <= place < len(order) else None


def _plain(row: Row) -> Row:
    """A row with tuples throughout, as it may have come from JSON."""
    return tuple(tuple(v) if isinstance(v, (list, tuple)) else v for v in row)


def _lengths(space: Space, rows: Sequence[Row]) -> list[int] | None:
    """The values of a sketch's open lengths in rows that begin like it."""
    sketch = space.sketch.rows
    if len(rows) < len(sketch):
        return None
    found: list[int] = []
    for own, given in zip(sketch, rows):
        if own[0] != given[0] or own[1:4] != given[1:4]:
            return None
        if own[0] != "SP":
            if _plain(own) != given:
                return None
            continue
        if len(own[4]) != len(given[4]):
            return None
        for open_length, value in zip(own[4], given[4]):
            if open_length is None and isinstance(value, int) and value > 0:
                found.append(value)
            elif open_length is None or open_length != value:
                return None
    for g in space.groups:
        inner = found[g.start : g.stop]
        divides = g.extent % prod(inner) == 0
        if not (divides or g.options or g.fitting(np.array([inner]), space.max_inner)[0]):
            return None
    return found


def _read_annotations(skeleton: AnySkeleton, rows: Sequence[Row], candidate: Any) -> None:
    """The columns that annotation rows tell of."""
    order = skeleton.state.order
    for plan in skeleton.plans:
        place = order.index(plan.ident)
        if plan.unroll >= 0:
            candidate[plan.unroll] = 0
        if plan.parallel >= 0:
            candidate[plan.parallel] = 0
        for column in plan.without.values():
            candidate[column] = 1
        fused = 1
        for row in rows:
            if row[1] != place:
                continue
            if row[0] == "PR" and row[3] in plan.without:
                candidate[plan.without[row[3]]] = 0
            elif row[0] == "PR" and plan.unroll >= 0:
                key, _, step = str(row[3]).partition("$")
                if key == R.UNROLL_PRAGMA and int(step or 0) in plan.options:
                    candidate[plan.unroll] = plan.options.index(int(step or 0))
            elif row[0] == "FU":
                fused = len(row[2])
            elif row[0] == "AN" and row[3] == R.PARALLEL and plan.parallel >= 0:
                candidate[plan.parallel] = fused
