"""Crossover: a child takes the decisions of each node from one of two parents.

Zheng et al., Ansor, OSDI 2020, section 5.1. The parents may be of different sketches. The child is
of its mother's; of the father it can take those decisions of a node that both sketches leave open
in the same way: all lengths of its splits together (of the same axes, cut into as many parts), its
limit for unrolling, its pragmas, its number of parallel loops, its place.

Decisions depend on each other in one way: a stage may be computed only inside a loop that its
readers share, and not in a stage that is inlined. Lengths move no loop, so they go with any places.
Places have to be a combination that the mother's space has worked out (`Space.palette`, all of
which are legal); a child with another one keeps its mother's places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .space import Matrix, Space

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Shared:
    """What one sketch can take from another: columns of both that mean the same, and for the places
    of a stage (own column, other's column, own number of each of the other's; -1: none)."""

    own: Matrix
    other: Matrix
    places: tuple[tuple[int, int, Matrix], ...] = field(default=())

    def translate(self, rows: Matrix, others: Matrix) -> Matrix:
        """Candidates of the other sketch as those of the own one, with the columns of `rows` where
        there is no counterpart."""
        result = rows.copy()
        result[:, self.own] = others[:, self.other]
        for own, other, numbers in self.places:
            same = numbers[others[:, other]]
            result[:, own] = np.where(same >= 0, same, rows[:, own])
        return result


class Crossover:
    """Children of candidates of any two of these spaces."""

    def __init__(self, spaces: list[Space]) -> None:
        self.spaces = spaces
        self._genes = [genes(s) for s in spaces]
        self._shared: dict[tuple[int, int], Shared] = {}

    def shared(self, own: int, other: int) -> Shared:
        """What candidates of one space take from those of another."""
        found = self._shared.get((own, other))
        if found is None:
            found = self._shared[own, other] = self._compare(own, other)
        return found

    def _compare(self, own: int, other: int) -> Shared:
        mine, theirs = self._genes[own], self._genes[other]
        both = [key for key in mine if key in theirs]
        pairs = [pair for key in both for pair in zip(mine[key], theirs[key])]
        table = np.array(pairs, np.int64).reshape(len(pairs), 2)
        places = _places(self.spaces[own], self.spaces[other])
        return Shared(table[:, 0], table[:, 1], tuple(places))

    def children(
        self,
        own: int,
        rows: Matrix,
        fathers: tuple[Matrix, Matrix],
        population: list[Matrix],
        rng: np.random.Generator,
    ) -> Matrix:
        """Children of `rows`. fathers: for each its sketch, and its place in the matrix that the
        population has for this."""
        sketches, places = fathers
        translated = rows.copy()
        for other in np.unique(sketches).tolist():
            mine = np.flatnonzero(sketches == other)
            given = population[other][places[mine]]
            if other != own:
                given = self.shared(own, other).translate(rows[mine], given)
            translated[mine] = given
        return crossed(self.spaces[own], rows, translated, rng)


def crossed(space: Space, rows: Matrix, others: Matrix, rng: np.random.Generator) -> Matrix:
    """Each node's columns from either parent, both in the columns of one space."""
    nodes = column_nodes(space)
    names = np.unique(nodes)
    if len(names) == 0 or not len(rows):
        return rows
    flips = rng.random((len(rows), len(names))) < 0.5
    take = flips[:, np.searchsorted(names, nodes)]
    result: Matrix = np.where(take, others, rows)
    columns = [c.column for c in space.locations]
    if columns:
        known = space.in_palette(result[:, columns])
        result[:, columns] = np.where(known[:, None], result[:, columns], rows[:, columns])
    return result


def column_nodes(space: Space) -> Matrix:
    """The stage that each column decides about."""
    nodes = np.full(space.width, -1, np.int64)
    for g in space.groups:
        nodes[g.start : g.stop] = g.node
    for c in (*space.parallel, *space.unroll, *space.pragmas, *space.locations):
        nodes[c.column] = c.node
    return nodes


def genes(space: Space) -> dict[Key, list[int]]:
    """The columns of a space but those of places, by what they decide, in terms that all sketches
    of a computation share."""
    found: dict[Key, list[int]] = {}
    for node in {g.node: None for g in space.groups}:
        own = [g for g in space.groups if g.node == node]
        lengths = tuple((g.extent, g.stop - g.start, g.reduce, g.options) for g in own)
        columns = [c for g in own for c in range(g.start, g.stop)]
        found[("tiles", *_node(space, node), lengths)] = columns
    for c in (*space.parallel, *space.unroll, *space.pragmas):
        found[(c.kind, *_node(space, c.node), c.count, c.values)] = [c.column]
    return found


def _node(space: Space, ident: int) -> Key:
    """What a stage computes: its name without that of a cache, and its axes."""
    stage = space.sketch.schedule.by_id[ident]
    name = stage.op.name
    if ident in space.sketch.cached:
        name = name.rsplit(".", 1)[0]
    axes = (*stage.op.axis, *stage.op.reduce_axis)
    return name, tuple(a.var.name.removesuffix(".c") for a in axes)


def _places(own: Space, other: Space) -> list[tuple[int, int, Matrix]]:
    """The stages that both may place, with the numbers of places that both have."""
    theirs = {_node(other, c.node): c for c in other.locations}
    found = []
    for c in own.locations:
        match = theirs.get(_node(own, c.node))
        if match is None:
            continue
        mine = {_spot(own, v): n for n, v in enumerate(c.values)}
        numbers = [mine.get(_spot(other, v), -1) for v in match.values]
        found.append((c.column, match.column, np.array(numbers, np.int64)))
    return found


def _spot(space: Space, value: Any) -> Any:
    """A place in terms of the loops around it."""
    if not isinstance(value, tuple):
        return value
    ident, loop = value
    leaves = space.sketch.schedule.by_id[ident].leaf_iter_vars[: loop + 1]
    names = (a.var.name.replace(".c.", ".") for a in leaves)
    return _node(space, ident), tuple(names)
