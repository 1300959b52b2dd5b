"""Barriers in shared memory (mbarrier): who has arrived, which bytes are missing, which phases have
ended, and who knows.

Bytes arrive as soon as a copy starts, so that a phase ends as early as it ever may; what a copy has
written counts as under way for each thread until it has waited for the phase, or heard of its end
from one that has: at a barrier of the block, or at one here where that one has arrived since. The
same goes for what warps have done before they arrived, but for stores that other blocks are to see.
A wait hears what those knew that arrived before the phase ended. All lanes run in step (but for
simt_sides), so a wait for a phase that has not ended waits for ever: it is reported, and taken to
be over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.expr import const_int
from .simt_expr import Code, Fn
from .simt_report import BOUNDS, DEADLOCK, DIVERGENT, FENCE, RACE, UNWRITTEN
from .simt_shadow import conflicts
from .simt_state import Array, State

_NEVER = -1


class Barriers:
    """The barriers of all blocks that run together, (blocks, barriers) each.

    `passed` says for each lane the end of how many phases of each barrier of its cluster it knows
    of, and `State.known` for each warp up to which time it knows what each warp of its cluster has
    done; `told` and `times` are what those who arrived at a barrier knew of both; `heard` and
    `past` what these were when its last phase ended.
    `last` is the last phase that copies count at. `version` counts what may let a wait end."""

    def __init__(self, st: State, count: int) -> None:
        shape = (st.blocks, count)
        self.count = count
        self.expected = np.zeros(shape, np.int64)
        self.pending = np.zeros(shape, np.int64)
        self.bytes = np.zeros(shape, np.int64)
        self.phase = np.zeros(shape, np.int64)
        self.made = np.full(shape, _NEVER, np.int64)  # the access that made it
        self.fenced = np.zeros(shape, np.bool_)
        self.cluster = st.geometry.cluster
        warps = self.cluster * st.geometry.warps
        self.passed = np.zeros((st.lanes, self.cluster * count), np.int64)
        self.told = np.zeros((*shape, self.cluster * count), np.int64)
        self.times = np.zeros((*shape, warps), np.int64)
        self.heard, self.past = self.told.copy(), self.times.copy()
        self.last = np.full(shape, _NEVER, np.int64)
        self.version = 0
        if st.known is None:
            st.known = np.zeros((st.blocks * st.geometry.warps, warps), np.int64)
        # of copies: barrier and phase in each block, by their numbers
        self.flights = 0
        self.flight_barrier = np.zeros(64, np.int64)
        self.flight_phase = np.zeros((64, st.blocks), np.int64)

    def own(self, block: Array, number: Array) -> Array:
        """Which barriers of their clusters those of blocks are."""
        return np.asarray(block % self.cluster * self.count + number)

    def settle(self) -> None:
        """End the phases that nothing is missing of."""
        self.end((self.made != _NEVER) & (self.pending == 0) & (self.bytes == 0))

    def end(self, done: Any) -> None:
        """End the phases of some barriers."""
        self.phase[done] += 1
        self.pending[done] = self.expected[done]
        self.bytes[done] = 0
        self.heard[done], self.past[done] = self.told[done], self.times[done]
        self.version += 1

    def tell(self, st: State, lanes: Array, block: Array, number: Array) -> None:
        """Let barriers of blocks know what lanes know that arrive at them."""
        now = st.tick()
        warp, warps = st.warp[lanes], st.geometry.warps
        since = np.broadcast_to(np.asarray(st.sync_block), (st.lanes,))[lanes][:, None]
        if self.cluster > 1:
            far = np.broadcast_to(np.asarray(st.sync_cluster), (st.lanes,))[lanes][:, None]
            of = np.arange(self.times.shape[2])[None, :] // warps
            since = np.where(of == (st.block_in[lanes] % self.cluster)[:, None], since, far)
        times = np.maximum(st.known[warp], since)
        times[np.arange(len(lanes)), warp % (self.cluster * warps)] = now
        np.maximum.at(self.times, (block, number), times)
        np.maximum.at(self.told, (block, number), self.passed[lanes])

    def hear(self, st: State, lanes: Array, block: Array, number: Array) -> None:
        """Let lanes that have waited know what a barrier does."""
        np.maximum.at(st.known, st.warp[lanes], self.past[block, number])
        self.passed[lanes] = np.maximum(self.passed[lanes], self.heard[block, number])
        self.passed[lanes, self.own(block, number)] = self.phase[block, number]

    def share(self, st: State, mask: Array | None, blocks: int = 1) -> None:
        """Threads of so many blocks that meet know what one of them knows."""
        here = np.ones(st.lanes, np.bool_) if mask is None else mask
        _share(self.passed, here, st.blocks // blocks)
        if self.cluster > 1:
            warps = np.zeros(len(st.known), np.bool_)
            warps[st.warp[here]] = True
            _share(st.known, warps, st.blocks // blocks)

    def fly(self, barrier: int, block: Array) -> int:
        """The number of copies to blocks, whose bytes count at a barrier's present phase there."""
        self.last[block, barrier] = self.phase[block, barrier]
        n = self.flights
        if n == len(self.flight_barrier):
            self.flight_barrier = np.concatenate([self.flight_barrier] * 2)
            self.flight_phase = np.concatenate([self.flight_phase] * 2)
        self.flight_barrier[n] = barrier
        self.flight_phase[n] = self.phase[:, barrier]
        self.flights += 1
        return n

    def landed(self, flights: Array, lanes: Array, block: Array) -> Array:
        """Whether lanes know that copies of these numbers to blocks are over."""
        passed = self.passed[lanes, self.own(block, self.flight_barrier[flights])]
        return np.asarray(passed > self.flight_phase[flights, block])


def _share(table: Array, here: Array, groups: int) -> None:
    """Let the rows of a group that are here have what is the most in one of them."""
    each = table.reshape(groups, -1, table.shape[1])
    there = here.reshape(groups, -1, 1)
    most = np.where(there, each, 0).max(axis=1, keepdims=True)
    np.copyto(each, np.maximum(each, most), where=there)


def barriers(st: State) -> Barriers:
    if st.barriers is None:
        raise TilewrightError("simt: a barrier is used before create_barriers")
    found: Barriers = st.barriers
    return found


def running_lanes(st: State) -> Array:
    return st.lane if st.mask is None else np.flatnonzero(st.mask)


def tell(st: State, kind: str, lane: int, message: str, count: int = 1, other: int = -1) -> None:
    """Report something that a lane does."""
    number = int(st.number[lane])
    who = st.geometry.thread(number)
    where = None if other < 0 else other
    st.log.add(kind, f"{who} {message}", st.site, "", None, (number,), where, count)


def places(st: State, given: Any, needs_made: bool = True) -> tuple[Array, Array, Array]:
    """The lanes that run, their blocks, and the barriers that they name; those that are none, or
    that nobody has made for sure, are reported."""
    b, lanes = barriers(st), running_lanes(st)
    number = np.broadcast_to(np.asarray(given, np.int64), (st.lanes,))[lanes]
    wrong = (number < 0) | (number >= b.count)
    if wrong.any():
        lane = int(lanes[np.flatnonzero(wrong)[0]])
        at = int(number[wrong][0])
        tell(st, BOUNDS, lane, f"uses barrier {at} of {b.count}", int(wrong.sum()))
        lanes, number = lanes[~wrong], number[~wrong]
    block = st.block_in[lanes]
    if needs_made and lanes.size:
        require_made(st, lanes, block, number)
    return lanes, block, number


def require_made(st: State, lanes: Array, block: Array, number: Array) -> None:
    """Report lanes that use barriers of blocks of their cluster which nobody has made for sure."""
    made = barriers(st).made[block, number]
    if (made == _NEVER).any():
        n = int(np.flatnonzero(made == _NEVER)[0])
        text = f"uses barrier {int(number[n])}, which nobody has initialised"
        tell(st, UNWRITTEN, int(lanes[n]), text)
        return
    fenced = barriers(st).fenced[block, number] & (made < st.met)
    early = conflicts(st, made, lanes, False) & ~fenced
    if early.any():
        n = int(np.flatnonzero(early)[0])
        text = (
            f"uses barrier {int(number[n])}, which another thread initialised; there is no barrier "
            f"of the {'block' if block[n] == st.block_in[lanes[n]] else 'cluster'} between the two"
        )
        tell(st, RACE, int(lanes[n]), text, int(early.sum()))


# -- calls


def _create(code: Any, e: E.Call) -> Fn:
    count = e.args[0]
    if not isinstance(count, E.IntImm):
        raise TilewrightError(f"simt: create_barriers takes a constant, not {count}")
    number = int(count.value)

    def run(st: State) -> Any:
        if st.barriers is None:
            st.barriers = Barriers(st, number)
        elif st.barriers.count != number:
            raise TilewrightError("simt: create_barriers makes all barriers of a kernel at once")
        return np.int32(0)

    return run


def _init(code: Any, e: E.Call) -> Fn:
    barrier, count = code.value(e.args[0]), code.value(e.args[1])

    def run(st: State) -> Any:
        lanes, block, number = places(st, barrier(st), False)
        b = barriers(st)
        threads = np.broadcast_to(np.asarray(count(st), np.int64), (st.lanes,))[lanes]
        b.expected[block, number] = b.pending[block, number] = threads
        b.bytes[block, number] = b.phase[block, number] = 0
        b.made[block, number] = st.access(lanes)
        b.fenced[block, number] = False
        return np.int32(0)

    return run


def _fence_init(code: Any, e: E.Call) -> Fn:
    def run(st: State) -> Any:
        b = barriers(st)
        b.fenced[np.unique(st.block_in[running_lanes(st)])] = True
        return np.int32(0)

    return run


def _fence_proxy(code: Any, e: E.Call) -> Fn:
    def run(st: State) -> Any:
        now = st.tick()
        if st.proxy is None:
            st.proxy = np.zeros(st.lanes, np.int64)
        lanes = running_lanes(st)
        st.proxy[lanes] = now
        if st.barriers is not None:
            st.barriers.fenced[np.unique(st.block_in[lanes])] = True
        return np.int32(0)

    return run


def _arrive(code: Any, e: E.Call) -> Fn:
    """(barrier [, bytes])"""
    barrier = code.value(e.args[0])
    count = code.value(e.args[1]) if len(e.args) > 1 else lambda st: 0

    def run(st: State) -> Any:
        lanes, block, number = places(st, barrier(st))
        more = np.broadcast_to(np.asarray(count(st), np.int64), (st.lanes,))[lanes]
        arrive(st, lanes, block, number, more)
        return np.int32(0)

    return run


def arrive(st: State, lanes: Array, block: Array, number: Array, nbytes: Any = 0) -> None:
    """Let lanes arrive at barriers of blocks, whose phases do not end before so many bytes more."""
    b = barriers(st)
    b.tell(st, lanes, block, number)
    np.add.at(b.bytes, (block, number), nbytes)
    np.subtract.at(b.pending, (block, number), 1)
    b.settle()


def _wait(code: Any, e: E.Call) -> Fn:
    """(barrier [, parity])"""
    barrier = code.value(e.args[0])
    parity = code.value(e.args[1]) if len(e.args) > 1 else lambda st: 0

    def run(st: State) -> Any:
        lanes, block, number = places(st, barrier(st))
        b = barriers(st)
        wanted = np.broadcast_to(np.asarray(parity(st), np.int64), (st.lanes,))[lanes]
        stuck = b.phase[block, number] % 2 == wanted % 2
        while stuck.any() and st.sides is not None and st.sides.pause(b.version):
            stuck = b.phase[block, number] % 2 == wanted % 2
        if stuck.any():
            n = int(np.flatnonzero(stuck)[0])
            at = block[n], number[n]
            tell(
                st, DEADLOCK, int(lanes[n]),
                f"waits for ever at barrier {int(number[n])}, of which phase {int(b.phase[at])} "
                f"does not end: {int(b.pending[at])} threads have not arrived, {int(b.bytes[at])} "
                "bytes are missing",
                int(stuck.sum()),
            )  # fmt: skip
            at_once = np.unique(np.stack([block[stuck], number[stuck]]), axis=1)
            b.end((at_once[0], at_once[1]))  # so that the rest is looked at, too
        b.hear(st, lanes, block, number)
        return np.int32(0)

    return run


def _bar_sync(code: Any, e: E.Call) -> Fn:
    """(barrier, threads)"""
    count = const_int(e.args[1])

    def run(st: State) -> Any:
        lanes = running_lanes(st)
        here = np.bincount(st.block_in[lanes], minlength=st.blocks)
        wrong = (here > 0) & (here != count)
        if wrong.any():
            block = int(np.flatnonzero(wrong)[0])
            lane = int(lanes[st.block_in[lanes] == block][0])
            text = f"waits for {count} threads at a barrier that {here[block]} come to"
            tell(st, DIVERGENT, lane, text, int(wrong.sum()))
        now, warps = st.tick(), st.geometry.warps
        if st.known is None:
            st.known = np.zeros((st.blocks * warps, st.geometry.cluster * warps), np.int64)
        meeting = np.zeros(len(st.known), np.bool_)
        meeting[st.warp[lanes]] = True
        number = np.arange(len(meeting))
        for warp in np.flatnonzero(meeting):  # each knows what all of its block have done
            of = number[meeting & (number // warps == warp // warps)]
            st.known[warp, of % (st.geometry.cluster * warps)] = now
        st.report.barriers += int((here > 0).sum())
        return np.int32(0)

    return run


def require_fenced(st: State, lanes: Array, block: Array, number: Array) -> None:
    """Report copies that may not see the barrier that they count at."""
    bad = ~barriers(st).fenced[block, number]
    if bad.any():
        n = int(np.flatnonzero(bad)[0])
        text = (
            f"starts a copy at barrier {int(number[n])} without a ptx_fence_barrier_init behind it"
        )
        tell(st, FENCE, int(lanes[n]), text)


Code.calls.update(
    {
        "tir.create_barriers": _create,
        "tir.ptx_init_barrier_thread_count": _init,
        "tir.ptx_fence_barrier_init": _fence_init,
        "tir.ptx_fence_proxy_async": _fence_proxy,
        "tir.ptx_arrive_barrier": _arrive,
        "tir.ptx_arrive_barrier_expect_tx": _arrive,
        "tir.ptx_wait_barrier": _wait,
        "tir.ptx_bar_sync": _bar_sync,
    }
)
