"""Stages of a scan's step whose layout was transformed: stored whole, computed as the step needs.

The state has no values before its first row, and none yet behind the row that is being computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te

WIDTH = 5


def recurrence(rows: Any) -> tuple[Any, ...]:
    """S[0] = A[0]; S[t] = max(2 * S[t - 1] - A[t - 1], A[t]), for which B doubles and C subtracts:
    neither has a row 0."""
    a = te.placeholder((rows, WIDTH), name="A")
    state = te.placeholder((rows, WIDTH), name="state")
    first = te.compute((1, WIDTH), lambda _, i: a[0, i], name="first")
    b = te.compute((rows, WIDTH), lambda t, i: state[t - 1, i] * 2.0, name="B")
    c = te.compute((rows, WIDTH), lambda t, i: b[t, i] - a[t - 1, i], name="C")
    step = te.compute((rows, WIDTH), lambda t, i: te.max(c[t, i], a[t, i]), name="step")
    scan = te.scan(first, step, state, inputs=[a], name="scan")
    return a, b, c, step, scan


def expected(x: Any) -> Any:
    out = x.copy()
    for t in range(1, len(x)):
        out[t] = np.maximum(out[t - 1] * 2 - x[t - 1], x[t])
    return out


def data(rows: int) -> Any:
    return np.random.default_rng(rows).integers(-4, 5, (rows, WIDTH)).astype("float32")


LAYOUTS = {
    "blocked": lambda t, i: [t, i // 4, i % 4],
    "turned": lambda t, i: [i, t],
    "mixed": lambda t, i: [t // 2, i // 2, t % 2, i % 2],
}


@pytest.mark.parametrize("rows", [2, 4, "n"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("which", ["C", "B C", "step"])
def test_no_step_reads_before_the_first_row(which: str, layout: str, rows: Any) -> None:
    a, b, c, step, scan = recurrence(te.size_var("n") if rows == "n" else rows)
    s = te.create_schedule(scan.op)
    if which == "step":
        s[s.cache_write(step, "global")].transform_layout(LAYOUTS[layout])
    for stage in (b, c):
        if stage.op.name in which.split():
            s[stage].transform_layout(LAYOUTS[layout])
    x = data(4 if rows == "n" else rows)
    out = np.zeros_like(x)
    with tw.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        tw.build(s, [a, scan], "llvm")(x, out)
    np.testing.assert_array_equal(out, expected(x))


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads_compute_what_a_step_needs(layout: str, rows: int) -> None:
    a, b, c, step, scan = recurrence(rows)
    s = te.create_schedule(scan.op)
    thread = te.thread_axis((0, 4), "threadIdx.x")
    s[scan].env_threads([thread])
    for t in (scan.op.init[0], step):
        _, inner = s[t].split(s[t].op.axis[1], factor=4)
        s[t].bind(inner, thread)
    s[b].compute_inline()
    s[c].set_scope("shared")
    axes = s[c].transform_layout(LAYOUTS[layout])
    _, inner = s[c].split(s[c].fuse(*axes), factor=4)
    s[c].bind(inner, thread)
    x = data(rows)
    out = np.zeros_like(x)
    tw.build(s, [a, scan], "cuda").run_simt(x, out)  # which checks all indices
    np.testing.assert_array_equal(out, expected(x))


@pytest.mark.parametrize("across", [False, True])
def test_a_reduction_in_each_step(across: bool) -> None:
    """S[t, i] = A[t, i] - the sum of row t - 1, which is stored as B[0, t]."""
    rows = 3
    a = te.placeholder((rows, WIDTH), name="A")
    state = te.placeholder((rows, WIDTH), name="state")
    first = te.compute((1, WIDTH), lambda _, i: a[0, i], name="first")
    k = te.reduce_axis((0, WIDTH), "k")
    b = te.compute((rows, 1), lambda t, _: te.sum(state[t - 1, k], axis=k), name="B")
    step = te.compute((rows, WIDTH), lambda t, i: a[t, i] - b[t, 0], name="step")
    scan = te.scan(first, step, state, inputs=[a], name="scan")
    s = te.create_schedule(scan.op)
    thread = te.thread_axis((0, WIDTH), "threadIdx.x")
    s[scan].env_threads([thread])
    s[first].bind(first.op.axis[1], thread)
    s[step].bind(step.op.axis[1], thread)
    s[b].transform_layout(lambda t, i: [i, t])
    s[b].set_scope("shared")
    if across:
        s[b].bind(k, thread)
    x = data(rows)
    want = x.copy()
    for t in range(1, rows):
        want[t] -= want[t - 1].sum()
    out = np.zeros_like(x)
    tw.build(s, [a, scan], "cuda").run_simt(x, out)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads_take_parts_of_a_row_that_is_fused_with_the_step(layout: str) -> None:
    """The row that is being computed is the same for all threads, though their index says it."""
    a, b, c, step, scan = recurrence(4)
    s = te.create_schedule(scan.op)
    for t in (scan.op.init[0], step):
        outer, inner = s[t].split(s[t].fuse(*s[t].op.axis), factor=2)
        s[t].bind(outer, te.thread_axis("blockIdx.x"))
        s[t].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].compute_inline()
    s[c].transform_layout(LAYOUTS[layout])
    s[c].compute_at(s[step], inner)
    s[c].set_scope("local")
    x = data(4)
    out = np.zeros_like(x)
    tw.build(s, [a, scan], "cuda").run_simt(x, out)
    np.testing.assert_array_equal(out, expected(x))
