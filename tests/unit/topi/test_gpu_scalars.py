"""Default GPU schedules of results without dimensions: one thread or block makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.topi.schedules.default import default_schedule

CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], Callable[[Any], Any]]] = {
    "sum": (topi.sum, (30, 31), np.sum),
    "sum of few": (topi.sum, (3,), np.sum),
    "after a sum": (lambda x: topi.nn.relu(topi.sum(x)), (40, 9), lambda a: max(a.sum(), 0)),
    "after a sum of few": (lambda x: topi.nn.relu(topi.sum(x)), (4,), lambda a: max(a.sum(), 0)),
    "element-wise": (topi.nn.relu, (), lambda a: np.maximum(a, 0)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_scalars(name: str, target: str) -> None:
    make, shape, reference = CASES[name]
    x = te.placeholder(shape, name="x")
    y = make(x)
    f = tw.build(default_schedule(y, tw.Target(target)), [x, y], target)
    a = np.random.default_rng(0).integers(-9, 10, shape).astype("float32")
    out = np.zeros((), "float32")
    f.run_simt(np.asarray(a), out)
    assert out == reference(a)
