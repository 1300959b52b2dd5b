"""Simulated annealing over configurations: where does a model promise most?"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from .digits import Digits, DigitTable
from .model import CostModel, ModelOptimizer

Score = Callable[[Digits], np.ndarray[Any, Any]]


class SimulatedAnnealingOptimizer(ModelOptimizer):
    """`parallel_size` walks of at most `n_iter` steps; a step to a worse place is taken with
    probability exp(difference / temperature), the temperature falling from the first to the second
    of `temp`, or staying at one number; ends after `early_stop` steps in which no better place was
    found (Kirkpatrick et al., Science, 1983). `persistent`: the walks of `find_maximums` go on
    where those of the call before ended. `log_interval`, in steps, changes nothing.
    """

    def __init__(
        self,
        task: Any,
        n_iter: int = 500,
        temp: float | tuple[float, float] = (1, 0),
        persistent: bool = True,
        parallel_size: int = 128,
        early_stop: int = 50,
        log_interval: int | None = 50,
    ) -> None:
        self.task = task
        self.n_iter = n_iter
        self.temp = temp
        self.persistent = persistent
        self.parallel_size = min(parallel_size, len(task.config_space))
        self.early_stop = early_stop
        self.log_interval = log_interval
        self.table = DigitTable(task.config_space)
        self.points: Digits | None = None

    def find_maximums(self, model: CostModel, num: int, exclusive: Collection[int]) -> list[int]:
        """Numbers of the `num` best configurations met, the best first, none of them in
        `exclusive`. The walks set out at random, as `np.random.seed` says."""
        rng = np.random.default_rng(np.random.randint(1 << 31))
        points = self.points if self.persistent else None
        if points is None:
            points = self.table.digits(self.task.config_space.sample_ints(self.parallel_size, rng))
        found, self.points = self.walk(points, scores_by(model, self.table), num, exclusive, rng)
        return found

    def walk(
        self,
        points: Digits,
        score: Score,
        num: int,
        exclude: Collection[int],
        rng: np.random.Generator,
    ) -> tuple[list[int], Digits]:
        """The same of walks from rows of digits, and where these ended."""
        first, last = self.temp if isinstance(self.temp, (tuple, list)) else (self.temp, self.temp)
        scores = score(points)
        found: dict[int, float] = {}
        self._keep(points, scores, found, exclude)
        floor, quiet = -np.inf, 0
        for step in range(self.n_iter):
            temperature = first - (first - last) * (step / self.n_iter)
            moved = self.table.neighbours(points, rng)
            new = score(moved)
            chance = np.exp(np.minimum((new - scores) / max(temperature, 1e-6), 0.0))
            accept = rng.random(len(points)) < chance
            points = np.where(accept[:, None], moved, points)
            scores = np.where(accept, new, scores)
            self._keep(moved, new, found, exclude)
            quiet += 1
            if len(found) >= num:
                best = np.partition(np.fromiter(found.values(), float), -num)[-num]
                if best > floor:
                    floor, quiet = best, 0
            if quiet > self.early_stop:
                break
        return sorted(found, key=lambda i: -found[i])[:num], points

    def _keep(
        self,
        points: Digits,
        scores: np.ndarray[Any, Any],
        found: dict[int, float],
        exclude: Collection[int],
    ) -> None:
        valid = self.task.config_space.is_index_valid
        for index, value in zip(self.table.indices(points), scores.tolist()):
            if index not in found and index not in exclude and valid(index):
                found[index] = value


def scores_by(model: Any, table: DigitTable) -> Score:
    """A model's scores of rows of digits, which one that knows numbers alone is given as these."""
    if hasattr(model, "score"):
        by_digits: Score = model.score
        return by_digits
    return lambda digits: np.asarray(model.predict(table.indices(digits)))
