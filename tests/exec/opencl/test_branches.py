"""Branches behind barriers, on the device at hand."""

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
