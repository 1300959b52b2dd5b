"""How well a search's decisions say how fast a candidate is: ridge regression, cross-validated
(Hoerl and Kennard, 1970; Stone, 1974)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = 20
"""Measurements that ran from which on anything is predicted."""
_FOLDS = 5
_PENALTY = 1.0
_NUMBER = re.compile(r"-?\d+")
_KNOWN = 8  # values of a decision, the most frequent ones, that have a column each


def cross_validated(
    decisions: Sequence[Mapping[str, str]], seconds: Sequence[float | None]
) -> list[float | None]:
    """A score of each candidate, higher is faster: the logarithm of its speed as a ridge regression
    on decisions says that has not seen it. None for those that failed, and for all where too few
    ran."""
    ran = [k for k, s in enumerate(seconds) if s is not None and s > 0]
    scores: list[float | None] = [None] * len(decisions)
    if len(ran) < LEAST:
        return scores
    x = _features([decisions[k] for k in ran])
    y = -np.log(np.asarray([seconds[k] for k in ran], float))
    fold = np.arange(len(ran)) % _FOLDS
    for f in range(_FOLDS):
        seen, unseen = fold != f, fold == f
        middle, scale = x[seen].mean(0), x[seen].std(0) + 1e-9
        a, offset = (x[seen] - middle) / scale, y[seen].mean()
        gram = a.T @ a + _PENALTY * np.eye(a.shape[1])
        weights = np.linalg.solve(gram, a.T @ (y[seen] - offset))
        guessed = ((x[unseen] - middle) / scale) @ weights + offset
        for k, score in zip(np.flatnonzero(unseen), guessed):
            scores[ran[k]] = float(score)
    return scores


def _features(decisions: Sequence[Mapping[str, str]]) -> Array:
    """Columns: logarithms of the numbers in each decision and their squares, frequent values."""
    names = list(dict.fromkeys(name for d in decisions for name in d))
    columns: list[list[float]] = []
    for name in names:
        texts = [d.get(name, "") for d in decisions]
        kinds = sorted(set(texts), key=lambda t: (-texts.count(t), t))
        columns += [[float(t == kind) for t in texts] for kind in kinds[:_KNOWN]]
        numbers = [[abs(int(n)) for n in _NUMBER.findall(t)[:6]] for t in texts]
        for place in range(max(map(len, numbers), default=0)):
            logs = [np.log2(1 + n[place]) if place < len(n) else 0.0 for n in numbers]
            columns += [logs, [v * v for v in logs]]
    return np.asarray(columns or [[0.0] * len(decisions)], float).T


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's correlation of ranks; None where one of them is constant."""
    if len(a) < 2:
        return None
    ranks = [_ranks(np.asarray(v, float)) for v in (a, b)]
    if any(r.std() == 0 for r in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Array) -> Array:
    """Ranks, equal values with the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]
