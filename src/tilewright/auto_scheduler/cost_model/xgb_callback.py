"""Training of xgboost watched by several measures, as TVM's models have it: `CustomCallback`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ...base.trainer import trainer

_log = logging.getLogger("auto_scheduler")
Measure = Callable[[Any, Any], tuple[str, float]]


class Watch:
    """Ends training `stopping_rounds` rounds after the best one by a measure.

    `metric`: its name after that of the data, "tr-p-rmse". `fevals`: the measures, functions of
    predictions and a DMatrix that give a name and a number. `evals`: (DMatrix, name) pairs on which
    they are taken. `log_file`: gets a line for each round that is told of. `maximize`: whether
    large is good. `verbose_eval`: every so many rounds are told of, none where it is a bool.
    `skip_every`: of so many rounds the second is not looked at.
    """

    def __init__(
        self,
        stopping_rounds: int,
        metric: str,
        fevals: Sequence[Measure],
        evals: Sequence[tuple[Any, str]] = (),
        log_file: str | Path | None = None,
        maximize: bool = False,
        verbose_eval: bool | int = True,
        skip_every: int = 2,
    ) -> None:
        super().__init__()
        self.stopping_rounds, self.metric, self.fevals = stopping_rounds, metric, fevals
        self.evals, self.log_file, self.maximize = evals, log_file, maximize
        self.verbose_eval, self.skip_every = verbose_eval, skip_every
        self.state: dict[str, Any] = {}

    def _begin(self, model: Any) -> None:
        """Where the best is kept: with the trees, which may have been trained before."""
        known = model.attr("best_score") if hasattr(model, "attr") else None
        worst = -math.inf if self.maximize else math.inf
        self.state = {"best_score": worst if known is None else float(known), "best_iteration": 0}
        if known is not None:
            self.state["best_iteration"] = int(model.attr("best_iteration"))
            self.state["best_msg"] = model.attr("best_msg")

    def _measures(self, model: Any, epoch: int) -> list[tuple[str, float]]:
        """What the measures say of each set of data, in the order of their names; the one that
        counts comes first. Of a cross-validation the means of its folds."""
        found: dict[str, list[float]] = {}
        for boosters in getattr(model, "cvfolds", None) or [model]:
            for measure in self.fevals:
                bare = model is boosters  # a fold has its data with it
                text = (
                    boosters.eval_set(list(self.evals), epoch, measure)
                    if bare
                    else boosters.eval(epoch, measure, True)
                )
                for part in text.split()[1:]:
                    name, _, value = part.rpartition(":")
                    found.setdefault(name, []).append(float(value))
        short = self.metric.split("-")[1]
        order = sorted(found, key=lambda name: "a" + name if short in name else name)
        return [(name, sum(found[name]) / len(found[name])) for name in order]

    def _tell(self, epoch: int, found: Sequence[tuple[str, float]]) -> None:
        shown = [f"{name}: {value:.6f}" for name, value in found if "null" not in name]
        line = "\t".join([f"XGB iter: {epoch:3d}", *shown])
        _log.debug("%s", line)
        if self.log_file is not None:
            with open(self.log_file, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Whether to stop, after a round of training; KeyError where nothing gives `metric`."""
        if not self.state:
            self._begin(model)
        if self.skip_every and epoch % self.skip_every == 1:
            return False
        found = self._measures(model, epoch)
        often = 0 if isinstance(self.verbose_eval, bool) else self.verbose_eval
        if often and epoch % often == 0:
            self._tell(epoch, found)
        score, best = dict(found)[self.metric], self.state["best_score"]
        if score > best if self.maximize else score < best:
            values = "\t".join(f"{name}:{value:.5f}" for name, value in found)
            message = f"[{epoch}] {values}"
            self.state.update(best_score=score, best_iteration=epoch, best_msg=message)
            if hasattr(model, "set_attr"):
                model.set_attr(**{name: str(value) for name, value in self.state.items()})
            return False
        if epoch - self.state["best_iteration"] < self.stopping_rounds:
            return False
        if self.verbose_eval:
            _log.debug("XGB stopped. Best iteration: %s ", self.state.get("best_msg", ""))
        return True


@cache
def callback_class() -> type[Any]:
    """`CustomCallback`: a Watch that xgboost takes for a callback; TilewrightError without it."""
    base = trainer("CustomCallback").callback.TrainingCallback
    return type("CustomCallback", (Watch, base), {"__doc__": Watch.__doc__, "__module__": __name__})
