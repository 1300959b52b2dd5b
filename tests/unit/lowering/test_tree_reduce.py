"""The pragma tree_reduce: short reductions by halves, as vectors."""

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import te


def rows(extent, combine, dtype="float32", pragma=True, term=lambda x: x, lanes=1):
    """A reduction of each row of a (5, extent) matrix, and its text and result."""
    a = te.placeholder((5, extent * lanes), dtype, name="a")
    k = te.reduce_axis((0, extent * lanes), "k")
    b = te.compute((5,), lambda i: combine(term(a[i, k]), axis=k), name="b")
    s = te.create_schedule(b.op)
    axis = b.op.reduce_axis[0]
    if lanes > 1:
        _, axis = s[b].split(axis, extent)
    if pragma:
        s[b].pragma(axis, "tree_reduce")
    return s, [a, b]


def run(s, args, given):
    out = tilewright.nd.array(np.zeros(5, given.dtype))
    tilewright.build(s, args, "llvm")(tilewright.nd.array(given), out)
    return out.numpy()


def text_of(s, args):
    return str(tilewright.lower(s, args, simple_mode=True))


COMBINE: dict[str, tuple[Any, Any]] = {
    "sum": (te.sum, np.sum),
    "max": (te.max, np.max),
    "min": (te.min, np.min),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", COMBINE)
@pytest.mark.parametrize("extent", [2, 3, 7, 8, 16, 33, 64])
def test_results(extent, name, dtype):
    combine, reference = COMBINE[name]
    given = (np.random.default_rng(extent).standard_normal((5, extent)) * 9).astype(dtype)
    s, args = rows(extent, combine, dtype)
    assert "tree" in text_of(s, args)
    np.testing.assert_allclose(run(s, args, given), reference(given, axis=1), rtol=1e-5, atol=1e-5)


def test_as_many_levels_as_the_extent_has_bits():
    s, args = rows(16, te.sum)
    text = text_of(s, args)
    folds = [x for x in text.splitlines() if " + b_tree" in x]
    assert len(folds) == 5  # 8, 4, 2, 1, and what was there
    assert "pragma" not in text


def test_a_nan_stays():
    given = np.ones((5, 16), np.float32)
    given[2, 3] = np.nan
    s, args = rows(16, te.max)
    assert np.isnan(run(s, args, given)).tolist() == [False, False, True, False, False]


def test_inner_part_of_a_long_reduction():
    s, args = rows(8, te.sum, term=lambda x: x * x, lanes=6)
    given = np.random.default_rng(1).standard_normal((5, 48)).astype("float32")
    assert "tree" in text_of(s, args)
    np.testing.assert_allclose(run(s, args, given), (given**2).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("extent", [1, 65])
def test_other_loops_stay(extent):
    s, args = rows(extent, te.sum)
    text = text_of(s, args)
    assert "tree" not in text
    given = np.random.default_rng(1).standard_normal((5, extent)).astype("float32")
    np.testing.assert_allclose(run(s, args, given), given.sum(axis=1), rtol=1e-4, atol=1e-4)


def test_a_reduction_of_pairs_stays_a_loop():
    a = te.placeholder((5, 8), name="a")
    k = te.reduce_axis((0, 8), "k")
    argmax = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    )
    where, best = te.compute((5,), lambda i: argmax((k, a[i, k]), axis=k), name="b")
    s = te.create_schedule(where.op)
    s[where].pragma(where.op.reduce_axis[0], "tree_reduce")
    assert "tree" not in text_of(s, [a, where, best])
