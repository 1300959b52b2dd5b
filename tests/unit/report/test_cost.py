"""Estimates of work, against counts by an interpreter of loops."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.driver.lower import schedule_to_func
from tilewright.loopir import stmt as S
from tilewright.loopir.print_lines import script_with_lines
from tilewright.report.cost import (
    counted,
    executions,
    line_weights,
    size_text,
    work_of_loops,
    work_text,
)


@pytest.mark.parametrize("n, m, k", [(3, 5, 7), (1, 1, 1), (8, 16, 4)])
def test_the_work_of_a_product(n: int, m: int, k: int) -> None:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    func = schedule_to_func(te.create_schedule(c.op), [a, b, c])
    assert work_of_loops(func) == (2 * n * m * k, 4 * (n * k + k * m + n * m))


def test_integers_count_where_nothing_else_is_computed() -> None:
    a = te.placeholder((6,), "int8", name="A")
    b = te.compute((6,), lambda i: a[i] + a[i] * a[i], name="B")
    func = schedule_to_func(te.create_schedule(b.op), [a, b])
    assert work_of_loops(func) == (12, 12)


def test_sizes_that_are_not_known() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    assert work_of_loops(schedule_to_func(te.create_schedule(b.op), [a, b])) == (0, 0)


def test_statements_run_as_often_as_their_loops_say() -> None:
    b = te.compute((4, 6), lambda i, j: i + j, name="B")
    s = te.create_schedule(b.op)
    _outer, inner = s[b].split(b.op.axis[1], 4)  # 2 x 4 steps, of which 6 are guarded
    s[b].unroll(inner)
    func = schedule_to_func(s, [b])
    (times,) = [t for x, t in executions(func.body) if isinstance(x, S.BufferStore)]
    assert times == 4 * 2 * 4


def test_threads_count_once_however_often_they_are_bound() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((64,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    x = te.thread_axis("threadIdx.x")
    s[b].set_scope("shared")
    block, thread = s[c].split(c.op.axis[0], 16)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, x)
    s[b].compute_at(s[c], block)
    s[b].bind(b.op.axis[0], x)
    func = schedule_to_func(s, [a, c])
    stores = [t for n, t in executions(func.body) if isinstance(n, S.BufferStore)]
    assert stores == [64.0, 64.0]


def test_weights_of_lines_are_shares() -> None:
    a = te.placeholder((8, 32), name="A")
    r = te.reduce_axis((0, 32), "r")
    b = te.compute((8,), lambda i: te.sum(a[i, r], axis=r), name="B")
    func = tvm.lower(te.create_schedule(b.op), [a, b])["main"]
    text, places = script_with_lines(func)
    lines = text.split("\n")
    weights, total = line_weights(func, places, len(lines))
    assert len(weights) == len(lines) and abs(sum(weights) - 1) < 1e-9 and total > 8 * 32
    hottest = lines[weights.index(max(weights))]
    assert "+ A_1[" in hottest and max(weights) > 0.5


def test_amounts_have_the_unit_that_suits_them() -> None:
    assert [size_text(n) for n in (7, 1000, 1024, 32 << 10, 97.5 * (1 << 20), (1 << 30) - 1)] == [
        "7 bytes", "1000 bytes", "1 KiB", "32 KiB", "97.5 MiB", "1 GiB",
    ]  # fmt: skip
    assert [work_text(x) for x in (0, 999.6, 306_800, 6.7e9)] == [
        "0 FLOP", "1 kFLOP", "307 kFLOP", "6.7 GFLOP",
    ]  # fmt: skip
    assert [counted(x) for x in (950.2, 27_600, 62.3e6, 2e9)] == [
        "950", "27,600", "62.3 million", "2 billion",
    ]  # fmt: skip
