"""Bounds of functions of floats: those of the table hold, and comparisons are decided by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tilewright import tir
from tilewright.arith import Analyzer
from tilewright.ir import Range
from tilewright.loopir import expr as E
from tilewright.loopir.op_table import TABLE

x, i = E.Var("x", "float32"), E.Var("i", "int32")
FOUR = E.const(4.0, "float32")
ROWS = sorted(
    name
    for name, row in TABLE.items()
    if row.bound is not None and row.numpy is not None and row.wide and row.check.__name__ != "bits"
)

DECIDED = [
    (tir.sqrt(x) < 0.0, False),
    (tir.exp(x) <= -1.0, False),
    (tir.sin(x) > 1.0, False),
    (tir.sigmoid(x).equal(2.0), False),
    (E.NE(tir.tanh(x), E.const(1.5, "float32")), True),
    (tir.hypot(x, x) < 0.0, False),
    (tir.sqrt(tir.max(x, FOUR)) < 2.0, False),
    (tir.sqrt(tir.if_then_else(x > 0.0, FOUR, FOUR * 4.0)) > 4.0, False),
    (i.astype("float32") < 0.0, False),
    # e as float32 is less than e
    (tir.exp(tir.max(x, E.const(1.0, "float32"))) < float(np.float32(math.e)), False),
]
OPEN = [
    tir.abs(x) >= 0.0,  # not of NaN
    tir.sin(x) >= 1.0,
    tir.sqrt(tir.max(x, FOUR)) <= 2.0,
    tir.exp(tir.max(x, E.const(1.0, "float32"))) <= float(np.float32(math.e)),
    tir.cos(x) + 1.0 < 0.0,
    x < float("nan"),
    tir.exp(E.Var("v", "float32x4")) < E.Broadcast(E.const(0.0, "float32"), 4),
]


@pytest.mark.parametrize("condition, value", DECIDED, ids=lambda v: str(v))
def test_comparisons_that_are_decided(condition: Any, value: bool) -> None:
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 10))
    assert str(analyzer.simplify(condition)) == f"T.bool({value})"


@pytest.mark.parametrize("condition", OPEN, ids=str)
def test_comparisons_that_may_be_both(condition: Any) -> None:
    assert not isinstance(Analyzer().simplify(condition), (E.IntImm, E.Broadcast))


@pytest.mark.parametrize("name", ROWS)
def test_values_lie_within_the_bounds_of_the_table(name: str) -> None:
    row, rng = TABLE[name], np.random.default_rng(3)
    assert row.numpy is not None and row.bound is not None
    edges = np.array([-np.inf, -1e300, -100.5, -1.0, -0.5, 0.0, 1e-9, 0.5, 1.0, 3.0, 800.0, np.inf])
    takes = row.numpy.nin if isinstance(row.numpy, np.ufunc) else row.numpy.__code__.co_argcount
    call = tir.call_intrin("float64", f"tir.{name}", *[E.Var("a", "float64")] * takes)
    for _ in range(200):
        ends = np.sort(rng.choice(edges, (takes, 2)), axis=1)
        low, high = row.bound(call, *[(float(a), float(b)) for a, b in ends]) or (-np.inf, np.inf)
        halves = np.clip(ends, -1e300, 1e300) / 2
        inside = [np.append(e, rng.uniform(h[0], h[1], 20) * 2) for e, h in zip(ends, halves)]
        args = [rng.permutation(np.clip(a, *e)) for a, e in zip(inside, ends)]
        with np.errstate(all="ignore"):
            values = np.asarray(row.numpy(*args), dtype=np.float64)
        known = values[~np.isnan(values)]
        slack = 1e-15 * np.minimum(np.abs(known), 1e300)
        assert np.all(known + slack >= low) and np.all(known - slack <= high), (ends, low, high)
