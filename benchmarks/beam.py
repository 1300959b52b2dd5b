"""Beam search over incomplete programs, which Ansor was compared with (OSDI 2020, section 7.2).

A program is built decision by decision: the lengths of one loop, the places of all flexible
stages, then each further column. After each, the cost model judges every continuation with what is
not decided yet at its simplest (loops not split, stages at the root, nothing unrolled, the rules
for the rest), and all but the best are dropped. The model has learned from whole programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.auto_scheduler import SketchPolicy
from tilewright.auto_scheduler.population import Candidate, Scorer
from tilewright.auto_scheduler.space import Matrix, Space, tilings

MOST = 48  # ways of one decision that are looked at, drawn from all of them
Decision = tuple[list[int], Callable[[np.random.Generator], Matrix]]
Score = Callable[[int, Matrix], Any]


def simplest(space: Space) -> Matrix:
    """The candidate with nothing decided."""
    row = np.zeros(space.width, np.int64)
    for g in space.groups:
        row[g.start : g.stop] = g.options[0] if g.options else 1
    for c in space.locations:
        row[c.column] = c.count - 1
    for c in space.parallel:
        row[c.column] = -1
    return row


def decisions(space: Space) -> Iterator[Decision]:
    """The decisions of a sketch in their order: columns, and ways to fill them in."""
    for g in space.groups:
        table = np.array(g.options, np.int64)[:, None]
        if not g.options:
            table = tilings(g.extent, g.stop - g.start, space.max_inner, g.lanes)
        yield list(range(g.start, g.stop)), _some(table)
    if space.locations:
        yield [c.column for c in space.locations], _some(space.palette)
    for c in space.parallel:
        yield [c.column], _some(np.arange(-1, c.count)[:, None])
    for c in (*space.unroll, *space.pragmas):
        yield [c.column], _some(np.arange(c.count)[:, None])


def _some(table: Matrix) -> Callable[[np.random.Generator], Matrix]:
    return lambda rng: table if len(table) <= MOST else rng.permutation(table)[:MOST]


def beam_search(
    spaces: list[Space], score: Score, width: int, rng: np.random.Generator
) -> list[Candidate]:
    """The `width` whole programs that are left, best first; those of all sketches compete at every
    decision."""
    plans = [list(decisions(s)) for s in spaces]
    beam = [(0.0, k, simplest(s)) for k, s in enumerate(spaces)]
    for step in range(max(map(len, plans), default=0)):
        grown: dict[tuple[int, bytes], tuple[float, int, Matrix]] = {}
        for k, plan in enumerate(plans):
            mine = [row for _, sketch, row in beam if sketch == k]
            if not mine:
                continue
            rows = np.concatenate([_continued(row, plan[step : step + 1], rng) for row in mine])
            rows = np.unique(rows, axis=0)
            for row, value in zip(rows, score(k, rows)):
                if np.isfinite(value):
                    grown[k, row.tobytes()] = (float(value), k, row)
        beam = sorted(grown.values(), key=lambda b: (-b[0], b[1], b[2].tobytes()))[:width]
    return [Candidate(k, row) for _, k, row in beam]


def _continued(row: Matrix, plan: list[Decision], rng: np.random.Generator) -> Matrix:
    """A row with the next decision made in each way; as it is where none is left."""
    if not plan:
        return row[None, :]
    columns, ways = plan[0]
    filled = ways(rng)
    rows = np.repeat(row[None, :], len(filled), axis=0)
    rows[:, columns] = filled
    return rows


class BeamPolicy(SketchPolicy):
    """A search whose rounds come from a beam of twice as many programs, but for the share that is
    picked at random."""

    def propose(self, count: int) -> list[Candidate]:
        """The best of the beam that were not measured, and random programs for the rest."""
        scorer = Scorer(self.population, self.model)
        spaces = self.population.spaces
        found = beam_search(spaces, scorer, 2 * count, self.rng)
        explored = int(float(self.params["eps_greedy"]) * count + self.rng.random())
        greedy = self._new(found)[: count - explored]
        drawn = self.rng.integers(len(spaces), size=8 * (count - len(greedy)))
        others = [Candidate(int(k), spaces[k].sample(1, self.rng)[0]) for k in drawn]
        return self._new([*greedy, *others])[:count]

    def _new(self, candidates: list[Candidate]) -> list[Candidate]:
        """Different programs that were not measured."""
        known = {c.key: c for c in map(self.population.canonical, candidates)}
        return [c for key, c in known.items() if key not in self.measured]
