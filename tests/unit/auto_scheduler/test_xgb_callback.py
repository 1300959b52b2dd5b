"""CustomCallback: training of xgboost that measures of one's own end."""

import logging

import numpy as np
import pytest

from tilewright.auto_scheduler.cost_model import xgb_model


def test_training_is_watched_by_measures_of_ones_own(tmp_path, caplog):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.random((60, 3)).astype("float32")
    data = xgboost.DMatrix(x, label=x[:, 0] + 0.1 * rng.random(60))
    asked: list[int] = []

    def steps(predictions, matrix):
        """Falls for eight looks, then rises."""
        assert matrix is data and len(predictions) == 60
        asked.append(len(asked))
        return "p-rmse", abs(8.0 - asked[-1])

    callback = xgb_model.CustomCallback(
        6, "tr-p-rmse", [steps, lambda *_: ("a-null", 1.0)], [(data, "tr")],
        log_file=tmp_path / "log", verbose_eval=4,
    )  # fmt: skip
    assert isinstance(callback, xgboost.callback.TrainingCallback)
    caplog.set_level(logging.DEBUG, "auto_scheduler")
    quiet = {"disable_default_eval_metric": True}
    trees = xgboost.train(quiet, data, num_boost_round=100, callbacks=[callback])
    # every second round is looked at: the ninth look is after round 16, six rounds on it ends
    assert float(trees.attr("best_score")) == 0.0 and trees.attr("best_iteration") == "16"
    assert trees.attr("best_msg").startswith("[16] tr-p-rmse:0.00000")
    assert trees.num_boosted_rounds() == 23 and callback.state["best_iteration"] == 16
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[:2] == ["XGB iter:   0\ttr-p-rmse: 8.000000", "XGB iter:   4\ttr-p-rmse: 6.000000"]
    assert caplog.records[-1].message.startswith("XGB stopped. Best iteration: [16]")
    best = xgb_model.CustomCallback(
        3, "tr-up", [lambda *_: ("up", 1.0)], [(data, "tr")], maximize=True
    )
    trees = xgboost.train(quiet, data, num_boost_round=50, callbacks=[best])
    assert trees.attr("best_iteration") == "0" and trees.num_boosted_rounds() == 5
