"""lower_warp_memory: buffers of scope "warp" become registers, read by shuffles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.unit.lowering.kernels import kernel_of, run_schedule, small_integers
from tilewright import te, tir
from tilewright.base.errors import CompileError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.iter import IterVar, Range
from tilewright.loopir.stmt import PrimFunc
from tilewright.lowering.lower_warp_memory import lower_warp_memory
from tilewright.target.target import Target


def cached(
    n: int,
    read: Callable[[Any, Any], Any],
    width: int = 32,
    each: int = 1,
    rows: int = 1,
    dtype: str = "float32",
) -> tuple[Any, list[Any]]:
    """B[i] = read(A, i), with a tile of A in the memory of a warp; `each` elements a lane."""
    a = te.placeholder((n,), name="A", dtype=dtype)
    b = te.compute((n,), lambda i: read(a, i), name="B")
    s = te.create_schedule(b.op)
    local = s.cache_read(a, "warp", [b])
    tx = te.thread_axis("threadIdx.x")
    outer, inner = s[b].split(b.op.axis[0], factor=width * each)
    block, row = s[b].split(outer, factor=rows)
    lane, _ = s[b].split(inner, factor=each)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(row, te.thread_axis("threadIdx.y"))
    s[b].bind(lane, tx)
    s[local].compute_at(s[b], row)
    held, _ = s[local].split(local.op.axis[0], factor=each)
    _, mine = s[local].split(held, factor=width)
    s[local].bind(mine, tx)
    return s, [a, b]


def rotated(tile: int, by: int) -> Callable[[Any, Any], Any]:
    return lambda a, i: a[i // tile * tile + (i % tile + by) % tile]


def want_rotated(a: np.ndarray, tile: int, by: int) -> np.ndarray:
    return np.roll(a.reshape(-1, tile), -by, axis=1).reshape(-1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
@pytest.mark.parametrize(("width", "rows"), [(32, 1), (32, 2), (16, 4), (8, 2), (4, 1)])
@pytest.mark.parametrize("by", [0, 1, 3])
def test_rotation(by: int, width: int, rows: int, dtype: str) -> None:
    s, args = cached(128, rotated(width, by), width, rows=rows, dtype=dtype)
    a, b = small_integers((128,), dtype), np.zeros(128, dtype)
    report = run_schedule(s, args, {"A": a, "B": b})
    np.testing.assert_array_equal(b, want_rotated(a, width, by))
    assert (report.shuffles > 0) == (by > 0)
    text = str(kernel_of(s, args))
    assert '"warp"' not in text
    assert '"shared"' not in text


def test_several_elements_a_lane() -> None:
    # each lane holds 4 neighbours; element i + 4 is the same register of the next lane
    s, args = cached(256, rotated(128, 4), each=4)
    a, b = np.arange(256, dtype="float32"), np.zeros(256, "float32")
    run_schedule(s, args, {"A": a, "B": b})
    np.testing.assert_array_equal(b, want_rotated(a, 128, 4))
    assert "T.allocate([4]" in str(kernel_of(s, args))


def test_shuffle_moves_out_of_a_guard() -> None:
    # the last block has 4 elements: its other lanes still take part in the shuffle
    s, args = cached(100, lambda a, i: a[te.min(i // 32 * 32 + (i % 32 + 1) % 32, 99)])
    a, b = np.arange(100, dtype="float32"), np.zeros(100, "float32")
    run_schedule(s, args, {"A": a, "B": b})
    i = np.arange(100)
    np.testing.assert_array_equal(b, a[np.minimum(i // 32 * 32 + (i % 32 + 1) % 32, 99)])


def test_shuffle_moves_out_of_a_condition() -> None:
    def read(a: Any, i: Any) -> Any:
        return tir.if_then_else(i % 32 < 31, a[i + 1], E.const(0.0, "float32"))

    s, args = cached(64, read)
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    run_schedule(s, args, {"A": a, "B": b})
    want = np.append(a[1:], 0)
    want[31::32] = 0
    np.testing.assert_array_equal(b, want)


# -- what cannot be

TX = IterVar(Range(32), E.Var("threadIdx.x", "int32"), IterVar.ThreadIndex, "threadIdx.x")
OUT = Buffer((64,), "float32", "Out")
W = Buffer((64,), "float32", "W", scope="warp")


def by_hand(*body: S.Stmt, threads: int = 32, buffer: Buffer = W) -> PrimFunc:
    whole: S.Stmt = S.Allocate(buffer, S.seq(body))
    whole = S.AttrStmt(TX, "thread_extent", threads, whole)
    return PrimFunc([OUT.data], whole, None, {OUT.data: OUT}, {"global_symbol": "main"})


def store(index: Any, buffer: Buffer = W) -> S.Stmt:
    return S.BufferStore(buffer, E.const(1.0, "float32"), [index])


def refused(func: PrimFunc, text: str, target: str = "cuda") -> None:
    with pytest.raises(CompileError, match=text) as caught:
        lower_warp_memory(func, Target(target))
    if str(caught.value).startswith("buffer "):  # what else could be used
        assert "scope 'shared'" in str(caught.value)


def test_errors() -> None:
    x = TX.var
    refused(by_hand(store(x), threads=64), "at most a warp of 32")
    refused(by_hand(store(x), threads=24), "a divisor of it")
    refused(by_hand(store(x)), "cannot read each other's registers", "opencl")
    refused(by_hand(store((x + 1) % 32)), "no multiple of threadIdx.x")
    refused(by_hand(store(x + 1)), "goes to lane")
    refused(by_hand(store(x), store(x * 2)), r"\[1, 2\] elements")
    read = S.BufferStore(OUT, W[x // 16 * 32 + (x + 1) % 32], [x])
    refused(by_hand(store(x), read), "another register in each lane")
    again = S.IfThenElse(x < 4, S.seq(store(x), S.BufferStore(OUT, W[(x + 1) % 32], [x])))
    refused(by_hand(store(x), again), "cannot be read before it")
    n = E.Var("n", "int32")
    symbolic = Buffer((n,), "float32", "V", scope="warp")
    refused(by_hand(store(x, symbolic), buffer=symbolic), "not a constant")
    alone = PrimFunc([], S.Allocate(W, store(0)), None, {}, {"global_symbol": "main"})
    refused(alone, "outside of kernels")


def test_functions_without_warp_memory_stay() -> None:
    func = PrimFunc([OUT.data], store(0, OUT), None, {}, {"global_symbol": "main"})
    assert lower_warp_memory(func, Target("cuda")) is func


def test_lanes_are_found_where_lets_name_parts_of_indices() -> None:
    n = 128
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: rotated(32, 1)(a, i), name="B")
    s = te.create_schedule(b.op)
    local = s.cache_read(a, "warp", [b])
    block, inner = s[b].split(b.op.axis[0], 64)
    _, lane = s[b].split(inner, factor=32)
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(lane, tx)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[local].compute_at(s[b], block)
    _, mine = s[local].split(local.op.axis[0], 32)
    s[local].bind(mine, tx)
    assert "cse_var_1" in str(tvm.lower(s, [a, b]))
    arrays = {"A": small_integers((n,), "float32"), "B": np.zeros(n, "float32")}
    run_schedule(s, [a, b], arrays)
    np.testing.assert_array_equal(arrays["B"], want_rotated(arrays["A"], 32, 1))
