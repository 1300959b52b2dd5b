"""Kernels by hand of clusters of blocks that fill each other's shared memory and arrive at each
other's barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.unit.interp.hopper_kit import evaluate
from tilewright.base.tensor_map import TensorMap
from tilewright.interp.simt import SimtMap, SimtReport, run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.iter import IterVar

WIDE = 64  # elements that each block brings to all blocks of its cluster
THREADS = 64
STEPS = 3
FULL, FREE = 0, 1  # barriers

BLOCKS = {f"blockIdx.{d}": E.Var(f"blockIdx_{d}", "int32") for d in "xyz"}
THREAD = E.Var("threadIdx_x", "int32")


def bound(tag: str, extent: int, body: S.Stmt) -> S.Stmt:
    """A body for so many threads, or blocks, of a tag."""
    var = BLOCKS.get(tag, THREAD)
    axis = IterVar((0, extent), var, IterVar.ThreadIndex, tag)
    return S.AttrStmt(axis, "thread_extent", extent, body)


def launched(body: S.Stmt, grid: Sequence[int], cluster: int, threads: int = THREADS) -> S.Stmt:
    """A body in a grid of blocks, clusters of which there are several."""
    if cluster > 1:
        body = S.AttrStmt(E.const(0), H.CLUSTER, E.const(cluster), body)
    body = bound("threadIdx.x", threads, body)
    for tag, extent in zip(BLOCKS, grid):
        body = bound(tag, extent, body)
    return body


def number_of_block(grid: Sequence[int]) -> Any:
    """Of the whole grid, x fastest."""
    x, y, z = BLOCKS.values()
    sizes = [*grid, 1, 1][:3]
    parts: list[Any] = [x]
    if len(grid) > 1:
        parts.append(y * sizes[0])
    if len(grid) > 2:
        parts.append(z * (sizes[0] * sizes[1]))
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    return total


def first_thread(*calls: Any) -> S.Stmt:
    return S.IfThenElse(THREAD.equal(0), evaluate(*calls))


def exchange(
    grid: Sequence[int], cluster: int, steps: int = STEPS, reads: bool = True
) -> S.PrimFunc:
    """OUT[block, step] is what all blocks of its cluster have brought together: rows of IN, one for
    each cluster and step, of which each block copies a part to all. One stage, filled again and
    again; all threads arrive at the barriers of all blocks when they have read it, if they do
    (`reads`)."""
    row = cluster * WIDE
    out = decl_buffer((int(np.prod(grid)) * steps * row,), "int32", "OUT")
    stage = decl_buffer((row,), "int32", "stage", None, None, None, "shared", 128)
    source, rank = E.Var("IN", "handle"), E.Var("rank", "int32")
    block = number_of_block(grid)
    todo: list[S.Stmt] = [
        evaluate(H.create_barriers(2)),
        first_thread(
            H.ptx_init_barrier_thread_count(FULL, 1),
            H.ptx_init_barrier_thread_count(FREE, cluster * THREADS),
            H.ptx_fence_barrier_init(),
        ),
        evaluate(H.ptx_cluster_sync()),
    ]
    for step in range(steps):
        args = (E.const(0, "int32"), stage.data, rank * WIDE, WIDE, 2)
        to = E.Call("handle", "tir.tvm_access_ptr", args)
        at = (rank * WIDE, E.FloorDiv(block, E.const(cluster)) * steps + step)
        mask = (1 << cluster) - 1
        free = [H.ptx_wait_barrier(FREE, (step - 1) % 2)] if step else []
        todo.append(
            first_thread(
                *free,
                H.ptx_arrive_barrier_expect_tx(FULL, 4 * row),
                H.ptx_cp_async_bulk_tensor("int32", to, source, at, FULL, mask),
            )
        )
        todo.append(evaluate(H.ptx_wait_barrier(FULL, step % 2)))
        for n in range(cluster * reads):
            place = THREAD + n * WIDE
            where = (block * steps + step) * row + place
            todo.append(S.BufferStore(out, E.BufferLoad(stage, [place]), [where]))
        todo.append(evaluate(*(H.ptx_arrive_barrier(FREE, n) for n in range(cluster))))
    todo.append(evaluate(H.ptx_cluster_sync()))
    body = S.LetStmt(rank, H.ptx_cluster_rank(), S.Allocate(stage, S.seq(todo)))
    attrs = {"global_symbol": "exchange"}
    return S.PrimFunc([out.data, source], launched(body, grid, cluster), None, {}, attrs)


def run_exchange(
    kernel: S.PrimFunc, grid: Sequence[int], cluster: int, steps: int = STEPS
) -> tuple[np.ndarray, np.ndarray, SimtReport]:
    """What such a kernel gives, what it has to give, and what is found."""
    blocks, row = int(np.prod(grid)), cluster * WIDE
    rng = np.random.default_rng(0)
    given = rng.integers(-1000, 1000, (blocks // cluster * steps, row)).astype(np.int32)
    out = np.zeros(blocks * steps * row, np.int32)
    lines = len(given)
    described = TensorMap("int32", (row, lines), (4 * row,), (WIDE, 1), 0)
    report = run_kernel(kernel, None, [out, SimtMap(given, described)], check=False)
    want = np.repeat(given.reshape(-1, 1, steps * row), cluster, axis=1)
    return out.reshape(blocks, -1), want.reshape(blocks, -1), report


def through_memory(blocks: int, cluster: int, among: int, meet: Any) -> S.PrimFunc:
    """OUT[t] = BETWEEN of the next of so many blocks, written before they `meet`."""
    size = blocks * THREADS
    out, between = (decl_buffer((size,), "int32", name) for name in ("OUT", "BETWEEN"))
    block = number_of_block((blocks,))
    turn = E.FloorMod(block, E.const(among))
    after = block - turn + E.FloorMod(turn + 1, E.const(among))
    body = S.seq(
        S.BufferStore(between, block * THREADS + THREAD, [block * THREADS + THREAD]),
        evaluate(meet),
        S.BufferStore(
            out, E.BufferLoad(between, [after * THREADS + THREAD]), [block * THREADS + THREAD]
        ),
    )
    whole = launched(body, (blocks,), cluster)
    return S.PrimFunc([out.data, between.data], whole, None, {}, {"global_symbol": "pass_on"})
