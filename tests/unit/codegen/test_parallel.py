"""Parallel loops: partition, captured values, workspaces, errors from threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilewright.base.errors import TilewrightError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.rt import threads

PARALLEL = S.ForKind.PARALLEL


@pytest.fixture(params=[1, 2, 5])
def team(request: pytest.FixtureRequest) -> Iterator[int]:
    threads.set_num_threads(request.param)
    yield request.param
    threads.set_num_threads(0)


def var(name: str, dtype: str = "int32") -> E.Var:
    return E.Var(name, dtype)


@pytest.mark.parametrize("extent", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("cyclic", [False, True])
def test_every_step_runs_once(program: Any, team: int, extent: int, cyclic: bool) -> None:
    p = program(("int32", 70))
    i = var("i")
    b = p.buffers[0]
    body: S.Stmt = S.BufferStore(b, E.BufferLoad(b, [i]) + i, [i])
    body = S.For(i, 3, extent, PARALLEL, body)
    if cyclic:
        body = S.AttrStmt(None, "pragma_parallel_stride_pattern", 1, body)
    p.compile(body)(out := np.ones(70, np.int32))
    want = [1 + k if 3 <= k < 3 + extent else 1 for k in range(70)]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("extent", [1, 2, 7, 64])
@pytest.mark.parametrize("around", ["parallel", "serial"])
def test_there_and_back(program: Any, team: int, extent: int, around: str) -> None:
    """Each step of each round runs once; the pool is told to go back in odd rounds."""
    p = program(("int32", 3 * 64))
    t, i = var("t"), var("i")
    place = t * 64 + i
    one = S.BufferStore(p.buffers[0], E.BufferLoad(p.buffers[0], [place]) + i + 1, [place])
    body: S.Stmt = S.For(i, 0, extent, PARALLEL, one)
    for level in ("parallel", "serial"):
        if level == "serial":
            body = S.For(t, 0, 3, 0, body)
        if level == around:
            body = S.AttrStmt(None, "pragma_parallel_there_and_back", 1, body)
    module = p.compile(body)
    module(out := np.zeros(3 * 64, np.int32))
    want = np.where(np.arange(64) < extent, np.arange(64) + 1, 0)
    np.testing.assert_array_equal(out.reshape(3, 64), np.tile(want, (3, 1)))
    if extent > 1:
        assert "i32 2, i32 0" in module.get_source("ll")


@pytest.mark.parametrize("extent, rows", [(24, 6), (25, 6), (6, 6), (60, 1)])
@pytest.mark.parametrize("first", [0, 3])
def test_rows_of_blocks(program: Any, team: int, extent: int, rows: int, first: int) -> None:
    """Each step runs once; the pool is told how many steps a block has."""
    p = program(("int32", 70))
    i = var("i")
    b = p.buffers[0]
    body: S.Stmt = S.BufferStore(b, E.BufferLoad(b, [i]) + i, [i])
    body = S.For(i, first, extent, PARALLEL, body)
    module = p.compile(S.AttrStmt(None, "pragma_parallel_rows", rows, body))
    module(out := np.ones(70, np.int32))
    want = [1 + k if first <= k < first + extent else 1 for k in range(70)]
    np.testing.assert_array_equal(out, want)
    assert f"sub i32 0, {rows}" in module.get_source("ll")


@pytest.mark.parametrize("first", [0, 5])
def test_there_and_back_turns_the_steps_of_a_piece(program: Any, first: int) -> None:
    """On one thread, which has one piece, each odd round runs from its last step to its first."""
    p = program(("int32", 3 * 8), ("int32", 1))
    order, counter = p.buffers
    t, i = var("t"), var("i")
    now = E.BufferLoad(counter, [0])
    one = S.SeqStmt(
        [
            S.BufferStore(order, now, [t * 8 + i - first]),
            S.BufferStore(counter, now + 1, [0]),
        ]
    )
    inner = S.AttrStmt(None, "pragma_parallel_there_and_back", 1, S.For(i, first, 8, PARALLEL, one))
    module = p.compile(S.For(t, 0, 3, 0, inner))
    threads.set_num_threads(1)
    try:
        module(out := np.zeros(24, np.int32), np.zeros(1, np.int32))
    finally:
        threads.set_num_threads(0)
    up = np.arange(8)
    np.testing.assert_array_equal(out.reshape(3, 8), [up, 15 - up, 16 + up])


def test_captured_values_of_all_types(program: Any, team: int) -> None:
    kinds = [
        "int8",
        "uint16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "bool",
    ]
    scalars = [var(f"s{k}", kind) for k, kind in enumerate(kinds)]
    vector = var("v", "float64x4")
    p = program(("float64", 64))
    i = var("i")
    total: Any = E.Cast("float64", i)
    for s in scalars:
        total = total + E.Cast("float64", s)
    at = E.Ramp(i * 4, 1, 4)
    value = E.Broadcast(total, 4) + vector
    body = S.For(i, 0, 16, PARALLEL, S.BufferStore(p.buffers[0], value, [at]))
    ramp = E.Cast("float64x4", E.Ramp(0, 1, 4))
    module = p.compile(S.LetStmt(vector, ramp, body), *scalars)
    out = np.zeros(64)
    module(out, -1, 2, 3, 4, 0.5, 0.25, 0.125, 1.5, True)
    want = np.repeat(np.arange(16), 4) + 11.375 + np.tile(np.arange(4), 16)
    np.testing.assert_array_equal(out, want)


def test_each_thread_has_its_own_slice(program: Any, team: int) -> None:
    n, rows = 40000, 6
    p = program(("float32", rows * n), ("float32", rows * n))
    a, b = p.buffers
    big = decl_buffer((n,), "float32", "big")
    small = decl_buffer((4,), "float32", "small")
    r, j, k = var("r"), var("j"), var("k")
    fill = S.For(j, 0, n, 0, S.BufferStore(big, E.BufferLoad(a, [r * n + j]) * 2.0, [j]))
    one = S.BufferStore(small, E.BufferLoad(big, [k]) + 1.0, [k - k])
    use = S.For(k, 0, n, 0, S.seq(one, S.BufferStore(b, E.BufferLoad(small, [0]), [r * n + k])))
    body = S.Allocate(big, S.Allocate(small, S.seq(fill, use)))
    module = p.compile(S.For(r, 0, rows, PARALLEL, body))
    assert "aligned_alloc" in module.get_source("ll")
    x, out = np.random.rand(rows * n).astype("f"), np.zeros(rows * n, np.float32)
    for _ in range(3):
        module(x, out)
        np.testing.assert_array_equal(out, x * 2 + 1)


def test_nested_parallel_loops_run_inside(program: Any, team: int) -> None:
    p = program(("int32", 64))
    i, j = var("i"), var("j")
    inner = S.For(j, 0, 8, PARALLEL, S.BufferStore(p.buffers[0], i * 8 + j, [i * 8 + j]))
    module = p.compile(S.For(i, 0, 8, PARALLEL, inner))
    assert module.get_source("ll").count("call i32 @tw_parallel") == 1
    module(out := np.zeros(64, np.int32))
    np.testing.assert_array_equal(out, np.arange(64))


def test_two_regions_share_the_slices(program: Any, team: int) -> None:
    p = program(
        ("float32", 64),
    )
    n = 20000
    parts = []
    for scale in (1.0, 10.0):
        tmp = decl_buffer((n,), "float32", "tmp")
        i = var("i")
        put = S.BufferStore(tmp, E.Cast("float32", i) * scale, [i])
        get = S.BufferStore(
            p.buffers[0], E.BufferLoad(p.buffers[0], [i]) + E.BufferLoad(tmp, [i]), [i]
        )
        parts.append(S.For(i, 0, 64, PARALLEL, S.Allocate(tmp, S.seq(put, get))))
    module = p.compile(S.seq(parts))
    module(out := np.zeros(64, np.float32))
    np.testing.assert_array_equal(out, np.arange(64) * 11)


def test_a_failed_check_in_a_thread_fails_the_call(program: Any, team: int) -> None:
    p = program(("int32", 64))
    i, bad = var("i"), var("bad")
    body = S.AssertStmt(
        i.equal(bad).astype("int32") < 1, "not this one", S.BufferStore(p.buffers[0], i, [i])
    )
    module = p.compile(S.For(i, 0, 64, PARALLEL, body), bad)
    module(out := np.zeros(64, np.int32), -1)
    np.testing.assert_array_equal(out, np.arange(64))
    for which in (0, 17, 63):
        with pytest.raises(TilewrightError, match="not this one"):
            module(out, which)


def test_no_threads_for_one_step(program: Any) -> None:
    p = program(("int32", 8))
    i = var("i")
    module = p.compile(S.For(i, 0, 1, PARALLEL, S.BufferStore(p.buffers[0], 5, [i])))
    assert "tw_parallel" not in module.get_source("ll")
    module(out := np.zeros(8, np.int32))
    assert out[0] == 5
