"""Strided stores side by side become shuffles and a store of neighbours."""

import numpy as np
import pytest

import tilewright
from tilewright import te
from tilewright.base import config


def woven(n, m, dtype, terms, lanes, term=lambda x, i, j: x[i, j]):
    """A copy of an (n, m) matrix, groups of whose rows lie between each other."""
    a = te.placeholder((n, m), dtype, name="a")
    b = te.compute((n, m), lambda i, j: term(a, i, j), name="b")
    c = te.compute((n, m), lambda i, j: b[i, j], name="c")
    s = te.create_schedule(c.op)
    _, j, t = s[b].transform_layout(lambda i, j: [i // terms, j, i % terms])
    jo, ji = s[b].split(j, lanes)
    s[b].reorder(jo, t, ji)
    s[b].unroll(t)
    s[b].vectorize(ji)
    return s, [a, c]


def run(s, args, given, target="llvm"):
    out = np.zeros([int(d) for d in args[-1].shape], args[-1].dtype)
    tilewright.build(s, args, target)(given, out)
    return out


def numbers(n, m, dtype):
    return np.random.default_rng(n * m).integers(0, 100, (n, m)).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "terms", "lanes"),
    [("int8", 4, 16), ("uint8", 4, 4), ("int16", 2, 16), ("float32", 2, 8), ("int8", 8, 8)],
)
def test_every_element_finds_its_place(dtype, terms, lanes):
    s, args = woven(3 * terms, 2 * lanes, dtype, terms, lanes)
    given = numbers(3 * terms, 2 * lanes, dtype)
    with config.scoped(verify=True):
        assert "b_lanes" in str(tilewright.lower(s, args))
        np.testing.assert_array_equal(run(s, args, given), given)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize(("n", "m"), [(12, 29), (8, 5), (13, 17), (1, 1)])
def test_rests_stay_as_they_are(n, m, target):
    s, args = woven(n, m, "int8", 4, 16)
    given = numbers(n, m, "int8")
    np.testing.assert_array_equal(run(s, args, given, target), given)


def test_groups_that_are_no_power_of_two_are_stored_one_by_one():
    s, args = woven(9, 32, "int8", 3, 16)
    assert "b_lanes" not in str(tilewright.lower(s, args))
    given = numbers(9, 32, "int8")
    np.testing.assert_array_equal(run(s, args, given), given)


def test_what_is_computed_stays():
    s, args = woven(8, 32, "int8", 4, 16, lambda x, i, j: x[i, j] ^ te.const(3, "int8"))
    given = numbers(8, 32, "int8")
    assert "b_lanes" in str(tilewright.lower(s, args))
    np.testing.assert_array_equal(run(s, args, given), given ^ 3)


def test_a_padding_is_another_branch():
    """Where a copy says that its padding is seldom, no vector of it asks."""
    a = te.placeholder((30, 64), "int8", name="a")
    zero = te.const(0, "int8")
    within = lambda i, j: te.if_then_else(te.likely(i < 30), a[i, j], zero)  # noqa: E731
    b = te.compute((32, 64), within, name="b")
    s = te.create_schedule(b.op)
    i, j = b.op.axis
    s[b].vectorize(j)
    s[b].pragma(i, "loop_partition_hint")
    text = str(tilewright.lower(s, [a, b]))
    assert "for i in range(30)" in text and "likely" not in text
    given = numbers(30, 64, "int8")
    np.testing.assert_array_equal(run(s, [a, b], given), np.pad(given, ((0, 2), (0, 0))))
