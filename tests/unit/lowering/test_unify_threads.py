"""unify_threads: what stands outside of some launches of a kernel runs once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.lowering.kernels import kernel_of, run_schedule, small_integers
from tilewright import te
from tilewright.base.errors import CompileError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.calls import storage_sync
from tilewright.loopir.iter import IterVar, Range
from tilewright.lowering.unify_threads import unify_threads


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


def copied(threads: int) -> tuple[Any, list[Any]]:
    """A tile in shared memory, filled by another number of threads than read it."""
    a = te.placeholder((8, 64), name="A")
    c = te.compute((8, 64), lambda i, j: a[i, 63 - j], name="C")
    s = te.create_schedule(c.op)
    tile = s.cache_read(a, "shared", [c])
    i, j = c.op.axis
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].bind(s[c].split(j, factor=32)[1], te.thread_axis("threadIdx.x"))
    s[tile].compute_at(s[c], i)
    s[tile].bind(s[tile].split(tile.op.axis[1], factor=threads)[1], te.thread_axis("threadIdx.x"))
    return s, [a, c]


@pytest.mark.parametrize("threads", [1, 8, 32, 48, 64])
def test_parts_with_other_numbers_of_threads(threads: int) -> None:
    s, args = copied(threads)
    a, c = small_integers((8, 64), "float32"), np.zeros((8, 64), "float32")
    run_schedule(s, args, {"A": a, "C": c})
    np.testing.assert_array_equal(c, a[:, ::-1])
    extent = max(32, threads)
    assert f'T.launch_thread("threadIdx.x", {extent})' in str(kernel_of(s, args))


@pytest.mark.parametrize(("reducing", "storing"), [(16, 32), (32, 64), (64, 16), (1, 8), (33, 20)])
def test_reductions_of_other_numbers_of_threads(reducing: int, storing: int) -> None:
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8, 64), lambda i, j: a[i, j] - b[i], name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].bind(s[c].split(j, factor=storing)[1], te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], i)
    s[b].bind(s[b].split(k, factor=reducing)[1], te.thread_axis("threadIdx.x"))
    data, result = small_integers((8, 64), "float32"), np.zeros((8, 64), "float32")
    run_schedule(s, [a, c], {"A": data, "C": result})
    np.testing.assert_array_equal(result, data - data.sum(1, keepdims=True))


def launch(extent: int, body: Callable[[E.Var], S.Stmt]) -> S.Stmt:
    x = E.Var("threadIdx.x", "int32")
    axis = IterVar(Range(extent), x, IterVar.ThreadIndex, "threadIdx.x")
    return S.AttrStmt(axis, "thread_extent", extent, body(x))


def test_barriers_of_fewer_threads() -> None:
    block = IterVar(Range(4), E.Var("blockIdx.x"), IterVar.ThreadIndex, "blockIdx.x")
    few = launch(16, lambda x: S.Evaluate(storage_sync("shared")))
    parts = S.seq(few, launch(32, lambda x: S.Evaluate(x)))
    kernel = S.AttrStmt(block, "thread_extent", 4, parts)
    func = S.PrimFunc([], kernel, None, {}, {"global_symbol": "main"})
    with pytest.raises(CompileError, match=r"16 threads in one place .* 32 in another"):
        unify_threads(func)


def test_conditions_that_read_are_of_the_few() -> None:
    # the other threads would read beyond the end
    a, c = Buffer((16,), "int32", "A"), Buffer((32,), "int32", "C")
    block = IterVar(Range(1), E.Var("blockIdx.x"), IterVar.ThreadIndex, "blockIdx.x")
    few = launch(16, lambda x: S.IfThenElse(a[x] > 0, S.BufferStore(c, a[x], [x])))
    many = launch(32, lambda y: S.BufferStore(c, E.const(7), [y]))
    kernel = S.AttrStmt(block, "thread_extent", 1, S.seq(many, few))
    func = S.PrimFunc(
        [a.data, c.data], kernel, None, {a.data: a, c.data: c}, {"global_symbol": "main"}
    )
    text = str(unify_threads(func)).replace(" ", "")
    assert "ifthreadIdx_x<16:\nifA[threadIdx_x]>0:\nC[threadIdx_x]=A[threadIdx_x]" in text
