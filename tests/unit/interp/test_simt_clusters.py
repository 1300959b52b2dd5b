"""Clusters of blocks in simt: what kernels by hand give, and what is found where their order is
broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.narrow import as_a
from tests.unit.interp import cluster_kit as kit
from tests.unit.interp.hopper_kit import edited, evaluate, without
from tilewright.base.errors import ArgumentError
from tilewright.interp import simt_launch
from tilewright.interp.simt import run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.calls import storage_sync

BOTH = ((4,), 2)


def kinds(kernel: S.PrimFunc, grid: Any = BOTH[0], cluster: int = BOTH[1]) -> set[str]:
    return {f.kind for f in kit.run_exchange(kernel, grid, cluster)[2].findings}


def changed(name: str, change: Callable[[E.Call, int], Any]) -> set[str]:
    """What is found where calls of a name are others; `change` gets the number of each."""
    seen = [-1]

    def one(call: E.Call) -> Any:
        if call.op.name != f"tir.{name}":
            return call
        seen[0] += 1
        return change(call, seen[0])

    return kinds(edited(kit.exchange(*BOTH), one))


# -- right kernels


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize(
    ("grid", "cluster"),
    [
        ((2,), 2), ((6,), 2), ((8,), 4), ((8,), 8), ((16,), 8), ((3,), 1), ((4, 3), 2),
        ((2, 3, 2), 2), ((8, 1, 2), 4),
    ],
)  # fmt: skip
def test_blocks_bring_each_other_what_they_have(
    grid: tuple[int, ...], cluster: int, steps: int
) -> None:
    kernel = kit.exchange(grid, cluster, steps)
    got, want, report = kit.run_exchange(kernel, grid, cluster, steps)
    assert report.findings == []
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("lanes", [1, 128, 200, 700])
def test_clusters_stay_whole_where_not_all_blocks_run_at_once(
    lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simt_launch, "_LANES", lanes)
    for grid, cluster in (((12,), 4), ((6, 2, 2), 2)):
        got, want, report = kit.run_exchange(kit.exchange(grid, cluster), grid, cluster)
        assert report.findings == []
        np.testing.assert_array_equal(got, want)


def passed_on(meet: Any, cluster: int, among: int) -> tuple[set[str], bool]:
    out, between = (np.zeros(4 * kit.THREADS, np.int32) for _ in range(2))
    kernel = kit.through_memory(4, cluster, among, meet)
    report = run_kernel(kernel, None, [out, between], check=False)
    blocks = np.arange(4)
    blocks = blocks - blocks % among + (blocks % among + 1) % among
    want = blocks[:, None] * kit.THREADS + np.arange(kit.THREADS)
    return {f.kind for f in report.findings}, bool((out == want.reshape(-1)).all())


@pytest.mark.parametrize(
    ("scope", "cluster", "among", "found"),
    [
        ("cluster", 2, 2, set()),
        ("cluster", 4, 4, set()),
        ("cluster", 2, 4, {"race between blocks"}),  # two of them are of the other cluster
        ("global", 2, 4, set()),
        ("shared", 2, 2, {"race between blocks"}),
    ],
)
def test_what_blocks_wrote_to_memory(scope: str, cluster: int, among: int, found: set[str]) -> None:
    meet = H.ptx_cluster_sync() if scope == "cluster" else storage_sync(scope)
    assert passed_on(meet, cluster, among) == (found, True)


def read_and_written(reader: int, meet: Any, cluster: int) -> set[str]:
    """A thread of another block reads an element, then two of the first block do; they meet, and
    one of them writes it."""
    out, shared = decl_buffer((256,), "int32", "OUT"), decl_buffer((1,), "int32", "IN")
    x, t = kit.BLOCKS["blockIdx.x"], kit.THREAD
    first = E.const(0)

    def reads(condition: Any) -> S.Stmt:
        copy = S.BufferStore(out, E.BufferLoad(shared, [first]), [x * 64 + t])
        return S.IfThenElse(condition, copy)

    body = S.seq(
        reads(E.And(x.equal(reader), t.equal(0))),
        reads(E.And(x.equal(0), t.equal(1))),
        reads(E.And(x.equal(0), t.equal(2))),
        S.Evaluate(meet),
        S.IfThenElse(E.And(x.equal(0), t.equal(3)), S.BufferStore(shared, E.const(1), [first])),
    )
    attrs = {"global_symbol": "f"}
    params = [out.data, shared.data]
    kernel = S.PrimFunc(params, kit.launched(body, (4,), cluster), None, {}, attrs)
    args = [np.zeros(256, np.int32), np.zeros(1, np.int32)]
    return {f.kind for f in run_kernel(kernel, None, args, check=False).findings}


@pytest.mark.parametrize("cluster", [1, 2])
def test_reads_of_other_blocks_are_not_forgotten(cluster: int) -> None:
    """Those of the own block come later, and are in order with the write."""
    race, near = {"race between blocks"}, storage_sync("shared")
    assert read_and_written(1, near, cluster) == race
    assert read_and_written(2, near, cluster) == race
    assert read_and_written(0, near, cluster) == set()
    assert read_and_written(1, H.ptx_cluster_sync(), cluster) == (race if cluster == 1 else set())
    assert read_and_written(2, H.ptx_cluster_sync(), cluster) == race
    assert read_and_written(2, storage_sync("global"), cluster) == set()


# -- what is left out, or is somewhere else


@pytest.mark.parametrize(
    ("name", "which", "kind"),
    [
        ("ptx_cluster_sync", 0, "race"),  # barriers of the other block are made later, maybe
        ("ptx_cluster_sync", 1, "race between blocks"),  # the other block may have ended
        ("ptx_wait_barrier", 0, "async copy not waited for"),
        ("ptx_wait_barrier", 1, "race between blocks"),  # nobody waits until the stage is free
        ("ptx_arrive_barrier_cluster", 0, "deadlock"),
        ("ptx_arrive_barrier_cluster", 1, "deadlock"),
        ("ptx_arrive_barrier_expect_tx", 0, "deadlock"),
        ("ptx_fence_barrier_init", -1, "missing fence"),
        ("ptx_init_barrier_thread_count", 1, "unwritten memory"),
        ("ptx_cp_async_bulk_tensor_multicast", 0, "deadlock"),
    ],
)
def test_what_is_left_out_is_found(name: str, which: int, kind: str) -> None:
    assert kind in kinds(without(kit.exchange(*BOTH), name, which))


@pytest.mark.parametrize("which", [0, 1])
def test_a_barrier_of_the_block_is_none_of_the_cluster(which: int) -> None:
    def other(call: E.Call, number: int) -> Any:
        return storage_sync("shared") if number == which else call

    found = changed("ptx_cluster_sync", other)
    assert found == {"race" if which == 0 else "race between blocks"}


def test_arrivals_at_the_own_block_alone_say_nothing_to_others() -> None:
    """As many as are waited for, of the own threads: the other block's are not heard."""

    def own(call: E.Call, number: int) -> Any:
        return H.ptx_arrive_barrier(call.args[0])

    assert changed("ptx_arrive_barrier_cluster", own) >= {"race between blocks"}


def test_arrivals_at_the_other_block_alone_leave_out_the_own() -> None:
    def other(call: E.Call, number: int) -> Any:
        return H.ptx_arrive_barrier(call.args[0], 1 - H.ptx_cluster_rank())

    assert "race" in changed("ptx_arrive_barrier_cluster", other)


def through_barrier(others: bool) -> S.Stmt:
    """All threads arrive at the barrier of the other block, or of their own, and wait at their
    own."""
    rank = H.ptx_cluster_rank()
    return S.seq(
        evaluate(H.create_barriers(1)),
        kit.first_thread(
            H.ptx_init_barrier_thread_count(0, kit.THREADS), H.ptx_fence_barrier_init()
        ),
        evaluate(H.ptx_cluster_sync()),
        S.BufferStore(BETWEEN, E.const(1), [kit.BLOCKS["blockIdx.x"] * kit.THREADS + kit.THREAD]),
        evaluate(H.ptx_arrive_barrier(0, 1 - rank if others else rank), H.ptx_wait_barrier(0)),
    )


BETWEEN = decl_buffer((2 * kit.THREADS,), "int32", "BETWEEN")


@pytest.mark.parametrize("others", [True, False])
def test_a_barrier_shows_other_blocks_no_stores(others: bool) -> None:
    """mbarrier.arrive releases to its own block, where it names no scope."""
    x, out = kit.BLOCKS["blockIdx.x"], decl_buffer((2 * kit.THREADS,), "int32", "OUT")
    block: Any = 1 - x if others else x
    back = E.BufferLoad(BETWEEN, [block * kit.THREADS + kit.THREADS - 1 - kit.THREAD])
    body = S.seq(
        through_barrier(others),
        S.BufferStore(out, back, [x * kit.THREADS + kit.THREAD]),
        evaluate(H.ptx_cluster_sync()),
    )
    attrs = {"global_symbol": "f"}
    params = [out.data, BETWEEN.data]
    kernel = S.PrimFunc(params, kit.launched(body, (2,), 2), None, {}, attrs)
    args = [np.zeros(2 * kit.THREADS, np.int32) for _ in range(2)]
    found = {f.kind for f in run_kernel(kernel, None, args, check=False).findings}
    assert found == ({"race between blocks"} if others else set())


def test_a_mask_that_leaves_a_block_out() -> None:
    def few(call: E.Call, number: int) -> Any:
        to, source, barrier, _, *at = call.args
        return H.ptx_cp_async_bulk_tensor("int32", to, source, at, barrier, 1)

    assert "deadlock" in changed("ptx_cp_async_bulk_tensor_multicast", few)


@pytest.mark.parametrize("mask", [7, 4, -1, 1 << 20])
def test_a_mask_of_blocks_that_no_cluster_has(mask: int) -> None:
    def more(call: E.Call, number: int) -> Any:
        to, source, barrier, _, *at = call.args
        return H.ptx_cp_async_bulk_tensor("int32", to, source, at, barrier, mask)

    assert "out of bounds" in changed("ptx_cp_async_bulk_tensor_multicast", more)


@pytest.mark.parametrize("rank", [2, -1])
def test_an_arrival_at_a_block_that_no_cluster_has(rank: int) -> None:
    def beyond(call: E.Call, number: int) -> Any:
        return H.ptx_arrive_barrier(call.args[0], rank) if number == 0 else call

    assert "out of bounds" in changed("ptx_arrive_barrier_cluster", beyond)


def test_blocks_that_copy_to_one_place() -> None:
    """All bytes come, but both to the first half."""

    def same(call: E.Call, number: int) -> Any:
        to, source, barrier, mask, *at = call.args
        args = (*as_a(E.Call, to).args[:2], E.const(0), *as_a(E.Call, to).args[3:])
        first = E.Call("handle", "tir.tvm_access_ptr", args)
        return H.ptx_cp_async_bulk_tensor("int32", first, source, at, barrier, mask)

    found = changed("ptx_cp_async_bulk_tensor_multicast", same)
    assert found >= {"race between blocks", "unwritten memory"}


@pytest.mark.parametrize(("condition", "kind"), [("thread", True), ("block", True), ("x", False)])
def test_threads_of_a_cluster_that_do_not_meet(condition: str, kind: bool) -> None:
    """Some of a block, or all of one of two; a whole cluster may stay away."""
    x = kit.BLOCKS["blockIdx.x"]
    where = {"thread": kit.THREAD < 32, "block": E.FloorMod(x, E.const(2)).equal(0), "x": x < 2}
    body = S.IfThenElse(where[condition], S.Evaluate(H.ptx_cluster_sync()))
    kernel = S.PrimFunc([], kit.launched(body, (4,), 2), None, {}, {"global_symbol": "f"})
    report = run_kernel(kernel, None, [], check=False)
    assert ("barrier under divergence" in {f.kind for f in report.findings}) == kind


def test_one_cluster_meets_at_the_end_and_another_does_not() -> None:
    x = kit.BLOCKS["blockIdx.x"]

    def some(call: E.Call, number: int) -> Any:
        return call if number == 0 else S.IfThenElse(x < 2, S.Evaluate(call))

    assert changed("ptx_cluster_sync", some) == {"race between blocks"}


def test_blocks_that_keep_to_themselves_need_not_meet_at_the_end() -> None:
    """Copies and arrivals that name the own block alone."""

    def change(call: E.Call) -> Any:
        name, args = call.op.name, call.args
        if name == "tir.ptx_cp_async_bulk_tensor_multicast":
            to, source, barrier, _, *at = args
            own = E.Call("int32", "tir.shift_left", (E.const(1), H.ptx_cluster_rank()))
            return H.ptx_cp_async_bulk_tensor("int32", to, source, at, barrier, own)
        if name == "tir.ptx_arrive_barrier_cluster":
            return H.ptx_arrive_barrier(args[0], H.ptx_cluster_rank())
        if name == "tir.ptx_arrive_barrier_expect_tx":
            return H.ptx_arrive_barrier_expect_tx(args[0], 4 * kit.WIDE)
        return call

    kernel = without(edited(kit.exchange(*BOTH), change), "ptx_cluster_sync", 1)
    assert "race between blocks" not in kinds(kernel)  # but half of the stage is missing


def test_a_block_does_not_end_while_copies_to_it_are_under_way() -> None:
    """Nobody reads what comes, and nobody waits for it."""
    kernel = kit.exchange(*BOTH, 1, reads=False)
    assert kinds(kernel) == set()
    assert kinds(without(kernel, "ptx_wait_barrier", 0)) == {"async copy not waited for"}


def test_grids_that_are_no_whole_clusters() -> None:
    with pytest.raises(
        ArgumentError, match=r"clusters of 2 blocks along .*, which do not divide 3"
    ):
        kit.run_exchange(kit.exchange((3, 2), 2), (3, 2), 2)
