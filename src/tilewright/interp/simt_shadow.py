"""Shadow memory: who wrote and read each element last, to tell races and unwritten elements.

Every access of one thread to an element that another thread writes needs a barrier between them,
also within a warp, where lanes only happen to run in step. An element remembers its last write, its
last read, the last read by another thread than that, and the last read by another block, and
cluster of blocks, where these reach it: enough to see each first race of an element, but for reads
by three and more threads between two barriers of different kinds.

Threads that write the very same value at one place do no harm on any GPU; such writes are counted
as benign. Memory models call them races all the same, hence the count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .simt_report import ASYNC, RACE, RACE_BLOCKS, WGMMA
from .simt_state import (
    ATOMIC,
    SITE_MASK,
    THREAD_BITS,
    THREAD_MASK,
    WRITTEN,
    Array,
    State,
)

_WARP, _GROUP_WARPS = 32, 4  # of a warp group
Same = Callable[[], Array]  # whether each written value is the one that is there


class InitShadow:
    """For memory of one thread: which of its units have been written."""

    __slots__ = ("written",)

    def __init__(self, units: int) -> None:
        self.written = np.zeros(units, np.bool_)

    def forget(self, st: State) -> None:
        self.written[:] = False

    def read(self, st: State, m: Any, at: Array, lanes: Array) -> None:
        known = self.written[at]
        if not known.all():
            m.unwritten(st, at, lanes, ~known)
            self.written[at] = True

    def write(self, st: State, m: Any, at: Array, lanes: Array, atomic: bool, same: Same) -> None:
        self.written[at] = True

    def after(self, st: State, m: Any, at: Array, lanes: Array, same: Same) -> None:
        pass

    def set_written(self, at: Array) -> None:
        self.written[at] = True


class FragmentShadow(InitShadow):
    """Of registers that hold sums: which of them a product is about to write, and which lanes have
    used theirs since their last wgmma.fence."""

    __slots__ = ("flying", "used")

    def __init__(self, units: int, lanes: int) -> None:
        super().__init__(units)
        self.flying = np.zeros(units, np.bool_)
        self.used = np.ones(lanes, np.bool_)

    def read(self, st: State, m: Any, at: Array, lanes: Array) -> None:
        self._touch(st, m, at, lanes, "reads")
        super().read(st, m, at, lanes)

    def write(self, st: State, m: Any, at: Array, lanes: Array, atomic: bool, same: Same) -> None:
        self._touch(st, m, at, lanes, "writes")
        super().write(st, m, at, lanes, atomic, same)

    def _touch(self, st: State, m: Any, at: Array, lanes: Array, does: str) -> None:
        self.used[lanes] = True
        early = self.flying[at]
        if early.any():
            _tell_early(st, m, at, lanes, early, does, " while a wgmma to it is under way")


class RaceShadow:
    """For memory that threads share. `grid`: by those of all blocks. `groups`: threads of what
    counts as one of several that reach it, a block or a cluster.

    `writes`: 0 is never written, a negative number an async copy on its way. Of copies that end
    with a phase of a barrier, `flights` has their numbers, and `landed(places, lanes)` says which
    of them lanes know to be over. `busy` counts the products of warp groups that are to read
    a unit yet; `products` has the last reads of those that all four warps have made together, for
    each warp group of a block.
    """

    __slots__ = (
        "writes",
        "reads",
        "others",
        "far",
        "grid",
        "flights",
        "landed",
        "busy",
        "products",
    )

    def __init__(
        self, units: int, grid: bool, written: Any, reads: bool, groups: tuple[int, ...]
    ) -> None:
        self.grid = grid
        if isinstance(written, np.ndarray):
            self.writes = written.astype(np.int64) * WRITTEN
        else:
            self.writes = np.full(units, WRITTEN if written else 0, np.int64)
        self.reads = np.zeros(units if reads else 0, np.int64)
        self.others = np.zeros(units if reads else 0, np.int64)
        self.far = [(n, np.zeros(units, np.int64)) for n in groups if reads]
        self.flights: Any = None
        self.landed: Any = None
        self.busy: Any = None
        self.products: dict[int, Array] = {}

    def forget(self, st: State) -> None:
        """The memory is given out anew: unwritten, but who used it since a barrier still counts."""
        self.writes[(self.writes > 0) & (self.writes < st.near_floor)] = 0

    def set_written(self, at: Array) -> None:
        self.writes[at] = WRITTEN

    def read(self, st: State, m: Any, at: Array, lanes: Array) -> None:
        self.check(st, m, at, lanes)
        if self.reads.size:
            self._remember(st, at, lanes)

    def check(self, st: State, m: Any, at: Array, lanes: Array) -> None:
        """Report what makes a read undefined, without taking note of the read."""
        writes = self.writes[at]
        low = int(writes.min())
        if low <= 0:
            if low < 0:
                self._pending(st, m, at, lanes, writes)
            nothing = writes == 0
            if nothing.any():
                m.unwritten(st, at, lanes, nothing)
                self.writes[at[nothing]] = WRITTEN
        if writes.max() >= (st.sync_grid if self.grid else st.near_floor):
            bad = conflicts(st, writes, lanes, self.grid, True)
            if bad.any():
                _tell(st, m, at, lanes, writes, bad, "reads", "wrote")

    def note_read(self, st: State, at: Array, lanes: Array) -> None:
        """Take note of a read that was checked before."""
        self._remember(st, at, lanes)

    def note_product(self, group: int, at: Array, read: Array) -> None:
        """Take note of a read by a warp group, of that number in its block, whose last lane's
        `read` stands for those of all its warps."""
        if group not in self.products:
            self.products[group] = np.zeros(len(self.writes), np.int64)
        self.products[group][at] = read

    def hold(self, at: Array, more: int) -> None:
        """Keep units from being written, or (-1) let them go."""
        if self.busy is None:
            self.busy = np.zeros(len(self.writes), np.int32)
        np.add.at(self.busy, at, more)

    def _remember(self, st: State, at: Array, lanes: Array) -> None:
        now = st.access(lanes)
        old = self.reads[at]
        self.reads[at] = now
        new = self.reads[at]
        lost = new != now
        if lost.any():
            self.others[at[lost]] = now[lost]
        floor = st.sync_grid if self.grid else st.near_floor
        if old.max() >= floor:
            moved = ((old ^ new) & THREAD_MASK != 0) & (old >= floor)
            self.others[at[moved]] = old[moved]
            self._away(at, moved, old, new)
        if lost.any():
            self._away(at, lost, now, new)

    def _away(self, at: Array, some: Array, other: Array, last: Array) -> None:
        """Remember some reads that are of another group than the last one."""
        for threads, table in self.far:
            away = some & ((other & THREAD_MASK) // threads != (last & THREAD_MASK) // threads)
            table[at[away]] = other[away]

    def write(self, st: State, m: Any, at: Array, lanes: Array, atomic: bool, same: Same) -> None:
        """Before the memory changes."""
        writes = self.writes[at]
        floor = st.sync_grid if self.grid else st.near_floor
        if writes.min() < 0:
            self._pending(st, m, at, lanes, writes)
        if self.busy is not None and self.busy[at].any():
            self._held(st, m, at, lanes)
        if writes.max() >= floor:
            bad = conflicts(st, writes, lanes, self.grid, True)
            if atomic:
                bad &= (writes & ATOMIC) == 0
            if bad.any():
                equal = bad & same()
                if equal.any():
                    st.report.benign_writes += int(equal.sum())
                    bad &= ~equal
                if bad.any():
                    _tell(st, m, at, lanes, writes, bad, "writes", "wrote")
        for reads in self._read(at):
            if reads.max() >= floor:
                bad = conflicts(st, reads, lanes, self.grid)
                if bad.any():
                    _tell(st, m, at, lanes, reads, bad, "writes", "read")
                    break
        self.writes[at] = st.access(lanes) | (ATOMIC if atomic else 0)

    def _read(self, at: Array) -> Iterator[Array]:
        """The reads of units that are remembered."""
        if self.reads.size:
            for table in (self.reads, self.others, *(table for _, table in self.far)):
                yield table[at]
        for table in self.products.values():
            last = table[at]
            for warp in range(_GROUP_WARPS):
                yield np.where(last > 0, last - warp * _WARP, 0)

    def after(self, st: State, m: Any, at: Array, lanes: Array, same: Same) -> None:
        """After the memory has changed: did two lanes write one element in this very access?"""
        now = st.access(lanes)
        kept = self.writes[at]
        lost = kept != now
        if lost.any():
            equal = lost & same()
            if equal.any():
                st.report.benign_writes += int(equal.sum())
            bad = lost & ~equal
            if bad.any():
                _tell(st, m, at, lanes, kept, bad, "writes", "wrote")

    def _held(self, st: State, m: Any, at: Array, lanes: Array) -> None:
        why = ", which a wgmma that is under way reads"
        _tell_early(st, m, at, lanes, self.busy[at] > 0, "writes", why)

    def _pending(self, st: State, m: Any, at: Array, lanes: Array, writes: Array) -> None:
        bad = writes < 0
        wait = "its group"
        if self.landed is not None:
            wait = "the phase of its barrier"
            over = np.zeros(bad.shape, np.bool_)
            over[bad] = self.landed(at[bad], np.broadcast_to(lanes, at.shape)[bad])
            bad &= ~over
            if not bad.any():
                return
        n = int(np.flatnonzero(bad.reshape(-1))[0])
        prior = -int(writes.reshape(-1)[n])
        lane = int(lanes.reshape(-1)[n])
        issuer = prior & THREAD_MASK
        index = m.element(int(at.reshape(-1)[n]), lane)
        who = st.geometry.thread(int(st.number[lane]))
        st.log.add(
            ASYNC,
            f"{who} uses {m.name}[{index}] while an async copy of "
            f"{st.geometry.thread(issuer)} to it is under way: wait for {wait} first",
            st.site,
            m.name,
            index,
            (int(st.number[lane]), issuer),
            (prior >> THREAD_BITS) & SITE_MASK,
            int(bad.sum()),
        )


def conflicts(st: State, prior: Array, lanes: Array, grid: bool, stores: bool = False) -> Array:
    """Which earlier accesses are by another thread, with no barrier since that both passed. Of
    `stores` of other blocks a barrier in shared memory does not tell: who arrives there releases
    them to its own block."""
    me, who = st.number[lanes], prior & THREAD_MASK
    limit = st.sync_block
    if isinstance(limit, np.ndarray):
        limit = limit[lanes]
    threads, size = st.geometry.threads, st.geometry.warp_size
    if st.warp_order:
        close = st.sync_warp
        if isinstance(close, np.ndarray):
            close = close[lanes]
        same_warp = (who % threads) // size == (me % threads) // size
        limit = np.where(same_warp, close, limit)
    cluster = st.geometry.cluster
    same = who // threads == me // threads
    if cluster > 1:  # blocks that meet, and reach each other's shared memory
        far = st.sync_cluster
        if isinstance(far, np.ndarray):
            far = far[lanes]
        limit = np.where(same, limit, far)
    if st.known is not None:  # what barriers in shared memory say
        there = who // threads % cluster * st.geometry.warps + who % threads // size
        known = st.known[st.warp[lanes], there]
        limit = np.maximum(limit, np.where(same, known, 0) if stores else known)
    if grid:
        each = threads * cluster
        limit = np.where(who // each == me // each, limit, st.sync_grid)
    return np.asarray((who != me) & (prior >= limit))


def _tell_early(
    st: State, m: Any, at: Array, lanes: Array, bad: Array, does: str, why: str
) -> None:
    """Report accesses that do not wait for a wgmma."""
    n = int(np.flatnonzero(bad.reshape(-1))[0])
    lane = int(np.broadcast_to(lanes, at.shape).reshape(-1)[n])
    index = m.element(int(at.reshape(-1)[n]), lane)
    number = int(st.number[lane])
    text = f"{st.geometry.thread(number)} {does} {m.name}[{index}]{why}: wait for its group first"
    st.log.add(WGMMA, text, st.site, m.name, index, (number,), None, int(bad.sum()))


def _tell(
    st: State, m: Any, at: Array, lanes: Array, prior: Array, bad: Array, now: str, then: str
) -> None:
    n = int(np.flatnonzero(bad.reshape(-1))[0])
    earlier, lane = int(prior.reshape(-1)[n]), int(lanes.reshape(-1)[n])
    me, who = int(st.number[lane]), earlier & THREAD_MASK
    index = m.element(int(at.reshape(-1)[n]), lane)
    a, b = st.geometry.thread(me), st.geometry.thread(who)
    if a.block != b.block:
        kind, why = RACE_BLOCKS, "blocks have no order"
        each = st.geometry.threads * st.geometry.cluster
        if me // each == who // each:
            why = "their cluster does not meet between the two, and no barrier has told of it"
    else:
        kind, why = RACE, "there is no barrier between the two"
    atomic = " atomically" if earlier & ATOMIC and then == "wrote" else ""
    st.log.add(
        kind,
        f"{a} {now} {m.name}[{index}], which {b} {then}{atomic}; {why}",
        st.site,
        m.name,
        index,
        (me, who),
        (earlier >> THREAD_BITS) & SITE_MASK,
        int(bad.sum()),
    )
