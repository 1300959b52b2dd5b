"""Copies by cp.async are in no order with each other either, even of one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te


def _triangle(unroll: bool, where: bool, tiles: tuple[int, int]) -> tuple[Any, list[Any]]:
    """Rows summed up to the diagonal, in parts: a thread refills the same shared memory."""
    A = te.placeholder((3, 13), "uint32", name="A")
    k = te.reduce_axis((0, 13), "k")
    C = te.compute(
        (3,),
        lambda i: te.sum(A[i, k], axis=k, where=(k <= i) if where else None),
        name="C",
    )
    s = te.create_schedule(C.op)
    _, inner = s[C].split(s[C].op.reduce_axis[0], factor=tiles[0])
    part = s.rfactor(C, inner, factor_axis=-1)
    shared = s.cache_read(A, "shared", [s[part]])
    block, thread = s[C].split(s[C].op.axis[0], factor=4)
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[part].compute_at(s[C], block)
    outer, _ = s[part].split(s[part].op.reduce_axis[0], factor=tiles[1])
    s[shared].compute_at(s[part], outer)
    rows, last = s[shared].split(s[shared].fuse(*s[shared].op.axis), factor=4)
    first, _ = s[shared].split(rows, factor=2)
    if unroll:
        s[shared].unroll(first)
    s[shared].pragma(last, "async_scope", 1)
    return s, [A, C]


@pytest.mark.parametrize("unroll", [True, False])
@pytest.mark.parametrize("where", [True, False])
@pytest.mark.parametrize("tiles", [(5, 4), (4, 1), (3, 5)])
def test_a_thread_waits_for_its_copies_before_the_next_ones(
    unroll: bool, where: bool, tiles: tuple[int, int]
) -> None:
    s, args = _triangle(unroll, where, tiles)
    module = tvm.build(s, args, "cuda")
    assert "tw_cp_async" in module.imported_modules[0].get_source()
    dev = tvm.device("simt", 0)
    a = np.arange(39, dtype="uint32").reshape(3, 13)
    c = tvm.nd.empty((3,), "uint32", dev)
    module(tvm.nd.array(a, dev), c)
    kept = np.tril(np.ones((3, 13), "uint32")) if where else np.ones((3, 13), "uint32")
    np.testing.assert_array_equal(c.numpy(), (a * kept).sum(axis=1, dtype="uint32"))
