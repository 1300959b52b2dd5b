"""Predictions of speed from decisions."""

from __future__ import annotations

import numpy as np

from tilewright.report.predict import LEAST, cross_validated, rank_correlation


def test_what_decisions_decide_is_predicted() -> None:
    rng = np.random.default_rng(0)
    tiles = [int(2 ** rng.integers(0, 8)) for _ in range(200)]
    kinds = [str(rng.choice(["none", "all"])) for _ in range(200)]
    decisions = [{"tile": f"8 x {t}", "kind": k} for t, k in zip(tiles, kinds)]
    seconds: list[float | None] = [
        float((1 + (np.log2(t) - 4) ** 2) * (2.0 if k == "none" else 1.0) * rng.uniform(0.95, 1.05))
        for t, k in zip(tiles, kinds)
    ]
    seconds[5] = None
    scores = cross_validated(decisions, seconds)
    assert scores[5] is None and sum(s is None for s in scores) == 1
    pairs = [(p, -s) for p, s in zip(scores, seconds) if p is not None and s is not None]
    found = rank_correlation([p for p, _ in pairs], [s for _, s in pairs])
    assert found is not None and found > 0.9


def test_noise_is_not_predicted() -> None:
    rng = np.random.default_rng(1)
    decisions = [{"tile": str(rng.integers(0, 100))} for _ in range(100)]
    seconds = [float(s) for s in rng.uniform(1, 2, 100)]
    scores = [s for s in cross_validated(decisions, seconds) if s is not None]
    found = rank_correlation(scores, [-s for s in seconds])
    assert found is not None and abs(found) < 0.4


def test_few_measurements_predict_nothing() -> None:
    decisions = [{"a": "1"}] * (LEAST - 1)
    assert cross_validated(decisions, [1.0] * (LEAST - 1)) == [None] * (LEAST - 1)


def spearman(a: list[float], b: list[float]) -> float:
    """By the definition: the covariance of mean places in sorted order."""

    def places(values: list[float]) -> list[float]:
        order = sorted(values)
        return [order.index(v) + (order.count(v) - 1) / 2 for v in values]

    x, y = (np.array(places(v)) - (len(v) - 1) / 2 for v in (a, b))
    return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))


def test_rank_correlation_is_by_its_definition() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        a, b = rng.integers(0, 6, 30).astype(float), rng.integers(0, 6, 30).astype(float)
        found = rank_correlation(a.tolist(), b.tolist())
        assert found is not None and np.isclose(found, spearman(a.tolist(), b.tolist()))
    assert rank_correlation([1.0, 1.0], [1.0, 2.0]) is None
