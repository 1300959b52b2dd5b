"""Features of many candidates at once against those of each, read from its loop nest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.auto_scheduler import feature_cases as F
from tests.unit.auto_scheduler.slow_features import slow_features
from tilewright.auto_scheduler.features import NAMES, Batch, Skeleton, features


def annotate(schedule: Any, batch: Batch, n: int) -> None:
    """Say of a finished schedule what the batch says of candidate n."""
    for ident, flags in batch.vector.items():
        stage = schedule.by_id[ident]
        if flags[n]:
            stage.vectorize(stage.leaf_iter_vars[-1])
    for ident, places in batch.unrolled.items():
        stage = schedule.by_id[ident]
        for place in places:
            stage.unroll(stage.leaf_iter_vars[place])
    for ident, counts in batch.parallel.items():
        stage = schedule.by_id[ident]
        if counts[n] > 1:
            stage.fuse(*stage.leaf_iter_vars[: counts[n]])
        if counts[n] > 0:
            stage.parallel(stage.leaf_iter_vars[0])
    for ident, steps in batch.unroll.items():
        stage = schedule.by_id[ident]
        if steps[n]:
            stage.pragma(stage.leaf_iter_vars[0], "auto_unroll_max_step", int(steps[n]))


def check(case: Any, batch: Batch, skeleton: Skeleton, lengths: F.Lengths) -> None:
    found, names = features(skeleton, batch)
    assert found.dtype == np.float32
    for n, row in enumerate(batch.factors):
        values = dict(zip(lengths.open, row.tolist()))
        schedule, args = case(F.Lengths(values))
        annotate(schedule, batch, n)
        wanted, stores = slow_features(schedule, args)
        assert names == stores
        close = np.isclose(found[n], wanted, rtol=2e-6, atol=2e-6)
        wrong = [
            f"{stores[s]}.{NAMES[c]}: {found[n, s, c]} instead of {wanted[s, c]}"
            for s, c in np.argwhere(~close)
        ]
        assert not wrong, f"{values}\n" + "\n".join(wrong[:20])


def compare(case: Any, count: int = 12, dividing: bool = True) -> None:
    state, lengths = F.skeleton_of(case)
    skeleton = Skeleton(state)
    check(case, Batch(F.draw(lengths, count, 1, dividing)), skeleton, lengths)


@pytest.mark.parametrize("level", [1, 2])
def test_matmul(level: int) -> None:
    compare(F.matmul(level))
