"""A sketch as columns of integers, so that thousands of candidates are one matrix.

Columns of a sketch, in this order: the open lengths of every split (`Group`, one for each split
loop), the place where each flexible stage is computed (`Choice`: inlined, at the root, or at a loop
of its reader), how many outer loops of the output run in parallel together, for each reduction the
limit for unrolling, and whether it goes without a pragma that a rule gives it. Everything else
follows from these: what is vectorised, and which loops make the tile that is held in registers and
written out in full.

All candidates with the same places share their loops: they are one *skeleton*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..loopir.iter import IterVar
from ..schedule.relations import Split
from ..schedule.state import GROUP_ROOT
from .levels import Level, levels_of
from .places import Places, flexible_stages
from .pragmas import VALUES, pragmas_of
from .rows import Row
from .state import State

PALETTE = 24
FROM_GOOD = 0.7
MOST_WASTE = 8  # the part of a loop that its tiles may reach over: an eighth
ROUND_UP = (2, 4, 8, 16, 32, 64)
REDRAWN = 0.1  # of the mutations of tiles

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
def tilings(extent: int, parts: int, max_inner: int, lanes: int = 1) -> Matrix:
    """The lengths that `parts` inner loops of a split may have: those that divide its extent, or
    the extent rounded up to a length that has more divisors, as far as they fit."""
    rounded = {-(-extent // size) * size for size in (*ROUND_UP, lanes)}
    tables = [factorizations(e, parts, max_inner) for e in sorted({extent, *rounded})]
    found = np.unique(np.concatenate(tables), axis=0)
    fitting: Matrix = found[fitting_tiles(extent, found, max_inner, lanes)]
    return fitting


def fitting_tiles(extent: int, inner: Matrix, max_inner: int, lanes: int = 1) -> Flags:
    """Which tiles, as lengths of inner loops, suit a loop.

    They reach over its end by an eighth at most. Where the innermost loop is a vector of so many
    `lanes`, it fills vectors, but for a rest that is a power of two and so needs one instruction;
    tiles of whole vectors may reach over the end by less than a vector, whose mask costs no more
    than the shorter vectors that would stand there. No loop is longer than what it is cut from.
    """
    size, last = np.maximum(inner.prod(axis=1), 1), inner[:, -1]
    covered = -(-extent // size) * size
    little = covered * MOST_WASTE <= extent * (MOST_WASTE + 1)
    rest = last % lanes
    whole = (rest == 0) & (covered - extent < lanes)
    fitting: Flags = (little & (rest & (rest - 1) == 0)) | whole
    return fitting & (last <= min(max_inner, extent))


def vector_lanes(dtypes: Iterable[str], vector_bytes: int) -> int:
    """How many elements of the widest of some types fill a vector."""
    return max(1, vector_bytes // max(parse(t).nbytes for t in dtypes))


@lru_cache(maxsize=65536)
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n, ascending."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return tuple(small + [n // d for d in reversed(small) if d * d != n])


@dataclass(frozen=True)
class Group:
    """The lengths of one split: columns [start, stop), of a loop of `extent`, of stage `node`.

    `options`: where the only length is one of a list and need not divide the loop. `lanes`: where
    the innermost of the loops becomes a vector, how many elements fill it, or the largest power of
    two that the loop has steps for.
    """

    start: int
    stop: int
    extent: int
    node: int
    reduce: bool
    options: tuple[int, ...] = ()
    lanes: int = 1

    def fitting(self, inner: Matrix, max_inner: int) -> Flags:
        """Which lengths suit the loop."""
        return fitting_tiles(self.extent, inner, max_inner, self.lanes)

    def draw(self, count: int, max_inner: int, rng: np.random.Generator) -> Matrix:
        """Random lengths that suit the loop."""
        table = tilings(self.extent, self.stop - self.start, max_inner, self.lanes)
        drawn: Matrix = table[rng.integers(len(table), size=count)]
        return drawn


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
    """The columns of one sketch.

    `parallel_loops_of`: for a choice of parallel loops and rows, how many of a stage's loops are
    fused in each row, and the extents of those that may be; given by the population that the space
    belongs to, which knows the rule for -1.
    """

    parallel_loops_of: Callable[[Choice, Matrix], tuple[Matrix, Matrix]]

    def __init__(self, sketch: State, number: int, policy: Any) -> None:
        self._begin(sketch, number, policy)
        self.vector_bytes = int(policy.hardware.vector_unit_bytes)
        self.groups = _groups(sketch, self.vector_bytes)
        if not policy.params["disable_change_compute_location"]:
            for ident, options in flexible_stages(sketch):
                self._add(self.locations, len(options), ident, "location", options)
        self.places_of = Places(sketch, self.locations)
        flexible = {c.node for c in self.locations}
        for stage in sketch.live_stages:
            fixed = stage.id in flexible or stage.id in sketch.packed
            if is_parallel_root(sketch, stage) and not fixed:
                count = parallel_limit(sketch, stage)
                self._add(self.parallel, count + 1, stage.id, "parallel")
                self.levels[stage.id] = levels_of(self.groups, sketch.open, stage, count)
        self._add_unroll(policy)
        self.rule_pragmas = bool(policy.params["rule_pragmas"])
        for stage in sketch.live_stages:
            reduces = bool(getattr(stage.op, "reduce_axis", ()))
            for kind in pragmas_of(stage) if self.rule_pragmas and reduces else ():
                self._add(self.pragmas, len(VALUES), stage.id, kind, VALUES)
        self.palette = np.zeros((1, len(self.locations)), np.int64)
        self.draw_palette(PALETTE, np.random.default_rng(policy.seed))

    def _begin(self, sketch: State, number: int, policy: Any) -> None:
        """A space of open lengths alone."""
        self.sketch, self.number, self.width = sketch, number, len(sketch.open)
        self.max_inner = int(policy.params["max_innermost_split_factor"])
        self.locations: list[Choice] = []
        self.parallel: list[Choice] = []
        self.unroll: list[Choice] = []
        self.pragmas: list[Choice] = []
        self.levels: dict[int, list[Level | None]] = {}

    def _add(self, choices: list[Choice], *what: Any) -> None:
        """A column more."""
        choices.append(Choice(self.width, *what))
        self.width += 1

    def _add_unroll(self, policy: Any) -> None:
        options = tuple(policy.unroll_options)
        for stage in self.sketch.live_stages:
            if getattr(stage.op, "reduce_axis", ()):
                self._add(self.unroll, len(options), stage.id, "unroll", options)

    def draw_palette(self, count: int, rng: np.random.Generator) -> None:
        """Choose the combinations of places that are searched: all, or `count` where there are
        more, of which half put as much as they can inside one loop. The others differ from one of
        the rest in one stage, so that mutations can change a place at a time.

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
            found = self._with_neighbours(picked, count, rng)
        self.palette = np.unique(self.places_of.legal(found.astype(np.int64)), axis=0)

    def _with_neighbours(self, picked: Matrix, count: int, rng: np.random.Generator) -> Matrix:
        """`count` combinations: some given ones, that of all at the root, and combinations that
        differ from another one in one stage, as far as a few draws find them."""
        root = np.array([[c.count - 1 for c in self.locations]], np.int64)
        found = np.unique(np.concatenate([picked, root]), axis=0)
        for _ in range(4 * count):
            if len(found) >= count:
                break
            near = found[rng.integers(len(found))][None, :].copy()
            column = rng.integers(near.shape[1])
            near[0, column] = rng.integers(self.locations[column].count)
            near = self.places_of.legal(near)
            if ((near != found).sum(axis=1) == 1).any() and not (near == found).all(axis=1).any():
                found = np.concatenate([found, near])
        return found

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

    def in_palette(self, places: Matrix) -> Flags:
        """Which combinations of places are some that are searched."""
        found: Flags = (places[:, None, :] == self.palette[None, :, :]).all(axis=2).any(axis=1)
        return found

    def _random_places(self, count: int, rng: np.random.Generator) -> Matrix:
        return np.stack([rng.integers(c.count, size=count) for c in self.locations], axis=1)

    def places(self, count: int, rng: np.random.Generator) -> Matrix:
        """Places for `count` candidates, drawn from the palette."""
        return self.palette[rng.integers(len(self.palette), size=count)]

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        """Random candidates, as rows of the matrix."""
        result = np.zeros((count, self.width), np.int64)
        for g in self.groups:
            result[:, g.start : g.stop] = g.draw(count, self.max_inner, rng)
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


def _groups(sketch: State, vector_bytes: int) -> list[Group]:
    """The groups of a sketch's columns."""
    vectors = _vectors(sketch, vector_bytes)
    groups: list[Group] = []
    for column, f in enumerate(sketch.open):
        row = sketch.rows[f.row]
        if groups and groups[-1].stop == column and sketch.open[column - 1].row == f.row:
            g = groups[-1]
            groups[-1] = replace(g, stop=column + 1, lanes=_lanes(vectors, f, g.extent))
            continue
        ident, reduce = _split_stage(sketch, f)
        extent = int(row[3])
        lanes = _lanes(vectors, f, extent)
        groups.append(Group(column, column + 1, extent, ident, reduce, lanes=lanes))
    return groups


def _vectors(sketch: State, vector_bytes: int) -> dict[Any, int]:
    """For the variable that is the length of a stage's innermost loop, where that is a data loop,
    how many elements fill a vector."""
    found: dict[Any, int] = {}
    for stage in sketch.live_stages:
        leaves = stage.leaf_iter_vars
        if not leaves or leaves[-1].iter_type != IterVar.DataPar:
            continue
        for relation in stage.relations:
            if isinstance(relation, Split) and relation.inner is leaves[-1]:
                types = [t.dtype for t in stage.op.outputs]
                found[relation.factor] = vector_lanes(types, vector_bytes)
    return found


def _lanes(vectors: dict[Any, int], factor: Any, extent: int) -> int:
    """The lanes of the group that ends with a factor."""
    return min(vectors.get(factor.var, 1), 1 << (extent.bit_length() - 1))


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
