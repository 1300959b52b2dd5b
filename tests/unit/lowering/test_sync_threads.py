"""Barriers of kernels written by hand: how many, where, and that they are enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.narrow import value_of
from tilewright import te, tir
from tilewright.base.errors import CompileError
from tilewright.interp.simt import SimtError, run_kernel
from tilewright.loopir import stmt as S
from tilewright.loopir.tensor_core_calls import ptx_ldmatrix
from tilewright.loopir.verify import verify
from tilewright.loopir.visit import walk
from tilewright.lowering.split_host_device import split_host_device
from tilewright.lowering.statement_accesses import is_barrier
from tilewright.lowering.sync_threads import sync_threads

SIZE = 1024
Writer = Callable[[Any, Any, Any, Any, Any, Any], None]


def kernel(write: Writer, threads: int = 64, blocks: int = 4) -> S.PrimFunc:
    """`write(ib, a, o, shared, thread, block)` writes the body."""
    ib = tir.ir_builder.create()
    source = tir.decl_buffer((SIZE,), "float32", name="A")
    target = tir.decl_buffer((SIZE,), "float32", name="O")
    a, o = ib.buffer_ptr(source), ib.buffer_ptr(target)
    bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    ib.scope_attr(bx, "thread_extent", blocks)
    ib.scope_attr(tx, "thread_extent", threads)
    shared = ib.allocate("float32", 256, name="S", scope="shared")
    write(ib, a, o, shared, tx.var, bx.var)
    buffers = {source.data: source, target.data: target}
    return S.PrimFunc(list(buffers), ib.get(), None, buffers, {"global_symbol": "f"})


def synced(write: Writer, threads: int = 64) -> S.PrimFunc:
    func = sync_threads(kernel(write, threads))
    verify(func, after="sync_threads")
    return func


def barriers(func: S.PrimFunc) -> int:
    return sum(is_barrier(s) for s in walk(func.body))


def run(func: S.PrimFunc, threads: int = 64, blocks: int = 4) -> Any:
    """The output; SimtError where threads meet without a barrier."""
    (made,) = split_host_device(func).kernels.values()
    a = np.random.default_rng(1).standard_normal(SIZE).astype("float32")
    o = np.zeros(SIZE, "float32")
    arrays = {"A": a, "O": o}
    args = [arrays[p.name] for p in made.params]
    run_kernel(made, {"blockIdx.x": blocks, "threadIdx.x": threads}, args)
    return o


def without_barriers(func: S.PrimFunc) -> S.PrimFunc:
    from tilewright.loopir.rewrite import Rewriter, handles

    class Drop(Rewriter):
        @handles(S.Evaluate)
        def _evaluate(self, s: S.Evaluate) -> Any:
            return S.no_op() if is_barrier(s) else s

    return func.with_body(Drop().stmt(func.body))


# -- kernels: each block writes a part of its own


def neighbours(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t] = a[t]
    o[b * 64 + t] = shared[63 - t]


def own(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t * 2] = a[t]
    shared[t * 2 + 1] = a[t + 1]
    with ib.for_range(0, 2, name="i") as i:
        o[b * 64 + t] = shared[t * 2 + i]


def chain(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t] = a[t]
    o[b * 64 + t] = shared[t]
    shared[t + 64] = shared[63 - t]
    o[b * 64 + t] = shared[t + 64]
    shared[t] = a[t + 1]


def loop(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    with ib.for_range(0, 4, name="k") as k:
        shared[t] = a[t + k * 64]
        o[b * 64 + t] = shared[63 - t]


def later_start(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    """The inner loop runs in the last iteration of the outer one only, which starts late."""
    with ib.for_range(2, 6, name="i") as i, ib.for_range(0, i - 4, name="j") as j:
        shared[t] = a[t + j * 64]
        o[b * 64 + t] = shared[63 - t]


def filled_before(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t] = a[t]
    with ib.for_range(0, 4, name="k") as k:
        o[b * 64 + t] = shared[(t + k) % 64]


def two_halves(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t] = a[t]
    with ib.for_range(0, 3, name="k") as k:
        shared[(k + 1) % 2 * 64 + t] = a[k * 64 + t]
        o[b * 64 + t] = shared[k % 2 * 64 + 63 - t]


def four_parts(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    with ib.for_range(0, 4, name="k") as k:
        shared[k * 64 + t] = a[k * 64 + t]
        o[b * 64 + t] = shared[k * 64 + t]


def one_of_a_block(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    with ib.if_scope(b < 2):
        shared[t] = a[t]
        o[b * 64 + t] = shared[63 - t]


def by_one_thread(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    with ib.if_scope(t.equal(3)):
        shared[0] = a[0]
    with ib.if_scope(t.equal(3)):
        o[b * 64] = shared[0]


def divergent(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    with ib.if_scope(t < 32):
        shared[t] = a[t]
        o[b * 64 + t] = shared[31 - t]


def divergent_on_data(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t] = 0.0
    with ib.if_scope(a[t] > 0.0):
        shared[t] = a[t]
        with ib.for_range(0, 4, name="k") as k:
            shared[t + 64 * (k % 2)] = a[t + k]
            o[b * 64 + t] = shared[63 - t]


def divergent_loop(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t] = a[t]
    with ib.for_range(0, (64 - t + 15) // 16, name="i") as i:
        shared[t] = a[t + i]
        o[b * 64 + t] = shared[t]
        shared[t + 64] = shared[(t + 1) % 64]


def tree(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
    shared[t] = a[t]
    for half in (32, 16, 8, 4, 2, 1):
        with ib.if_scope(t < half):
            shared[t] = shared[t] + shared[t + half]
    with ib.if_scope(t.equal(0)):
        o[b * 64] = shared[0]


COUNTS: dict[Writer, int] = {
    neighbours: 1,
    own: 0,
    chain: 2,
    loop: 2,
    later_start: 2,
    filled_before: 1,
    two_halves: 1,
    four_parts: 0,
    one_of_a_block: 1,
    by_one_thread: 0,
    divergent: 1,
    divergent_loop: 2,
    tree: 6,
}


@pytest.mark.parametrize("write", COUNTS, ids=lambda w: w.__name__)
def test_as_many_as_needed(write: Writer) -> None:
    func = synced(write)
    assert barriers(func) == COUNTS[write]
    run(func)
    if COUNTS[write]:
        with pytest.raises(SimtError):
            run(without_barriers(func))


def test_condition_that_reads_memory_is_evaluated_once() -> None:
    func = synced(divergent_on_data)
    lets = [s for s in walk(func.body) if type(s) is S.LetStmt]
    assert len(lets) == 1 and lets[0].var.dtype == "bool"
    run(func)


def test_barrier_stands_before_the_loop_that_only_reads() -> None:
    func = synced(filled_before)
    loops = [s for s in walk(func.body) if type(s) is S.For]
    assert not any(is_barrier(x) for s in loops for x in walk(s.body))


def test_one_thread_needs_none() -> None:
    assert barriers(synced(neighbours, threads=1)) == 0


def test_written_barriers_count() -> None:
    def write(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
        shared[t] = a[t]
        ib.emit(S.Evaluate(tir.tvm_storage_sync("shared")))
        o[b * 64 + t] = shared[63 - t]

    assert barriers(synced(write)) == 1


def test_written_barrier_leaves_a_divergent_condition() -> None:
    def write(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
        with ib.if_scope(t < 32):
            shared[t] = a[t]
            ib.emit(S.Evaluate(tir.tvm_storage_sync("shared")))
            o[b * 64 + t] = shared[t]

    func = synced(write)
    assert barriers(func) == 1
    run(func)


def test_loop_that_differs_between_threads() -> None:
    func = synced(divergent_loop)
    (made,) = [s for s in walk(func.body) if type(s) is S.For]
    assert value_of(made.extent) == 4


def test_while_loop_of_threads_is_refused() -> None:
    def write(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
        with ib.while_loop(a[t] > 0.0):
            shared[t] = a[t]
            o[b * 64 + t] = shared[63 - t]

    with pytest.raises(CompileError, match="a barrier that threads could miss"):
        synced(write)


def test_pointers_to_shared_memory() -> None:
    def write(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
        shared[t] = a[t]
        ib.emit(tir.call_extern("int32", "use", shared._buffer.access_ptr("r")))
        shared[t] = a[t + 1]

    assert barriers(sync_threads(kernel(write))) == 2


def test_vectors_of_neighbouring_threads() -> None:
    def write(ib: Any, a: Any, o: Any, shared: Any, t: Any, b: Any) -> None:
        with ib.for_range(0, 4, name="v", kind="vectorize") as v:
            shared[t * 4 + v] = a[t * 4 + v]
        o[b * 64 + t] = shared[t * 4]
        o[b * 64 + t] = shared[t * 4 + 4]

    from tilewright.lowering.options import LowerOptions
    from tilewright.lowering.vectorize_loops import vectorize_loops

    func = sync_threads(vectorize_loops(kernel(write, threads=32), LowerOptions()))
    assert barriers(func) == 1


def _rows_in(data: Any, first: Any, count: int = 4) -> Any:
    """Rows of 8 elements, each of another lane, from `first` on, into registers; the pointer says
    that all behind it may be read."""
    shared, registers, lane = data
    pointer = shared._buffer.access_ptr("r", offset=first)
    return ptx_ldmatrix("float16", False, count, ".b16", registers, 0, pointer, lane % 32 * 8)


@pytest.mark.parametrize(
    ("first", "second", "count", "needed"),
    [
        (0, 256, 4, 1),  # what is filled while rows are read lies behind all of them
        (0, 255, 4, 2),
        (0, 64, 1, 1),  # one matrix: eight rows
        (0, 63, 1, 2),
        (256, 0, 4, 1),
        (256, 255, 4, 2),
    ],
)
def test_rows_that_a_warp_loads_as_matrices(
    first: int, second: int, count: int, needed: int
) -> None:
    """A lane's row goes to other lanes: its own store behind it needs a barrier, too."""
    ib = tir.ir_builder.create()
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 32)
    shared = ib.allocate("float16", 1024, name="S", scope="shared")
    registers = ib.allocate("float16", 8, name="R", scope="local")
    with ib.for_range(0, 8, name="i") as i:
        shared[first + i * 32 + tx.var] = tir.const(1, "float16")
    ib.emit(_rows_in((shared, registers._buffer.data, tx.var), first, count))
    shared[second + tx.var] = tir.const(2, "float16")
    func = sync_threads(S.PrimFunc([], ib.get(), None, {}, {"global_symbol": "f"}))
    assert barriers(func) == needed
