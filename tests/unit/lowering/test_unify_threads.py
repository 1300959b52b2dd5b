"""unify_threads: what stands outside of some launches of a kernel runs once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.lowering.kernels import kernel_of, run_schedule, small_integers
from tilewright import te


def centred(bound: bool) -> tuple[Any, list[Any]]:
    """Rows minus their sums; the sum in shared memory, outside of the launches of the rows."""
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8, 64), lambda i, j: a[i, j] - b[i], name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    jo, jx = s[c].split(j, factor=16)
    jy, _ = s[c].split(jo, nparts=2)
    tx = te.thread_axis("threadIdx.x")
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].bind(jx, tx)
    s[c].bind(jy, te.thread_axis("threadIdx.y"))
    s[b].compute_at(s[c], i)
    if bound:
        s[b].bind(s[b].split(b.op.reduce_axis[0], factor=16)[1], tx)
    return s, [a, c]


@pytest.mark.parametrize("bound", [False, True])
def test_one_thread_stores_what_is_computed_outside_of_launches(bound: bool) -> None:
    s, args = centred(bound)
    a, c = small_integers((8, 64), "float32"), np.zeros((8, 64), "float32")
    run_schedule(s, args, {"A": a, "C": c})
    np.testing.assert_array_equal(c, a - a.sum(1, keepdims=True))
    want = "if threadIdx_y == 0:" if bound else "if threadIdx_y == 0 and threadIdx_x == 0:"
    assert want in str(kernel_of(s, args))
