"""Index arithmetic past 31 bits: widened where constants are large, checked or widened where sizes
may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.base.dtype import MOST_SIZE
from tilewright.loopir import stmt as S
from tilewright.loopir.verify import verify
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.small_indices import all_small
from tilewright.lowering.widen_indices import widen_indices


def _program(n: Any, m: Any) -> tuple[Any, Any, Any]:
    A = te.placeholder((m,), "int8", name="A")
    B = te.compute((n, m), lambda i, j: A[j] + i.astype("int8"), name="B")
    return A, B, te.create_schedule(B.op)


def _fused(n: Any, m: Any, gpu: bool = False) -> str:
    A, B, s = _program(n, m)
    o, i = s[B].split(s[B].fuse(*B.op.axis), factor=64)
    if gpu:
        s[B].bind(o, te.thread_axis("blockIdx.x"))
        s[B].bind(i, te.thread_axis("threadIdx.x"))
    return str(tvm.lower(s, [A, B]))


@pytest.mark.parametrize("gpu", [False, True])
def test_constants_that_fit_stay_as_they_are(gpu: bool) -> None:
    assert "int64" not in _fused(40000, 50000, gpu)


@pytest.mark.parametrize("gpu", [False, True])
def test_a_fused_index_past_31_bits_is_int64(gpu: bool) -> None:
    assert "% T.int64(50000)]" in _fused(50000, 50000, gpu)


def test_a_loop_past_31_bits_is_int64() -> None:
    A, B, s = _program(50000, 50000)
    s[B].fuse(*B.op.axis)
    assert "for i_j_fused in range(T.int64(2500000000)):" in str(tvm.lower(s, [A, B]))


def test_a_fused_loop_of_sizes_is_int64() -> None:
    text = _fused(te.var("n"), te.var("m"))
    assert "T.parallel" not in text
    assert 'range((T.Cast("int64", n) * T.Cast("int64", m) + T.int64(63)) // T.int64(64))' in text


def test_a_tile_of_a_size_is_int32() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=32)
    assert "int64" not in str(tvm.lower(s, [A, B]))


def test_a_check_of_the_host_divides_by_no_empty_size() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((m, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    y, x = B.op.axis
    yo, xo, yi, xi = s[B].tile(y, x, 16, 16)
    s[B].bind(s[B].fuse(yo, xo), te.thread_axis("blockIdx.x"))
    s[B].bind(yi, te.thread_axis("threadIdx.y"))
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [A, B], "cuda")
    assert "-1 // max(" in f.get_source()
    for shape in ((0, 4), (4, 0), (0, 0), (3, 40)):
        a = np.random.default_rng(0).random(shape, "float32")
        b = np.zeros(shape[::-1], "float32")
        f.run_simt(a, b)
        np.testing.assert_array_equal(b, a.T)


def test_a_kernel_of_sizes_stays_int32_and_the_host_checks_them() -> None:
    n, m = te.var("n"), te.var("m")
    A, B, s = _program(n, m)
    o, i = s[B].split(s[B].fuse(*B.op.axis), factor=64)
    s[B].bind(o, te.thread_axis("blockIdx.x"))
    s[B].bind(i, te.thread_axis("threadIdx.x"))
    func = tvm.lower(s, [A, B])["main"]
    checks = [x for x in walk(func.body) if isinstance(x, S.AssertStmt)]
    assert len(checks) == 1
    assert "int64" not in str(func).split("launch_thread")[2]
    built = tvm.build(s, [A, B], "cuda")
    dev = tvm.device("simt", 0)
    b = tvm.nd.array(np.zeros((5, 70), "int8"), dev)
    built(tvm.nd.array(np.arange(70, dtype="int8"), dev), b)
    assert (b.numpy() == (np.arange(70) + np.arange(5)[:, None])).all()


def test_more_blocks_than_a_device_has() -> None:
    A, B, s = _program(1 << 17, 1 << 17)
    fused = s[B].fuse(*B.op.axis)
    s[B].bind(fused, te.thread_axis("blockIdx.x"))
    for target in ("cuda", "opencl"):
        with pytest.raises(tvm.TVMError, match="17179869184"):
            tvm.build(s, [A, B], target)


def test_data_is_not_widened() -> None:
    A = te.placeholder((100,), "int32", name="A")
    B = te.compute((100,), lambda i: te.if_then_else(A[i] * 70000 < 5, A[i], i), name="B")
    assert "int64" not in str(tvm.lower(te.create_schedule(B.op), [A, B]))


def test_sizes_close_to_31_bits_are_refused() -> None:
    n = te.var("n")
    A = te.placeholder((n,), "int8", name="A")
    B = te.compute((1,), lambda i: n.astype("int8"), name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
    big = np.lib.stride_tricks.as_strided(np.zeros(1, "int8"), (MOST_SIZE + 1,), (0,))
    with pytest.raises(tvm.TVMError, match=f"n = {MOST_SIZE + 1}, but code built for int32"):
        f(big, np.zeros(1, "int8"))


@pytest.mark.parametrize("extent,small", [(1 << 15, True), (1 << 16, False), (3, True)])
def test_what_is_small_is_not_looked_at(extent: int, small: bool) -> None:
    A = te.placeholder((extent, extent), "int8", name="A")
    B = te.compute((extent, extent), lambda i, j: A[i, extent - 1 - j] + A[j, i // 2], name="B")
    func = tvm.lower(te.create_schedule(B.op), [A, B])["main"]
    assert all_small(func) == small


def test_sizes_that_calls_give_are_not_small() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    assert not all_small(tvm.lower(te.create_schedule(B.op), [A, B])["main"])


def test_threads_launched_in_a_loop_that_is_widened() -> None:
    n, i, block = te.var("n"), te.var("i"), te.thread_axis("blockIdx.x")
    A = tvm.tir.decl_buffer((n,), "float32", "A")
    store = S.BufferStore(A, tvm.tir.const(1.0, "float32"), [block.var])
    launch = S.AttrStmt(block, "thread_extent", i % 3 + 1, store)
    loop = S.For(i, tvm.tir.const(0), n * n, S.ForKind.SERIAL, launch)
    handle = tvm.tir.Var("A", "handle")
    func = widen_indices(S.PrimFunc([handle], loop, None, {handle: A}), LowerOptions())
    assert next(x for x in walk(func.body) if type(x) is S.For).loop_var.dtype == "int64"
    verify(func)


def test_memory_allocated_in_a_loop_that_is_widened() -> None:
    """Its size is said in the loop's variable, which is another one then."""
    n, i = te.var("n"), te.var("i")
    A = tvm.tir.decl_buffer((n,), "float32", "A")
    T = tvm.tir.decl_buffer((i + 1,), "float32", "T")
    one = tvm.tir.const(1.0, "float32")
    body = S.seq(S.BufferStore(T, one, [i]), S.BufferStore(A, T[i], [i]))
    loop = S.For(i, tvm.tir.const(0), n * n, S.ForKind.SERIAL, S.Allocate(T, body))
    handle = tvm.tir.Var("A", "handle")
    func = widen_indices(S.PrimFunc([handle], loop, None, {handle: A}), LowerOptions())
    made = next(x for x in walk(func.body) if type(x) is S.Allocate).buffer
    assert made.shape[0].dtype == "int64"
    assert all(x.buffer in (made, A) for x in walk(func.body) if type(x) is S.BufferStore)
    verify(func)
