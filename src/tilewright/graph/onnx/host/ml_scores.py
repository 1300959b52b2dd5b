"""ai.onnx.ml: what classifiers and regressors make of their scores."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from ..node import HostNode
from .common import Array, required

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def features(node: HostNode) -> Array:
    """The samples, one in a row."""
    x = np.asarray(required(node, 0), np.float64)
    if x.ndim not in (1, 2):
        raise node.error(f"it takes one or two dimensions, got shape {list(x.shape)}")
    return x.reshape(1, -1) if x.ndim == 1 else x


def matrix(node: HostNode, name: str, rows: int, columns: int | None = None) -> Array:
    """An attribute as a matrix, which is read once."""
    key = f"{name} of {rows} rows of {columns}"
    return node.kept(key, lambda node: _matrix(node, name, rows, columns))


def _matrix(node: HostNode, name: str, rows: int, columns: int | None) -> Array:
    found = np.array(node.get(name) or [], np.float64)
    wanted = -1 if columns is None else columns
    if rows < 1 or found.size % rows or (columns is not None and found.size != rows * columns):
        shape = f"{rows} rows" + ("" if columns is None else f" of {columns}")
        raise node.error(f"{found.size} {name} are not {shape}")
    return found.reshape(rows, wanted if found.size else 0)


def class_labels(node: HostNode) -> Array:
    return node.kept("labels", _class_labels)


def _class_labels(node: HostNode) -> Array:
    texts = node.get("classlabels_strings")
    numbers = node.get("classlabels_ints") or node.get("classlabels_int64s")
    if bool(texts) == bool(numbers):
        raise node.error("it needs labels that are either strings or whole numbers")
    return np.array(texts, object) if texts else np.array(numbers, np.int64)


def transform_of(node: HostNode) -> str:
    """The name of the transform; operator sets since 5 number them."""
    given = node.get("post_transform", "NONE")
    if isinstance(given, int) and 0 <= given < len(_TRANSFORMS):
        return _TRANSFORMS[given]
    if given not in _TRANSFORMS:
        raise node.error(f"post_transform {given!r}; there are {', '.join(_TRANSFORMS)}")
    return str(given)


def transformed(scores: Array, kind: str) -> Array:
    """Scores in rows after `post_transform`."""
    if kind == "NONE" or not scores.size:
        return scores
    if kind == "LOGISTIC":
        return logistic(scores)
    if kind == "PROBIT":
        return probit(scores)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    if kind == "SOFTMAX_ZERO":  # scores of zero stay
        powers = np.where(np.abs(scores) > 1e-7, powers, 0)
    total = powers.sum(1, keepdims=True)
    return np.asarray(powers / np.where(total == 0, 1, total))


def logistic(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def probit(x: Array) -> Array:
    """The normal distribution's inverse."""
    inverse = NormalDist().inv_cdf
    ends = {0.0: -np.inf, 1.0: np.inf}
    found = [inverse(p) if 0 < p < 1 else ends.get(p, np.nan) for p in x.reshape(-1).tolist()]
    return np.array(found, np.float64).reshape(x.shape)


def two_classes(score: Array, positive: bool, kind: str) -> Array:
    """The scores of two classes after the transform, from that of the second. With `positive`, it
    is taken as a probability, and the first has the rest of it."""
    if kind == "PROBIT":
        score, positive, kind = probit(score), False, "NONE"
    rest = 1 - score if positive and kind == "NONE" else -score
    return transformed(np.stack([rest, score], 1), kind)


def results(labels: Array, best: Array, scores: Array) -> list[Any]:
    return [np.asarray(labels[best], labels.dtype), scores.astype(np.float32)]
