"""Simulated annealing over configurations: where does a model promise most?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .digits import Digits, DigitTable

Score = Callable[[Digits], np.ndarray[Any, Any]]


class SimulatedAnnealing:
    """`parallel_size` walks of at most `n_iter` steps; a step to a worse place is taken with
    probability exp(difference / temperature), the temperature falling from 1 to 0; ends after
    `early_stop` steps in which no better place was found (Kirkpatrick et al., Science, 1983)."""

    __slots__ = ("early_stop", "n_iter", "parallel_size")

    def __init__(self, n_iter: int = 150, parallel_size: int = 256, early_stop: int = 30) -> None:
        self.n_iter = n_iter
        self.parallel_size = parallel_size
        self.early_stop = early_stop

    def find_maximums(
        self,
        table: DigitTable,
        starts: Digits,
        score: Score,
        num: int,
        exclude: set[int],
        rng: np.random.Generator,
    ) -> list[int]:
        """Numbers of the `num` best configurations met, the best first, none of them in
        `exclude`. `starts`: rows of digits from which the walks set out."""
        points = starts
        scores = score(points)
        found: dict[int, float] = {}
        self._keep(table, points, scores, found, exclude)
        floor, quiet = -np.inf, 0
        for step in range(self.n_iter):
            temperature = 1.0 - step / self.n_iter
            moved = table.neighbours(points, rng)
            new = score(moved)
            chance = np.exp(np.minimum((new - scores) / max(temperature, 1e-6), 0.0))
            accept = rng.random(len(points)) < chance
            points = np.where(accept[:, None], moved, points)
            scores = np.where(accept, new, scores)
            self._keep(table, moved, new, found, exclude)
            quiet += 1
            if len(found) >= num:
                best = np.partition(np.fromiter(found.values(), float), -num)[-num]
                if best > floor:
                    floor, quiet = best, 0
            if quiet > self.early_stop:
                break
        return sorted(found, key=lambda i: -found[i])[:num]

    @staticmethod
    def _keep(
        table: DigitTable,
        points: Digits,
        scores: np.ndarray[Any, Any],
        found: dict[int, float],
        exclude: set[int],
    ) -> None:
        for index, value in zip(table.indices(points), scores.tolist()):
            if index not in found and index not in exclude and table.space.is_index_valid(index):
                found[index] = value
