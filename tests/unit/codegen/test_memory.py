"""Loads and stores: every kind of index, with and without predicates."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

from tests.narrow import value_of
from tilewright.base.errors import CompileError, InternalError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer

N = 64
TYPES = ["float32", "int8", "uint16", "float64", "bool", "float16", "bfloat16"]


def source(dtype: str) -> np.ndarray:
    from tilewright.base.dtype import parse

    values = np.random.default_rng(3).integers(0, 50, 4 * N)
    return (values % 2).astype(bool) if dtype == "bool" else values.astype(parse(dtype).numpy)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("stride", [1, -1, 2, 3, 4, 5, -2, 0])
@pytest.mark.parametrize("lanes", [2, 3, 8, 13, 16])
def test_strided_loads_and_stores(program: Any, dtype: str, stride: int, lanes: int) -> None:
    x = source(dtype)
    start = 100
    places = start + stride * np.arange(lanes)
    p = program((dtype, 4 * N), (dtype, lanes))
    at = E.Ramp(E.const(start), stride, lanes)
    body = S.BufferStore(p.buffers[1], E.BufferLoad(p.buffers[0], [at]), [E.Ramp(0, 1, lanes)])
    out = np.zeros(lanes, x.dtype)
    p.compile(body)(x, out)
    np.testing.assert_array_equal(out, x[places])

    p = program((dtype, lanes), (dtype, 4 * N))
    body = S.BufferStore(p.buffers[1], E.BufferLoad(p.buffers[0], [E.Ramp(0, 1, lanes)]), [at])
    out, want = np.zeros(4 * N, x.dtype), np.zeros(4 * N, x.dtype)
    p.compile(body)(x[:lanes], out)
    for lane, place in enumerate(places):
        want[place] = x[lane]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", ["float32", "int16", "int8"])
@pytest.mark.parametrize("lanes", [3, 5, 7, 11, 13])
def test_uneven_vectors_touch_no_byte_beyond(program: Any, dtype: str, lanes: int) -> None:
    """They may be read and written through masks, as vectors of more lanes: here up to the end of
    memory that can be touched, and of what may be written."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    beyond = ctypes.c_void_p(whole.ctypes.data + page)
    assert protect(beyond, ctypes.c_size_t(page), 0) == 0
    p = program((dtype, lanes), (dtype, lanes + 16))
    row = E.Ramp(0, 1, lanes)
    code = p.compile(S.BufferStore(p.buffers[1], E.BufferLoad(p.buffers[0], [row]), [row]))
    x = whole[:page].view(dtype)[-lanes:]
    x[:] = np.arange(1, lanes + 1)
    out = np.full(lanes + 16, 99, dtype)
    code(x, out)
    np.testing.assert_array_equal(out, [*range(1, lanes + 1), *[99] * 16])
    assert protect(beyond, ctypes.c_size_t(page), 3) == 0


@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("lanes", [4, 8, 13, 16])
def test_lanes_apart_under_a_mask_touch_no_byte_beyond(
    program: Any, dtype: str, stride: int, lanes: int
) -> None:
    """They are read as vectors, of which a mask leaves out what lies between, and behind."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(whole.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
    data = whole[:page].view(dtype)
    for able in (1, lanes // 2, lanes):
        x = data[-(stride * (able - 1) + 1) :]
        x[:] = np.arange(1, len(x) + 1)
        p, row = program((dtype, len(x)), (dtype, lanes)), E.Ramp(0, 1, lanes)
        there = E.LT(row, E.Broadcast(E.const(able), lanes))
        value = E.BufferLoad(p.buffers[0], [E.Ramp(0, stride, lanes)], there)
        code = p.compile(S.BufferStore(p.buffers[1], value, [row]))
        out = np.full(lanes, 99, dtype)
        code(x, out)
        want = [1 + stride * i if i < able else 0 for i in range(lanes)]
        np.testing.assert_array_equal(out, want)
    assert protect(ctypes.c_void_p(whole.ctypes.data + page), ctypes.c_size_t(page), 3) == 0


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "int64"])
def test_a_number_beside_zero_is_read_without_a_branch(program: Any, dtype: str) -> None:
    """Where the condition does not hold, the index may be anything."""
    p = program((dtype, N), (dtype, 8 * N))
    i = E.Var("i", "int32")
    at = E.FloorDiv(i, E.const(2)) * 3 - 17
    inside = E.And(at >= 0, at < N)
    read = E.BufferLoad(p.buffers[0], [at])
    one = E.Call(dtype, "tir.if_then_else", (inside, read, E.const(0, dtype)))
    value = E.Broadcast(one, 8) + E.Broadcast(E.const(1, dtype), 8)
    body = S.BufferStore(p.buffers[1], value, [E.Ramp(i * 8, 1, 8)])
    code = p.compile(S.For(i, 0, N, S.ForKind.SERIAL, body))
    x, out = source(dtype)[:N], np.zeros(8 * N, dtype)
    code(x, out)
    places = np.arange(N) // 2 * 3 - 17
    kept = (places >= 0) & (places < N)
    want = np.where(kept, x[np.where(kept, places, 0)], 0) + 1
    np.testing.assert_array_equal(out.reshape(N, 8), np.repeat(want[:, None], 8, 1).astype(dtype))
    assert "select i1" in code.get_source("ll") and "ptr @zeros" in code.get_source("ll")


def test_symbolic_strides(program: Any) -> None:
    x = source("float32")
    step = E.Var("step", "int32")
    p = program(("float32", 4 * N), ("float32", 8))
    value = E.BufferLoad(p.buffers[0], [E.Ramp(E.const(3), step, 8)])
    module = p.compile(S.BufferStore(p.buffers[1], value, [E.Ramp(0, 1, 8)]), step)
    for stride in (1, 7, 0):
        out = np.zeros(8, np.float32)
        module(x, out, stride)
        np.testing.assert_array_equal(out, x[3 + stride * np.arange(8)])


@pytest.mark.parametrize("index_type", ["int32", "int64", "uint8", "uint32"])
def test_gather_and_scatter(program: Any, index_type: str) -> None:
    x = source("float32")
    order = np.random.default_rng(4).permutation(N).astype(index_type)
    p = program(("float32", 4 * N), (index_type, N), ("float32", N), ("float32", N))
    a, idx, gathered, scattered = p.buffers
    i = E.Var("i", "int32")
    at = E.Ramp(i * 8, 1, 8)
    where = E.BufferLoad(idx, [at])
    scalar = E.Broadcast(E.Cast(index_type, i - i + 4), 8)
    body = S.For(
        i,
        0,
        N // 8,
        0,
        S.seq(
            S.BufferStore(gathered, E.BufferLoad(a, [where + scalar]), [at]),
            S.BufferStore(scattered, E.BufferLoad(a, [at]), [where]),
        ),
    )
    out, out2 = np.zeros(N, np.float32), np.zeros(N, np.float32)
    p.compile(body)(x, order, out, out2)
    np.testing.assert_array_equal(out, x[order.astype(int) + 4])
    want = np.zeros(N, np.float32)
    want[order.astype(int)] = x[:N]
    np.testing.assert_array_equal(out2, want)


def test_ramps_are_recognised_in_sums_and_products(program: Any) -> None:
    p = program(("float32", 4 * N), ("float32", 8))
    base = E.Broadcast(E.const(2), 8)
    at = E.Add(E.Mul(E.Ramp(0, 1, 8), E.Broadcast(E.const(1), 8)), base)
    body = S.BufferStore(p.buffers[1], E.BufferLoad(p.buffers[0], [at]), [E.Ramp(0, 1, 8)])
    module = p.compile(body)
    assert "gather" not in module.get_source("ll")
    x, out = source("float32"), np.zeros(8, np.float32)
    module(x, out)
    np.testing.assert_array_equal(out, x[2:10])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("stride", [1, -1, 3])
def test_predicates(program: Any, dtype: str, stride: int) -> None:
    """Lanes whose predicate is false touch no memory, read 0 and write nothing."""
    lanes, live = 8, 5
    x = source(dtype)[: live if stride == 1 else 4 * N]
    p = program((dtype, len(x)), (dtype, 4 * N), ("int32", 1))
    limit = E.Broadcast(E.BufferLoad(p.buffers[2], [E.const(0)]), lanes)
    start = E.const(0 if stride > 0 else 100)
    at = E.Ramp(start, stride, lanes)
    where = E.LT(E.Ramp(0, 1, lanes), limit)
    value = E.BufferLoad(p.buffers[0], [at], where)
    first = S.BufferStore(p.buffers[1], value, [at], where)
    plain = S.BufferStore(p.buffers[1], value, [E.Ramp(200, 1, lanes)])
    out = np.ones(4 * N, x.dtype)
    p.compile(S.seq(first, plain))(x, out, np.array([live], np.int32))
    places = int(value_of(start)) + stride * np.arange(live)
    want = np.ones(4 * N, x.dtype)
    want[places] = x[places]
    want[200:208] = 0
    want[200 : 200 + live] = x[places]
    np.testing.assert_array_equal(out, want)


def test_predicate_of_a_scalar_access(program: Any) -> None:
    p = program(("float32", 4), ("float32", 4), ("int32", 1))
    i = E.Var("i", "int32")
    where = E.LT(i, E.BufferLoad(p.buffers[2], [E.const(0)]))
    value = E.BufferLoad(p.buffers[0], [i], where)
    body = S.For(i, 0, 4, 0, S.BufferStore(p.buffers[1], value + 1.0, [i], where))
    out = np.full(4, -1, np.float32)
    p.compile(body)(np.arange(4, dtype=np.float32), out, np.array([2], np.int32))
    np.testing.assert_array_equal(out, [1, 2, -1, -1])


def test_gathers_with_predicates(program: Any) -> None:
    p = program(("float32", 8), ("int32", 8), ("float32", 8))
    idx = E.BufferLoad(p.buffers[1], [E.Ramp(0, 1, 8)])
    where = E.GE(idx, E.Broadcast(E.const(0), 8))
    value = E.BufferLoad(p.buffers[0], [idx], where)
    body = S.BufferStore(p.buffers[2], value, [E.Ramp(0, 1, 8)])
    scatter = S.BufferStore(p.buffers[2], value + E.Broadcast(E.const(10.0), 8), [idx], where)
    order = np.array([3, -(10**9), 0, 7, -5, 1, 2, -1], np.int32)
    x, out = np.arange(8, dtype=np.float32) + 1, np.zeros(8, np.float32)
    p.compile(S.seq(body, scatter))(x, order, out)
    want = np.where(order >= 0, x[order.clip(0)], 0).astype(np.float32)
    want[order[order >= 0]] = x[order[order >= 0]] + 10
    np.testing.assert_array_equal(out, want)


def test_buffers_of_vectors(compiled: Any) -> None:
    a, b = decl_buffer((6,), "float32x4", "a"), decl_buffer((6,), "float32x4", "b")
    pa, pb, i = E.Var("pa", "handle"), E.Var("pb", "handle"), E.Var("i", "int32")
    two = E.Broadcast(E.const(2.0), 4)
    body = S.For(i, 0, 6, 0, S.BufferStore(b, E.BufferLoad(a, [i]) * two, [5 - i]))
    x, out = np.arange(24, dtype=np.float32).reshape(6, 4), np.zeros((6, 4), np.float32)
    compiled(S.PrimFunc([pa, pb], body, None, {pa: a, pb: b}))(x, out)
    np.testing.assert_array_equal(out, (x * 2)[::-1])


def test_vector_of_three_lanes_in_a_buffer(compiled: Any) -> None:
    a = decl_buffer((5,), "int32x3", "a")
    pa, i = E.Var("pa", "handle"), E.Var("i", "int32")
    body = S.For(i, 0, 5, 0, S.BufferStore(a, E.BufferLoad(a, [i]) + E.Ramp(i, 1, 3), [i]))
    x = np.zeros((5, 3), np.int32)
    compiled(S.PrimFunc([pa], body, None, {pa: a}))(x)
    np.testing.assert_array_equal(x, np.arange(5)[:, None] + np.arange(3))


def test_two_buffers_on_one_variable(program: Any) -> None:
    p = program(("float32", 16))
    bits = p.buffers[0].with_(dtype="int32")
    i = E.Var("i", "int32")
    value = E.BufferLoad(bits, [i]) + 1
    after = E.BufferLoad(p.buffers[0], [i])
    body = S.For(
        i,
        0,
        16,
        0,
        S.seq(
            S.BufferStore(bits, value, [i]),
            S.BufferStore(p.buffers[0], after * 2.0, [i]),
        ),
    )
    x = np.linspace(1, 2, 16, dtype=np.float32)
    want = (x.view(np.int32) + 1).view(np.float32) * 2
    p.compile(body)(x)
    np.testing.assert_array_equal(x, want)


def test_loads_are_read_again_after_stores(program: Any) -> None:
    """The same node read before and after a store has two values."""
    p = program(("float32", 1), ("float32", 2))
    read = E.BufferLoad(p.buffers[0], [E.const(0)])
    bumped = read + 1.0
    body = S.seq(
        S.BufferStore(p.buffers[1], bumped, [E.const(0)]),
        S.BufferStore(p.buffers[0], E.const(10.0), [E.const(0)]),
        S.BufferStore(p.buffers[1], bumped, [E.const(1)]),
    )
    x, out = np.array([3], np.float32), np.zeros(2, np.float32)
    p.compile(body)(x, out)
    np.testing.assert_array_equal(out, [4, 11])


def test_arrays_may_overlap_without_noalias(program: Any) -> None:
    p = program(("float32", 16), ("float32", 16), noalias=False)
    i = E.Var("i", "int32")
    body = S.For(
        i, 0, 15, 0, S.BufferStore(p.buffers[1], E.BufferLoad(p.buffers[0], [i]) + 1.0, [i + 1])
    )
    module = p.compile(body)
    assert "noalias align" not in module.get_source("ll")


def test_what_lowering_must_have_done(program: Any) -> None:
    p = program(("float32", 16), ("float32", 16))
    load = E.BufferLoad(p.buffers[0], [E.const(0), E.const(0)])
    with pytest.raises(InternalError, match="flatten it first"):
        p.compile(S.BufferStore(p.buffers[1], load, [E.const(0)]))
    foreign = decl_buffer((4,), "float32", "nowhere")
    with pytest.raises(InternalError, match="buffer nowhere has no memory here"):
        p.compile(S.BufferStore(foreign, E.const(1.0), [E.const(0)]))
    vectors = decl_buffer((4,), "float32x4", "v")
    pv = E.Var("pv", "handle")
    with pytest.raises(CompileError, match="vector of indices into a buffer of vectors"):
        body = S.Evaluate(E.BufferLoad(vectors, [E.Ramp(0, 1, 2)]))
        p.compile(S.seq(S.Allocate(vectors, body)))
    del pv
