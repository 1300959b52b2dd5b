"""Reductions in shared memory: a tree, with a barrier after each level."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import BufferLoad
from .allreduce import Allreduce, barrier


def reduce_in_shared(r: Allreduce, warp: int) -> S.Stmt:
    """A reduction of any threads and any type.

    Threads that follow each other in the block use neighbouring elements, so that no two of a warp
    fall into one bank. Where all that a level reads was written in its own warp, the warp alone
    waits.
    """
    tree = _Tree(r, warp)
    return S.seq(
        r.before(),
        tree.fill(),
        tree.wait(r.extent),
        tree.levels(),
        r.store(tree.loads(0)),
        tree.wait(r.extent) if r.repeated else None,
    )


class _Tree:
    def __init__(self, r: Allreduce, warp: int) -> None:
        self.r = r
        self.warp = warp
        # each group is part of one warp, or begins one
        whole = r.groups == 1 or warp % r.extent == 0 or r.extent % warp == 0
        self.aligned = warp > 1 and r.neighbours and whole
        self.buffers = r.allocate("red_shared", r.extent * r.groups)

    def at(self, index: Any) -> Any:
        """Where element `index` of the thread's group is."""
        r = self.r
        if r.groups == 1:
            return E.convert(index)
        if r.neighbours:
            base = r.group * r.extent
            return base if E.is_const(E.convert(index), 0) else base + index
        return index * r.groups + r.group if not E.is_const(E.convert(index), 0) else r.group

    def loads(self, index: Any) -> list[Any]:
        return [BufferLoad(b, (self.at(index),)) for b in self.buffers]

    def store(self, values: list[Any]) -> S.Stmt:
        own = self.at(self.r.index)
        return S.seq([S.BufferStore(b, v, (own,)) for b, v in zip(self.buffers, values)])

    def fill(self) -> S.Stmt:
        return self.store(self.r.inputs())

    def wait(self, threads: int) -> S.Stmt:
        """Until the first `threads` threads of each group have come here."""
        return barrier("warp" if self.aligned and threads <= self.warp else "shared")

    def levels(self) -> S.Stmt:
        """Combine the upper part with the lower one until one element is left."""
        extent, index = self.r.extent, self.r.index
        done: list[S.Stmt] = []
        while extent > 1:
            offset = 1 << ((extent - 1).bit_length() - 1)
            level = S.IfThenElse(index < min(offset, extent - offset), self._combine(offset))
            done.append(level)
            # the next level reads of this one no more than each thread's own element
            if 2 * (extent - offset) > offset:
                # the last one is read by the whole group
                done.append(self.wait(offset if offset > 1 else self.r.extent))
            extent = offset
        return S.seq(done)

    def _combine(self, offset: int) -> S.Stmt:
        values = self.r.combine(self.loads(self.r.index), self.loads(self.r.index + offset))
        if len(values) == 1:
            return self.store(values)
        names = [E.Var(f"new{i}", v.dtype) for i, v in enumerate(values)]
        body = self.store(list(names))
        for name, value in zip(reversed(names), reversed(values)):
            body = S.LetStmt(name, value, body)
        return body
