"""A model that ranks candidates without running them: gradient-boosted trees."""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import ScheduleError, UsageError
from ...base.trainer import INSTALL, can_train, trainer
from ..boosting import FEATURES, Array, Boosting, Forest, grow, pack_sum
from .cost_model import (
    DEFAULT_SEED,
    CostModel,
    Featurise,
    RandomModel,
    cost_of,
    has_features,
    strike_out,
)

# In Ansor a program weighs as much as its speed, so that failures weigh nothing and nothing tells
# the search to leave their neighbourhood; and one lucky outlier among noisy measurements takes the
# weight from all others. Measured on a matmul: correlation 0.53 with this floor, 0.48 without.
LEAST_WEIGHT = 0.2
# Retraining pays when there is something new to learn, and its cost grows with all there is.
_FRESH_SHARE = 0.02
_ADAPTIVE_SHARE = 0.2
_UNTRAINED = (
    "xgboost is not installed: the cost model ranks by what it was trained on beforehand, and does "
    "not learn from measurements"
)
_log = logging.getLogger("tilewright.auto_scheduler")


class XGBModel(CostModel):
    """Gradient-boosted trees over the features of statements (Zheng et al., OSDI 2020).

    `verbose_eval`: above 0, each training logs its errors. `num_warmup_sample`: with fewer
    measurements scores are random, unless a model was loaded. `seed`: of the trees and of random
    scores. `model_file`: where the trees are saved after each training. `adaptive_training`:
    retrain only after a fifth more measurements than at the last time.

    `begin_with`: trees trained beforehand, as `load` takes them; measurements then grow further
    ones on what those leave over, so that few suffice. `featurise`: gives the features of states of
    any task; searches `connect` theirs for their own tasks. `least_weight`: of any program in the
    loss, the square of how far its score is from its speed; else its speed's share of the best. 0
    is the paper's loss.
    """

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | Path | None = None,
        adaptive_training: bool = False,
        *,
        featurise: Featurise | None = None,
        boosting: Boosting | None = None,
        least_weight: float = LEAST_WEIGHT,
        begin_with: str | Path | None = None,
    ) -> None:
        seed = DEFAULT_SEED if seed is None else seed
        self.verbose_eval = verbose_eval
        self.model_file = model_file
        self.num_warmup_sample = num_warmup_sample
        self.adaptive_training = adaptive_training
        self.featurise = featurise
        self.least_weight = least_weight
        self.boosting = boosting if boosting is not None else Boosting(seed=seed)
        self.error = math.nan
        self._connected: dict[Hashable, Featurise] = {}
        self._chance = RandomModel(seed)
        self._data: dict[Hashable, _Samples] = {}
        self._trained_on = 0
        self._base: Forest | None = None
        self._forest: Forest | None = None
        if begin_with is not None:
            self.load(begin_with)

    def connect(self, task: Any, featurise: Featurise) -> None:
        """Let `featurise` compute the features of states of `task`."""
        self._connected[_key(task)] = featurise

    @property
    def trained(self) -> bool:
        """Whether scores come from trees."""
        return self._forest is not None

    @property
    def num_samples(self) -> int:
        """The number of measurements seen."""
        return sum(len(s.costs) for s in self._data.values())

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn from measurements. Of several costs of one program the median counts. Raises
        UsageError where the model has not been trained."""
        groups: dict[Hashable, list[int]] = {}
        for place, item in enumerate(inputs):
            groups.setdefault(_key(item.task), []).append(place)
        for key, places in groups.items():
            states = [inputs[p].state for p in places]
            rows, offsets = self._features(inputs[places[0]].task, states)
            self.add(key, rows, offsets, [cost_of(results[p]) for p in places])
        self.retrain()

    def update_from_file(self, file_name: str | Path, n_lines: int | None = None) -> None:
        """Learn from the first `n_lines` records of a file (None: all), of any tasks whose
        workloads are known here. What their searches could not have drawn is left out. Raises
        TilewrightError where program_cost_model is no cost model, or a callback is no function of
        the policy, where `file_name` names no file of records."""
        from ..policy import SketchPolicy
        from ..preload import PreloadMeasuredStates
        from ..records import RecordReader
        from ..recover import recover_measure_input

        tasks: dict[Hashable, list[Any]] = {}
        for pair in zip(*RecordReader(file_name).read_lines(n_lines)):
            task = pair[0].task
            tasks.setdefault((task.workload_key, str(task.target)), []).append(pair)
        for pairs in tasks.values():
            task, load = recover_measure_input(pairs[0][0]).task, PreloadMeasuredStates(pairs)
            SketchPolicy(task, self, verbose=0, init_search_callbacks=[load])

    def add(self, key: Hashable, rows: Array, offsets: Array, costs: Sequence[float]) -> None:
        """Remember programs of the task `key` and their `costs`, seconds of a run (infinite:
        failed), without training. `error` becomes the model's error on them: the root of the
        weighted mean square. Raises UsageError where costs are not as many as the programs.
        """
        rows = np.asarray(rows, np.float32).reshape(-1, FEATURES)
        offsets = np.asarray(offsets, np.int64)
        if len(costs) != len(offsets) - 1:
            raise UsageError(f"{len(costs)} costs were given for {len(offsets) - 1} programs")
        new = _Samples(rows, offsets, np.asarray(costs, np.float64)).without_empty()
        if not len(new.costs):
            return
        old = self._data.get(key)
        every = new if old is None else old.joined(new)
        self._data[key] = every
        if self._forest is not None:
            labels = every.labels()[-len(new.costs) :]
            weights = np.maximum(labels, self.least_weight)
            error = pack_sum(self._forest.predict_rows(new.rows), new.offsets) - labels
            total = weights.sum()
            if total > 0:
                self.error = float(np.sqrt(np.dot(weights, error * error) / total))

    def retrain(self) -> None:
        """Train afresh on all measurements, if there are enough and enough new ones.

        Without xgboost a model from a file stays as it is, and the log says so once; a model of
        nothing is a TilewrightError.
        """
        count = self.num_samples
        share = _ADAPTIVE_SHARE if self.adaptive_training else _FRESH_SHARE
        fresh = count - self._trained_on
        if fresh <= 0 or fresh < share * self._trained_on:
            return
        if self._base is None and count < self.num_warmup_sample:
            return
        if self._base is not None and not can_train():
            if not self._trained_on:
                _log.warning("%s: %s", _UNTRAINED, INSTALL)
            self._trained_on = count
            return
        parts = [s for s in self._data.values() if np.isfinite(s.costs).any()]
        if not parts:
            return
        rows, offsets = np.concatenate([s.rows for s in parts]), _join([s.offsets for s in parts])
        labels = np.concatenate([s.labels() for s in parts])
        weights = np.maximum(labels, np.float32(self.least_weight))
        self._forest = self.fit_rows(rows, offsets, labels, weights)
        self._trained_on = count
        if self.model_file is not None:
            self.save(self.model_file)
        if self.verbose_eval > 0:
            text = "cost model: %d measurements, %d trees, error on the newest before training %.4f"
            _log.info(text, count, self._forest.trees, self.error)

    def fit(
        self,
        programs: Sequence[Array],
        throughputs: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        """Train on programs alone, whatever was measured: `programs[i]` float32 [S_i, 164],
        `throughputs[i]` in [0, 1] (least cost of its task / its cost), `weights` these if None,
        but at least `least_weight`. Raises UsageError where throughputs are not as many as
        programs, or not finite and 0 or more.
        """
        labels = np.asarray(throughputs, np.float32)
        if len(labels) != len(programs):
            raise UsageError(f"{len(labels)} throughputs were given for {len(programs)} programs")
        if not len(labels) or not (np.isfinite(labels).all() and labels.min() >= 0):
            raise UsageError("a model is trained on at least one program, of throughput 0 or more")
        offsets = np.cumsum([0, *map(len, programs)], dtype=np.int64)
        chosen = np.maximum(labels, np.float32(self.least_weight))
        if weights is not None:
            chosen = np.asarray(weights, np.float32)
        self._forest = self.fit_rows(np.concatenate(programs), offsets, labels, chosen)

    def fit_rows(self, rows: Array, offsets: Array, labels: Array, weights: Array) -> Forest:
        """The trees that `fit` grows, from one array of rows; the model stays as it is. Raises
        UsageError where rows, offsets, labels and weights do not fit each other."""
        return grow(rows, offsets, labels, weights, self.boosting, self._base)

    def predict(self, task: Any, states: Sequence[Any]) -> Array:
        """Scores float32 [N] of states; -inf for those that cannot run."""
        return self.predict_programs(*self._features(task, states))

    def predict_stages(self, task: Any, states: Sequence[Any]) -> Array:
        """Scores of states and of their statements in one array float32: the N scores of
        `predict`, then for each state the number of its statements and their scores (0 statements
        before the model is trained)."""
        rows, offsets = self._features(task, states)
        parts = [self.predict_programs(rows, offsets)]
        if self._forest is None:
            return np.concatenate([*parts, np.zeros(len(states))]).astype(np.float32)
        scores = self._forest.predict_rows(rows)
        for first, end in pairwise(offsets):
            parts += [np.array([end - first]), scores[first:end]]
        return np.concatenate(parts).astype(np.float32)

    def predict_rows(self, rows: Array) -> Array:
        """Scores float32 [M] of statements float32 [M, 164]: shares of the best speed. Raises
        UsageError where the model has not been trained."""
        if self._forest is None:
            raise UsageError("the cost model has not been trained: there are no scores of rows")
        return self._forest.predict_rows(rows)

    def predict_programs(self, rows: Array, offsets: Array) -> Array:
        """Scores float32 [N]: sums over statements; random before the model is trained."""
        if self._forest is None:
            return self._chance.predict_programs(rows, offsets)
        return strike_out(pack_sum(self._forest.predict_rows(rows), offsets), rows, offsets)

    def save(self, file: str | Path) -> None:
        """Write the trees: JSON for a name in .json, else UBJ; compressed for one in .gz. Raises
        UsageError where the model has not been trained."""
        if self._forest is None:
            raise UsageError("the cost model has not been trained: there is nothing to save")
        self._forest.save(file)

    def load(self, file: str | Path) -> None:
        """Begin with the trees of a file. What is measured afterwards adds to them."""
        self._base = self._forest = Forest.load(file)

    def _features(self, task: Any, states: Sequence[Any]) -> tuple[Array, Array]:
        featurise = self._connected.get(_key(task), self.featurise)
        if featurise is None:
            return _own_features(states)
        return featurise(task, states)


def _own_features(states: Sequence[Any]) -> tuple[Array, Array]:
    """Features of finished states that no search has made."""
    from ..features import COUNT, features_of

    parts: list[Array] = []
    for state in states:
        try:
            parts.append(features_of(state))
        except ScheduleError:  # loops that features do not speak of
            parts.append(np.zeros((1, COUNT), np.float32))
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)], dtype=np.int64)


class _Samples:
    """Measured programs of one task: rows [M, 164], offsets [N + 1], costs [N] in seconds."""

    __slots__ = ("costs", "offsets", "rows")

    def __init__(self, rows: Array, offsets: Array, costs: Array) -> None:
        self.rows, self.offsets, self.costs = rows, offsets, costs

    def joined(self, other: _Samples) -> _Samples:
        """Both."""
        return _Samples(
            np.concatenate([self.rows, other.rows]),
            _join([self.offsets, other.offsets]),
            np.concatenate([self.costs, other.costs]),
        )

    def without_empty(self) -> _Samples:
        """Without the programs whose features are all zero: no features to learn from."""
        keep = has_features(self.rows, self.offsets)
        counts = np.diff(self.offsets)
        rows = self.rows[np.repeat(keep, counts)]
        return _Samples(rows, np.cumsum([0, *counts[keep]], dtype=np.int64), self.costs[keep])

    def labels(self) -> Array:
        """The least cost / cost; 0 for failures."""
        best = self.costs.min(initial=math.inf)
        known = np.isfinite(self.costs)
        labels = np.zeros(len(self.costs), np.float32)
        labels[known] = best / self.costs[known]
        return labels


def _join(offsets: Sequence[Array]) -> Array:
    """The offsets of several groups of programs behind each other."""
    counts = np.concatenate([np.diff(o) for o in offsets])
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _key(task: Any) -> Hashable:
    return (task.workload_key, str(task.target))


_OPERATORS = (
    "max", "min", "add", "Conv2dOutput", "conv2d_winograd", "DepthwiseConv2d", "dense", "softmax",
    "compute(b, i, j)",
)  # fmt: skip


def get_workload_embedding(workload_key: str) -> list[int]:
    """For each of nine kinds of operators 1 where a computation has one of them, else 0."""
    from ..dag import ComputeDAG

    text = str(ComputeDAG(workload_key))
    return [int(kind in text) for kind in _OPERATORS]


def feature_to_pack_sum_xgbmatrix(xs: Sequence[Array]) -> tuple[Any, list[int]]:
    """Statements of programs, `xs[i]` float32 [S_i, 164], as xgboost's DMatrix of all rows, and
    for each row the number of its program."""
    numbers = [n for n, x in enumerate(xs) for _ in x]
    return trainer("feature_to_pack_sum_xgbmatrix").DMatrix(np.concatenate(list(xs))), numbers


def pack_sum_xgbmatrix(xs: Any, ys: Any, gids: Any = None, weights: Any = None) -> Any:
    """The same with labels `ys` and `weights` of the programs, in the order of their groups
    `gids`: the DMatrix alone, each row with its program's label and weight."""
    order = np.arange(len(xs)) if gids is None else np.asarray(gids).argsort()
    matrix, numbers = feature_to_pack_sum_xgbmatrix([xs[i] for i in order])
    matrix.set_label(np.asarray(ys)[order][numbers])
    if weights is not None:
        matrix.set_weight(np.asarray(weights)[order][numbers])
    return matrix


def predict_throughput_pack_sum(raw_preds: Array, pack_ids: Sequence[int]) -> Array:
    """The scores of programs, float64: the sums of those of their rows."""
    return np.bincount(pack_ids, weights=raw_preds)


def __getattr__(name: str) -> Any:
    """`CustomCallback`, whose base is xgboost's."""
    if name == "CustomCallback":
        from .xgb_callback import callback_class

        return callback_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
