"""ai.onnx.ml: linear models and support vector machines."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array
from .ml_scores import (
    class_labels,
    features,
    logistic,
    matrix,
    results,
    transform_of,
    transformed,
    two_classes,
)


def _products(node: HostNode, x: Array, coefficients: Array) -> Array:
    if x.shape[1] != coefficients.shape[1]:
        raise node.error(
            f"{coefficients.size} coefficients for {len(coefficients)} scores of "
            f"{x.shape[1]} features"
        )
    return np.asarray(x @ coefficients.T)


def _linear_regressor(node: HostNode) -> list[Any]:
    x, targets = features(node), node.get("targets", 1)
    scores = _products(node, x, matrix(node, "coefficients", targets))
    if node.get("intercepts"):
        scores = scores + matrix(node, "intercepts", 1, targets)
    return [transformed(scores, transform_of(node)).astype(np.float32)]


def _linear_classifier(node: HostNode) -> list[Any]:
    x, labels = features(node), class_labels(node)
    intercepts = node.get("intercepts") or []
    width = max(x.shape[1], 1)
    rows = len(intercepts) or max(len(node.get("coefficients") or []) // width, 1)
    scores = _products(node, x, matrix(node, "coefficients", rows))
    if intercepts:
        scores = scores + np.array(intercepts)
    kind = transform_of(node)
    if rows == 1 and len(labels) <= 2:
        if len(labels) == 1:
            return results(labels, np.zeros(len(x), np.int64), transformed(scores, kind))
        # as ONNX Runtime does: the score is taken as a probability, but not where it is compared
        both = two_classes(scores[:, 0], True, kind)
        return results(labels, (scores[:, 0] > 0).astype(np.int64), both)
    if len(labels) != rows:
        raise node.error(f"{len(labels)} labels for {rows} scores")
    return results(labels, scores.argmax(1), transformed(scores, kind))


def _kernel(node: HostNode, x: Array, vectors: Array) -> Array:
    """The kernel of each sample with each support vector."""
    kind = node.get("kernel_type", "LINEAR")
    gamma, offset, degree = (node.get("kernel_params") or [0.0, 0.0, 0.0])[:3]
    if x.shape[1] != vectors.shape[1]:
        raise node.error(f"{x.shape[1]} features, support vectors of {vectors.shape[1]}")
    if kind == "RBF":
        squares = (x * x).sum(1)[:, None] + (vectors * vectors).sum(1) - 2 * (x @ vectors.T)
        return np.asarray(np.exp(-gamma * np.maximum(squares, 0)))
    product = x @ vectors.T
    if kind == "LINEAR":
        return np.asarray(product)
    if kind == "POLY":
        return np.asarray((gamma * product + offset) ** degree)
    if kind == "SIGMOID":
        return np.asarray(np.tanh(gamma * product + offset))
    raise node.error(f"kernel_type {kind!r}; there are LINEAR, POLY, RBF, SIGMOID")


def _rho(node: HostNode, count: int) -> Array:
    found = np.array(node.get("rho") or [0.0], np.float64)
    if len(found) not in (1, count):
        raise node.error(f"{len(found)} rho, expected {count}")
    return found


def _svm_regressor(node: HostNode) -> list[Any]:
    x, count = features(node), node.get("n_supports", 0)
    if count:
        vectors = matrix(node, "support_vectors", count)
        scores = _kernel(node, x, vectors) @ matrix(node, "coefficients", 1, count)[0]
    else:
        scores = _products(node, x, matrix(node, "coefficients", 1))[:, 0]
    scores = (scores + _rho(node, 1))[:, None]
    if node.get("one_class", 0):
        scores = np.where(scores > 0, 1.0, -1.0)
    return [transformed(scores, transform_of(node)).astype(np.float32)]


def _svm_classifier(node: HostNode) -> list[Any]:
    x, labels = features(node), class_labels(node)
    kind, counts = transform_of(node), node.get("vectors_per_class") or []
    if not counts:  # a linear machine: a row of coefficients for each class
        scores = _products(node, x, matrix(node, "coefficients", len(labels))) + _rho(node, 1)
        return results(labels, scores.argmax(1), transformed(scores, kind))
    if len(counts) != len(labels):
        raise node.error(f"{len(counts)} vectors_per_class, {len(labels)} labels")
    pairs = list(combinations(range(len(labels)), 2))
    scores = _duels(node, x, counts, pairs)
    votes = np.zeros((len(x), len(labels)))
    for k, (i, j) in enumerate(pairs):
        votes[:, i] += scores[:, k] > 0
        votes[:, j] += scores[:, k] <= 0
    if node.get("prob_a"):
        a, b = (matrix(node, n, 1, len(pairs))[0] for n in ("prob_a", "prob_b"))
        chances = _coupled(np.clip(logistic(-(scores * a + b)), 1e-7, 1 - 1e-7), pairs)
        return results(labels, votes.argmax(1), transformed(chances, kind))
    if len(pairs) == 1:
        scores = two_classes(scores[:, 0], False, kind)
    else:
        scores = transformed(scores, kind)
    return results(labels, votes.argmax(1), scores)


def _duels(node: HostNode, x: Array, counts: list[int], pairs: list[tuple[int, int]]) -> Array:
    """The decision of each pair of classes: positive for the first."""
    total = sum(counts)
    kernel = _kernel(node, x, matrix(node, "support_vectors", total))
    coefficients = matrix(node, "coefficients", len(counts) - 1, total)
    rho, ends = _rho(node, len(pairs)), np.cumsum(counts)
    of = [slice(end - n, end) for end, n in zip(ends, counts)]
    scores = np.zeros((len(x), len(pairs)))
    for k, (i, j) in enumerate(pairs):
        scores[:, k] = kernel[:, of[i]] @ coefficients[j - 1, of[i]]
        scores[:, k] += kernel[:, of[j]] @ coefficients[i, of[j]] + rho[k % len(rho)]
    return scores


def _coupled(duels: Array, pairs: list[tuple[int, int]]) -> Array:
    """Probabilities of classes from those of pairs (Wu, Lin, Weng: Probability estimates for
    multi-class classification by pairwise coupling, 2004; the second method)."""
    count = 1 + max(j for _, j in pairs)
    against = np.zeros((len(duels), count, count))
    for k, (i, j) in enumerate(pairs):
        against[:, i, j], against[:, j, i] = duels[:, k], 1 - duels[:, k]
    q = -against.transpose(0, 2, 1) * against
    diagonal = np.arange(count)
    q[:, diagonal, diagonal] = (against * against).sum(1)
    p = np.full((len(duels), count), 1 / count)
    for _ in range(max(100, count)):
        qp = np.einsum("nij,nj->ni", q, p)
        pqp = (p * qp).sum(1)
        going = np.abs(qp - pqp[:, None]).max(1) >= 0.005 / count
        if not going.any():
            break
        for t in range(count):
            step = np.where(going, (pqp - qp[:, t]) / q[:, t, t], 0)
            p[:, t] += step
            more = 1 + step
            pqp = (pqp + step * (step * q[:, t, t] + 2 * qp[:, t])) / more**2
            qp = (qp + step[:, None] * q[:, t]) / more[:, None]
            p /= more[:, None]
    return p


FUNCTIONS: dict[str, HostFunction] = {
    "ai.onnx.ml.LinearClassifier": _linear_classifier,
    "ai.onnx.ml.LinearRegressor": _linear_regressor,
    "ai.onnx.ml.SVMClassifier": _svm_classifier,
    "ai.onnx.ml.SVMRegressor": _svm_regressor,
}
