"""What a search asks of a model that ranks candidates without running them, and chance's answer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..boosting import Array, pack_sum

# Rows float32 [M, 164] of all statements of the states, and int [N + 1]: where each one's begin.
Featurise = Callable[[Any, Sequence[Any]], tuple[Array, Array]]

DEFAULT_SEED = 43


class CostModel:
    """What a search asks of a model. Higher scores are better."""

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn from measurements: `MeasureInput`s and their `MeasureResult`s."""
        raise NotImplementedError

    def predict(self, task: Any, states: Sequence[Any]) -> Array:
        """Scores float32 [N] of N states of a task; -inf for those that cannot run."""
        raise NotImplementedError

    def predict_programs(self, rows: Array, offsets: Array) -> Array:
        """Scores float32 [N] of programs given by the features of their statements:
        rows float32 [M, 164]; program i has the rows from offsets[i] to offsets[i + 1].

        -inf for programs whose features are all zero: they failed the check of the target.
        """
        raise NotImplementedError

    def connect(self, task: Any, featurise: Featurise) -> None:
        """Let `featurise` compute the features of states of `task`: several searches, each of a
        task of its own, may share one model. Models that need no features ignore it."""

    @property
    def trained(self) -> bool:
        """Whether scores are more than chance."""
        return False


class RandomModel(CostModel):
    """Scores at random, the same ones for the same `seed` and the same questions."""

    __slots__ = ("_random",)

    def __init__(self, seed: int | None = None) -> None:
        self._random = np.random.default_rng(DEFAULT_SEED if seed is None else seed)

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Nothing is learned."""

    def predict(self, task: Any, states: Sequence[Any]) -> Array:
        """Scores float32 [N], uniform in [0, 1)."""
        return self._random.random(len(states), dtype=np.float32)

    def predict_programs(self, rows: Array, offsets: Array) -> Array:
        """Scores float32 [N], uniform in [0, 1); -inf where all features are zero."""
        scores = self._random.random(len(offsets) - 1, dtype=np.float32)
        return strike_out(scores, rows, offsets)


class PythonBasedModel(CostModel):
    """Base of users' models: `predict(task, states)` gives a score each, without features."""

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Nothing is learned, unless the subclass does."""

    def predict(self, task: Any, states: Sequence[Any]) -> Any:
        """Scores [N] of N states of a task, higher for faster ones."""
        raise NotImplementedError(f"{type(self).__name__} has to define predict")

    def predict_stages(self, task: Any, states: Sequence[Any]) -> Any:
        """Scores of the states' stages, for users' own use; searches ask for `predict` alone."""
        raise NotImplementedError(f"{type(self).__name__} does not define predict_stages")


def cost_of(result: Any) -> float:
    """Seconds of a `MeasureResult`: the median of its costs; infinite after an error."""
    if int(result.error_no) or not len(result.costs):
        return math.inf
    cost = statistics.median(float(c) for c in result.costs)
    return cost if cost > 0 else math.inf


def has_features(rows: Array, offsets: Array) -> Array:
    """bool [N]: whether a program has any feature that is not zero."""
    flags: Array = np.asarray(rows.any(axis=1), np.int64)
    return pack_sum(flags, offsets) > 0


def strike_out(scores: Array, rows: Array, offsets: Array) -> Array:
    scores[~has_features(rows, offsets)] = -np.inf
    return scores
