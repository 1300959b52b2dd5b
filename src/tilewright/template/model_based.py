"""A search led by a cost model that learns from each batch (XGBTuner)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from .annealing import SimulatedAnnealingOptimizer, scores_by
from .callback import rate_of
from .digits import DigitTable
from .record import MeasureInput, MeasureResult
from .space import ConfigEntity
from .task import Task
from .tuner import Tuner
from .xgboost_model import XGBoostCostModel

_SMALL = 1 << 14  # below so many configurations the model looks at each
_ROUNDS = 8
_RANDOM_SHARE = 0.05


class ModelBasedTuner(Tuner):
    """Measures what a model promises most of: all of a small space is scored, of a large one what
    simulated annealing finds.

    `plan_size`: measurements between two trainings, fewer where a search has fewer than eight such
    rounds. The first round and 5 % of each later one are at random. Raises TilewrightError where
    diversity_filter_ratio is below 1, where task is not one that autotvm.task.create made.
    """

    def __init__(
        self,
        task: Task,
        cost_model: Any,
        model_optimizer: Any,
        plan_size: int,
        diversity_filter_ratio: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed)
        if diversity_filter_ratio is not None and diversity_filter_ratio < 1:
            raise TilewrightError(
                f"diversity_filter_ratio is at least 1, got {diversity_filter_ratio}"
            )
        self.plan_size = max(1, int(plan_size))
        self.cost_model = cost_model
        self.model_optimizer = model_optimizer
        self.diversity_filter_ratio = diversity_filter_ratio
        self._table = DigitTable(self.space)
        self._round = self.plan_size
        self._scores: dict[int, float] = {}
        self._plan: list[int] = []

    @property
    def xs(self) -> list[int]:
        """The numbers of what was measured."""
        return list(self._scores)

    @property
    def ys(self) -> list[float]:
        """Their speeds, operations a second; 0 after an error."""
        return list(self._scores.values())

    def reset(self) -> None:
        super().reset()
        self._scores, self._plan = {}, []

    def prepare(self, n_trial: int) -> None:
        self._round = min(self.plan_size, max(4, n_trial // _ROUNDS))

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            self._scores[inp.config.index] = rate_of(inp, result)
            self.visited.add(inp.config.index)

    def load_history(self, data_set: Iterable[Any], min_seed_records: int = 500) -> None:
        records = list(data_set)
        base = self.cost_model.spawn_base_model()
        if base.fit_log(records, self.plan_size, min_seed_records):
            self.cost_model.load_basemodel(base)
        super().load_history(records, min_seed_records)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        if not self._plan:
            self._plan = self._make_plan()
        batch, self._plan = self._plan[:batch_size], self._plan[batch_size:]
        return [self.space.get(i) for i in batch]

    def _make_plan(self) -> list[int]:
        """The numbers of the next round, none of which was proposed before."""
        learned = len(self._scores) >= self._round and any(self._scores.values())
        if not learned and getattr(self.cost_model, "base_model", None) is None:
            return self.draw(self._round, [])
        if learned:
            self.cost_model.fit(self.xs, self.ys, self._round)
        ratio = self.diversity_filter_ratio
        chosen = self._promising(int(self._round * (ratio or 1)))
        if ratio is not None:
            chosen = self._diverse(chosen)
        explored = int(self.rng.binomial(self._round, _RANDOM_SHARE))
        kept = chosen[: self._round - explored]
        return kept + self.draw(self._round - len(kept), kept)

    def _diverse(self, chosen: Sequence[int]) -> list[int]:
        """Of promising configurations, best first, those that bring most choices that none before
        them has (Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018)."""
        rows = self._table.digits(chosen)
        seen: set[tuple[int, int]] = set()
        left = list(range(len(chosen)))
        picked: list[int] = []
        while left and len(picked) < self._round:
            best = max(left, key=lambda i: (len(set(enumerate(rows[i].tolist())) - seen), -i))
            seen.update(enumerate(rows[best].tolist()))
            left.remove(best)
            picked.append(chosen[best])
        return picked

    def _promising(self, count: int) -> list[int]:
        model, optimizer = self.cost_model, self.model_optimizer
        if len(self.space) <= _SMALL:
            left = [i for i in self.space.indices() if i not in self.visited]
            order = np.argsort(-np.asarray(model.predict(left)), kind="stable")[:count]
            return [left[i] for i in order]
        if not isinstance(optimizer, SimulatedAnnealingOptimizer):
            return [int(i) for i in optimizer.find_maximums(model, count, self.visited)]
        walks = optimizer.parallel_size
        best = sorted(self._scores, key=lambda i: -self._scores[i])[: walks // 2]
        starts = self._table.digits([*best, *self.space.sample_ints(walks - len(best), self.rng)])
        score = scores_by(model, self._table)
        return optimizer.walk(starts, score, count, self.visited, self.rng)[0]


class XGBTuner(ModelBasedTuner):
    """Model-based search (Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018) with
    gradient-boosted trees (see `XGBoostCostModel`).

    `loss_type`: "rank", "reg" or "rank-binary". `optimizer`: "sa", or an object with
    `find_maximums` as ModelOptimizer has it. `diversity_filter_ratio`: of so many times as many
    promising configurations, those that differ most are measured. `plan_size`: configurations that
    are chosen at a time. `log_interval`, in steps, changes nothing. Raises TilewrightError where
    optimizer is neither 'sa' nor has find_maximums, where feature_type is unknown, where
    diversity_filter_ratio is below 1, where loss_type is unknown.
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        seed: int | None = None,
    ) -> None:
        model = XGBoostCostModel(task, feature_type, loss_type, num_threads, log_interval)
        if optimizer != "sa" and not hasattr(optimizer, "find_maximums"):
            raise TilewrightError("XGBTuner: optimizer is 'sa' or has find_maximums(...)")
        chosen = optimizer
        if optimizer == "sa":
            chosen = SimulatedAnnealingOptimizer(task, 150, parallel_size=256, early_stop=30)
        super().__init__(task, model, chosen, plan_size, diversity_filter_ratio, seed)
