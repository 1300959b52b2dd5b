"""What threads of a kernel may share out, and what only one of them may do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.base.errors import ScheduleError


def run(s: Any, args: list[Any], *arrays: Any) -> Any:
    out = np.zeros([int(d) for d in args[-1].shape], args[-1].dtype)
    tw.build(s, args, "cuda").run_simt(*arrays, out)
    return out


def sums(n: int = 4, m: int = 6) -> tuple[Any, Any, Any, Any]:
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((n,), lambda i: b[i] * 2.0, name="C")
    return te.create_schedule(c.op), a, b, c


def data(*shape: int) -> Any:
    return np.random.default_rng(0).integers(-4, 5, shape).astype("float32")


def private_rows(scope: str, reads: int) -> tuple[Any, list[Any]]:
    """Sums of rows in memory of each thread's own, of which each needs so many."""
    a = te.placeholder((5, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((4,), lambda i: b[i] * b[i + reads - 1], name="C")
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=2)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, te.thread_axis("threadIdx.y"))
    s[b].compute_at(s[c], block)
    s[b].set_scope(scope)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.y"))
    return s, [a, c]


@pytest.mark.parametrize("scope", ["local", "warp"])
def test_each_thread_computes_the_one_row_that_it_needs(scope: str) -> None:
    s, args = private_rows(scope, 1)
    x = data(5, 6)
    np.testing.assert_array_equal(run(s, args, x), x.sum(1)[:4] ** 2)


@pytest.mark.parametrize("scope", ["local", "warp"])
def test_private_memory_is_not_shared_out(scope: str) -> None:
    s, args = private_rows(scope, 2)
    with pytest.raises(ScheduleError, match=f'own memory of scope "{scope}"'):
        tw.lower(s, args)


def test_one_thread_adds_up_what_all_share() -> None:
    # rows in shared memory, which threads of both axes read and none is said to compute
    s, a, b, c = sums()
    block, rest = s[c].split(c.op.axis[0], factor=4)
    ty, tx = s[c].split(rest, factor=2)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(ty, te.thread_axis("threadIdx.y"))
    s[c].bind(tx, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], tx)
    s[b].set_scope("shared")
    s[b].bind(b.op.axis[0], te.thread_axis((0, 4), "threadIdx.z"))
    x = data(4, 6)
    np.testing.assert_array_equal(run(s, [a, c], x), 2 * x.sum(1))


def test_more_threads_than_a_scalar_has_steps() -> None:
    a = te.placeholder((9,), name="A")
    k = te.reduce_axis((0, 9), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].fuse(), te.thread_axis((0, 8), "threadIdx.x"))
    x = data(9)
    np.testing.assert_array_equal(run(s, [a, b], x), x.sum())


@pytest.mark.parametrize("threads", [1, 8])
def test_a_second_kernel_of_more_threads_keeps_its_guards(threads: int) -> None:
    n = te.var("n")
    a = te.placeholder((1, n), name="A")
    b = te.compute((1, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((1, n), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    tx = te.thread_axis("threadIdx.x")
    _, row = s[b].split(b.op.axis[0] if threads == 1 else b.op.axis[1], factor=threads)
    s[b].bind(row, tx)
    outer, inner = s[c].split(c.op.axis[1], factor=32)
    s[c].bind(inner, tx)
    s[c].split(outer, nparts=2)
    x, out = data(1, 70), np.zeros((1, 70), "float32")
    tw.build(s, [a, c], "cuda").run_simt(x, out)
    np.testing.assert_array_equal(out, (x + 1) * 2)


def test_what_each_thread_copies_for_itself_runs_on_the_threads_of_its_kernel() -> None:
    # the copy's axis has one step, of all threads that its kernel launches, and no other kernel's
    a = te.placeholder((9, 4), name="A")
    b = te.compute((9, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((9, 4), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    copy = s.cache_read(a, "local", [b])
    block, i = s[b].split(b.op.axis[0], factor=9)
    j = b.op.axis[1]
    s[b].reorder(block, j, i)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(i, te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[b], j)
    s[copy].bind(copy.op.axis[0], te.thread_axis("threadIdx.x"))
    s[c].bind(s[c].fuse(*c.op.axis), te.thread_axis("threadIdx.x"))
    x = data(9, 4)
    np.testing.assert_array_equal(run(s, [a, c], x), (x + 1) * 2)


def test_threads_launched_in_a_loop_fill_nothing_before_it() -> None:
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((32,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    block, rest = s[c].split(c.op.axis[0], factor=16)
    _, inner = s[c].split(rest, factor=8)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], inner)
    s[b].set_scope("shared")
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    s[b].double_buffer()
    x = data(32)
    np.testing.assert_array_equal(run(s, [a, c], x), (x + 1) * 2)


def test_threads_that_reduce_nothing_store_the_identity() -> None:
    a = te.placeholder((3, 0), name="A")
    k = te.reduce_axis((0, 0), "k")
    b = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, nparts=16)
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    out = np.ones(3, "float32")
    tw.build(s, [a, b], "cuda").run_simt(np.zeros((3, 0), "float32"), out)
    np.testing.assert_array_equal(out, 0)
