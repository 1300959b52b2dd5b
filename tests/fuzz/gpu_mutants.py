"""Four mistakes seeded into the lowering of kernels: the fuzzer must catch each in simt.

Each is a pass after all others that spoils what a kernel is.
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
from tilewright.lowering import device_pipeline


@contextmanager
def _spoiled(make: Callable[[], Rewriter]) -> Iterator[None]:
    def spoil(func: S.PrimFunc, target: Any) -> S.PrimFunc:
        return func.with_body(make().stmt(func.body))

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


GPU_MUTANTS: dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (dropped_barrier, swapped_threads, short_shared_memory, wrong_shuffle_offset)
}
