"""Scoring a population: candidates grouped by skeleton, features of a group at once.

The evolution sees matrices (space.py); here they meet the features and the cost model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from .cost_model import PythonBasedModel
from .evolve import Scores
from .features import COUNT, Batch, features
from .features import Skeleton as Nest
from .layout import free_layouts
from .pragmas import TREE_REDUCE, has_tree
from .prior_gpu import estimate
from .skeleton import Skeleton, parallel_loops, unrolled_loops, vectorizable
from .skeleton_gpu import GpuSkeleton
from .space import Choice, Matrix, Space
from .space_gpu import GpuSpace
from .state import State

Array = np.ndarray[Any, Any]
AnySkeleton = Skeleton | GpuSkeleton


class Candidate:
    """One candidate: the number of its sketch and its columns."""

    __slots__ = ("row", "sketch")

    def __init__(self, sketch: int, row: Matrix) -> None:
        self.sketch, self.row = sketch, row

    @property
    def key(self) -> tuple[int, bytes]:
        return self.sketch, self.row.tobytes()


class Population:
    """The sketches of a task as spaces, and what is derived from them, remembered."""

    def __init__(
        self, spaces: Sequence[Space], cores: int, vectors: bool = False, rearranged: bool = False
    ) -> None:
        """`cores`: of a CPU. `vectors`: whether a device has them. `rearranged`: whether inputs of
        free layout lie in the order of the tiles."""
        self.rearranged = rearranged
        self.spaces = list(spaces)
        self.cores = cores
        self.vectors = vectors
        self._skeletons: dict[tuple[int, tuple[int, ...]], tuple[AnySkeleton, Nest]] = {}
        for number, space in enumerate(self.spaces):
            space.parallel_loops_of = partial(self.parallel_loops_of, number)

    def skeleton(self, sketch: int, choices: Sequence[int]) -> tuple[AnySkeleton, Nest]:
        """The skeleton of a sketch with its flexible stages placed, and its loops for features."""
        key = (sketch, tuple(int(c) for c in choices))
        found = self._skeletons.get(key)
        if found is None:
            space = self.spaces[sketch]
            if isinstance(space, GpuSpace):
                found = GpuSkeleton(space, self.vectors), space.nest
            else:
                skeleton = Skeleton(space, key[1], self.cores)
                if self.rearranged:
                    for source, reader in free_layouts(skeleton.state):
                        skeleton.state.packed[source.id] = reader.id
                found = skeleton, Nest(skeleton.state, skeleton.vectors)
            self._skeletons[key] = found
        return found

    def allowed(self, sketch: int, rows: Matrix) -> Any:
        """Which candidates of a sketch the device can run, as far as their lengths tell."""
        space = self.spaces[sketch]
        if isinstance(space, GpuSpace):
            return space.limits.allowed(rows)
        return np.ones(len(rows), bool)

    def close(self, candidate: Candidate) -> State:
        """The finished state of a candidate."""
        skeleton, _ = self.skeleton(candidate.sketch, self._choices(candidate))
        return skeleton.close(candidate.row)

    def canonical(self, candidate: Candidate) -> Candidate:
        """The candidate of the same program that leaves parallel loops and pragmas to the rules
        where these make the same of them, so that one program has one key."""
        skeleton, nest = self.skeleton(candidate.sketch, self._choices(candidate))
        if isinstance(skeleton, GpuSkeleton):
            return candidate
        row = candidate.row.copy()
        parallel = [p for p in skeleton.plans if p.parallel >= 0 and row[p.parallel] >= 0]
        trees = [p for p in skeleton.plans if not p.keeps(TREE_REDUCE, row)]
        if not parallel and not trees:
            return candidate
        extents = nest.loop_extents(row[None, : len(skeleton.space.sketch.open)])
        for plan in parallel:
            wanted = np.array([row[plan.parallel], -1])
            mine = np.repeat(extents[plan.ident][:1], 2, axis=0)
            own, rule = parallel_loops(wanted, mine, plan, self.cores)
            row[plan.parallel] = -1 if own == rule else own
        for plan in trees:
            if not has_tree(int(extents[plan.ident][0, -1])):
                row[plan.without[TREE_REDUCE]] = 0
        return Candidate(candidate.sketch, row)

    def parallel_loops_of(self, sketch: int, choice: Choice, rows: Matrix) -> tuple[Matrix, Matrix]:
        """How many loops of a stage are fused in parallel in each row, by its column or by the
        rule, and the extents of those that may be (1 for a loop that is a vector)."""
        now = np.zeros(len(rows), np.int64)
        extents = np.ones((len(rows), choice.count - 1), np.int64)
        lengths = rows[:, : len(self.spaces[sketch].sketch.open)]
        tiled = any(level is not None for level in self.spaces[sketch].levels[choice.node])
        whole: Any = None
        for choices, members in self._groups(sketch, rows):
            skeleton, nest = self.skeleton(sketch, choices)
            plan = next((p for p in skeleton.plans if p.parallel == choice.column), None)
            if plan is None or not len(members):
                continue
            if tiled:  # its loops are the same wherever others are computed
                whole = nest.loop_extents(lengths)[plan.ident] if whole is None else whole
                mine = whole[members]
            else:
                mine = nest.loop_extents(lengths[members])[plan.ident]
            now[members] = parallel_loops(rows[members, choice.column], mine, plan, self.cores)
            able = mine.copy()
            able[vectorizable(plan.data_last, mine[:, -1], mine.shape[1]), -1] = 1
            count = min(plan.limit, choice.count - 1)
            extents[members, :count] = able[:, :count]
        return now, extents

    def _choices(self, candidate: Candidate) -> list[int]:
        return [int(candidate.row[c.column]) for c in self.spaces[candidate.sketch].locations]

    def features(self, sketch: int, rows: Matrix) -> tuple[Array, Array]:
        """(float32 [M, 164], offsets int [N + 1]) of the statements of N candidates of a sketch."""
        groups = list(self._groups(sketch, rows))
        parts: list[tuple[Array, Array]] = []
        counts = np.zeros(len(rows), np.int64)
        for choices, members in groups:
            values = self._group_features(sketch, choices, rows[members])
            counts[members] = values.shape[1]
            parts.append((members, values))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        result = np.empty((int(offsets[-1]), COUNT), np.float32)
        for members, values in parts:
            places = offsets[members][:, None] + np.arange(values.shape[1])
            result[places.ravel()] = values.reshape(-1, COUNT)
        return result, offsets

    def _groups(self, sketch: int, rows: Matrix) -> Any:
        columns = [c.column for c in self.spaces[sketch].locations]
        if not columns:
            yield (), np.arange(len(rows))
            return
        places = rows[:, columns]
        kinds, which = np.unique(places, axis=0, return_inverse=True)
        which = which.reshape(-1)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(kinds) + 1))
        for n, kind in enumerate(kinds):
            yield tuple(int(v) for v in kind), order[ends[n] : ends[n + 1]]

    def _group_features(self, sketch: int, choices: tuple[int, ...], rows: Matrix) -> Array:
        skeleton, nest = self.skeleton(sketch, choices)
        factors = rows[:, : len(skeleton.space.sketch.open)]
        extents = nest.loop_extents(factors)
        if isinstance(skeleton, GpuSkeleton):
            return features(nest, skeleton.batch(rows, extents))[0]
        parallel: dict[int, Array] = {}
        vectors: dict[int, Array] = {}
        unroll: dict[int, Array] = {}
        unrolled: dict[int, Any] = {}
        for plan in skeleton.plans:
            mine = extents[plan.ident]
            count = mine.shape[1]
            if count == 0:
                continue
            vector = vectorizable(plan.data_last, mine[:, -1], count)
            if plan.root:
                wanted = rows[:, plan.parallel] if plan.parallel >= 0 else -1
                parallel[plan.ident] = parallel_loops(wanted, mine, plan, self.cores)
            vectors[plan.ident] = np.broadcast_to(vector, (len(rows),))
            if plan.unroll >= 0:
                unroll[plan.ident] = plan.steps(rows)
            if plan.tile_loops:
                unrolled[plan.ident] = unrolled_loops(plan, mine)
        batch = Batch(factors, parallel, vectors, unroll, unrolled)
        return features(nest, batch)[0]


class Scorer:
    """Scores of candidates by a cost model; `total` counts those scored in this process."""

    total = 0

    def __init__(self, population: Population, model: Any, task: Any = None) -> None:
        self.population, self.model, self.task = population, model, task

    def __call__(self, sketch: int, rows: Matrix) -> Scores:
        """One score a row; -inf for candidates that the device cannot run."""
        Scorer.total += len(rows)
        able = self.population.allowed(sketch, rows)
        if not able.all():
            scores = np.full(len(rows), -np.inf)
            scores[able] = self._scores(sketch, rows[able])
            return scores
        return self._scores(sketch, rows)

    def _scores(self, sketch: int, rows: Matrix) -> Scores:
        if isinstance(self.model, PythonBasedModel):
            states = [self.population.close(Candidate(sketch, row)) for row in rows]
            return np.asarray(self.model.predict(self.task, states), np.float64)
        if not getattr(self.model, "trained", False):
            empty = np.ones((len(rows), COUNT), np.float32)
            offsets = np.arange(len(rows) + 1)
            return np.asarray(self.model.predict_programs(empty, offsets), np.float64)
        values, offsets = self.population.features(sketch, rows)
        return np.asarray(self.model.predict_programs(values, offsets), np.float64)


class Estimate(Scorer):
    """Scores of candidates for GPUs without any measurement."""

    def __init__(self, population: Population) -> None:
        super().__init__(population, None)

    def _scores(self, sketch: int, rows: Matrix) -> Scores:
        space = self.population.spaces[sketch]
        return estimate(space, rows) if isinstance(space, GpuSpace) else np.zeros(len(rows))
