"""Stages inside of loops whose steps, or whose threads, are not the same for all of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.base.errors import ScheduleError


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")


def data(*shape: int) -> Any:
    return np.random.default_rng(0).integers(-4, 5, shape).astype("float32")


def run(s: Any, args: list[Any], *arrays: Any) -> Any:
    out = np.zeros([int(d) for d in args[-1].shape], args[-1].dtype)
    tw.build(s, args, "cuda").run_simt(*arrays, out)
    return out


def test_threads_without_steps_of_their_own_help_to_fill() -> None:
    # thread y computes rows 2 - 2 * y of C, from tiles that all three threads fill
    a = te.placeholder((2, 3), name="A")
    b = te.compute((2, 3), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((2, 3), lambda i, j: b[(i + 1) % 2, j] * 2.0, name="C")
    d = te.compute((2, 3), lambda i, j: c[i, j] - 3.0, name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(s[d].fuse(*d.op.axis), factor=64)
    _, row = s[d].split(outer, factor=3)
    ty = te.thread_axis((0, 3), "threadIdx.y")
    s[d].bind(row, ty)
    s[c].compute_at(s[d], row)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("shared")
    s[b].bind(b.op.axis[1], ty)
    x = data(2, 3)
    np.testing.assert_array_equal(run(s, [a, d], x), (x[::-1] + 1) * 2 - 3)


@pytest.mark.parametrize("rows", [9, 12, 27])
def test_rows_that_threads_share_unevenly(rows: int) -> None:
    """The loop over the rows that a thread's part of a tile lies in has as many steps for each
    thread as that part has; around it is a tail, where loops are cut apart."""
    a = te.placeholder((rows, 19), name="A")
    b = te.compute((rows, 19), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((rows, 19), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((rows, 19), lambda i, j: c[i, j] - 3.0, name="D")
    s = te.create_schedule(d.op)
    b_local = s.cache_read(b, "local", [c])
    outer, _ = s[d].split(d.op.axis[0], factor=3)
    _, row = s[d].split(outer, factor=3)
    ty = te.thread_axis((0, 3), "threadIdx.y")
    s[d].bind(row, ty)
    s[c].compute_at(s[d], row)
    s[c].set_scope("shared")
    part, _ = s[c].split(s[c].fuse(*s[c].op.axis), factor=64)
    step, part = s[c].split(part, factor=3)
    s[c].bind(part, ty)
    s[b_local].compute_at(s[c], step)
    s[b].compute_at(s[b_local], s[b_local].op.axis[0])
    s[b].set_scope("shared")
    x = data(rows, 19)
    np.testing.assert_array_equal(run(s, [a, d], x), (x + 1) * 2 - 3)


def test_guards_of_loops_as_long_as_another_thread_says() -> None:
    # the tile's rows depend on the virtual thread, the launch of which stands inside the outer loop
    a = te.placeholder((23, 5), name="A")
    b = te.compute((5, 23), lambda i, j: a[j, i] + 1.0, name="B")
    k = te.reduce_axis((0, 2), "k")
    c = te.compute((5, 22), lambda i, j: te.max(b[i, j + k], axis=k), name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), factor=2)
    outer, inner = s[c].split(outer, factor=4)
    outer, middle = s[c].split(outer, factor=3)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(middle, te.thread_axis("vthread"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], k)
    s[b].set_scope("shared")
    x = data(23, 5)
    y = x.T + 1
    np.testing.assert_array_equal(run(s, [a, c], x), np.maximum(y[:, :-1], y[:, 1:]))


def row_maxima(width: int) -> tuple[Any, Any, Any, Any]:
    """C[i], the largest of B[i, 2 * i ...], reduced by threads in steps; B filled in each."""
    a = te.placeholder((4, width), name="A")
    b = te.compute((4, width), lambda i, j: a[i, j] * 0.5, name="B")
    k = te.reduce_axis((0, width), "k")
    c = te.compute((4,), lambda i: te.max(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    step, lane = s[c].split(k, factor=8)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(lane, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], step)
    s[b].set_scope("shared")
    return s, a, b, c


@pytest.mark.parametrize("width", [8, 16, 30])
def test_threads_that_reduce_fill_what_they_read(width: int) -> None:
    s, a, b, c = row_maxima(width)
    _, lane = s[b].split(b.op.axis[1], factor=8)
    s[b].bind(lane, te.thread_axis("threadIdx.x"))
    x = data(4, width)
    np.testing.assert_array_equal(run(s, [a, c], x), x.max(1) / 2)


def test_more_threads_than_reduce_fill_nothing() -> None:
    s, a, b, c = row_maxima(16)
    s[b].bind(s[b].fuse(*b.op.axis), te.thread_axis((0, 16), "threadIdx.x"))
    with pytest.raises(ScheduleError, match="the stages around it launch 8; split both"):
        tw.lower(s, [a, c])


def test_virtual_threads_of_a_reduction_are_none_that_run_around_its_loops() -> None:
    a = te.placeholder((3, 3), name="A")
    b = te.compute((3, 3), lambda i, j: a[i, j] + 1.0, name="B")
    k, m = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 3), "m")
    c = te.compute((), lambda: te.sum(b[k, m], axis=[k, m]), name="C")
    s = te.create_schedule(c.op)
    virtual, _ = s[c].split(m, factor=2)
    s[c].bind(s[c].fuse(), te.thread_axis("threadIdx.x"))
    s[c].bind(virtual, te.thread_axis("vthread"))
    s[b].compute_at(s[c], k)
    x = data(3, 3)
    np.testing.assert_array_equal(run(s, [a, c], x), (x + 1).sum())


def test_threads_reduce_no_element_that_each_has_for_itself() -> None:
    a = te.placeholder((26,), name="A")
    k = te.reduce_axis((0, 26), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, factor=13)
    part = s.rfactor(b, inner)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[part].compute_at(s[b], s[b].op.reduce_axis[0])
    s[part].bind(s[part].op.reduce_axis[0], thread)
    with pytest.raises(ScheduleError, match=r"each thread of threadIdx.x needs other elements"):
        tw.lower(s, [a, b])


def test_a_scan_runs_on_threads_that_an_earlier_kernel_names_otherwise() -> None:
    x = te.placeholder((4, 16), name="X")
    twice = te.compute((4, 16), lambda t, i: x[t, i] * 2.0, name="twice")
    state = te.placeholder((4, 16), name="state")
    first = te.compute((1, 16), lambda _, i: twice[0, i], name="first")
    step = te.compute((4, 16), lambda t, i: state[t - 1, i] + twice[t, i], name="step")
    total = te.scan(first, step, state, inputs=[twice])
    s = te.create_schedule(total.op)
    thread = te.thread_axis((0, 16), "threadIdx.x")
    s[total].env_threads([thread])
    s[first].bind(first.op.axis[1], thread)
    s[step].bind(step.op.axis[1], thread)
    s[twice].bind(s[twice].fuse(*twice.op.axis), te.thread_axis("threadIdx.x", name="other"))
    values = data(4, 16)
    np.testing.assert_array_equal(run(s, [x, total], values), 2 * values.cumsum(0))


@pytest.mark.parametrize("threads", [1, 8])
def test_late_copies_are_waited_for_though_the_pragma_stands_around_the_kernel(
    threads: int,
) -> None:
    a = te.placeholder((threads,), name="A")
    b = te.compute((threads,), lambda i: a[i], name="B")
    c = te.compute((threads,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], inner)
    s[b].set_scope("shared")
    s[c].pragma(outer, "async_scope", 1)
    x = data(threads)
    np.testing.assert_array_equal(run(s, [a, c], x), x * 2)
    assert "cp.async.wait" in tw.build(s, [a, c], "cuda").imported_modules[0].get_source()


def test_threads_beside_those_of_a_sum_do_not_store_to_it_while_others_read() -> None:
    """The sum in the array itself, whose stride is only known when it runs; threads y only fill
    a tile, and read the sum as thread 0 does."""
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n,), lambda i: te.max(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    _, row = s[c].split(c.op.axis[0], factor=8)
    s[c].bind(row, te.thread_axis("threadIdx.x"))
    step, _ = s[c].split(k, factor=4)
    s[b].compute_at(s[c], step)
    s[b].set_scope("shared")
    _, part = s[b].split(s[b].fuse(*b.op.axis), factor=8)
    s[b].bind(part, te.thread_axis((0, 8), "threadIdx.y"))
    x, out = data(10, 10), np.zeros(10, "float32")
    tw.build(s, [a, c], "cuda").run_simt(x, out)
    np.testing.assert_array_equal(out, x.max(1) + 1)


def test_what_initial_values_of_a_scan_need_runs_on_the_threads_of_the_scan() -> None:
    x = te.placeholder((4, 16), name="X")
    doubled = te.compute((4, 16), lambda t, i: x[t, i] * 2.0, name="doubled")
    state = te.placeholder((4, 16), name="state")
    first = te.compute((1, 16), lambda _, i: doubled[0, 15 - i], name="first")
    step = te.compute((4, 16), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    total = te.scan(first, step, state, inputs=[x])
    s = te.create_schedule(total.op)
    thread = te.thread_axis((0, 16), "threadIdx.x")
    s[total].env_threads([thread])
    s[first].bind(first.op.axis[1], thread)
    s[step].bind(step.op.axis[1], thread)
    s[doubled].compute_at(s[first], first.op.axis[0])
    s[doubled].set_scope("shared")
    _, part = s[doubled].split(doubled.op.axis[1], nparts=2)
    _, part = s[doubled].split(part, factor=4)
    s[doubled].bind(part, te.thread_axis("threadIdx.x"))
    values = data(4, 16)
    expected = values.copy()
    expected[0] = 2 * values[0, ::-1]
    np.testing.assert_array_equal(run(s, [x, total], values), expected.cumsum(0))


def test_what_stands_in_both_ways_of_a_branch_is_seen_in_both() -> None:
    """Partitioning leaves the same statements in both ways; threads y share rows of B, which are
    set by one of them and read by all, in the way that comes second, too."""
    a = te.placeholder((4, 5), name="A")
    k = te.reduce_axis((0, 2), "k")
    b = te.compute((3, 5), lambda i, j: te.max(a[i + k, j], axis=k), name="B")
    c = te.compute(
        (3, 5),
        lambda i, j: (
            tw.tir.if_then_else(i >= 2, b[i - 2, j], 0.0)
            + tw.tir.if_then_else(i < 1, b[i + 2, j], 0.0)
        ),
        name="C",
    )
    s = te.create_schedule(c.op)
    rows, _ = s[c].split(c.op.axis[0], factor=3)
    block, rows = s[c].split(rows, factor=4)
    s[c].bind(rows, te.thread_axis((0, 4), "threadIdx.y"))
    s[c].bind(block, te.thread_axis("blockIdx.y"))
    s[b].compute_at(s[c], block)
    s[b].set_scope("shared")
    _, inner = s[b].split(s[b].fuse(*b.op.axis), factor=8)
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    x = data(4, 5)
    y = np.maximum(x[:-1], x[1:])
    expected = np.zeros((3, 5), "float32")
    expected[2], expected[0] = y[0], y[2]
    np.testing.assert_array_equal(run(s, [a, c], x), expected)


def test_a_scan_before_threads_that_share_a_reduction_runs_whole() -> None:
    """S1 stands in a serial loop of a reduction that threads share: what it reads of a stage at the
    root is what all threads need, not what one does."""
    a = te.placeholder((2, 2), name="a")
    state = te.placeholder((2, 2), name="state")
    init = te.compute((1, 2), lambda _, i: a[0, i], name="init")
    update = te.compute((2, 2), lambda t, i: tir.max(state[t - 1, i], a[t, i]), name="update")
    scan = te.scan(init, update, state, [a], name="scan")
    copy = te.compute((2, 2), lambda i, j: scan[i, j], name="copy")
    k = te.reduce_axis((0, 2), "k")
    out = te.compute((2,), lambda i: te.sum(copy[i, k], axis=k), name="out")
    s = te.create_schedule(out.op)
    outer, inner = s[out].split(s[out].op.reduce_axis[0], factor=16)
    s[out].bind(inner, te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[out], outer)
    text = str(tw.lower(s, [a, out], simple_mode=True))
    before, _, _ = text.partition("launch_thread")
    assert "threadIdx" not in before.rpartition("\n")[0]
    assert "scan_1[i] = " in before


def test_threads_launched_around_their_block() -> None:
    """Threads of a block stay together at a branch on its index, where they are outermost, too:
    three of eight fill what all read."""
    a = te.placeholder((7, 7), name="A")
    b = te.compute((7, 7), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((7, 7), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((7, 7), lambda i, j: c[i, j] - 3.0, name="D")
    s = te.create_schedule(d.op)
    ty = te.thread_axis((0, 8), "threadIdx.y")
    _, row = s[d].split(d.op.axis[0], factor=8)
    columns, _ = s[d].split(d.op.axis[1], factor=6)
    s[d].bind(row, ty)
    s[d].bind(columns, te.thread_axis("blockIdx.x"))
    s[c].compute_at(s[d], columns)
    s[c].set_scope("shared")
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("shared")
    outer, _ = s[b].split(s[b].fuse(*b.op.axis), factor=2)
    s[b].bind(s[b].split(outer, factor=8)[1], ty)
    x = data(7, 7)
    np.testing.assert_array_equal(run(s, [a, d], x), (x + 1) * 2 - 3)


def test_a_scan_says_how_many_threads_it_has() -> None:
    """An axis without an extent is one thread, unless the loop bound to it launches it."""

    def running_sum(blocks: Any) -> tuple[Any, Any, Any]:
        a = te.placeholder((3, 12), name="A")
        state = te.placeholder((3, 12), name="state")
        first = te.compute((1, 12), lambda _, i: a[0, i], name="first")
        step = te.compute((3, 12), lambda t, i: state[t - 1, i] + a[t, i], name="step")
        scan = te.scan(first, step, state, inputs=[a], name="scan")
        s = te.create_schedule(scan.op)
        tx = te.thread_axis((0, 4), "threadIdx.x")
        s[scan].env_threads([blocks, tx])
        for t in (first, step):
            outer, inner = s[t].split(t.op.axis[1], factor=4)
            s[t].bind(outer, blocks)
            s[t].bind(inner, tx)
        return s, a, scan

    s, a, scan = running_sum(te.thread_axis("blockIdx.x"))
    with pytest.raises(ScheduleError, match=r'env_threads of the scan: te.thread_axis\(3, "block'):
        tw.lower(s, [a, scan])
    s, a, scan = running_sum(te.thread_axis(3, "blockIdx.x"))
    x = data(3, 12)
    np.testing.assert_array_equal(run(s, [a, scan], x), np.cumsum(x, 0))
