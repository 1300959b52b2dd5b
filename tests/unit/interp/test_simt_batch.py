"""Loops of stores to memory of a thread, which simt runs in one go: nothing may show of it."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import Write, kinds, make_kernel, numbers, zeros
from tilewright import tir
from tilewright.interp import simt_batch
from tilewright.interp.simt import run_kernel

SIZES = {"A": ("float32", 256), "B": ("float32", 256), "C": ("int32", 256)}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many iterations have run in one go, of each loop that did."""
    found: list[int] = []
    original = simt_batch._Batch._part

    def counting(self: Any, st: Any, lows: Any, extents: Any, first: int, end: int) -> bool:
        done = original(self, st, lows, extents, first, end)
        found.extend([end - first] if done else [])
        return done

    monkeypatch.setattr(simt_batch._Batch, "_part", counting)
    return found


def _give(ib: Any, k: Any, local: Any, count: int = 16) -> None:
    """Tell of a thread's memory: each element weighs in its own way."""
    with ib.for_range(0, count, name="out") as n:
        k.B[k.tx] = k.B[k.tx] * 3.0 + local[n]


def _nest(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 4, name="i") as i, ib.for_range(0, 4, name="j") as j:
        local[i * 4 + j] = k.A[i * 16 + j] * 2.0 + k.A[k.tx]
    _give(ib, k, local)


def _two_buffers(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    other = ib.allocate("float32", (32,), "o", scope="local")
    with ib.for_range(0, 16, name="i") as i:
        other[i] = k.A[k.tx + i]
        other[i + 16] = k.A[i] - 1.0
    with ib.for_range(0, 16, name="i") as i:
        local[15 - i] = other[i] * other[i + 16]
    _give(ib, k, local)


def _own_elements(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 16, name="i") as i:
        local[i] = k.A[i]
    with ib.for_range(0, 3, name="j") as j, ib.for_range(0, 16, name="i") as i:
        local[i] = local[i] * 0.5 + k.A[k.tx + j]
        local[i] = local[i] + 1.0
    _give(ib, k, local)


def _lets(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 8, name="i") as i:
        at = ib.let("at", i * 2 + 1)
        value = ib.let("value", k.A[k.tx + at])
        local[at] = value
        local[at - 1] = tir.if_then_else(k.tx < 5, value * value, k.A[at])
    _give(ib, k, local)


def _lanes_of_their_own(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (48,), "l", scope="local")
    with ib.for_range(0, 48, name="i") as i:
        local[i] = 0.0
    with ib.for_range(0, 16, name="i") as i:
        local[i + k.tx] = k.A[i * 2]
    _give(ib, k, local, 48)


def _masked(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 16, name="i") as i:
        local[i] = 5.0
    with ib.if_scope(k.tx < 7), ib.for_range(0, 16, name="i") as i:
        local[i] = local[i] + k.A[i]
    _give(ib, k, local)


def _condition(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 16, name="i") as i:
        local[i] = tir.Select(tir.all(i > 3, k.tx + i < 20), k.A[i], tir.sqrt(k.A[i + 16]))
    _give(ib, k, local)


def _same_reads(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.if_scope(k.tx > 3), ib.for_range(0, 16, name="i") as i:
        first = ib.let("first", k.A[k.tx * 2])
        local[i] = first * first + k.A[3] + k.A[i]
    with ib.if_scope(k.tx > 3):
        _give(ib, k, local)


IN_ONE_GO: dict[str, tuple[Write, list[int]]] = {
    "a nest": (_nest, [16]),
    "two buffers": (_two_buffers, [16, 16]),
    "elements of their own, read and written": (_own_elements, [16] * 4),
    "lets": (_lets, [8]),
    "indices of threads": (_lanes_of_their_own, [48, 16]),
    "some threads": (_masked, [16, 16]),
    "conditions": (_condition, [16]),
    "reads that are the same in all iterations": (_same_reads, [16]),
}


def _again(write: Write) -> Write:
    """Twice, for the first time of a statement that reads global memory is looked at closely."""

    def run(ib: Any, k: Any) -> None:
        with ib.for_range(0, 2, name="again"):
            write(ib, k)

    return run


def _compare(write: Write, parts: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Run with and without; gives how many iterations ran in one go, of each loop of the last
    round."""
    results, reports, found = [], [], []
    for fewest in (simt_batch._FEWEST, 1 << 30):
        monkeypatch.setattr(simt_batch, "_FEWEST", fewest)
        args = numbers(256), zeros(256), zeros(256, "int32")
        reports.append(run_kernel(make_kernel(_again(write), SIZES), None, args))
        results.append(args[1])
        found.append(list(parts))
        parts.clear()
    np.testing.assert_array_equal(*results)
    assert results[0].any()
    first, second = reports
    assert first.traffic == second.traffic and first.coalescing == second.coalescing
    assert found[1] == []
    return found[0]


@pytest.mark.parametrize("name", IN_ONE_GO)
def test_same_results_and_counts(
    name: str, parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, expected = IN_ONE_GO[name]
    found = _compare(write, parts, monkeypatch)
    assert found[len(found) - len(expected) :] == expected


def _carried(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (17,), "l", scope="local")
    local[0] = k.A[k.tx]
    with ib.for_range(0, 16, name="i") as i:
        local[i + 1] = local[i] + k.A[i]
    _give(ib, k, local)


def _sum(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 16, name="i") as i:
        local[i] = 0.0
    with ib.for_range(0, 16, name="i") as i:
        local[0] = local[0] * 0.5 + k.A[i]
    _give(ib, k, local)


def _meeting(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 16, name="i") as i:
        local[i] = 0.0
    with ib.for_range(0, 16, name="i") as i:
        local[tir.floordiv(i, 2)] = k.A[i]
    with ib.for_range(0, 15, name="i") as i:
        local[i] = k.A[i + 1]
        local[i + 1] = k.A[i] * 2.0
    _give(ib, k, local)


def _guarded_read(ib: Any, k: Any) -> None:
    local = ib.allocate("float32", (16,), "l", scope="local")
    with ib.for_range(0, 16, name="i") as i:
        local[i] = tir.if_then_else(i > 0, k.A[i - 1], tir.const(7.0, "float32"))
    _give(ib, k, local)


ONE_BY_ONE: dict[str, tuple[Write, int]] = {
    "what an iteration before wrote": (_carried, 0),
    "a sum": (_sum, 2),
    "elements that several iterations write": (_meeting, 2),
    "reads where a condition lets them": (_guarded_read, 0),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_iterations_that_need_each_other(
    name: str, parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, others = ONE_BY_ONE[name]
    assert len(_compare(write, parts, monkeypatch)) == others


def test_in_parts_where_values_are_large(parts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simt_batch, "_ELEMENTS", 32 * 10)
    assert _compare(_masked, parts, monkeypatch)[-2:] == [10, 6]


def test_given_up_in_the_middle(parts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part does not see that later iterations meet."""

    def write(ib: Any, k: Any) -> None:
        local = ib.allocate("float32", (16,), "l", scope="local")
        with ib.for_range(0, 16, name="i") as i:
            local[tir.max(i, 12)] = 1.0
            local[i] = tir.Cast("float32", i) * 3.0
        with ib.for_range(0, 20, name="i") as i:
            local[tir.min(i, 15)] = tir.Cast("float32", i * 2)
        _give(ib, k, local)

    monkeypatch.setattr(simt_batch, "_ELEMENTS", 32 * 10)
    assert _compare(write, parts, monkeypatch) == [10]


def test_findings_are_the_same(parts: list[int]) -> None:
    def outside(ib: Any, k: Any) -> None:
        local = ib.allocate("float32", (8,), "l", scope="local")
        with ib.for_range(0, 9, name="i") as i:
            local[i] = 1.0
        k.B[k.tx] = local[k.tx % 8]

    def unwritten(ib: Any, k: Any) -> None:
        local = ib.allocate("float32", (16,), "l", scope="local")
        other = ib.allocate("float32", (16,), "o", scope="local")
        with ib.for_range(0, 8, name="i") as i:
            local[i] = 1.0
        with ib.for_range(0, 16, name="i") as i:
            other[i] = local[i]
        k.B[k.tx] = other[k.tx % 16]

    args = numbers(256), zeros(256), zeros(256, "int32")
    assert kinds(make_kernel(outside, SIZES), *args) == ["out of bounds"]
    assert kinds(make_kernel(unwritten, SIZES), *args) == ["unwritten memory"]
    assert parts == [9, 8, 16]


def test_local_memory_of_vectors() -> None:
    def write(ib: Any, k: Any) -> None:
        local = ib.allocate("float32x4", (8,), "l", scope="local")
        with ib.for_range(0, 8, name="i") as i:
            local[i] = k.V[i] * tir.const(2.0, "float32x4")
        with ib.for_range(0, 8, name="i") as i:
            k.W[k.tx * 8 + i] = local[i]

    v, w = numbers(32), zeros(32 * 32)
    run_kernel(make_kernel(write, {"V": ("float32x4", 8), "W": ("float32x4", 256)}), None, [v, w])
    np.testing.assert_array_equal(w.reshape(32, 32), np.tile(v * 2, (32, 1)))


def test_what_lanes_have_not_written_is_seen() -> None:
    """Also after the lanes of a mask have written it, and where memory is given out anew."""

    def write(ib: Any, k: Any, readers: int, rounds: int) -> None:
        with ib.for_range(0, 2, name="again") as again:
            local = ib.allocate("float32", (16,), "l", scope="local")
            with ib.if_scope(k.tx < 9):
                with ib.if_scope(again < rounds), ib.for_range(0, 16, name="i") as i:
                    local[i] = 1.0
                with ib.for_range(0, 3, name="j"), ib.for_range(0, 16, name="i") as i:
                    local[i] = local[i] + 1.0
            with ib.if_scope(k.tx < readers):
                k.B[k.tx] = local[2]

    args = numbers(256), zeros(256), zeros(256, "int32")
    for readers, rounds, unwritten in ((9, 2, False), (10, 2, True), (9, 1, True)):
        kernel = make_kernel(partial(write, readers=readers, rounds=rounds), SIZES)
        assert set(kinds(kernel, *args)) == ({"unwritten memory"} if unwritten else set())
