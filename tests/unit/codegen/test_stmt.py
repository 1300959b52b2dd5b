"""Statements: loops, branches, lets, checks, allocations, symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.base.dtype import parse
from tilewright.base.errors import CompileError, InternalError, TilewrightError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.iter import IterVar, Range

SERIAL, PARALLEL, VECTORIZED, UNROLLED = range(4)


def var(name: str, dtype: str = "int32") -> E.Var:
    return E.Var(name, dtype)


def load(buffer: Any, at: Any) -> E.BufferLoad:
    return E.BufferLoad(buffer, [at])


def store(buffer: Any, value: Any, at: Any) -> S.BufferStore:
    return S.BufferStore(buffer, value, [at])


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED, UNROLLED])
@pytest.mark.parametrize("extent", [0, 1, 5])
def test_loops_of_constant_extent(program: Any, kind: int, extent: int) -> None:
    p = program(("int32", 8))
    i = var("i")
    p.compile(S.For(i, 2, extent, kind, store(p.buffers[0], i * 10, i)))(out := np.zeros(8, "i4"))
    want = [10 * i if 2 <= i < 2 + extent else 0 for i in range(8)]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("kind", [SERIAL, PARALLEL])
def test_loops_of_symbolic_extent(program: Any, kind: int) -> None:
    p = program(("int32", 8))
    i, low, n = var("i"), var("low"), var("n")
    module = p.compile(S.For(i, low, n, kind, store(p.buffers[0], i + 1, i)), low, n)
    for start, extent in ((0, 8), (3, 2), (2, 1), (4, 0), (4, -3)):
        out = np.zeros(8, np.int32)
        module(out, start, extent)
        want = [i + 1 if start <= i < start + extent else 0 for i in range(8)]
        np.testing.assert_array_equal(out, want)


def test_int64_loop_variables_and_negative_starts(program: Any) -> None:
    p = program(("int64", 8))
    i = var("i", "int64")
    body = S.For(
        i, E.const(-4, "int64"), E.const(8, "int64"), SERIAL, store(p.buffers[0], i, i + 4)
    )
    p.compile(body)(out := np.zeros(8, np.int64))
    np.testing.assert_array_equal(out, np.arange(-4, 4))


def test_unrolled_loops_leave_no_loop(program: Any) -> None:
    p = program(("float32", 4), ("float32", 4))
    i = var("i")
    body = S.For(i, 0, 4, UNROLLED, store(p.buffers[1], load(p.buffers[0], i) * 2.0, i))
    asm = p.compile(body).get_source("asm").split("f:\n")[0]
    assert "jne" not in asm and asm.count("vmulss") + asm.count("vaddss") == 4


def test_while_loops(program: Any) -> None:
    p = program(("int32", 2))
    b = p.buffers[0]
    body = S.While(
        load(b, 0) < 100, S.seq(store(b, load(b, 0) * 2, 0), store(b, load(b, 1) + 1, 1))
    )
    out = np.array([3, 0], np.int32)
    p.compile(body)(out)
    np.testing.assert_array_equal(out, [192, 6])


def test_branches(program: Any) -> None:
    p = program(("int32", 8))
    i = var("i")
    b = p.buffers[0]
    inner = S.IfThenElse(i < 6, store(b, 2, i))
    cond = E.Call("bool", "tir.likely", (i < 3,))
    body = S.For(i, 0, 8, SERIAL, S.IfThenElse(cond, store(b, 1, i), inner))
    module = p.compile(body)
    module(out := np.zeros(8, np.int32))
    np.testing.assert_array_equal(out, [1, 1, 1, 2, 2, 2, 0, 0])
    assert "branch_weights" in module.get_source("ll")
    constant = S.IfThenElse(E.const(False), store(b, 7, 0), store(b, 8, 0))
    p.compile(constant)(out)
    assert out[0] == 8


def test_values_of_one_branch_are_not_used_in_the_other(program: Any) -> None:
    p = program(("int32", 8), ("int32", 8))
    i, n = var("i"), var("n")
    shared = load(p.buffers[0], i) * n + (i * n - 3)
    then, other = store(p.buffers[1], shared + 1, i), store(p.buffers[1], shared + 2, i)
    body = S.For(
        i,
        0,
        8,
        SERIAL,
        S.seq(
            S.IfThenElse(i < 4, then, other), S.IfThenElse(i < 2, store(p.buffers[1], shared, i))
        ),
    )
    a = np.arange(8, dtype=np.int32)
    p.compile(body, n)(a, out := np.zeros(8, np.int32), 5)
    base = a * 5 + a * 5 - 3
    np.testing.assert_array_equal(out, base + np.where(a < 2, 0, np.where(a < 4, 1, 2)))


def test_lets_of_every_kind(program: Any) -> None:
    p = program(("float32", 16), ("int32", 1))
    i, j, x, c, v = var("i"), var("j"), var("x", "float32"), var("c", "bool"), var("v", "float32x8")
    out, src = p.buffers
    at = E.Ramp(8, 1, 8)
    body: S.Stmt = store(out, E.Select(c, x, E.const(0.0)), j + 1)
    body = S.LetStmt(c, j < 5, body)
    body = S.LetStmt(x, E.Cast("float32", load(src, 0)) * 0.5, body)
    body = S.For(i, 0, 3, SERIAL, S.LetStmt(j, i * 2, body))
    vector = S.LetStmt(v, E.Broadcast(E.const(2.5), 8), S.BufferStore(out, v + v, [at]))
    got = np.zeros(16, np.float32)
    p.compile(S.seq(body, vector))(got, np.array([7], np.int32))
    np.testing.assert_array_equal(got, [0, 3.5, 0, 3.5, 0, 3.5, 0, 0, *[5] * 8])


def test_narrow_let_values_wrap(program: Any) -> None:
    p = program(("int32", 2))
    x = var("x", "int8")
    body = S.LetStmt(x, E.Cast("int8", load(p.buffers[0], 0)) + E.const(100, "int8"), S.seq(
        store(p.buffers[0], E.Cast("int32", x), 1)
    ))  # fmt: skip
    p.compile(body)(out := np.array([100, 0], np.int32))
    assert out[1] == 200 - 256


def test_failed_checks_return_their_message(program: Any) -> None:
    p = program(("int32", 4))
    b, n = p.buffers[0], var("n")
    inner = S.AssertStmt(n < 100, "n is below 100", store(b, 1, 0))
    module = p.compile(S.AssertStmt(n > 0, "n is positive", inner), n)
    out = np.zeros(4, np.int32)
    with pytest.raises(TilewrightError, match="n is positive"):
        module(out, -1)
    with pytest.raises(TilewrightError, match="n is below 100"):
        module(out, 100)
    assert not out.any()
    module(out, 7)
    assert out[0] == 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64",
                                   "float16", "bfloat16", "float32", "float64"])  # fmt: skip
def test_scalar_parameters(program: Any, dtype: str) -> None:
    p = program((dtype, 1))
    x = var("x", dtype)
    module = p.compile(store(p.buffers[0], x, 0), x)
    for value in (True, False) if dtype == "bool" else (0, 1, 100):
        out = np.zeros(1, parse(dtype).numpy)
        module(out, value)
        assert float(out[0]) == float(value)


# -- allocations


def accumulate(p: Any, size: int, step: int, wrap: Any = None) -> S.Stmt:
    """tmp[j] = a[i * step + j] * 2; b[i * step + j] = tmp[j] + 1, tmp of `size` elements."""
    a, b = p.buffers[:2]
    tmp = decl_buffer((size,), "float32", "tmp")
    i, j, k = var("i"), var("j"), var("k")
    fill = S.For(j, 0, step, SERIAL, store(tmp, load(a, i * step + j) * 2.0, j))
    use = S.For(k, 0, step, SERIAL, store(b, load(tmp, k) + 1.0, i * step + k))
    return S.For(i, 0, 4, wrap or SERIAL, S.Allocate(tmp, S.seq(fill, use)))


@pytest.mark.parametrize("kind", [SERIAL, PARALLEL])
@pytest.mark.parametrize("size", [64, 1 << 15])
def test_constant_allocations(program: Any, size: int, kind: int) -> None:
    step = min(size, 64)
    p = program(("float32", 4 * step), ("float32", 4 * step))
    module = p.compile(accumulate(p, size, step, kind))
    assert ("aligned_alloc" in module.get_source("ll")) == (size > 1 << 14)
    x, out = np.random.rand(4 * step).astype("f"), np.zeros(4 * step, np.float32)
    module(x, out)
    np.testing.assert_array_equal(out, x * 2 + 1)


@pytest.mark.parametrize("kind", [SERIAL, PARALLEL])
def test_symbolic_allocations_share_one_workspace(program: Any, kind: int) -> None:
    n = var("n")
    p = program(("float32", 256), ("float32", 256))
    a, b = p.buffers
    one, two = decl_buffer((n,), "float32", "one"), decl_buffer((n, 2), "float64", "two")
    flat = two.with_(shape=(n * 2,))
    i, j = var("i"), var("j")
    back = E.Cast("float32", load(flat, j * 2))
    body: S.Stmt = S.seq(
        S.For(j, 0, n, SERIAL, S.seq(
            store(one, load(a, i * n + j), j), store(flat, E.Cast("float64", load(one, j)), j * 2)
        )),
        S.For(j, 0, n, SERIAL, store(b, back + load(one, j), i * n + j)),
    )  # fmt: skip
    body = S.For(i, 0, 256 // n, kind, S.Allocate(one, S.Allocate(two, body)))
    module = p.compile(body, n)
    assert module.get_source("ll").count("call noalias align 64 ptr @tw.take") == 1
    for extent in (1, 7, 64):
        x, out = np.random.rand(256).astype("f"), np.zeros(256, np.float32)
        module(x, out, extent)
        done = 256 // extent * extent
        np.testing.assert_array_equal(out[:done], (x + x)[:done])


def test_allocations_that_depend_on_a_loop(program: Any) -> None:
    p = program(("int32", 64))
    i, j = var("i"), var("j")
    tmp = decl_buffer((i + 1,), "int32", "tmp")
    fill = S.For(j, 0, i + 1, SERIAL, store(tmp, j * i, j))
    check = S.AssertStmt(i < 5, "five at most", store(p.buffers[0], load(tmp, i), i))
    module = p.compile(S.For(i, 0, 6, SERIAL, S.Allocate(tmp, S.seq(fill, check))))
    out = np.zeros(64, np.int32)
    with pytest.raises(TilewrightError, match="five at most"):
        module(out)
    np.testing.assert_array_equal(out[:6], [0, 1, 4, 9, 16, 0])
    assert module.get_source("ll").count("@free(ptr %") == 2


def test_a_workspace_that_does_not_fit_is_an_error(program: Any) -> None:
    p = program(("int32", 1))
    n = var("n", "int64")
    tmp = decl_buffer((n,), "int32", "tmp")
    body = S.Allocate(tmp, S.seq(store(tmp, 1, 0), store(p.buffers[0], load(tmp, 0), 0)))
    module = p.compile(body, n)
    with pytest.raises(TilewrightError, match="out of memory"):
        module(np.zeros(1, np.int32), 1 << 60)
    module(out := np.zeros(1, np.int32), 8)
    assert out[0] == 1


def test_the_same_loop_twice(program: Any) -> None:
    """Passes that copy statements share nodes: variables are bound anew each time."""
    p = program(("int32", 8))
    i, j = var("i"), var("j")
    tmp = decl_buffer((1,), "int32", "tmp")
    body = S.Allocate(tmp, S.LetStmt(j, load(p.buffers[0], i) + 1, S.seq(
        store(tmp, j, 0), store(p.buffers[0], load(tmp, 0), i)
    )))  # fmt: skip
    for extent in (1, 8):
        loop = S.For(i, 0, extent, SERIAL, body)
        p.compile(S.seq(loop, loop, body if False else loop))(out := np.zeros(8, np.int32))
        np.testing.assert_array_equal(out, [3 if k < extent else 0 for k in range(8)])


# -- symbols of shapes and strides


def test_shapes_and_strides_come_from_the_arrays(compiled: Any) -> None:
    n, m, s0, s1 = var("n"), var("m"), var("stride"), var("stride")
    a = decl_buffer((n, m), "float32", "A", strides=[s0, s1])
    b = decl_buffer((n,), "float32", "B")
    pa, pb, i, k = var("a", "handle"), var("b", "handle"), var("i"), var("k")
    flat_a, flat_b = a.with_(shape=(n * m,), strides=()), b.with_()
    total = store(flat_b, load(flat_b, i) + load(flat_a, i * s0 + k * s1), i)
    body = S.For(i, 0, n, SERIAL, S.seq(store(flat_b, 0.0, i), S.For(k, 0, m, SERIAL, total)))
    module = compiled(S.PrimFunc([pa, pb], body, None, {pa: a, pb: b}))
    assert [s.name for s in module["f"].info.symbols] == ["n", "m", "stride", "stride_1"]
    x = np.random.rand(12, 20).astype(np.float32)
    for view in (x, x.T, x[::2, 1::3]):
        out = np.zeros(len(view), np.float32)
        module(view, out)
        np.testing.assert_allclose(out, view.sum(1), rtol=1e-5)


def test_shapes_with_expressions(compiled: Any) -> None:
    n = var("n")
    a, b = decl_buffer((n,), "int32", "A"), decl_buffer((n - 2,), "int32", "B")
    pa, pb, i = var("a", "handle"), var("b", "handle"), var("i")
    body = S.For(i, 0, n - 2, SERIAL, store(b, load(a, i) + load(a, i + 2), i))
    module = compiled(S.PrimFunc([pa, pb], body, None, {pa: a, pb: b}))
    x, out = np.arange(9, dtype=np.int32), np.zeros(7, np.int32)
    module(x, out)
    np.testing.assert_array_equal(out, x[:-2] + x[2:])
    with pytest.raises(TilewrightError, match="B"):
        module(x, np.zeros(8, np.int32))


def test_a_symbol_that_no_argument_gives(compiled: Any) -> None:
    n = var("n")
    b = decl_buffer((n + 1,), "int32", "B")
    pb = var("b", "handle")
    with pytest.raises(CompileError, match="no argument gives the value of n"):
        compiled(S.PrimFunc([pb], store(b, 1, 0), None, {pb: b}))


# -- attributes


def test_attributes(program: Any) -> None:
    p = program(("int32", 1))
    body = store(p.buffers[0], 1, 0)

    def attr(key: str, node: Any = None) -> S.Stmt:
        return S.AttrStmt(node, key, 1, body)

    out = np.zeros(1, np.int32)
    p.compile(attr("pragma_auto_unroll_max_step"))(out)
    assert out[0] == 1
    out[0] = 0
    p.compile(attr("pragma_debug_skip_region"))(out)
    assert out[0] == 0
    with pytest.raises(CompileError, match="does not know the attribute 'surprise'"):
        p.compile(attr("surprise"))
    thread = IterVar(Range(0, 4), "threadIdx.x", IterVar.ThreadIndex, "threadIdx.x")
    with pytest.raises(CompileError, match=r"threadIdx\.x is bound to a GPU thread"):
        p.compile(attr("thread_extent", thread))
    with pytest.raises(CompileError, match="loop i is bound to a GPU thread"):
        p.compile(S.For(var("i"), 0, 4, 4, body))


def test_prefetch_changes_nothing_and_touches_each_line(program: Any) -> None:
    p = program(("float32", 256), ("float32", 1))
    box = S.Prefetch(p.buffers[0], [Range(0, 256)])
    module = p.compile(S.seq(box, store(p.buffers[1], load(p.buffers[0], 9), 0)))
    assert "llvm.prefetch" in module.get_source("ll")
    x, out = np.arange(256, dtype=np.float32), np.zeros(1, np.float32)
    module(x, out)
    assert out[0] == 9


def test_deep_programs(program: Any) -> None:
    p = program(("int32", 1))
    value: Any = load(p.buffers[0], 0)
    for _ in range(3000):
        value = E.Add(value, E.const(1))
    body: S.Stmt = store(p.buffers[0], value, 0)
    for k in range(3000):
        body = S.LetStmt(var(f"v{k}"), E.const(k), body)
    p.compile(body)(out := np.zeros(1, np.int32))
    assert out[0] == 3000


def test_undefined_variables_are_a_bug_of_the_compiler(program: Any) -> None:
    p = program(("int32", 1))
    with pytest.raises(InternalError, match="variable ghost has no value here"):
        p.compile(store(p.buffers[0], var("ghost"), 0))
