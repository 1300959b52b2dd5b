"""A genetic search: the best configurations so far are crossed and mutated knob by knob."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .callback import rate_of
from .digits import DigitTable
from .record import MeasureInput, MeasureResult
from .space import ConfigEntity
from .task import Task
from .tuner import Tuner

_TRIES = 200
_GENERATIONS = 12


class GATuner(Tuner):
    """Genetic search. `pop_size`: configurations of a generation, fewer where a search has fewer
    than twelve generations of them; `elite_num`: of the best, how many are surely parents;
    `mutation_prob`: chance of each knob to change.

    Parents are drawn from the `pop_size` best of all generations, the better the more often
    (linear ranking; Baker, Adaptive selection methods for genetic algorithms, 1985). Raises
    TilewrightError where task is not one that autotvm.task.create made.
    """

    def __init__(
        self,
        task: Task,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed)
        self.pop_size = min(max(2, int(pop_size)), max(1, len(self.space)))
        self.elite_num = min(max(1, int(elite_num)), self.pop_size)
        self.mutation_prob = float(mutation_prob)
        self._table = DigitTable(self.space)
        self._size = self.pop_size
        self._begin()

    def _begin(self) -> None:
        """Draw the first generation."""
        self._scores: dict[int, float] = {}
        self._pending = self.draw(self.pop_size)
        self.visited.update(self._pending)

    @property
    def genes(self) -> list[list[int]]:
        """The configurations of this generation that are still to be measured, as digits."""
        return [self.space.point2knob(i) for i in self._pending]

    def reset(self) -> None:
        super().reset()
        self._begin()

    def has_next(self) -> bool:
        return bool(self._pending) or super().has_next()

    def prepare(self, n_trial: int) -> None:
        fit = max(2 * self.elite_num, n_trial // _GENERATIONS)
        self._size = max(2, min(self.pop_size, fit))
        if not self._scores:
            self.visited.difference_update(self._pending[self._size :])
            self._pending = self._pending[: self._size]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            self._scores[inp.config.index] = rate_of(inp, result)
            self.visited.add(inp.config.index)
        self._pending = [i for i in self._pending if i not in self._scores]

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        if not self._pending:
            self._pending = self._breed() if self._scores else self.draw(self._size)
            self.visited.update(self._pending)
        batch, self._pending = self._pending[:batch_size], self._pending[batch_size:]
        return [self.space.get(i) for i in batch]

    def _breed(self) -> list[int]:
        """The next generation."""
        ranked = sorted(self._scores, key=lambda i: -self._scores[i])[: self._size]
        genes = self._table.digits(ranked)
        weights = np.linspace(2.0, 0.2, len(ranked))
        weights[: self.elite_num] = 2.0
        weights /= weights.sum()
        children: dict[int, None] = {}
        for _ in range(_TRIES):
            missing = self._size - len(children)
            if missing <= 0:
                break
            parents = self.rng.choice(len(ranked), size=(2, missing), p=weights)
            mask = self.rng.random((missing, genes.shape[1])) < 0.5
            crossed = np.where(mask, genes[parents[0]], genes[parents[1]])
            for index in self._table.indices(self._mutate(crossed)):
                if index not in self.visited and self.space.is_index_valid(index):
                    children[index] = None
        found = list(children)
        # a population that has become uniform has no new children
        return found + self.draw(self._size - len(found), found)

    def _mutate(
        self, genes: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        mutated = genes.copy()
        hit = self.rng.random(genes.shape) < self.mutation_prob
        for column in np.flatnonzero(self._table.dims > 1):
            rows = np.flatnonzero(hit[:, column])
            mutated[rows, column] = self._table.change(genes[rows, column], int(column), self.rng)
        return mutated
