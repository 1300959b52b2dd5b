"""Memory of a stage that threads do not share: what each of them computes into its own."""

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te

PRIVATE = [("threadIdx.x", "local"), ("blockIdx.y", "shared"), ("blockIdx.y", "local")]
SHARED = [("threadIdx.x", "shared"), ("vthread", "local"), ("vthread", "shared")]


@pytest.mark.parametrize(("tag", "scope"), PRIVATE + SHARED)
def test_each_thread_has_what_it_reads(tag, scope):
    a = te.placeholder((2, 3, 2), name="A")
    b = te.compute(a.shape, lambda i, j, k: a[i, j, k] * 2.0, name="B")
    c = te.compute(a.shape, lambda i, j, k: b[i, j, k] + 1.0, name="C")
    s = te.create_schedule(c.op)
    thread = te.thread_axis(tag)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope(scope)
    _, inner = s[b].split(b.op.axis[1], 3)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], thread)
    s[b].bind(inner, thread)
    device = tvm.device("simt", 0)
    code: Any = tvm.build(s, [a, c], "opencl").entry_func
    run = code.simt()
    x = np.arange(12, dtype="float32").reshape(2, 3, 2)
    y = tvm.nd.array(np.zeros_like(x), device)
    run(tvm.nd.array(x, device), y)
    np.testing.assert_array_equal(y.numpy(), x * 2 + 1)
    assert "if" not in str(tvm.lower(s, [a, c])).replace("noalias", "")


@pytest.mark.parametrize("scope", ["local", "shared"])
@pytest.mark.parametrize(("rows", "parts"), [(2, 8), (8, 8), (37, 4), (3, 2)])
def test_parts_of_a_sum_that_threads_keep_read_all_that_they_need(scope, rows, parts):
    """Each thread has one part, a step of its own; together they read all rows."""
    a = te.placeholder((rows, 9), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, rows), "k")
    c = te.compute((9,), lambda j: te.sum(b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(k, factor=parts)
    part = s.rfactor(c, inner)
    (j,) = s[c].op.axis
    s[c].bind(j, te.thread_axis("blockIdx.x"))
    threads = te.thread_axis((0, parts), "threadIdx.y")
    s[c].bind(s[c].op.reduce_axis[0], threads)
    s[part].compute_at(s[c], j)
    s[part].set_scope(scope)
    s[part].bind(s[part].op.axis[0], te.thread_axis("threadIdx.y"))
    s[c].set_store_predicate(threads.var.equal(0))
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    x = np.arange(rows * 9, dtype="float32").reshape(rows, 9)
    y = np.zeros(9, "float32")
    code: Any = tvm.build(s, [a, c], "opencl").entry_func
    code.run_simt(x, y)
    np.testing.assert_array_equal(y, x.sum(0) * 2)
