"""Hopper's barriers, copies by tensor maps and products of warp groups in simt: what they give, and
what is found where something is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.interp import hopper_kit as kit
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.base.tensor_map import TensorMap
from tilewright.interp.simt import SimtArray, SimtMap, run_kernel
from tilewright.interp.simt_tma import swizzled
from tilewright.interp.simt_wgmma import sum_places, tile_addresses
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.calls import storage_sync
from tilewright.loopir.visit import nodes
from tilewright.lowering.sync_threads import sync_threads

# -- layouts


@pytest.mark.parametrize(
    ("address", "span", "place"),
    [
        # 128 bytes: a piece's number within its row of 128 bytes, xor the row's number within eight
        (0x0000, 128, 0x0000),
        (0x0080, 128, 0x0090),  # row 1, piece 0: piece 1
        (0x01D4, 128, 0x01E4),  # row 3, piece 5, its byte 4: piece 6
        (0x03F2, 128, 0x0382),  # row 7, piece 7: piece 0
        (0x0480, 128, 0x0490),  # row 9 is as row 1
        # 64 bytes: rows of 64, two of which have one number
        (0x0040, 64, 0x0040),  # row 1
        (0x0080, 64, 0x0090),  # row 2, piece 0: piece 1
        (0x01B0, 64, 0x0180),  # row 6, piece 3: piece 0
        # 32 bytes: rows of 32, four of which have one number
        (0x0060, 32, 0x0060),  # row 3
        (0x0080, 32, 0x0090),  # row 4, piece 0: piece 1
        (0x00F8, 32, 0x00E8),  # row 7, piece 1: piece 0
        (0x0080, 0, 0x0080),
    ],
)
def test_the_swizzle(address: int, span: int, place: int) -> None:
    assert int(swizzled(np.array(address), span)) == place


def test_each_swizzle_is_its_own_inverse_within_its_pattern() -> None:
    for span in (32, 64, 128):
        every = np.arange(8 * span)
        there = swizzled(every, span)
        assert sorted(there) == list(every) and (swizzled(there, span) == every).all()


@pytest.mark.parametrize(
    ("descriptor", "flip", "line", "k", "address"),
    [
        # K runs along rows of 128 bytes from 0x400; eight rows in 1024 bytes
        (0x4000004000010040, False, 9, 3, 0x400 + (1024 + 128 + 0x16)),
        # rows of 64 bytes, eight in 512, from 0x200 and 32 bytes into the row: piece 3 of row 3
        (0x8000002000010022, False, 3, 12, 0x200 + (3 * 64 + 0x28)),
        # rows of 32 bytes, eight in 256: row 4 of the second eight, piece 1 becomes 0
        (0xC000001000010000, False, 12, 8, 256 + 4 * 32),
        # none: core matrices of 8 rows of 16 bytes; 128 to the next rows, 0x400 to the next k
        (0x0000000800400000, False, 10, 9, 128 + 2 * 16 + 0x400 + 2),
        # lines along rows of 128 bytes, 64 of them; 8192 to the next 64, 1024 to the next 8 steps
        (0x4000004002000000, True, 70, 9, 8192 + 1024 + 128 + 0x1C),
        # none: 8 lines a row of 16 bytes; 0x200 to the next 8 lines, 128 to the next 8 steps
        (0x0000002000080000, True, 17, 11, 2 * 0x200 + 128 + 3 * 16 + 2),
    ],
)
def test_where_descriptors_lead(
    descriptor: int, flip: bool, line: int, k: int, address: int
) -> None:
    found = tile_addresses(np.array([descriptor], np.uint64), 128, flip)
    assert found.shape == (1, 128, 16)
    assert int(found[0, line, k]) == address


def test_which_register_of_which_thread_has_each_sum() -> None:
    row, column = sum_places(32)
    # thread 0 of warp 0: d0 and d1 are in row 0, d2 and d3 in row 8; d4 begins the next 8 columns
    assert [(int(r), int(c)) for r, c in zip(row[:5, 0], column[:5, 0])] == [
        (0, 0), (0, 1), (8, 0), (8, 1), (0, 8),
    ]  # fmt: skip
    # thread 13 of warp 2, of the whole thread 77: row 16 * 2 + 13 / 4, columns 2 * (13 % 4)
    assert (int(row[0, 77]), int(column[0, 77])) == (35, 2)
    assert (int(row[15, 77]), int(column[15, 77])) == (43, 27)
    places = set(zip(row.reshape(-1).tolist(), column.reshape(-1).tolist()))
    assert places == {(i, j) for i in range(64) for j in range(32)}


@pytest.mark.parametrize("flips", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_products_in_every_layout(span: int, flips: tuple[bool, bool]) -> None:
    dtype = "bfloat16" if span == 64 else "float16"
    columns = 24 if flips[1] else 40
    a = kit.Side("A", kit.ROWS, dtype, span, flips[0])
    b = kit.Side("B", columns, dtype, span, flips[1])
    x, y = kit.draw(a.shape, dtype, span), kit.draw(b.shape, dtype, span + 1)
    out = np.zeros(kit.ROWS * columns, np.float32)
    args = [out, SimtMap(x, a.described()), SimtMap(y, b.described())]
    report = run_kernel(kit.product_kernel(a, b), None, args)
    assert report.findings == []
    left = (x.T if a.flip else x).astype(np.float32)
    right = (y if b.flip else y.T).astype(np.float32)
    np.testing.assert_array_equal(out.reshape(kit.ROWS, columns), left @ right)


def run_with_registers(
    dtype: str, flip: bool, fence: bool = True, early: bool = False
) -> tuple[np.ndarray, np.ndarray, set[str]]:
    b = kit.Side("B", 64 if flip else 40, dtype, 128, flip)
    x, y = kit.draw((kit.ROWS, kit.DEPTH), dtype, 1), kit.draw(b.shape, dtype, 2)
    out = np.zeros(kit.ROWS * b.lines, np.float32)
    args = [out, x.reshape(-1), SimtMap(y, b.described())]
    report = run_kernel(kit.register_kernel(b, fence, early), None, args, check=False)
    want = x.astype(np.float32) @ (y if flip else y.T).astype(np.float32)
    return out.reshape(want.shape), want, {f.kind for f in report.findings}


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("dtype", kit.TYPES)
def test_a_first_operand_in_registers(dtype: str, flip: bool) -> None:
    out, want, found = run_with_registers(dtype, flip)
    assert found == set()
    np.testing.assert_array_equal(out, want)


def test_registers_of_an_operand_are_fenced_and_left_alone() -> None:
    assert run_with_registers("float16", False, fence=False)[2] == {"missing fence"}
    assert "product not waited for" in run_with_registers("float16", False, early=True)[2]


def test_bytes_are_no_operand_in_registers() -> None:
    sums, own = (kit.decl_buffer((64,), t, "r", scope="local") for t in ("int32", "int8"))
    call = H.ptx_wgmma_rs("int32", "m64n64k32", "int8", sums.data, 0, own.data, 0, 0, 0)
    func = S.PrimFunc([], S.Evaluate(call), None, {}, {"global_symbol": "f"})
    with pytest.raises(TilewrightError, match=r"does not know ptx_wgmma_rs of .*m64n64k32"):
        run_kernel(func, None, [])


# -- kernels of schedules, and what is found when something is left out of them


@pytest.mark.parametrize("specialized", [False, True])
def test_the_whole_kernel_is_right(specialized: bool) -> None:
    out, report = kit.run_scheduled(kit.scheduled(specialized))
    a, b = (x.astype(np.float32) for x in kit.arrays())
    np.testing.assert_array_equal(out, a @ b.T)
    assert report.findings == []
    assert report.async_copies == 2 * 5 * 64 * (128 + 64)


@pytest.mark.parametrize(
    ("name", "which", "kind"),
    [
        ("ptx_wait_barrier", -1, "async copy not waited for"),
        ("ptx_wgmma_fence", -1, "missing fence"),
        ("ptx_fence_barrier_init", -1, "missing fence"),
        # steps are written out, of which the first stage alone is filled again
        ("ptx_wgmma_wait_group", 1, "product not waited for"),  # that before it is
        ("ptx_wgmma_wait_group", 4, "product not waited for"),  # the last one
        ("ptx_wgmma_commit_group", -1, "product not waited for"),
        ("tvm_storage_sync", 0, "race"),  # behind the barriers' initialisation
        ("tvm_storage_sync", 2, "race"),  # before a stage is filled again
        ("ptx_init_barrier_thread_count", 2, "unwritten memory"),
        ("ptx_arrive_barrier_expect_tx", 1, "deadlock"),
        ("ptx_cp_async_bulk_tensor", 3, "deadlock"),
    ],
)
def test_what_is_left_out_is_found(name: str, which: int, kind: str) -> None:
    assert kind in kit.kinds(kit.without(kit.scheduled(), name, which))


@pytest.mark.parametrize(
    ("name", "which", "kind"),
    [
        ("ptx_wait_barrier", 0, "async copy not waited for"),  # before a stage is filled again
        ("ptx_wait_barrier", 4, "async copy not waited for"),  # before it is multiplied
        ("ptx_arrive_barrier", -1, "deadlock"),
        ("ptx_arrive_barrier_expect_tx", -1, "deadlock"),
        ("ptx_cp_async_bulk_tensor", 1, "deadlock"),
        ("ptx_wgmma_fence", -1, "missing fence"),
        ("ptx_wgmma_wait_group", 1, "race"),  # before the stage counts as free
        ("ptx_wgmma_wait_group", 4, "product not waited for"),
        ("ptx_wgmma_commit_group", -1, "product not waited for"),
        ("tvm_storage_sync", 0, "race"),
        ("tvm_storage_sync", 1, "race"),  # before the sums are read
    ],
)
def test_what_is_left_out_beside_a_warp_group_that_copies(name: str, which: int, kind: str) -> None:
    assert kind in kit.kinds(kit.without(kit.scheduled(True), name, which))


def test_one_warp_cannot_arrive_for_the_others() -> None:
    """The warp group's products are done when each warp has waited for its part."""
    kernel = kit.scheduled(True)
    thread = thread_of(kernel)

    def change(call: E.Call) -> Any:
        if call.op.name == "tir.ptx_arrive_barrier":
            return S.IfThenElse(thread.equal(0), S.Evaluate(call))
        if call.op.name == "tir.ptx_init_barrier_thread_count":
            return H.ptx_init_barrier_thread_count(call.args[0], 1)
        return call

    assert kit.kinds(kit.edited(kernel, change)) == {"race"}


@pytest.mark.parametrize("warp", range(8))
@pytest.mark.parametrize("below", [1, 2])
def test_each_warp_has_to_arrive(warp: int, below: int) -> None:
    """One of eight does not, at its own block or (`below`) at the other one, which brings it a part
    of B, and nobody waits for it."""
    kernel = kit.scheduled(True, below)
    thread = thread_of(kernel)

    def change(call: E.Call) -> Any:
        count = getattr(call.args[1], "value", 0) if len(call.args) > 1 else 0
        others: Any = E.FloorDiv(thread, E.const(32)) != warp
        if call.op.name == "tir.ptx_arrive_barrier":
            return S.IfThenElse(others, S.Evaluate(call))
        if call.op.name == "tir.ptx_arrive_barrier_cluster":
            own = call.args[1].equal(H.ptx_cluster_rank())
            return S.IfThenElse(E.Or(others, own), S.Evaluate(call))
        if call.op.name == "tir.ptx_init_barrier_thread_count" and count > 1:
            return H.ptx_init_barrier_thread_count(call.args[0], count - 1)
        return call

    found = kit.kinds(kit.edited(kernel, change), below)
    assert found == {"race" if below == 1 else "race between blocks"}


def test_a_kernel_of_clusters_is_right() -> None:
    out, report = kit.run_scheduled(kit.scheduled(True, 2), 2)
    a, b = (x.astype(np.float32) for x in kit.arrays())
    np.testing.assert_array_equal(out, a @ b.T)
    assert report.findings == []


def test_arrivals_that_are_too_many_or_too_few_are_a_deadlock() -> None:
    for more in (-1, 1):

        def change(call: E.Call, more: int = more) -> Any:
            count = getattr(call.args[1], "value", 0) if len(call.args) > 1 else 0
            if call.op.name == "tir.ptx_init_barrier_thread_count" and count > 1:
                return H.ptx_init_barrier_thread_count(call.args[0], count + more)
            return call

        _, report = kit.run_scheduled(kit.edited(kit.scheduled(True), change))
        assert {f.kind for f in report.findings} >= {"deadlock"}


def test_a_failure_on_one_side_ends_the_other() -> None:
    kernel = kit.scheduled(True)
    plain = [np.zeros(kit.M * kit.K, np.float16) for _ in kernel.params]
    with pytest.raises(TilewrightError, match="A_map is no tensor map"):
        run_kernel(kernel, None, plain)
    with pytest.raises(TilewrightError, match="stands around a branch with two sides"):
        body = S.AttrStmt(E.const(0), "warp_specialized", 1, kit.evaluate(storage_sync("shared")))
        run_kernel(S.PrimFunc([], body, None, {}, {"global_symbol": "f"}), None, [])


@pytest.mark.parametrize("more", [16, -16])
def test_a_wrong_number_of_bytes_is_a_deadlock(more: int) -> None:
    def change(call: E.Call) -> Any:
        if call.op.name != "tir.ptx_arrive_barrier_expect_tx":
            return call
        return H.ptx_arrive_barrier_expect_tx(call.args[0], call.args[1] + more)

    kernel = kit.edited(kit.scheduled(), change)
    _, report = kit.run_scheduled(kernel)
    (first,) = [f for f in report.findings if f.kind == "deadlock"][:1]
    assert "waits for ever at barrier" in first.message
    assert f"{more} bytes are missing" in first.message


def test_a_wait_for_the_wrong_parity_is_a_deadlock() -> None:
    def change(call: E.Call) -> Any:
        if call.op.name != "tir.ptx_wait_barrier":
            return call
        return H.ptx_wait_barrier(call.args[0], 1 - call.args[1])

    assert "deadlock" in kit.kinds(kit.edited(kit.scheduled(), change))


def test_groups_do_not_wait_for_those_that_follow() -> None:
    def change(call: E.Call) -> Any:
        if call.op.name != "tir.ptx_wgmma_wait_group" or len(call.args) > 1:
            return call
        return H.ptx_wgmma_wait_group(2)

    assert "product not waited for" in kit.kinds(kit.edited(kit.scheduled(), change))


def test_threads_of_a_warp_group_multiply_together() -> None:
    kernel = kit.scheduled()
    thread = thread_of(kernel)

    def change(call: E.Call) -> Any:
        if call.op.name != "tir.ptx_wgmma":
            return call
        return S.IfThenElse(thread < 100, S.Evaluate(call))

    assert "barrier under divergence" in kit.kinds(kit.edited(kernel, change))


def thread_of(kernel: S.PrimFunc) -> E.Var:
    """The variable of threadIdx.x."""
    found: E.Var = next(
        s.node.var
        for s in nodes(kernel.body)
        if isinstance(s, S.AttrStmt) and getattr(s.node, "thread_tag", "") == "threadIdx.x"
    )
    return found


# -- tiles and arrays that are not as they have to be


def sides(span: int = 128) -> tuple[kit.Side, kit.Side]:
    a = kit.Side("A", kit.ROWS, "float16", span, False)
    return a, kit.Side("B", 8, "float16", span, False)


def args_of(a: kit.Side, b: kit.Side) -> list[Any]:
    maps = [SimtMap(kit.draw(x.shape, x.dtype, 0), x.described()) for x in (a, b)]
    return [np.zeros(kit.ROWS * b.lines, np.float32), *maps]


@pytest.mark.parametrize(("span", "align"), [(128, 512), (64, 256), (32, 128), (0, 64)])
def test_tiles_have_to_start_where_their_swizzle_does(span: int, align: int) -> None:
    a, b = sides(span)
    a.stage = a.stage.with_(data_alignment=align)
    report = run_kernel(kit.product_kernel(a, b), None, args_of(a, b), check=False)
    assert "misaligned address" in {f.kind for f in report.findings}
    assert f"data_alignment={max(8 * span, 128)}" in report.findings[0].message


def test_a_box_beyond_the_end_of_its_tile() -> None:
    a, b = sides()
    b.stage = b.stage.with_(shape=(8 * 32,))
    report = run_kernel(kit.product_kernel(a, b), None, args_of(a, b), check=False)
    assert "out of bounds" in {f.kind for f in report.findings}


def test_a_copy_of_what_nobody_has_written() -> None:
    a, b = sides()
    given = args_of(a, b)
    given[1] = SimtMap(SimtArray(np.zeros(a.shape, np.float16)), a.described())
    report = run_kernel(kit.product_kernel(a, b), None, given, check=False)
    assert {f.kind for f in report.findings} == {"unwritten memory"}


def filled(fence: bool) -> tuple[S.PrimFunc, kit.Side]:
    """Ones in both tiles, stored by the threads."""
    a, b = sides()
    stores = []
    for side in (a, b):
        n = E.Var("n", "int32")
        size = side.count * side.box_elements
        at = n * 128 + kit.THREAD
        store = S.BufferStore(side.stage, E.const(1, "float16"), [at])
        stores.append(S.For(n, 0, size // 128, S.ForKind.SERIAL, store))
    fences = [H.ptx_fence_proxy_async()] if fence else []
    fill = S.seq(*stores, kit.evaluate(*fences, storage_sync("shared")))
    return kit.product_kernel(a, b, fill), b


def test_stores_that_products_read_need_a_fence() -> None:
    for fence in (True, False):
        kernel, b = filled(fence)
        out = np.zeros(kit.ROWS * b.lines, np.float32)
        report = run_kernel(kernel, None, [out], check=False)
        assert {f.kind for f in report.findings} == (set() if fence else {"missing fence"})
        assert (out == kit.DEPTH).all()


def test_barriers_that_are_there_get_a_fence() -> None:
    for fence in (True, False):
        kernel, b = filled(fence)
        kernel = sync_threads(kernel)
        out = np.zeros(kit.ROWS * b.lines, np.float32)
        assert run_kernel(kernel, None, [out]).findings == []
        names = [x.op.name for x in nodes(kernel.body) if type(x) is E.Call]
        assert names.count("tir.ptx_fence_proxy_async") == names.count("tir.tvm_storage_sync") == 1


def bulk_kernel(nbytes: int, wait: bool = True) -> S.PrimFunc:
    """B[t] = A[t + 16] of 64 threads, by one copy of a block."""
    a, b = (decl_buffer((128,), "float16", name) for name in "AB")
    shared = decl_buffer((64,), "float16", "shared_", None, None, None, "shared")
    copy = H.ptx_cp_async_bulk("float16", shared.data, 0, a.access_ptr("r"), 16, nbytes, 0)
    start = S.IfThenElse(
        kit.THREAD.equal(0),
        kit.evaluate(H.ptx_arrive_barrier_expect_tx(0, 128), copy),
    )
    body = S.seq(
        kit.evaluate(H.create_barriers(1)),
        S.IfThenElse(
            kit.THREAD.equal(0),
            kit.evaluate(H.ptx_init_barrier_thread_count(0, 1), H.ptx_fence_barrier_init()),
        ),
        kit.evaluate(storage_sync("shared")),
        start,
        *([kit.evaluate(H.ptx_wait_barrier(0))] if wait else []),
        S.IfThenElse(
            kit.THREAD < 64,
            S.BufferStore(b, E.BufferLoad(shared, [kit.THREAD]), [kit.THREAD]),
        ),
    )
    whole = S.AttrStmt(kit.AXIS, "thread_extent", 128, S.Allocate(shared, body))
    return S.PrimFunc([a.data, b.data], whole, None, {}, {"global_symbol": "f"})


def test_copies_of_blocks() -> None:
    a, b = np.arange(128).astype(np.float16), np.zeros(128, np.float16)
    assert run_kernel(bulk_kernel(128), None, [a, b]).findings == []
    np.testing.assert_array_equal(b[:64], a[16:80])

    def kinds(*how: Any) -> set[str]:
        report = run_kernel(bulk_kernel(*how), None, [a, b], check=False)
        return {f.kind for f in report.findings}

    assert kinds(128, False) == {"async copy not waited for"}
    assert "deadlock" in kinds(112)
    assert {"deadlock", "misaligned address"} <= kinds(120)
    assert "out of bounds" in kinds(144)


def test_arguments_that_are_no_tensor_maps() -> None:
    a, b = sides()
    given = args_of(a, b)
    with pytest.raises(ArgumentError, match="no multiple of 16 below"):
        SimtMap(np.zeros((4, 4), np.float16), TensorMap("float16", (4, 4), (8,), (8, 4)))
    given[1] = SimtMap(np.zeros((4, 8), np.float16), a.described())
    with pytest.raises(ArgumentError, match="a tensor map of 4096 bytes is of an array of 64"):
        run_kernel(kit.product_kernel(a, b), None, given)
    given[1] = np.zeros((64, 32), np.float16)
    with pytest.raises(TilewrightError, match="A_map is no tensor map"):
        run_kernel(kit.product_kernel(a, b), None, given)
