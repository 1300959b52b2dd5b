"""The threads that run at one time, and where they are: masks, clocks, variables, findings.

A *lane* is one thread of the blocks that run together. A value is a NumPy scalar where all lanes
agree, an array of shape (lanes,) where they differ, and of shape (n, lanes) or (n, 1) where the
value is a vector of n. The *clock* ticks at each barrier; an access is in order with one of another
thread if a barrier that both passed lies between.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..loopir.stmt import Stmt
from .simt_report import Finding, SimtReport, Thread

Array = np.ndarray[Any, Any]

# an access in one number: clock, whether atomic, number of the statement (the last stands for all
# that follow, too), thread
THREAD_BITS = 28
SITE_BITS = 11
THREAD_MASK = (1 << THREAD_BITS) - 1
SITE_MASK = (1 << SITE_BITS) - 1
ATOMIC = 1 << (THREAD_BITS + SITE_BITS)
CLOCK_SHIFT = THREAD_BITS + SITE_BITS + 1
WRITTEN = 1  # an access before the kernel

_MAX_FINDINGS = 64

Dims = tuple[int, int, int]


class Geometry:
    """A launch: sizes of the grid and of its blocks, x fastest, and how many blocks are a cluster,
    which follow each other along x."""

    def __init__(self, grid: Dims, block: Dims, warp_size: int, cluster: int = 1) -> None:
        self.grid = grid
        self.block = block
        self.warp_size = warp_size
        self.cluster = cluster
        self.blocks = grid[0] * grid[1] * grid[2]
        self.threads = block[0] * block[1] * block[2]
        self.warps = -(-self.threads // warp_size)
        if self.blocks * self.threads > THREAD_MASK:
            raise TilewrightError(
                f"simt runs up to {THREAD_MASK} threads, not {self.blocks * self.threads}; "
                "use smaller shapes"
            )

    @property
    def groups(self) -> tuple[int, ...]:
        """Threads of a block, and of a cluster where it has several."""
        return (self.threads,) if self.cluster == 1 else (self.threads, self.threads * self.cluster)

    def thread(self, number: int) -> Thread:
        """The thread of a number, which counts through the blocks one after another."""
        b, t = divmod(number, self.threads)
        return Thread(unflatten(b, self.grid), unflatten(t, self.block))


def unflatten(n: int, dims: Dims) -> Dims:
    """Indices (x, y, z) of the n-th of dims[0] * dims[1] * dims[2]."""
    return n % dims[0], n // dims[0] % dims[1], n // (dims[0] * dims[1])


class Log:
    """Collects findings of a launch; the same ones only count."""

    def __init__(self, report: SimtReport, sites: list[Stmt], geometry: Geometry) -> None:
        self.report = report
        self.sites = sites
        self.geometry = geometry
        self.known: dict[Any, Finding] = {}
        self.check = True

    def make(
        self,
        kind: str,
        message: str,
        site: int,
        buffer: str = "",
        index: int | None = None,
        threads: tuple[int, ...] = (),
        other: int | None = None,
        count: int = 1,
    ) -> Finding:
        """A finding that is not yet told."""
        return Finding(
            kind,
            message,
            self.sites[site],
            buffer,
            index,
            tuple([self.geometry.thread(int(t)) for t in threads]),
            self.sites[other] if other is not None and other < SITE_MASK else None,
            count,
        )

    def tell(self, finding: Finding) -> None:
        """Put a finding into the report, once."""
        key = (finding.kind, finding.buffer, id(finding.statement), id(finding.other))
        old = self.known.get(key)
        if old is not None:
            if old is not finding:
                old.count += finding.count
            return
        self.known[key] = finding
        if len(self.report.findings) < _MAX_FINDINGS:
            self.report.findings.append(finding)

    def add(self, *args: Any, **kwargs: Any) -> None:
        self.tell(self.make(*args, **kwargs))


class State:
    """Blocks that run together.

    `mask` says which lanes run now (None: all). `sync_block`, `sync_warp`, `sync_grid` are the time
    of the last barrier of each kind as an access would carry it, one number or one for each lane;
    `sync_cluster` of the last one of all blocks of a cluster.
    """

    def __init__(self, geometry: Geometry, first: int, count: int, slots: int, log: Log) -> None:
        g = geometry
        self.geometry = g
        self.log = log
        self.report = log.report
        self.blocks = count
        self.lanes = count * g.threads
        self.lane = np.arange(self.lanes, dtype=np.int64)
        self.number = self.lane + first * g.threads  # of the thread
        self.block_in = self.lane // g.threads  # of the blocks that run together
        self.thread_in = self.lane % g.threads
        self.block = self.block_in + first
        self.lane_in_warp = self.thread_in % g.warp_size
        self.warp = self.block_in * g.warps + self.thread_in // g.warp_size
        self.env: list[Any] = [None] * slots
        self.stamps = [0] * slots  # when each variable changed last, counted in changes
        self.changes = 0
        self.cache: list[Any] = []
        self.memory: dict[Any, Any] = {}
        self.mask: Array | None = None
        self.site = 0
        self.quiet = False
        self.clock = 0
        self.sync_grid: int = 0
        self.sync_block: Any = 0
        self.sync_warp: Any = 0
        self.sync_cluster: Any = 0
        self.met = 0  # when clusters met last, whatever they see of memory
        self.floor = 0  # the least of sync_block
        self.warp_order = False  # warps have had barriers of their own
        self.tainted = False
        self.origins: list[Finding] = []
        self.origin_of: dict[Any, int] = {}
        self.taint_env: dict[Any, Any] = {}
        self.shuffle_taint: dict[Any, Any] = {}
        self.copies: Any = None
        self.in_async = False
        self.shared_end = 0  # of the addresses given to shared memory
        self.maps: dict[Any, Any] = {}  # tensor maps among the arguments
        self.barriers: Any = None
        self.sides: Any = None  # of the branch whose sides run in turns
        self.known: Any = None  # see simt_barrier.Barriers
        self.proxy: Any = None  # when each lane had its last fence.proxy.async
        self.far: Any = None  # the statement that used other blocks since the cluster last met
        self.products: list[Any] = []  # of warp groups, under way
        self.product_groups: Any = None
        self.samples: Any = None
        self.most_steps = sys.maxsize  # of a loop, where only its accesses are looked at

    def put(self, n: int, value: Any) -> None:
        """Give a variable a value."""
        self.env[n] = value
        self.changes += 1
        self.stamps[n] = self.changes

    def start(self, clock: int, launch: int) -> None:
        """Begin at a time; `launch` is when the kernel began."""
        self.clock = clock
        self.sync_grid = launch << CLOCK_SHIFT
        self.sync_block = self.sync_warp = self.floor = clock << CLOCK_SHIFT
        self.sync_cluster = self.floor

    @property
    def near_floor(self) -> int:
        """Accesses before it are in order with all by threads that share shared memory."""
        if self.geometry.cluster == 1:
            return self.floor
        return min(self.floor, int(np.min(self.sync_cluster)))

    def tick(self) -> int:
        self.clock += 1
        if self.clock >= 1 << 22:
            raise TilewrightError("simt counts up to four million barriers in one launch")
        return self.clock << CLOCK_SHIFT

    def access(self, lanes: Any) -> Array:
        """What an access by lanes looks like in shadow memory."""
        here = (self.clock << CLOCK_SHIFT) | (min(self.site, SITE_MASK) << THREAD_BITS)
        return np.asarray(self.number[lanes] + here)

    def origin(self, finding: Finding, key: Any) -> int:
        """The number by which values carry where they became undefined; 0 is defined."""
        known = self.origin_of.get(key)
        if known is None:
            self.origins.append(finding)
            known = self.origin_of[key] = len(self.origins)
        else:
            self.origins[known - 1].count += finding.count
        self.tainted = True
        return known

    def use(self, taint: Any, what: str) -> None:
        """Tell of undefined values among those that lanes use now; `what` they are used as."""
        if type(taint) is int:
            return
        t = np.broadcast_to(taint, taint.shape[:-1] + (self.lanes,))
        if self.mask is not None:
            t = t * self.mask
        for n in np.unique(t):
            if n:
                finding = self.origins[n - 1]
                if finding.other is None:
                    finding.other = self.log.sites[self.site]
                    finding.message += f"; its value is used {what}"
                self.log.tell(finding)
