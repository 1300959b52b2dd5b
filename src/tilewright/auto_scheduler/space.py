"""A sketch as columns of integers, so that thousands of candidates are one matrix.

Columns of a sketch, in this order: the open lengths of every split (`Group`, one for each split
loop), the place where each flexible stage is computed (`Choice`: inlined, at the root, or at a loop
of its reader), how many outer loops of the output run in parallel together, and for each reduction
the limit for unrolling. Everything else follows from these: what is vectorised, and which loops
make the tile that is held in registers and written out in full.

All candidates with the same places share their loops: they are one *skeleton*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..loopir.iter import IterVar
from ..schedule.state import GROUP_ROOT
from .places import Places, flexible_stages
from .rows import Row
from .state import State

PALETTE = 24
FROM_GOOD = 0.7
MOST_WASTE = 8  # the part of a loop that its tiles may reach over: an eighth
ROUND_UP = (2, 4, 8, 16, 32, 64)

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Matrix = np.ndarray[Any, np.dtype[np.int64]]


@lru_cache(maxsize=4096)
def factorizations(extent: int, parts: int, max_inner: int) -> Matrix:
    """All (parts,) tuples whose product divides `extent`, the last at most `max_inner`."""
    found: list[tuple[int, ...]] = []

    def walk(left: int, prefix: tuple[int, ...]) -> None:
        if len(prefix) == parts:
            found.append(prefix[::-1])
            return
        limit = max_inner if not prefix else left
        for d in divisors(left):
            if d <= limit:
                walk(left // d, (*prefix, d))

    walk(extent, ())
    return np.array(found, dtype=np.int64).reshape(len(found), parts)


@lru_cache(maxsize=4096)
def tilings(extent: int, parts: int, max_inner: int) -> Matrix:
    """The lengths that `parts` inner loops of a split may have: those that divide its extent, or
    the extent rounded up to a length that has more divisors."""
    rounded = {-(-extent // size) * size for size in ROUND_UP}
    tables = [factorizations(e, parts, max_inner) for e in sorted({extent, *rounded})]
    found = np.unique(np.concatenate(tables), axis=0)
    fitting: Matrix = found[little_waste(extent, found)]
    return fitting


def little_waste(extent: int, inner: Matrix) -> Flags:
    """Which tiles reach over the end of a loop by little, or not at all."""
    size = np.maximum(inner.prod(axis=1), 1)
    over: Flags = -(-extent // size) * size * MOST_WASTE <= extent * (MOST_WASTE + 1)
    return over


@lru_cache(maxsize=65536)
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n, ascending."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return tuple(small + [n // d for d in reversed(small) if d * d != n])


@dataclass(frozen=True)
class Group:
    """The lengths of one split: columns [start, stop), of a loop of `extent`, of stage `node`.

    `options`: where the only length is one of a list and need not divide the loop.
    """

    start: int
    stop: int
    extent: int
    node: int
    reduce: bool
    options: tuple[int, ...] = ()


@dataclass(frozen=True)
class Choice:
    """One column of numbers below `count`, of stage `node`; the last is the default for
    locations."""

    column: int
    count: int
    node: int
    kind: str
    values: tuple[Any, ...] = ()


class Space:
    """The columns of one sketch."""

    def __init__(self, sketch: State, number: int, policy: Any) -> None:
        self.sketch = sketch
        self.number = number
        self.max_inner = int(policy.params["max_innermost_split_factor"])
        self.groups = _groups(sketch)
        column = len(sketch.open)
        self.locations: list[Choice] = []
        if not policy.params["disable_change_compute_location"]:
            for ident, options in flexible_stages(sketch):
                self.locations.append(Choice(column, len(options), ident, "location", options))
                column += 1
        self.places_of = Places(sketch, self.locations)
        flexible = {c.node for c in self.locations}
        self.parallel: list[Choice] = []
        self.unroll: list[Choice] = []
        for stage in sketch.live_stages:
            fixed = stage.id in flexible or stage.id in sketch.packed
            if is_parallel_root(sketch, stage) and not fixed:
                count = parallel_limit(sketch, stage)
                self.parallel.append(Choice(column, count + 1, stage.id, "parallel"))
                column += 1
        options = tuple(policy.unroll_options)
        for stage in sketch.live_stages:
            if getattr(stage.op, "reduce_axis", ()):
                self.unroll.append(Choice(column, len(options), stage.id, "unroll", options))
                column += 1
        self.width = column
        self.palette = np.zeros((1, len(self.locations)), np.int64)
        self.draw_palette(PALETTE, np.random.default_rng(policy.seed))

    def draw_palette(self, count: int, rng: np.random.Generator) -> None:
        """Choose the combinations of places that are searched: all, or `count` where there are
        more, of which half put as much as they can inside one loop.

        Each is a skeleton, whose structure has to be worked out once.
        """
        sizes = [c.count for c in self.locations]
        if not sizes:
            return
        if np.prod(sizes, dtype=np.float64) <= count:
            found = np.indices(sizes).reshape(len(sizes), -1).T
        else:
            nested = self.places_of.nested()
            picked = nested[rng.permutation(len(nested))[: count // 2]]
            found = np.concatenate([picked, self._random_places(count - len(picked), rng)])
            found[-1] = [n - 1 for n in sizes]
        self.palette = np.unique(self.places_of.legal(found.astype(np.int64)), axis=0)

    def renew_palette(self, good: Matrix, count: int, rng: np.random.Generator) -> None:
        """Put `count` other combinations in the place of those that none of the `good` candidates
        has: at random, or one of theirs with one stage elsewhere."""
        sizes = [c.count for c in self.locations]
        if not sizes or np.prod(sizes, dtype=np.float64) <= len(self.palette):
            return
        own = good[:, [c.column for c in self.locations]]
        kept = {r.tobytes() for r in own[: len(self.palette) // 2]}
        poor = [n for n, r in enumerate(self.palette) if r.tobytes() not in kept]
        for _ in range(count):
            fresh = self._random_places(1, rng)
            if len(own) and rng.random() < FROM_GOOD:
                near = own[rng.integers(min(len(own), 4))][None, :].copy()
                column = rng.integers(len(sizes))
                near[0, column] = fresh[0, column]
                fresh = near
            fresh = self.places_of.legal(fresh)
            if poor:
                self.palette[poor.pop(rng.integers(len(poor)))] = fresh[0]
            elif len(self.palette) < PALETTE:
                self.palette = np.concatenate([self.palette, fresh])

    def _random_places(self, count: int, rng: np.random.Generator) -> Matrix:
        return np.stack([rng.integers(c.count, size=count) for c in self.locations], axis=1)

    def places(self, count: int, rng: np.random.Generator) -> Matrix:
        """Places for `count` candidates, drawn from the palette."""
        return self.palette[rng.integers(len(self.palette), size=count)]

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        """Random candidates, as rows of the matrix."""
        result = np.zeros((count, self.width), np.int64)
        for g in self.groups:
            table = tilings(g.extent, g.stop - g.start, self.max_inner)
            result[:, g.start : g.stop] = table[rng.integers(len(table), size=count)]
        for c in self.unroll:
            result[:, c.column] = rng.integers(c.count, size=count)
        if self.locations:
            result[:, [c.column for c in self.locations]] = self.places(count, rng)
        for c in self.parallel:
            result[:, c.column] = -1  # by the rule of `default_parallel`, unless mutated
        return result

    def outer_lengths(self, matrix: Matrix, group: Group) -> Matrix:
        """All lengths of a split, the outermost (what the others leave) included."""
        inner = matrix[:, group.start : group.stop]
        outer = -(-group.extent // np.maximum(inner.prod(axis=1), 1))
        return np.concatenate([outer[:, None], inner], axis=1)

    def place_rows(self, choices: Sequence[int]) -> list[Row]:
        """The rows that put the flexible stages where a candidate wants them."""
        rows: list[Row] = []
        order = self.sketch.order
        for c, value in zip(self.locations, choices):
            option = c.values[int(value)]
            stage = order.index(c.node)
            if option == "inline":
                rows.append(("CI", stage))
            elif option != "root":
                target, loop = option
                rows.append(("CA", stage, order.index(target), loop))
        return rows


def _groups(sketch: State) -> list[Group]:
    groups: list[Group] = []
    for column, f in enumerate(sketch.open):
        row = sketch.rows[f.row]
        if groups and groups[-1].stop == column and sketch.open[column - 1].row == f.row:
            g = groups[-1]
            groups[-1] = Group(g.start, column + 1, g.extent, g.node, g.reduce)
            continue
        ident, reduce = _split_stage(sketch, f)
        groups.append(Group(column, column + 1, int(row[3]), ident, reduce))
    return groups


def _split_stage(sketch: State, factor: Any) -> tuple[int, bool]:
    """The stage that a split's variable now belongs to, and whether the loop reduces."""
    for stage in sketch.live_stages:
        for relation in stage.relations:
            size = getattr(relation, "factor", None)
            size = getattr(relation, "nparts", None) if size is None else size
            if size is factor.var:
                return stage.id, relation.parents[0].iter_type == IterVar.CommReduce
    # split before an rfactor: the axes are the new stage's own
    return sketch.order[sketch.rows[factor.row][1]], True


def is_parallel_root(state: State, stage: Any) -> bool:
    """Whether a stage's outer loops may run in parallel: it is computed at the root."""
    return bool(state.access.is_compute(stage.op) and stage.attach_type == GROUP_ROOT)


def parallel_limit(state: State, stage: Any) -> int:
    """How many outermost loops can be fused: data loops, none with a stage inside but the last."""
    inside = [s.attach_ivar for s in state.live_stages if s.attach_stage is stage]
    count = 0
    for leaf in stage.leaf_iter_vars:
        if leaf.iter_type != IterVar.DataPar:
            break
        count += 1
        if any(leaf is a for a in inside):
            break
    return count
