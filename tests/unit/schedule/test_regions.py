"""Regions that bound inference finds where extents of loops depend on other loops."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import te


def test_rows_that_a_step_of_a_fused_loop_needs_are_few_or_many() -> None:
    """Steps of 16 of rows of 19: C has one or two rows a step, and B is needed for all steps."""
    a = te.placeholder((3, 19), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="B")

    def neighbours(i, j):
        below = te.if_then_else(i >= 1, b[i - 1, j], 0.0)
        return below + te.if_then_else(i < 2, b[i + 1, j], 0.0)

    c = te.compute(a.shape, neighbours, name="C")
    d = te.compute(a.shape, lambda i, j: c[i, j] * 2.0, name="D")
    out = te.compute(a.shape, lambda i, j: d[i, j] + 1.0, name="E")
    s = te.create_schedule(out.op)
    step, _ = s[out].split(s[out].fuse(*out.op.axis), factor=16)
    s[c].compute_at(s[out], step)
    s[d].compute_at(s[out], step)
    x = np.arange(57, dtype="float32").reshape(3, 19)
    rows = np.vstack([np.zeros(19), x * 2, np.zeros(19)])
    result = np.zeros_like(x)
    tw.build(s, [a, out], "llvm")(x, result)
    np.testing.assert_array_equal(result, (rows[:-2] + rows[2:]) * 2 + 1)


def test_places_in_a_fused_loop_are_an_interval() -> None:
    """A step of 16 of rows of 19 needs 16 elements of what lies flat, not two whole rows."""
    a = te.placeholder((57,), name="A")
    b = te.compute(a.shape, lambda p: a[p] * 2.0, name="B")
    out = te.compute((3, 19), lambda i, j: b[i * 19 + j] + 1.0, name="C")
    s = te.create_schedule(out.op)
    step, _ = s[out].split(s[out].fuse(*out.op.axis), factor=16)
    s[b].compute_at(s[out], step)
    assert "allocate([16]" in str(tw.lower(s, [a, out]))
    x = np.arange(57, dtype="float32")
    result = np.zeros((3, 19), "float32")
    tw.build(s, [a, out], "llvm")(x, result)
    np.testing.assert_array_equal(result, x.reshape(3, 19) * 2 + 1)


def test_a_part_of_a_group_needs_that_group() -> None:
    """Groups of 33 in parts of 16: the third part of one would reach into the next, and does not
    run there."""
    a = te.placeholder((2, 48), name="A")
    b = te.compute(a.shape, lambda g, i: a[g, i] * 2.0, name="B")
    out = te.compute((66,), lambda f: b[f // 33, f % 33] + 1.0, name="C")
    for factor in (16, 48):
        s = te.create_schedule(out.op)
        _, inside = s[out].split(out.op.axis[0], factor=33)
        part, _ = s[out].split(inside, factor=factor)
        s[b].compute_at(s[out], part)
        text = str(tw.lower(s, [a, out]))
        assert f"allocate([{min(factor, 33)}]" in text and "// 33" not in text
        x, result = np.arange(96, dtype="float32").reshape(2, 48), np.zeros(66, "float32")
        tw.build(s, [a, out], "llvm")(x, result)
        np.testing.assert_array_equal(result, x[:, :33].reshape(66) * 2 + 1)
