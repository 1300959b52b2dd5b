"""Boosted trees that score statements so that a program's sum is its speed.

The loss is Ansor's (Zheng et al., OSDI 2020, section 5.2): sum over programs P of
w(P) * (sum over its statements f(s) - y(P))^2.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import TilewrightError, UsageError
from ..base.files import read_file
from ..base.trainer import trainer
from .model_file import checked, decoded, trees_of
from .trees import Trees

Array = np.ndarray[Any, Any]

FEATURES = 164
_FORMAT = "tilewright-cost-model-1"
_DATA = Path(__file__).resolve().parent / "data"
_MOST_BYTES = 1 << 28
_GZIP = b"\x1f\x8b"
# How far predictions of trees trained elsewhere may be stretched to fit new measurements.
_SCALES = (0.1, 10.0)
_PATIENCE = 25
_PROGRESS = 1e-3
_TOGETHER = 8
_QUIET = {"nthread": 1, "verbosity": 0}


@dataclass(frozen=True)
class Boosting:
    """How trees are grown. `threads`: with two, a machine whose other core is busy makes each
    parallel region wait for a time slice (measured: 0.1 s became 4 s), so that one is the default.

    Depth and shrinkage are smaller than in Ansor's code (10 and 0.2) and columns are drawn for
    each node: measured over 16 searches in synthetic spaces, scores correlate better with the truth
    (0.87 rather than 0.79 after 192 measurements). 64 bins rank as well as 256, in half the time.
    Trees for very many measurements may be deeper.
    """

    rounds: int = 200
    max_depth: int = 4
    eta: float = 0.05
    gamma: float = 1e-5
    min_child_weight: float = 0.0
    colsample_bynode: float = 0.3
    subsample: float = 1.0
    max_bin: int = 64
    seed: int = 43
    threads: int = 1

    def parameters(self) -> dict[str, Any]:
        """The parameters under xgboost's names."""
        return {
            "max_depth": self.max_depth,
            "eta": self.eta,
            "gamma": self.gamma,
            "min_child_weight": self.min_child_weight,
            "colsample_bynode": self.colsample_bynode,
            "subsample": self.subsample,
            "max_bin": self.max_bin,
            "seed": self.seed,
            "nthread": self.threads,
            "tree_method": "hist",
            "base_score": 0.0,
            "verbosity": 0,
            "disable_default_eval_metric": True,
        }


def pack_sum(values: Array, offsets: Array) -> Array:
    """Sums of `values[offsets[i]:offsets[i + 1]]`: float [N] for int [N + 1]; 0 for empty ones."""
    sums = np.zeros(len(offsets) - 1, dtype=values.dtype)
    used = offsets[1:] > offsets[:-1]
    if used.any():
        sums[used] = np.add.reduceat(values, offsets[:-1][used])
    return sums


def pack_sum_gradient(
    scores: Array, offsets: Array, labels: Array, weights: Array
) -> tuple[Array, Array]:
    """Half the loss's gradient and a bound of its curvature, one a statement.

    A program's statements move together: where it has more than `_TOGETHER` of them, their steps
    would overshoot with the weight alone as curvature, so that it grows from there on.
    """
    counts = np.diff(offsets)
    error = (pack_sum(scores, offsets) - labels) * weights
    curvature = weights * np.maximum(1.0, counts / _TOGETHER)
    return np.repeat(error, counts), np.repeat(curvature, counts)


def pack_sum_loss(scores: Array, offsets: Array, labels: Array, weights: Array) -> float:
    """The weighted mean squared error of programs; 0 where no weight is positive."""
    total = float(weights.sum())
    error = pack_sum(scores, offsets) - labels
    return float(np.dot(weights, error * error)) / total if total > 0 else 0.0


class Forest:
    """Trees over rows of 164 features; `scale` turns their sums into speeds in [0, 1].

    Those that were grown here are xgboost's; those from a file are read and evaluated without it.
    """

    __slots__ = ("_booster", "_model", "_raw", "_trees", "scale")

    def __init__(self, booster: Any, scale: float = 1.0) -> None:
        self._booster = booster
        self._trees: Trees | None = None
        self._model: dict[str, Any] = {}
        self._raw = b""
        self.scale = scale

    def predict_rows(self, rows: Array) -> Array:
        """Scores float32 [M] of rows float32 [M, 164]."""
        if not len(rows):
            return np.zeros(0, dtype=np.float32)
        rows = np.ascontiguousarray(rows, np.float32)
        scores: Array
        if self._trees is not None:
            scores = self._trees.predict(rows)
        else:
            scores = self._booster.inplace_predict(rows)
        return scores * np.float32(self.scale)

    @property
    def trees(self) -> int:
        """The number of trees."""
        if self._trees is not None:
            return self._trees.count
        return int(self._booster.num_boosted_rounds())

    def to_bytes(self, kind: str = "ubj") -> bytes:
        """xgboost's own format, "ubj" or "json"; its attributes hold our version and the scale.

        TilewrightError where trees from a file are to become "ubj" and xgboost is not installed.
        """
        attributes = {"format": _FORMAT, "scale": repr(self.scale)}
        if self._trees is not None:
            learner = {**self._model["learner"], "attributes": attributes}
            data = json.dumps({**self._model, "learner": learner}).encode()
            if kind == "json":
                return data
            booster = trainer("writing a cost model as UBJ, rather than .json,").Booster(_QUIET)
            booster.load_model(bytearray(data))
            return bytes(booster.save_raw(kind))
        self._booster.set_attr(**attributes)
        return bytes(self._booster.save_raw(kind))

    def to_trainer(self) -> bytes:
        """The trees as xgboost reads them, to grow more."""
        if self._trees is None:
            return self.to_bytes()
        if not self._raw:  # not what was read, which xgboost would trust
            self._raw = json.dumps(self._model).encode()
        return self._raw

    @classmethod
    def from_bytes(cls, data: bytes, name: str, trusted: bool = False) -> Forest:
        """Trees that `to_bytes` or xgboost wrote; `name` stands in error texts. `trusted`: ours, so
        that nothing needs to be checked.

        TilewrightError where the data are damaged or trained on other features.
        """
        if data[:2] == _GZIP:
            try:
                data = zlib.decompressobj(31).decompress(data, _MOST_BYTES)
            except zlib.error as err:
                raise TilewrightError(f"{name}: the compressed cost model is damaged") from err
        made = cls(None)
        try:
            made._model = decoded(data) if trusted else checked(data, FEATURES)
            made._raw = data if trusted else b""
            attributes = made._model["learner"].get("attributes", {})
            made.scale = float(attributes.get("scale") or 1.0)
            made._trees = Trees(*trees_of(made._model), features=FEATURES)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as err:
            raise TilewrightError(
                f"{name} is not a cost model, or was damaged: {err}; write it with XGBModel.save"
            ) from None
        return made

    def save(self, file: str | Path) -> None:
        """Write a file: JSON where its name ends in .json, else UBJ; compressed with .gz behind."""
        path = Path(file)
        packed = path.suffix == ".gz"
        kind = "json" if (path.with_suffix("") if packed else path).suffix == ".json" else "ubj"
        data = self.to_bytes(kind)
        path.write_bytes(gzip.compress(data, mtime=0) if packed else data)

    @classmethod
    def load(cls, file: str | Path) -> Forest:
        """Read what `save` wrote. TilewrightError where there is no such file, or another one."""
        try:
            data = read_file(file)
        except OSError as err:
            raise TilewrightError(f"cannot read the cost model {file}: {err.strerror}") from err
        return cls.from_bytes(data, str(file), _DATA in Path(file).resolve().parents)


def grow(
    rows: Array,
    offsets: Array,
    labels: Array,
    weights: Array,
    how: Boosting,
    base: Forest | None = None,
) -> Forest:
    """Train on programs: rows float32 [M, 164], offsets int [N + 1], labels and weights [N].

    With `base`, its trees stay and new ones learn what they leave over. Their predictions are
    first scaled to fit the labels best, because the labels are relative to each task's best
    program so far; only the order within a task matters, so the labels are divided instead.
    """
    _check(rows, offsets, labels, weights)
    scale = 1.0 if base is None else _fit_scale(base, rows, offsets, labels, weights)
    if not scale:
        base, scale = None, 1.0
    booster, data = _start(rows, how, base)
    labels = (labels / scale).astype(np.float32)
    weights = weights.astype(np.float32)
    best, since = np.inf, 0
    first = 0 if base is None else base.trees
    for round_ in range(first, first + how.rounds):
        scores = booster.predict(data, output_margin=True, training=True)
        loss = pack_sum_loss(scores, offsets, labels, weights)
        if loss > best * (1 - _PROGRESS):
            since += 1
        else:
            best, since = loss, 0
        if since > _PATIENCE:
            break
        grad, hess = pack_sum_gradient(scores, offsets, labels, weights)
        booster.boost(data, iteration=round_, grad=grad, hess=hess)
    return Forest(booster, scale)


def _start(rows: Array, how: Boosting, base: Forest | None) -> tuple[Any, Any]:
    """A booster to grow, and its data: binned for good where no older tree must read them."""
    xgboost = trainer("the cost model")
    rows = np.ascontiguousarray(rows, np.float32)
    parameters = how.parameters()
    if base is None:
        data = xgboost.QuantileDMatrix(rows, nthread=how.threads, max_bin=how.max_bin)
        return xgboost.Booster(parameters, [data]), data
    data = xgboost.DMatrix(rows, nthread=how.threads)
    booster = xgboost.Booster(parameters, [data], bytearray(base.to_trainer()))
    return booster, data


def _fit_scale(base: Forest, rows: Array, offsets: Array, labels: Array, weights: Array) -> float:
    """The factor that brings the base's programs nearest to the labels; 0 where it does not help
    (nothing to compare, or the two are opposed)."""
    sums = pack_sum(base.predict_rows(rows) / np.float32(base.scale), offsets)
    square = float(np.dot(weights, sums * sums))
    if not square > 0:
        return 0.0
    factor = float(np.dot(weights, sums * labels)) / square
    return min(max(factor, _SCALES[0]), _SCALES[1]) if factor > 0 else 0.0


def _check(rows: Array, offsets: Array, labels: Array, weights: Array) -> None:
    if rows.ndim != 2 or rows.shape[1] != FEATURES:
        raise UsageError(f"rows of features must be [M, {FEATURES}], got {list(rows.shape)}")
    if len(offsets) != len(labels) + 1 or len(weights) != len(labels):
        raise UsageError(
            f"{len(offsets)} offsets, {len(labels)} labels and {len(weights)} weights do not fit: "
            "there must be one offset more than programs"
        )
    if len(rows) == 0 or offsets[0] != 0 or offsets[-1] != len(rows):
        raise UsageError(f"the offsets must go from 0 to the {len(rows)} rows, which are not none")
