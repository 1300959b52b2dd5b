"""Mistakes in the lowering of kernels, which simt must show; some are passes after all others that
spoil what a kernel is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.loopir.subst import substitute
from tilewright.loopir.visit import free_vars
from tilewright.lowering import (
    allreduce_shared,
    allreduce_warp,
    device_pipeline,
    lower_warp_memory,
    merge_shared,
    split_host_device,
    stage_cross_thread,
    sync_threads,
    unify_threads,
)

from .mutant_kit import catalogue, replaced, touched


@contextmanager
def _spoiled(make: Callable[[], Rewriter]) -> Iterator[None]:
    def spoil(func: S.PrimFunc, target: Any) -> S.PrimFunc:
        body = make().stmt(func.body)
        if body is not func.body:
            touched()
        return func.with_body(body)

    passes = (*device_pipeline.PASSES, spoil)
    with patch.object(device_pipeline, "PASSES", passes):
        yield


class _NoBarrier(Rewriter):
    """Forgets the first barrier."""

    def __init__(self) -> None:
        self.found = False

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        call = s.value
        if self.found or not isinstance(call, E.Call) or call.op.name != "tir.tvm_storage_sync":
            return super()._evaluate(s)
        self.found = True
        return S.no_op()


class _SwappedThreads(Rewriter):
    """Stores to shared memory as if threadIdx.x were threadIdx.y and the other way round."""

    def __init__(self) -> None:
        self.axes: dict[str, Any] = {}

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == "thread_extent":
            self.axes[s.node.thread_tag] = s.node.var
        return super()._attr(s)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        x, y = self.axes.get("threadIdx.x"), self.axes.get("threadIdx.y")
        used = free_vars(s.indices[0])
        if x not in used or y not in used or not s.buffer.scope_name.startswith("shared"):
            return super()._store(s)
        index = substitute(s.indices[0], {x: y, y: x})
        return S.BufferStore(s.buffer, s.value, (index,), s.predicate)


class _ShortMemory(Rewriter):
    """Shared memory lacks its last element."""

    def __init__(self) -> None:
        self.smaller: dict[Any, Any] = {}

    def buffer(self, b: Any) -> Any:
        return self.smaller.get(b.data, b)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        size = E.const_int(s.buffer.shape[0])
        if not size or size < 2 or not s.buffer.scope_name.startswith("shared"):
            return super()._allocate(s)
        less = s.buffer.with_(shape=(E.const(size - 1),))
        self.smaller[s.buffer.data] = less
        return S.Allocate(less, self.stmt(s.body), s.annotations)


class _WrongOffset(Rewriter):
    """Shuffles read one lane too far."""

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        new = super()._call(e)
        if e.op.name != "tir.tvm_warp_shuffle_down":
            return new
        mask, value, offset, *rest = new.args
        return E.Call(e.dtype, e.op, (mask, value, offset + 1, *rest))


def dropped_barrier() -> Any:
    """A kernel lacks its first barrier."""
    return _spoiled(_NoBarrier)


def swapped_threads() -> Any:
    """What is stored to shared memory lies where another thread's part belongs."""
    return _spoiled(_SwappedThreads)


def short_shared_memory() -> Any:
    """Shared memory is one element too small."""
    return _spoiled(_ShortMemory)


def wrong_shuffle_offset() -> Any:
    """Reductions in a warp take the value of the wrong lane."""
    return _spoiled(_WrongOffset)


def steps_without_barrier() -> Any:
    """The steps of a loop do not wait for each other."""
    return replaced(
        sync_threads._Sync, "rounds", lambda old: lambda self, body, shift: self.flow(body, [])
    )


def threads_beyond_extent() -> Any:
    """All threads of a kernel run what is for some of them."""
    return replaced(unify_threads._Strip, "_by_few", lambda old: lambda self, s: s)


def every_thread_stores() -> Any:
    """What one thread should do for all, each of them does."""

    def make(old: Any) -> Any:
        def init(self: Any, *args: Any) -> None:
            old(self, *args)
            self.missing = {}

        return init

    return replaced(unify_threads._Strip, "__init__", make)


def tree_without_waiting() -> Any:
    """The levels of a reduction in shared memory do not wait for each other."""
    return replaced(allreduce_shared._Tree, "wait", lambda old: lambda self, threads: S.no_op())


def tree_beyond_its_end() -> Any:
    """A level of a reduction reads partners that there are not."""

    def larger(a: int, b: int) -> int:
        touched()
        return a

    return patch.object(allreduce_shared, "min", larger, create=True)


def warp_of_a_power_of_two() -> Any:
    """Lanes of a group that is no power of two take values of the next group."""

    def make(old: Any) -> Any:
        def fold(r: Any, mask: Any, lane: Any, extent: int, warp: int) -> Any:
            return old(r, mask, lane, allreduce_warp._power_above(extent), warp)

        return fold

    return replaced(allreduce_warp, "_fold", make)


def shared_arrays_on_top_of_each_other() -> Any:
    """Two arrays share memory though both are in use."""
    return replaced(merge_shared._Life, "allows", lambda old: lambda self, other: True)


def partial_result_not_started() -> Any:
    """A thread's own part of a reduction begins with what is in the register."""

    def make(old: Any) -> Any:
        def partial(self: Any, parts: Any, conditions: Any) -> Any:
            return old(self, parts, conditions).seq[1]

        return partial

    return replaced(stage_cross_thread._CrossThread, "_partial", make)


def start_value_of_threads_forgotten() -> Any:
    """A reduction over threads with init= begins at the identity."""
    return replaced(
        stage_cross_thread._CrossThread, "_with_initial", lambda old: lambda self, loads: loads
    )


def last_block_forgotten() -> Any:
    """A kernel is launched with one block too few."""

    def make(old: Any) -> Any:
        def extents(body: Any) -> Any:
            return {
                tag: n - 1 if tag.startswith("block") and not E.is_const(n, 1) else n
                for tag, n in old(body).items()
            }

        return extents

    return replaced(split_host_device, "launch_extents", make)


def neighbouring_lane() -> Any:
    """An element of a warp's memory is read from the lane next to its own."""

    def make(old: Any) -> Any:
        def shuffle(mask: Any, value: Any, lane: Any, width: Any, warp: Any) -> Any:
            return old(mask, value, (lane + 1) % width, width, warp)

        return shuffle

    return replaced(lower_warp_memory, "tvm_warp_shuffle", make)


KERNELS = catalogue(
    dropped_barrier, swapped_threads, short_shared_memory, wrong_shuffle_offset,
    steps_without_barrier, threads_beyond_extent, every_thread_stores, tree_without_waiting,
    tree_beyond_its_end, warp_of_a_power_of_two, shared_arrays_on_top_of_each_other,
    partial_result_not_started, start_value_of_threads_forgotten, last_block_forgotten,
    neighbouring_lane,
)  # fmt: skip
