"""What a search by a model asks of it, by numbers of configurations; TVM's `XGBoostCostModel`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..base.trainer import require_trainer, trainer
from .callback import rate_of
from .digits import DigitTable
from .features import FeatureTable, Rows
from .model import CostModel

_LOSSES = ("rank", "reg", "rank-binary")
_ROUNDS = 80
FEATURES = ("itervar", "knob", "curve")
Scores = np.ndarray[Any, Any]


class Trees:
    """Predicts a score that grows with speed. `loss_type`: "rank" learns which of two is faster
    (Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018), "reg" the relative speed.

    `threads`: of the model. One is fastest for some hundred measurements: threads would wait for
    each other longer than they work.
    """

    __slots__ = ("_booster", "_parameters", "loss_type")

    def __init__(self, loss_type: str = "rank", threads: int = 1, seed: int = 0) -> None:
        if loss_type not in _LOSSES:
            raise TilewrightError(
                f"XGBTuner has no loss_type {loss_type!r}; it has {', '.join(_LOSSES)}"
            )
        require_trainer("XGBTuner")
        self.loss_type = loss_type
        self._booster: Any = None
        self._parameters: dict[str, Any] = {
            "max_depth": 3,
            "gamma": 1e-4,
            "min_child_weight": 1,
            "eta": 0.3,
            "lambda": 1.0,
            "verbosity": 0,
            "seed": seed,
            "nthread": threads,
            "disable_default_eval_metric": True,
            "objective": "reg:squarederror" if loss_type == "reg" else "rank:pairwise",
        }
        if loss_type != "reg":
            # all pairs count alike: the slow ones say as much about the knobs as the fast ones
            self._parameters.update(lambdarank_pair_method="mean", lambdarank_num_pair_per_sample=8)

    @property
    def is_trained(self) -> bool:
        return self._booster is not None

    def fit(self, rows: Rows, speeds: np.ndarray[Any, Any]) -> None:
        """Learn afresh from features and speeds (operations a second, 0 for failures)."""
        xgboost = trainer("XGBTuner")
        best = float(np.max(speeds, initial=0.0))
        labels = np.asarray(speeds, dtype=np.float32) / (best if best > 0 else 1.0)
        if self.loss_type == "rank-binary":
            labels = (labels >= np.quantile(labels, 0.75)).astype(np.float32)
        data = xgboost.DMatrix(rows, label=labels)
        if self.loss_type != "reg":
            data.set_group([len(rows)])
        self._booster = xgboost.train(self._parameters, data, num_boost_round=_ROUNDS)

    def predict(self, rows: Rows) -> np.ndarray[Any, Any]:
        """Scores, one a row."""
        scores: np.ndarray[Any, Any] = self._booster.inplace_predict(rows)
        return scores


class XGBoostCostModel(CostModel):
    """Gradient-boosted trees (Chen and Guestrin, XGBoost, KDD 2016) over the knobs of
    configurations of one task.

    `feature_type` is accepted for TVM's sake: all of "itervar", "knob" and "curve" see the knobs,
    of which splits give the shape of their loops (`features`). `loss_type`: "rank", "reg" or
    "rank-binary". `base_model`: one that was trained on records beforehand; its scores count less
    the more was measured since. `upper_model` and `log_interval`, in steps, change nothing here.
    Raises TilewrightError where feature_type is unknown, where loss_type is unknown.
    """

    def __init__(
        self,
        task: Any,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        log_interval: int | None = 25,
        upper_model: Any = None,
    ) -> None:
        del upper_model
        require_trainer("XGBTuner")
        if feature_type not in FEATURES:
            raise TilewrightError(
                f"XGBTuner has no feature_type {feature_type!r}; it has {', '.join(FEATURES)}"
            )
        self.task, self.space = task, task.config_space
        self.fea_type, self.loss_type = feature_type, loss_type
        self.num_threads, self.log_interval = num_threads, log_interval
        self.base_model: XGBoostCostModel | None = None
        self.table = DigitTable(self.space)
        self._features = FeatureTable(self.space)
        self._trees = Trees(loss_type, num_threads or 1)
        self._samples = 0

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        """Learn afresh from numbers of configurations and their speeds (operations a second, 0 for
        failures). `plan_size`: how many are measured next."""
        del plan_size
        self._samples = len(xs)
        rows = self._features.rows(self.table.digits(map(int, xs)))
        self._trees.fit(rows, np.asarray(ys, np.float64))

    def fit_log(self, records: Iterable[Any], plan_size: int, min_seed_records: int = 500) -> bool:
        """Learn from those records whose configurations this space has; False where there are fewer
        than `min_seed_records`. `plan_size`: configurations that are chosen at a time."""
        xs, ys = [], []
        for inp, result in records:
            index = self.space.index_of(inp.config) if inp.task.name == self.task.name else None
            if index is not None:
                xs.append(index)
                seconds = rate_of(inp._replace(task=self.task), result)
                ys.append(seconds)
        if len(xs) < max(1, min_seed_records):
            return False
        self.fit(xs, ys, plan_size)
        return True

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> Scores:
        """Scores that grow with speed, one for each number. `output_margin` changes nothing: scores
        are never transformed."""
        del output_margin
        return self.score(self.table.digits(map(int, xs)))

    def score(self, digits: Any) -> Scores:
        """Scores of configurations given by their digits, (configurations, knobs)."""
        if not len(digits):
            return np.zeros(0)
        found: Scores = np.zeros(len(digits))
        if self._trees.is_trained:
            found = self._trees.predict(self._features.rows(digits))
        if self.base_model is not None:
            found = found + 0.5 ** (self._samples / 64.0) * self.base_model.score(digits)
        return found

    def load_basemodel(self, base_model: XGBoostCostModel) -> None:
        """Begin with what another model has learned of this space."""
        self.base_model = base_model

    def spawn_base_model(self) -> XGBoostCostModel:
        """A new model of the same kind."""
        return XGBoostCostModel(
            self.task, self.fea_type, self.loss_type, self.num_threads, self.log_interval
        )
