"""Blocks that share all steps of a kernel evenly (stream-K), where each does the work of several.

As `persistent_blocks` has it, but a block's share is steps of reductions, not whole ones: it may
begin and end within one, whose sums so far then go to memory, each thread's registers as they are.
A second kernel adds them up, always in the same order, and does what follows such reductions; what
follows whole ones, most of them, is done at once.

    share = ceil(total * steps / count)
    launch blockIdx.x < count:
        for each block that steps [blockIdx.x * share, (blockIdx.x + 1) * share) are of:
            its steps; if they are all: what follows; else: keep the sums
    launch blockIdx.x < count:
        if a block's steps begin before this share, and in the one before: add up, what follows

Blocks of a cluster, of which each has steps of its own, share alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer, decl_buffer
from ..loopir.construct import cast
from ..loopir.copies import fresh_copy
from ..loopir.expr import const, const_int
from ..loopir.hopper_calls import CLUSTER, STEPS, SUMS
from ..loopir.iter import IterVar
from ..loopir.op import max as most
from ..loopir.op import min as least
from ..loopir.rewrite import Rewriter, handles
from ..loopir.said import said
from ..loopir.visit import nodes, walk

_LANES = 4  # registers that are stored at once


@dataclass(frozen=True)
class Kept:
    """Registers that have sums: their array, how many, and all steps of a reduction."""

    data: E.Var
    count: int
    steps: int
    dtype: str


def kept_sums(s: S.Stmt) -> Kept | None:
    """What a kernel says of the sums that its blocks may keep."""
    for x in walk(s):
        if _is_kept(x):
            data, count, steps = x.value.args
            return Kept(data, const_int(count) or 0, const_int(steps) or 0, x.value.dtype)
    return None


def _is_kept(s: Any) -> bool:
    return type(s) is S.Evaluate and type(s.value) is E.Call and s.value.op.name == SUMS


class Numbered(Rewriter):
    """Says which steps are a block's (`stream_steps`), and takes out where its sums are there."""

    def __init__(self, first: Any, count: Any, begun: Any) -> None:
        self.values = (first, count, begun)

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        if e.op.name == STEPS:
            return self.values[const_int(e.args[0]) or 0]
        return super()._call(e)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        return S.seq() if _is_kept(s) else super()._evaluate(s)


class Shares:
    """The shares of so many blocks, of all `total` of a kernel whose first thread axis is `axis`,
    with `threads` that keep sums; `placed(statement, block)` is a statement for a block."""

    def __init__(
        self,
        body: S.Stmt,
        kept: Kept,
        axis: Any,
        total: Any,
        count: int,
        threads: int,
        placed: Callable[[S.Stmt, Any], S.Stmt],
    ) -> None:
        self.cluster = said(body, CLUSTER) or 1
        self.kept, self.threads, self.placed = kept, threads, placed
        self.workers = count // self.cluster
        self.all = total // self.cluster * kept.steps
        self.share = (self.all + (self.workers - 1)) // self.workers
        size = count * 2 * kept.count * threads
        self.memory = decl_buffer((size,), kept.dtype, "parts")
        self.count, self.axis = count, axis
        self.thread: Any = None  # of the kernel that shares, and of the one that adds up
        self.joiner = E.Var("thread", "int32")
        self.sums = next(
            s.buffer for s in walk(body) if type(s) is S.Allocate and s.buffer.data is kept.data
        )
        self.allocated = [s for s in walk(body) if type(s) is S.Allocate]

    @property
    def is_even(self) -> bool:
        """Whether every share is known to be whole reductions."""
        share = const_int(self.share)
        return share is not None and share % self.kept.steps == 0

    # -- the kernel that shares

    def loop(self, name: str, body: S.Stmt, after: S.Stmt | None = None) -> S.Stmt:
        """The steps of this block's share, one reduction after another; `after` what follows a
        whole one."""
        names = (f"{name}_unit", f"{name}_low", f"{name}_high")
        unit, low, high = (E.Var(n, "int32") for n in names)
        turn = E.Var(name, "int32")
        steps = self.kept.steps
        begin = self.axis // self.cluster * self.share
        first, count = low - unit * steps, high - low
        block = unit * self.cluster + self.axis % self.cluster
        body = Numbered(first, count, low - begin).stmt(self.placed(body, block))
        if after is not None:
            whole = self.placed(after, block)
            if not self.is_even:
                whole = S.IfThenElse(count.equal(steps), whole, self.keep(first))
            body = S.seq(body, whole)
        body = S.IfThenElse(low < high, body)
        end = least(least(begin + self.share, self.all), (unit + 1) * steps)
        for var, value in (
            (high, end),
            (low, most(begin, unit * steps)),
            (unit, begin // steps + turn),
        ):
            body = S.LetStmt(var, value, body)
        turns = (self.share + (steps - 1)) // steps + 1
        return S.For(turn, const(0), turns, S.ForKind.SERIAL, body)

    def keep(self, first: Any) -> S.Stmt:
        """Store the sums of a part: of one that others have begun in the first place of a block's
        two, of one that others end in the second."""
        slot = cast("int32", first.equal(0))
        made: list[S.Stmt] = []
        for n in range(self.kept.count // _LANES):
            value = E.BufferLoad(self.sums, [_ramp(n * _LANES)])
            made.append(
                S.BufferStore(self.memory, value, [self.place(self.axis, slot, n, self.thread)])
            )
        return S.seq(made)

    def place(self, block: Any, slot: Any, quad: int, thread: Any) -> E.Ramp:
        quads = self.kept.count // _LANES
        return _ramp((((block * 2 + slot) * quads + quad) * self.threads + thread) * _LANES)

    # -- the kernel that adds up

    def joining(self, after: S.Stmt) -> S.Stmt:
        """For each reduction that blocks share the sum of what they have kept, and what follows."""
        block, thread = E.Var("share", "int32"), self.joiner
        worker, rank = block // self.cluster, block % self.cluster
        steps, begin = self.kept.steps, worker * self.share
        unit = begin // steps
        sums = self.sums.with_(shape=(const(self.kept.count),))
        other, u = E.Var("other", "int32"), E.Var("worker", "int32")
        quads = range(self.kept.count // _LANES)

        def load(of: Any, slot: int, n: int) -> Any:
            at = self.place(of * self.cluster + rank, slot, n, thread)
            return E.BufferLoad(self.memory, [at])

        start = [S.BufferStore(sums, load(worker - 1, 1, n), [_ramp(n * _LANES)]) for n in quads]
        more = [
            S.BufferStore(
                sums, E.BufferLoad(sums, [_ramp(n * _LANES)]) + load(u, 0, n), [_ramp(n * _LANES)]
            )
            for n in quads
        ]
        last = least(((unit + 1) * steps - 1) // self.share, self.workers - 1)
        adding = S.For(
            other, const(0), last - worker + 1, S.ForKind.SERIAL,
            S.LetStmt(u, worker + other, S.seq(more)),
        )  # fmt: skip
        body = self.placed(after, unit * self.cluster + rank)
        body = _Smaller(sums).stmt(S.seq(*start, adding, body))
        body = S.IfThenElse(
            E.And(
                E.And(worker > 0, begin < self.all),
                E.And(begin % steps > 0, begin - self.share <= unit * steps),
            ),
            body,
        )
        used = {x.buffer.data for x in nodes(body) if type(x) in (E.BufferLoad, S.BufferStore)}
        for s in reversed(self.allocated):
            if s.buffer.data in used:
                own = sums if s.buffer.data is sums.data else s.buffer
                body = S.Allocate(own, body, s.annotations)
        for var, tag, extent in (
            (thread, "threadIdx.x", self.threads), (block, "blockIdx.x", self.count),
        ):  # fmt: skip
            axis = IterVar((0, extent), var, IterVar.ThreadIndex, tag)
            body = S.AttrStmt(axis, "thread_extent", const(extent), body)
        return fresh_copy(body)

    def whole(self, sharing: S.Stmt, after: S.Stmt) -> S.Stmt:
        """Both kernels, of which the first shares and the other does what is to be done `after`; or
        the first one alone."""
        if self.is_even:
            return sharing
        return S.Allocate(self.memory, S.seq(sharing, self.joining(after)))


class _Smaller(Rewriter):
    """With the array of sums as long as a thread uses it."""

    def __init__(self, sums: Buffer) -> None:
        self.sums = sums

    def buffer(self, b: Buffer) -> Buffer:
        return self.sums if b.data is self.sums.data else b


def _ramp(base: Any) -> E.Ramp:
    return E.Ramp(E.convert(base), const(1), _LANES)
