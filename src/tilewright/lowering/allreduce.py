"""One reduction over the threads of a block, as lower_thread_allreduce sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.calls import storage_sync
from ..loopir.expr import const_int
from ..loopir.iter import CommReducer
from ..loopir.op import if_then_else
from ..loopir.subst import substitute
from .block_threads import BlockThreads, ThreadAxis, extent_of, index_of

PLENTY = 4096  # bytes


class Allreduce:
    """One reduction: who takes part, and of what.

    `index` numbers the `extent` threads that reduce together, `group` the groups of them.
    `neighbours`: the threads of a group follow each other in the block. `repeated`: the reduction
    stands in a loop, so that memory is written again.
    """

    def __init__(self, combiner: CommReducer, call: E.Call, block: BlockThreads) -> None:
        count = const_int(call.args[0])
        assert count is not None
        self.combiner = combiner
        self.values = call.args[1 : 1 + count]
        self.condition = call.args[1 + count]
        self.results: list[Any] = list(call.args[2 + count : 2 + 2 * count])
        threads = [v for v in call.args[2 + 2 * count :] if const_int(v) is None]
        self.axes = _axes_of(threads, block)
        others = [a for a in block.axes if a not in self.axes]
        self.extent, self.groups = extent_of(self.axes), extent_of(others)
        self.index, self.group = index_of(self.axes), index_of(others)
        self.neighbours = block.axes[: len(self.axes)] == self.axes
        self.repeated = False
        self.taken: list[Buffer] = []  # shared memory of all reductions of the kernel
        self.free: list[Buffer] = []  # of it, what no other thread can be using
        self.reused = False

    @property
    def dtypes(self) -> list[str]:
        return [v.dtype for v in self.values]

    def inputs(self) -> list[Any]:
        """What a thread contributes: the identity where its condition fails."""
        if E.is_const(self.condition, 1):
            return list(self.values)
        pairs = zip(self.values, self.combiner.identity_element)
        return [if_then_else(self.condition, v, i) for v, i in pairs]

    def store(self, values: Sequence[Any]) -> S.Stmt:
        """Keep values in the result registers."""
        pairs = zip(self.results, values)
        return S.seq([S.BufferStore(r.buffer, v, r.indices) for r, v in pairs])

    def combine(self, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        table = dict(zip(self.combiner.lhs, left))
        table.update(zip(self.combiner.rhs, right))
        return [substitute(e, table) for e in self.combiner.result]

    def allocate(self, name: str, size: int) -> list[Buffer]:
        """Shared memory of the kernel, a buffer a value.

        Reductions that follow each other have memory of their own, up to PLENTY bytes in all, which
        spares a barrier between them; then they use the same.
        """
        made: list[Buffer] = []
        for i, dtype in enumerate(self.dtypes):
            wanted = (dtype, size)
            buffer = next((b for b in self.free if _form(b) == wanted), None)
            if buffer is not None:
                self.free.remove(buffer)
            elif sum(map(_bytes, self.taken)) > PLENTY:
                old = (b for b in self.taken if _form(b) == wanted and b not in made)
                buffer = next(old, None)
                self.reused = self.reused or buffer is not None
            if buffer is None:
                buffer = Buffer((size,), dtype, f"{name}{i}", scope="shared")
                self.taken.append(buffer)
            made.append(buffer)
        return made

    def before(self) -> S.Stmt | None:
        """What to wait for before the shared memory is written."""
        return barrier("shared") if self.reused else None


def _form(b: Buffer) -> tuple[str, int | None]:
    return b.dtype, const_int(b.shape[0])


def _bytes(b: Buffer) -> int:
    return (const_int(b.shape[0]) or 0) * parse(b.dtype).nbytes


def _axes_of(threads: Sequence[Any], block: BlockThreads) -> list[ThreadAxis]:
    known = {a.var: a for a in block.axes}
    for v in threads:
        if v not in known:
            raise CompileError(
                f"cross thread reduction over {v}, which is no axis of threads of the block; "
                "bind the reduction axis to threadIdx.x, threadIdx.y or threadIdx.z"
            )
    return [a for a in block.axes if any(a.var is v for v in threads)]


def barrier(scope: str) -> S.Stmt:
    """Threads that share `scope` ("shared": the block, "warp": the warp) wait for each other."""
    return S.Evaluate(storage_sync(scope))
