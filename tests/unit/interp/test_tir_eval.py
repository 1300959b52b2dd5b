from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.golden.listings import LISTINGS, loop
from tests.unit.interp.tir_kit import function
from tilewright import tir
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.interp.tir_eval import EvalError, source, tir_eval
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.iter import IterVar, Range


@pytest.mark.parametrize("name", ["default", "split", "bound to GPU threads", "rfactor"])
def test_row_sums_with_strides(name: str) -> None:
    func = LISTINGS[name]()["main"]
    rng = np.random.default_rng(0)
    wide = rng.random((37, 50), dtype=np.float32)
    for a in (wide[:, :21], wide[::2, 3:40:3], np.asfortranarray(wide), wide[:, :0], wide[:0]):
        b = np.full((a.shape[0], 2), np.nan, np.float32)[:, 0]
        tir_eval(func, a, b)
        np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


def test_convolution() -> None:
    func = LISTINGS["convolution"]()["main"]
    rng = np.random.default_rng(0)
    x, k = rng.random((9, 9), dtype=np.float32), rng.random((3, 3), dtype=np.float32)
    out = np.zeros((7, 7), np.float32)
    tir_eval(func, x, k, out)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    np.testing.assert_allclose(out, np.einsum("ijkl,kl->ij", windows, k), rtol=1e-5)


def test_only_the_taken_side_is_evaluated() -> None:
    a, out = Buffer((4,), name="A"), Buffer((6,), name="out")
    i = E.Var("i")
    guarded = op.if_then_else(i < 4, a[i], 7.0)
    x = np.arange(4, dtype=np.float32)
    y = np.zeros(6, np.float32)
    tir_eval(function(loop(i, 6, S.BufferStore(out, guarded, [i])), a, out), x, y)
    np.testing.assert_array_equal(y, [0, 1, 2, 3, 7, 7])
    both = E.Select(i < 4, a[i], E.const(7.0))
    with pytest.raises(EvalError, match="index 4 of dimension 0 of A is not in"):
        tir_eval(function(loop(i, 6, S.BufferStore(out, both, [i])), a, out), x, y)
    lazy = S.IfThenElse(op.all(i < 4, a[i] >= 0.0), S.BufferStore(out, a[i], [i]))
    tir_eval(function(loop(i, 6, lazy), a, out), x, y)
    # a deep and shared expression on the side that is not taken
    deep: Any = a[i + 4]
    for _ in range(100):
        deep = deep + deep
    body = S.BufferStore(out, op.if_then_else(i < 0, deep, 3.0), [i])
    tir_eval(function(loop(i, 6, body), a, out), x, y)
    np.testing.assert_array_equal(y, np.full(6, 3))


@pytest.mark.parametrize("bad", [-1, 4, 100])
def test_out_of_bounds_shows_the_statement(bad: int) -> None:
    a = Buffer((4,), name="A")
    k = E.Var("k")
    body = S.seq(S.BufferStore(a, 0.0, [0]), S.BufferStore(a, 1.0, [k]))
    func = function(loop(E.Var("i"), 2, body), a, scalars=[k])
    with pytest.raises(EvalError) as error:
        tir_eval(func, np.zeros(4, np.float32), bad)
    text = str(error.value)
    assert f"index {bad} of dimension 0 of A is not in [0, 4)" in text
    assert "A[k] = T.float32(1)  # <-- here" in text
    read = S.BufferStore(a, a[E.Ramp(k, 1, 4)], [E.Ramp(0, 1, 4)])
    with pytest.raises(EvalError, match=r"of A is not in \[0, 4\)"):
        tir_eval(function(read, a, scalars=[k]), np.zeros(4, np.float32), bad)


def test_each_dimension_is_checked() -> None:
    a = Buffer((4, 8), name="A")
    i, j = E.Var("i"), E.Var("j")
    func = function(S.BufferStore(a, 1.0, [i, j]), a, scalars=[i, j])
    with pytest.raises(EvalError, match="index 8 of dimension 1"):
        tir_eval(func, np.zeros((4, 8), np.float32), 0, 8)
    view = a.with_(shape=(1000,))
    func = function(S.BufferStore(view, 1.0, [i]), a, scalars=[i, j])
    with pytest.raises(EvalError, match="index 32 of dimension 0"):
        tir_eval(func, np.zeros((4, 8), np.float32), 32, 0)
    square = a.with_(shape=(6, 6))
    func = function(S.BufferStore(square, 1.0, [i, j]), a, scalars=[i, j])
    with pytest.raises(EvalError, match="offset 35 of A is not in"):
        tir_eval(func, np.zeros((4, 8), np.float32), 5, 5)


def test_vectors_with_predicates_gathers_and_strides() -> None:
    a, b = Buffer((10,), "int32", name="A"), Buffer((10,), "int32", name="B")
    i = E.Var("i")
    lanes = E.Ramp(i * 4, 1, 4)
    mask = E.LT(lanes, E.Broadcast(E.const(10), 4))
    copied = S.BufferStore(b, E.BufferLoad(a, [lanes], mask) + 1, [lanes], mask)
    x, y = np.arange(10, dtype=np.int32), np.zeros(10, np.int32)
    tir_eval(function(loop(i, 3, copied), a, b), x, y)
    np.testing.assert_array_equal(y, x + 1)
    gather = S.BufferStore(b, a[a[E.Ramp(9, -2, 4)]], [E.Ramp(0, 3, 4)])
    y[:] = -1
    tir_eval(function(gather, a, b), x, y)
    np.testing.assert_array_equal(y, [9, -1, -1, 7, -1, -1, 5, -1, -1, 3])
    shuffled = E.Shuffle([a[E.Ramp(0, 1, 4)], a[E.Ramp(4, 1, 4)]], [7, 0, 3, 4])
    tir_eval(function(S.BufferStore(b, shuffled, [E.Ramp(0, 1, 4)]), a, b), x, y)
    np.testing.assert_array_equal(y[:4], [7, 0, 3, 4])
    one = S.BufferStore(b, E.Shuffle([a[E.Ramp(0, 1, 4)]], [2]) * 5, [0])
    tir_eval(function(one, a, b), x, y)
    assert y[0] == 10
    chosen = E.Select(E.LT(lanes, E.Broadcast(E.const(2), 4)), a[lanes], E.Broadcast(E.const(9), 4))
    tir_eval(function(loop(i, 1, S.BufferStore(b, chosen, [lanes])), a, b), x, y)
    np.testing.assert_array_equal(y[:4], [0, 1, 9, 9])


def test_buffers_of_vectors_and_views_of_bytes() -> None:
    a = Buffer((3,), "float32x4", name="A")
    out = Buffer((12,), name="out")
    i = E.Var("i")
    body = S.BufferStore(
        out, E.BufferLoad(a, [i]) * E.const(2.0, "float32x4"), [E.Ramp(i * 4, 1, 4)]
    )
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(12, np.float32)
    tir_eval(function(loop(i, 3, body), a, out), x, y)
    np.testing.assert_array_equal(y, x.reshape(-1) * 2)
    raw = out.with_(dtype="uint8", shape=(48,))
    tir_eval(function(S.BufferStore(raw, 0x3F, [3]), out), y)
    assert y[0] == np.frombuffer(b"\0\0\0\x3f", np.float32)[0]


def test_allocations_start_undefined() -> None:
    tmp, out = Buffer((2, 3), name="tmp"), Buffer((1,), name="out")
    y = np.zeros(1, np.float32)
    tir_eval(function(S.Allocate(tmp, S.BufferStore(out, tmp[1, 2], [0])), out), y)
    assert math.isnan(y[0])
    n = E.Var("n")
    counts = Buffer((n,), "int32", name="counts")
    i = E.Var("i")
    body = S.Allocate(
        counts,
        S.seq(
            loop(i, n, S.BufferStore(counts, i * i, [i])),
            S.BufferStore(out, E.cast("float32", counts[n - 1]), [0]),
        ),
    )
    tir_eval(function(body, out, scalars=[n]), y, 5)
    assert y[0] == 16


def test_loops_of_every_kind_lets_and_whiles() -> None:
    out = Buffer((64,), "int32", name="out")
    i, v = E.Var("i"), E.Var("v")
    for kind in range(5):
        thread = IterVar(None, E.Var("tx"), 1, "threadIdx.x") if kind == 4 else None
        body = S.For(i, 2, 5, kind, S.LetStmt(v, i * 3, S.BufferStore(out, v, [i])), thread)
        y = np.zeros(64, np.int32)
        tir_eval(function(body, out), y)
        np.testing.assert_array_equal(y[2:7], [6, 9, 12, 15, 18])
        assert y[:2].sum() == y[7:].sum() == 0
    count = S.While(out[0] < 10, S.BufferStore(out, out[0] + 3, [0]))
    y = np.zeros(64, np.int32)
    tir_eval(function(count, out), y)
    assert y[0] == 12
    empty = S.For(i, 0, E.const(-3), 0, S.BufferStore(out, 99, [i]))
    tir_eval(function(empty, out), y)
    assert 99 not in y
    nested = E.Let(v, out[0] + 1, v * v)
    tir_eval(function(S.BufferStore(out, nested, [1]), out), y)
    assert y[1] == 169


def test_more_loops_than_python_nests() -> None:
    out = Buffer((1,), "int32", name="out")
    body: S.Stmt = S.BufferStore(out, out[0] + 1, [0])
    variables = [E.Var("i") for _ in range(50)]
    for n, v in enumerate(variables):
        body = loop(v, 2 if n < 5 else 1, body)
    y = np.zeros(1, np.int32)
    tir_eval(function(body, out), y)
    assert y[0] == 32


def test_threads_run_one_after_another_and_barriers_are_refused() -> None:
    out = Buffer((8,), "int32", name="out")
    outer = IterVar((0, 2), "blockIdx.x", 1, "blockIdx.x")
    inner = IterVar((0, 4), "threadIdx.x", 1, "threadIdx.x")
    again = IterVar((0, 4), "threadIdx.x", 1, "threadIdx.x")
    store = S.BufferStore(out, outer.var * 10 + again.var, [outer.var * 4 + inner.var])
    body = S.AttrStmt(again, "thread_extent", 4, store)
    body = S.AttrStmt(inner, "thread_extent", 4, body)
    body = S.AttrStmt(outer, "thread_extent", 2, body)
    y = np.zeros(8, np.int32)
    tir_eval(function(body, out), y)
    np.testing.assert_array_equal(y, [0, 1, 2, 3, 10, 11, 12, 13])
    barrier = S.seq(store, S.Evaluate(op.storage_sync("shared")))
    body = S.AttrStmt(inner, "thread_extent", 4, S.AttrStmt(again, "thread_extent", 4, barrier))
    with pytest.raises(TilewrightError, match="cannot run tvm_storage_sync"):
        tir_eval(function(S.AttrStmt(outer, "thread_extent", 2, body), out), y)


def test_external_functions() -> None:
    a, out = Buffer((2, 3), name="A"), Buffer((2, 3), name="out")
    seen: list[Any] = []

    def twice(x: Any, y: Any) -> int:
        seen.append(x.shape)
        y[...] = x * 2
        return 0

    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    for call in (op.call_extern("int32", "twice", a, out), op.call_packed("twice", a, out)):
        y[:] = 0
        tir_eval(function(S.Evaluate(call), a, out), x, y, extern={"twice": twice})
        np.testing.assert_array_equal(y, x * 2)
    assert seen == [(6,), (2, 3)]
    part = op.call_extern("int32", "twice", op.address_of(a[1, 1]), out.access_ptr("w", offset=4))
    y[:] = 0
    tir_eval(function(S.Evaluate(part), a, out), x, y, extern={"twice": twice})
    np.testing.assert_array_equal(y.reshape(-1), [0, 0, 0, 0, 8, 10])
    value = op.call_pure_extern("float32", "__expf", a[0, 1]) + op.call_intrin(
        "float32", "tir.mylog", a[0, 2]
    )
    func = function(S.BufferStore(out, value, [0, 0]), a, out)
    with pytest.raises(EvalError, match=r"no function 'tir.mylog'; pass extern="):
        tir_eval(func, x, y)
    tir_eval(func, x, y, extern={"tir.mylog": math.log})
    assert y[0, 0] == pytest.approx(math.e + math.log(2))


def test_shared_calls_run_as_often_as_they_are_written() -> None:
    out = Buffer((1,), "int32", name="out")
    calls: list[int] = []

    def count() -> int:
        calls.append(0)
        return len(calls)

    call = op.call_extern("int32", "count")
    y = np.zeros(1, np.int32)
    tir_eval(function(S.BufferStore(out, E.Add(call, call), [0]), out), y, extern={"count": count})
    assert y[0] == 3


def test_errors_of_the_program() -> None:
    out = Buffer((4,), "int32", name="out")
    k = E.Var("k")
    y = np.zeros(4, np.int32)

    def run(body: S.Stmt, value: int = 0) -> None:
        tir_eval(function(body, out, scalars=[k]), y, value)

    for divide in (op.floordiv, op.floormod, op.truncdiv, op.truncmod):
        with pytest.raises(EvalError, match=r"(?s)by zero.*<-- here"):
            run(S.BufferStore(out, divide(out[0], k), [0]))
        lanes = E.Ramp(0, 1, 4)
        with pytest.raises(EvalError, match="by zero"):
            run(S.BufferStore(out, divide(out[lanes], E.Broadcast(k, 4)), [lanes]))
    with pytest.raises(EvalError, match=r"(?s)assertion failed: k is odd.*# <-- here"):
        run(S.AssertStmt(k % 2 == 0, "k is odd", S.no_op()), 3)
    with pytest.raises(EvalError, match="shift_left by 32 is not in"):
        run(S.BufferStore(out, out[0] << k, [0]), 32)
    with pytest.raises(TilewrightError, match="variable free is used where it has no value"):
        run(S.BufferStore(out, E.Var("free"), [0]))
    with pytest.raises(TilewrightError, match="buffer ghost has no memory"):
        run(S.BufferStore(Buffer((1,), name="ghost"), 1.0, [0]))


def test_errors_of_the_arguments() -> None:
    n = E.SizeVar("n")
    a, b = Buffer((n, 4), name="A"), Buffer((n * 2,), name="B")
    func = function(S.no_op(), a, b)
    good, other = np.zeros((3, 4), np.float32), np.zeros(6, np.float32)
    tir_eval(func, good, other)
    for args, text in (
        ((good,), "takes 2 arguments"),
        ((good.astype(np.float64), other), "argument A must be float32, got float64"),
        ((other, other), "argument A must have 2 dimensions"),
        ((np.zeros((4, 3), np.float32).T, other), "argument A must be contiguous"),
        ((good, "text"), "argument B of main must be an array, got str"),
    ):
        with pytest.raises(ArgumentError, match=text):
            tir_eval(func, *args)
    with pytest.raises(
        EvalError, match=r"shape\[0\] of argument B is 5, but the function expects 6"
    ):
        tir_eval(func, good, np.zeros(5, np.float32))
    unknown = Buffer((E.Var("m") * 2,), name="C")
    with pytest.raises(TilewrightError, match="m in the shape of C is no argument's size"):
        tir_eval(function(S.no_op(), unknown), other)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    store = S.BufferStore(Buffer((4,), name="D"), 1.0, [0])
    with pytest.raises(EvalError, match="read-only"):
        tir_eval(function(store, store.buffer), frozen)


def test_results_and_scalar_arguments() -> None:
    x, p = E.Var("x", "float32"), E.Var("p", "bool")
    body = S.Evaluate(op.ret(op.if_then_else(p, x * 2.0, x)))
    func = S.PrimFunc([x, p], loop(E.Var("i"), 1, body))
    assert tir_eval(func, 0.1, True) == np.float32(0.1) * np.float32(2)
    assert tir_eval(func, 0.1, False) == np.float32(0.1)
    assert tir_eval(S.PrimFunc([x, p], S.no_op()), 0.1, False) is None


def test_pointers_in_lets() -> None:
    a = Buffer((8,), "int32", name="A")
    pointer = E.Var("p", "handle")
    view = Buffer((4,), "int32", name="V", data=pointer)
    body = S.LetStmt(pointer, op.address_of(a[4]), S.BufferStore(view, 5, [1]))
    y = np.zeros(8, np.int32)
    tir_eval(function(body, a), y)
    np.testing.assert_array_equal(y, [0, 0, 0, 0, 0, 5, 0, 0])


def test_zero_dimensional_and_offset_buffers() -> None:
    scalar = Buffer((), name="S")
    y = np.zeros((), np.float32)
    tir_eval(function(S.BufferStore(scalar, scalar[()] + 3.0, []), scalar), y)
    assert y == 3
    tmp = Buffer((2, 2), name="tmp", strides=(4, 1))
    out = Buffer((1,), name="out")
    i, j = E.Var("i"), E.Var("j")
    fill = loop(i, 2, loop(j, 2, S.BufferStore(tmp, E.cast("float32", i * 2 + j), [i, j])))
    flat = tmp.with_(shape=(6,), strides=None)
    body = S.Allocate(tmp, S.seq(fill, S.BufferStore(out, flat[5], [0])))
    z = np.zeros(1, np.float32)
    tir_eval(function(body, out), z)
    assert z[0] == 3


def test_deep_and_long_programs() -> None:
    out = Buffer((1,), "float32", name="out")
    e: E.PrimExpr = out[0]
    for _ in range(50_000):
        e = E.Sub(e, E.const(1.0))
    y = np.zeros(1, np.float32)
    tir_eval(function(S.BufferStore(out, e, [0]), out), y)
    assert y[0] == -50_000
    right: E.PrimExpr = out[0]
    for _ in range(50_000):
        right = E.Sub(E.const(1.0), right)
    tir_eval(function(S.BufferStore(out, right, [0]), out), y)
    assert y[0] == -50_000
    s: S.Stmt = S.BufferStore(out, E.const(3.0), [0])
    for _ in range(20_000):
        s = S.LetStmt(E.Var("t"), E.const(1), s)
    tir_eval(function(s, out), y)
    assert y[0] == 3


def test_the_code_is_made_once_per_function() -> None:
    func = LISTINGS["default"]()["main"]
    assert "for i_" in source(func)
    a, b = np.ones((2, 2), np.float32), np.zeros(2, np.float32)
    for _ in range(2):
        tir_eval(func, a, b)
    np.testing.assert_array_equal(b, [2, 2])


def test_builder_programs_run() -> None:
    ib = tir.ir_builder.create()
    a = tir.decl_buffer((4, 6), "float32", name="A")
    p = ib.buffer_ptr(a)
    with ib.for_range(0, 24, name="i") as i, ib.if_scope(i % 2 == 0):
        p[i] = i.astype("float32")
    x = np.zeros((4, 6), np.float32)
    tir_eval(function(ib.get(), a), x)
    np.testing.assert_array_equal(x.reshape(-1)[::2], np.arange(0, 24, 2))


def test_halves_of_vectors_dot_products_and_hints() -> None:
    a, out = Buffer((8,), "int8", name="A"), Buffer((8,), "int8", name="out")
    acc = Buffer((2,), "int32", name="acc")
    lanes = E.Ramp(0, 1, 8)
    low, high = op.vectorlow("int8x4", a[lanes]), op.vectorhigh("int8x4", a[lanes])
    swapped = S.BufferStore(out, op.vectorcombine("int8x8", high, low), [lanes])
    dot = S.BufferStore(acc, op.dp4a(low, high, acc[1]), [0])
    hint = S.seq(S.Evaluate(op.prefetch(a[0])), S.Prefetch(a, [Range(0, 4)]))
    x, y, z = np.arange(-4, 4, dtype=np.int8), np.zeros(8, np.int8), np.full(2, 100, np.int32)
    tir_eval(function(S.seq(hint, swapped, dot), a, out, acc), x, y, z)
    np.testing.assert_array_equal(y, np.roll(x, 4))
    assert z[0] == 100 + int(np.dot(x[:4].astype(int), x[4:].astype(int)))


def test_masked_scalars() -> None:
    out, p = Buffer((2,), "int32", name="out"), E.Var("p", "bool")
    read = E.BufferLoad(out, [0], p)
    body = S.seq(S.BufferStore(out, read + 1, [1]), S.BufferStore(out, 9, [0], p))
    for holds, expected in ((True, [9, 6]), (False, [5, 1])):
        y = np.array([5, 0], np.int32)
        tir_eval(function(body, out, scalars=[p]), y, holds)
        np.testing.assert_array_equal(y, expected)


def test_lazy_parts_may_need_statements() -> None:
    """Deep operands of `and`, `or` and if_then_else become branches of their own."""
    a, out = Buffer((2,), "int32", name="A"), Buffer((1,), "int32", name="out")
    k = E.Var("k")

    def deep(e: Any) -> Any:
        for n in range(60):
            e = e + op.floordiv(E.const(n), k)
        return e

    conditions = [
        (E.And(k != 0, deep(a[0]) > 0), {0: 0, 1: 1}),
        (E.Or(E.EQ(k, 0), deep(a[0]) < 0), {0: 1, 1: 0}),
        (op.if_then_else(E.EQ(k, 0), False, deep(a[0]) > 0), {0: 0, 1: 1}),
    ]
    for condition, wanted in conditions:
        func = function(S.BufferStore(out, condition.astype("int32"), [0]), a, out, scalars=[k])
        for value, expected in wanted.items():
            y = np.full(1, -1, np.int32)
            tir_eval(func, np.ones(2, np.int32), y, value)
            assert y[0] == expected


def test_arguments_through_dlpack_and_bare_pointers() -> None:
    class Foreign:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **kw: Any) -> Any:
            return self.array.__dlpack__(**kw)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    out = Buffer((3,), name="out")
    y = np.zeros(3, np.float32)
    tir_eval(function(S.BufferStore(out, 2.0, [1]), out), Foreign(y))
    np.testing.assert_array_equal(y, [0, 2, 0])
    pointer = E.Var("p", "handle")
    view = Buffer((3,), name="view", data=pointer)
    tir_eval(S.PrimFunc([pointer], S.BufferStore(view, 4.0, [2])), y)
    np.testing.assert_array_equal(y, [0, 2, 4])
