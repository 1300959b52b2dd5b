"""Guards of split loops, from the schedule on."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.unit.lowering.evaluator import run
from tilewright import te
from tilewright.driver.lower import lower


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("extent", [1, 7, 10, 12])
def test_an_inner_part_split_again_visits_no_element_twice(extent: int, symbolic: bool) -> None:
    """split(nparts=3) gives parts of ceil(n / 3) steps, which a factor of 3 need not divide."""
    n = te.var("n") if symbolic else extent
    a = te.placeholder((4, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], nparts=3)
    s[b].split(inner, factor=3)
    data = {"A": np.ones((4, extent), "float32"), "B": np.zeros(4, "float32")}
    for simple in (True, False):
        got = run(lower(s, [a, b], simple_mode=simple)["main"], data)["B"]
        np.testing.assert_array_equal(got, extent)


@pytest.mark.parametrize("symbolic", [False, True])
def test_data_inside_a_reduction_is_visited_once(symbolic: bool) -> None:
    n = te.var("n") if symbolic else 6
    a = te.placeholder((n, 3), name="A")
    k = te.reduce_axis((0, 3), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], nparts=4)
    parts = s[b].split(inner, factor=8)
    s[b].reorder(b.op.reduce_axis[0], outer, *parts)
    data = {"A": np.ones((6, 3), "float32"), "B": np.zeros(6, "float32")}
    for simple in (True, False):
        got = run(lower(s, [a, b], simple_mode=simple)["main"], data)["B"]
        np.testing.assert_array_equal(got, 3)


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_part_that_runs_over_initialises_nothing_anew(symbolic: bool) -> None:
    """Part of the data outside the reduction, part inside: the overrun of the outer part reaches
    an element that an earlier turn of the loop has finished."""
    n = te.var("n") if symbolic else 5
    a = te.placeholder((n, 3), name="A")
    k = te.reduce_axis((0, 3), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=4)
    inner_outer, inner_inner = s[b].split(inner, factor=3)
    s[b].reorder(inner_inner, inner_outer, b.op.reduce_axis[0], outer)
    data = {"A": np.ones((5, 3), "float32"), "B": np.zeros(5, "float32")}
    for simple in (True, False):
        got = run(lower(s, [a, b], simple_mode=simple)["main"], data)["B"]
        np.testing.assert_array_equal(got, 3)


def test_a_condition_for_storing_has_the_types_of_its_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An axis of extent 1 beside one of 64 bits is one of 64 bits in loops."""
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    wide = tw.tir.IntImm("int64", 31)
    a = te.placeholder((1, wide), "float32", "a")
    b = te.compute((1, wide), lambda i, j: a[i, j] + 1, "b")
    s = te.create_schedule(b.op)
    i, j = b.op.axis
    s[b].fuse(i, j)
    s[b].set_store_predicate(i.var >= 0)
    x, y = np.ones((1, 31), "float32"), np.zeros((1, 31), "float32")
    tw.build(s, [a, b])(x, y)
    np.testing.assert_array_equal(y, x + 1)
