"""The cost model of templates: gradient-boosted trees that order configurations by their speed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from .features import Rows

_LOSSES = ("rank", "reg", "rank-binary")
_ROUNDS = 80


class CostModel:
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
        import xgboost

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
