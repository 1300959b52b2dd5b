"""A search led by a cost model that learns from each batch (XGBTuner)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from .annealing import SimulatedAnnealing
from .callback import rate_of
from .digits import DigitTable
from .features import FeatureTable
from .model import CostModel
from .record import MeasureInput, MeasureResult
from .space import ConfigEntity
from .task import Task
from .tuner import Tuner

_SMALL = 1 << 14  # below so many configurations the model looks at each
_ROUNDS = 8
_RANDOM_SHARE = 0.05
_FEATURES = ("itervar", "knob", "curve")


class ModelBasedTuner(Tuner):
    """Measures what a model promises most of: all of a small space is scored, of a large one what
    simulated annealing finds.

    `plan_size`: measurements between two trainings, fewer where a search has fewer than eight such
    rounds. The first round and 5 % of each later one are at random.
    """

    def __init__(
        self, task: Task, model: CostModel, plan_size: int = 64, seed: int | None = None
    ) -> None:
        super().__init__(task, seed)
        self.plan_size = max(1, int(plan_size))
        self.model = model
        self.optimizer = SimulatedAnnealing()
        self._table = DigitTable(self.space)
        self._features = FeatureTable(self.space)
        self._round = self.plan_size
        self._scores: dict[int, float] = {}
        self._plan: list[int] = []

    def reset(self) -> None:
        super().reset()
        self._scores, self._plan = {}, []

    def prepare(self, n_trial: int) -> None:
        self._round = min(self.plan_size, max(4, n_trial // _ROUNDS))

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            self._scores[inp.config.index] = rate_of(inp, result)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        if not self._plan:
            self._plan = self._make_plan()
        batch, self._plan = self._plan[:batch_size], self._plan[batch_size:]
        return [self.space.get(i) for i in batch]

    def _make_plan(self) -> list[int]:
        """The numbers of the next round, none of which was proposed before."""
        if len(self._scores) < self._round or not any(self._scores.values()):
            return self._random(self._round, [])
        known = list(self._scores)
        rows = self._features.rows(self._table.digits(known))
        self.model.fit(rows, np.array([self._scores[i] for i in known]))
        chosen = self._promising(self._round)
        explored = int(self.rng.binomial(self._round, _RANDOM_SHARE))
        kept = chosen[: self._round - explored]
        return kept + self._random(self._round - len(kept), kept)

    def _promising(self, count: int) -> list[int]:
        if len(self.space) <= _SMALL:
            left = [i for i in self.space if i not in self.visited]
            scores = self._score(self._table.digits(left))
            order = np.argsort(-scores, kind="stable")[:count]
            return [left[i] for i in order]
        walks = self.optimizer.parallel_size
        best = sorted(self._scores, key=lambda i: -self._scores[i])[: walks // 2]
        starts = [*best, *self.space.sample_ints(walks - len(best), self.rng)]
        return self.optimizer.find_maximums(
            self._table, self._table.digits(starts), self._score, count, self.visited, self.rng
        )

    def _score(self, digits: Any) -> np.ndarray[Any, Any]:
        if not len(digits):
            return np.zeros(0)
        return self.model.predict(self._features.rows(digits))

    def _random(self, count: int, taken: Sequence[int]) -> list[int]:
        known = self.visited.union(taken)
        found = self.space.sample_ints(min(count + len(known), len(self.space)), self.rng)
        return [i for i in found if i not in known][:count]


class XGBTuner(ModelBasedTuner):
    """Model-based search with gradient-boosted trees.

    `loss_type`: "rank" or "reg". `feature_type` is accepted for TVM's sake: all of "itervar",
    "knob" and "curve" see the knobs, of which splits give the shape of their loops (`features`).
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "rank",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        seed: int | None = None,
    ) -> None:
        del diversity_filter_ratio, log_interval
        if feature_type not in _FEATURES:
            raise TilewrightError(
                f"XGBTuner has no feature_type {feature_type!r}; it has {', '.join(_FEATURES)}"
            )
        super().__init__(task, CostModel(loss_type, num_threads or 1), plan_size, seed)
        if optimizer != "sa":
            if not hasattr(optimizer, "find_maximums"):
                raise TilewrightError("XGBTuner: optimizer is 'sa' or has find_maximums(...)")
            self.optimizer = optimizer
