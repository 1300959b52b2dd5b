"""Default schedules of convolutions that meet: in what follows both, or in padding they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.interp.te_bound import te_eval_bound

TARGETS = ("llvm", "cuda -arch=sm_70", "cuda -arch=sm_80", "cuda -arch=sm_90a", "opencl")
ONE, NONE = (1, 1), (0, 0, 0, 0)


def convolved(last: bool, x: Any, filters: Any, pads: Any = NONE) -> Any:
    make = topi.nn.conv2d_nhwc if last else topi.nn.conv2d_nchw
    return make(x, filters, ONE, pads, ONE, out_dtype="float32")


def images(last: bool) -> list[Any]:
    """Data, and two sets of filters."""
    shape, kernel = ((1, 6, 7, 32), (3, 3, 32, 32)) if last else ((1, 32, 6, 7), (32, 32, 3, 3))
    names = ("x", shape), ("a", kernel), ("b", kernel)
    return [te.placeholder(s, "float16", name) for name, s in names]


def check(target: str, inputs: list[Any], outs: list[Any]) -> None:
    """Whole numbers, whose products and sums are exact in any order."""
    f = tw.build(topi.default_schedule(outs, target), [*inputs, *outs], target)
    rng = np.random.default_rng(4)
    feeds = {t: rng.integers(-2, 3, [int(d) for d in t.shape]).astype(t.dtype) for t in inputs}
    made = [np.full([int(d) for d in t.shape], 7, t.dtype) for t in outs]
    if target == "llvm":
        given = [tw.nd.array(v) for v in (*feeds.values(), *made)]
        f(*given)
        made = [v.numpy() for v in given[len(inputs) :]]
    else:
        reports = f.run_simt(*feeds.values(), *made)
        assert not any(r.findings for r in reports.values())
    for value, (want, _) in zip(made, te_eval_bound(outs, feeds)):
        np.testing.assert_array_equal(value.astype("float64"), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("last", [True, False])
def test_a_sum_of_two(last: bool, target: str) -> None:
    """It ends the group of one alone."""
    x, a, b = images(last)
    pads = (1, 1, 1, 1)
    out = topi.nn.relu(topi.add(convolved(last, x, a, pads), convolved(last, x, b, pads)))
    check(target, [x, a, b], [out])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("way", ["shared", "stored", "padded again"])
def test_padding(way: str, last: bool, target: str) -> None:
    """Padding that several read, that is a result, and that another one follows."""
    x, a, b = images(last)
    around = (0, 1, 2, 0) if last else (0, 0, 1, 2)
    padded = topi.nn.pad(x, around, around)
    if way == "shared":
        outs = [topi.add(convolved(last, padded, a), convolved(last, padded, b))]
    elif way == "stored":
        outs = [padded, convolved(last, padded, a)]
    else:
        outs = [convolved(last, padded, a, (1, 1, 1, 1))]
    check(target, [x, a, b] if way == "shared" else [x, a], outs)
