"""Branches and loops between barriers, on the device at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir

DEV = tw.opencl(0)
pytestmark = pytest.mark.skipif(not DEV.exist, reason=f"no OpenCL device: {DEV.why_missing()}")
THREADS = 8


def by_turns() -> tuple[Any, list[Any]]:
    """In the first turn threads share A and some write half of B, in the second others the rest;
    what they ask has been asked before the barrier."""

    def kernel(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        tx = te.thread_axis((0, THREADS), "threadIdx.x")
        ib.scope_attr(tx, "thread_extent", THREADS)
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        shared = ib.allocate("float32", (THREADS,), name="shared", scope="shared")
        t, last = tx.var, THREADS - 1
        with ib.for_range(0, 2, name="turn") as turn:
            with ib.if_scope(turn < 1):
                shared[t] = a[t]
            ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))
            with ib.if_scope(turn < 1), ib.if_scope(((t * 3) & 3) < 2):
                b[t] = shared[last - t] + a[t]
            with ib.if_scope(tir.Not(turn < 1)), ib.if_scope(((t + 9) >> 1) < 6):
                b[t + THREADS] = shared[last - t] + a[t + THREADS]
        return ib.get()

    a = te.placeholder((2 * THREADS,), name="A")
    b = te.extern((2 * THREADS,), [a], kernel, dtype="float32", name="B")
    return te.create_schedule(b.op), [a, b]


def test_ways_that_meet_again() -> None:
    """PoCL 3.1 stopped the process where nothing but a branch followed a barrier."""
    x = np.arange(2 * THREADS, dtype="float32")
    out = np.full(2 * THREADS, -1, "float32")
    result = tw.nd.array(out, DEV)
    tw.build(*by_turns(), "opencl")(tw.nd.array(x, DEV), result)
    for t in range(THREADS):
        if (t * 3 & 3) < 2:
            out[t] = x[THREADS - 1 - t] + x[t]
        if (t + 9) >> 1 < 6:
            out[t + THREADS] = x[THREADS - 1 - t] + x[t + THREADS]
    np.testing.assert_array_equal(result.numpy(), out)


def launched(fill: Any, size: int, threads: int, extra: Any = ()) -> Any:
    """What threads leave in `size` places of shared memory. `fill(ib, t, a, shared, *extra)`."""

    def kernel(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        tx = te.thread_axis((0, threads), "threadIdx.x")
        ib.scope_attr(tx, "thread_extent", threads)
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        shared = ib.allocate("float32", (size,), name="shared", scope="shared")
        fill(ib, tx.var, a, shared, *extra)
        ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))
        with ib.for_range(0, size // threads, name="j") as j:
            b[tx.var * (size // threads) + j] = shared[tx.var * (size // threads) + j]
        return ib.get()

    a = te.placeholder((INPUTS,), name="A")
    b = te.extern((size,), [a], kernel, dtype="float32", name="B")
    args = [a, *extra, b]
    x = np.arange(INPUTS, dtype="float32") % 13
    result = tw.nd.array(np.full(size, -1, "float32"), DEV)
    run = tw.build(te.create_schedule(b.op), args, "opencl")
    run(tw.nd.array(x, DEV), *[2 for _ in extra], result)
    return x, result.numpy()


INPUTS = 600


def rows_of_its_own(ib: Any, t: Any, a: Any, shared: Any) -> None:
    """One row or two, by thread, of which each keeps what it needs."""
    own = ib.allocate("float32", (6,), name="own", scope="local")
    with (
        ib.for_range(0, (t * 2 % 3 + 1) // 3 + 1, name="row") as row,
        ib.for_range(0, 3, name="column") as column,
    ):
        own[row * 3 + column] = a[t * 2 // 3 * 3 + row * 3 + column]
    ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))
    with ib.for_range(0, 2, name="i") as i:
        shared[t * 2 + i] = own[t * 2 % 3 + i]


def test_loops_that_run_as_often_as_each_thread_needs() -> None:
    """PoCL 3.1 gave the memory of a thread that was done to others."""
    x, out = launched(rows_of_its_own, 6, 3)
    np.testing.assert_array_equal(out, x[:6])


def sums(ib: Any, t: Any, a: Any, shared: Any, n: Any) -> None:
    """Where blocks agree to, a sum, and one more number for some of the threads."""
    with ib.for_range(0, 4, name="o") as o:
        shared[o * 24 + t] = 0.0
        with ib.if_scope(o + n < 5):
            total = ib.allocate("float32", (1,), name="total", scope="local")
            total[0] = 0.0
            with ib.for_range(0, 6, name="k") as k:
                total[0] = total[0] + a[(o * 7 + t) % 17 * 31 + k * 5 + o + (o * 7 + t) // 17]
            shared[o * 24 + t] = total[0]
            with ib.if_scope(o + (o * 7 + t) // 17 < 1):
                shared[t] = shared[t] + a[t % 17 * 31 + 30]


def test_branches_with_loops_that_more_follows() -> None:
    """PoCL 3.1 asked the last question with the values of another thread."""
    x, out = launched(sums, 96, 24, (te.var("n"),))
    expected = np.zeros(96, "float32")
    for at in range(72):
        o, t = divmod(at, 24)
        row, more = (o * 7 + t) % 17, (o * 7 + t) // 17
        expected[at] = sum(x[row * 31 + k * 5 + o + more] for k in range(6))
        if o + more < 1:
            expected[at] += x[t * 31 + 30]
    np.testing.assert_array_equal(out, expected)


def test_loops_that_all_threads_run_alike() -> None:
    """PoCL 3.1 lost the end of the loop over rows, of which a block needs one or two."""
    a = te.placeholder((19, 33), name="A")
    rows = te.compute((19, 33), lambda i, j: te.max(a[i, j] - a[i, j], a[i, j]), name="rows")
    flat = te.compute((627,), lambda i: 0.0 - rows[i // 33, i % 33], name="flat")
    s = te.create_schedule(flat.op)
    cached = s.cache_read(a, "shared", [rows])
    outer, inner = s[flat].split(flat.op.axis[0], factor=3)
    block, thread = s[flat].split(outer, factor=8)
    s[flat].bind(block, te.thread_axis("blockIdx.x"))
    s[flat].bind(thread, te.thread_axis("threadIdx.x"))
    s[flat].pragma(inner, "auto_unroll_max_step", 64)
    s[rows].compute_at(s[flat], block)
    s[rows].set_scope("shared")
    _, own = s[rows].split(rows.op.axis[1], factor=8)
    s[rows].bind(own, te.thread_axis("threadIdx.x"))
    s[cached].compute_at(s[rows], own)
    _, lane = s[cached].split(cached.op.axis[1], factor=8)
    s[cached].bind(lane, te.thread_axis("threadIdx.x"))
    x = np.random.default_rng(0).integers(-5, 6, (19, 33)).astype("float32")
    result = tw.nd.array(np.full(627, 77, "float32"), DEV)
    tw.build(s, [a, flat], "opencl")(tw.nd.array(x, DEV), result)
    np.testing.assert_array_equal(result.numpy(), 0 - np.maximum(x, 0).ravel())
