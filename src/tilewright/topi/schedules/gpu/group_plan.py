"""How large the tiles of warp groups are, and into how many parts a reduction is cut: by the clocks
that a model of the device counts.

A multiprocessor makes its tiles one after another, each step as fast as its tensor cores multiply,
as its shared memory is written once and read by each warp group, and as the second-level cache,
which all share, brings the operands; whichever takes longest. Large tiles read less, and so do wide
ones of few groups; small ones leave fewer multiprocessors without any, and so do parts of a
reduction, whose sums are written, read again and added by one more kernel.
Blocks of a cluster read what they have in common once, or cut the reduction without a kernel more,
reading each other's sums; they start and end together.

Rates are NVIDIA's: 512 products of float16 a clock of each of a multiprocessor's four tensor cores
(H100 architecture, dense), 128 bytes a clock of shared memory, and the caches' of `machine`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import inf

from ...tensor_intrin.warp_group_tile import GROUP, GROUP_ROWS, SPAN
from .machine import CUTS, LAUNCH, MOST_STAGES, PORT, GpuMachine, cache_rate, joining_clocks

_ROWS, _COLUMNS = (128, 256, 64), (256, 128, 64, 32)  # of the same clocks the first
_MOST = 128 * 256  # sums of a tile: more threads, or more sums a thread, have no registers
_TENSOR = 32  # sums of a tile that a clock adds a step of 128 bytes to
_SHARED = 128  # bytes a clock
LATENCY = 1500  # from the start of a block to its first products, and its last sums to memory
_FAR = 700  # clocks from the device's memory
_BESIDE = 40  # registers of a thread beside its sums
_SUM = 4  # bytes
_TURN = 300  # from the last products of a tile to the first of the next that a block makes
_LEAST = 4  # steps of a part: fewer are not as many as are under way
# of the same clocks the first; those of four are for measurements to choose: a GPC has pairs of
# multiprocessors, some of which they leave idle
_CLUSTERS, _MORE = ((1, 1), (2, 1), (1, 2)), ((4, 1), (1, 4))
_WORTH = 1.03  # times as fast sharing all steps has to be, where each step is asked for its tile
_MEETING = 600  # clocks: a cluster's blocks start at once, and meet twice
_JOINED, _LEAST_JOINED = (2, 4, 8), 16  # blocks, and columns of each
# bytes a clock that a multiprocessor reads of another's shared memory: 3.3 TB/s of all at 1.7 GHz
# (Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024)
_BETWEEN = 14
_MOST_STEPS = 1 << 30  # of all tiles, that blocks count by 32 bits

Cluster = tuple[int, int]  # blocks below and beside each other
ALONE, STAYS, STREAM = range(3)


@dataclass(frozen=True)
class GroupPlan:
    """Rows and columns of a block's tile, into how many `parts` the reduction is cut, and blocks of
    a cluster below and beside each other, or that join their sums: columns are those of all of
    them; whether blocks stay and make tiles one after another (`stays`: ALONE, STAYS, or STREAM,
    where they share all steps); `clocks` that the model counts."""

    rows: int
    columns: int
    parts: int
    clocks: float
    cluster: Cluster = (1, 1)
    joined: int = 1
    stays: int = ALONE


@dataclass(frozen=True)
class Work:
    """`count` products of `rows` and `columns`, and a reduction of so many `steps` of 128 bytes."""

    rows: int
    columns: int
    count: int
    steps: int

    def tiles(self, rows: int, columns: int) -> tuple[int, int]:
        """How many there are, down and across."""
        return -(-self.rows // rows), -(-self.columns // columns)

    @property
    def parts(self) -> list[int]:
        """Into how many parts the reduction may be cut, each of as many steps but for the last."""
        most = max(1, self.steps // _LEAST)
        return sorted({-(-self.steps // -(-self.steps // p)) for p in CUTS if p <= most})

    def clusters(self, rows: int, columns: int) -> list[Cluster]:
        """Clusters that tiles divide into."""
        down, across = self.tiles(rows, columns)
        return [c for c in (*_CLUSTERS, *_MORE) if down % c[0] == across % c[1] == 0]

    def plans(
        self,
        machine: GpuMachine,
        widths: int,
        takes: Callable[[int, int, Cluster], bool] = lambda *_: True,
    ) -> list[GroupPlan]:
        """The best plan of each tile that the product fills, but for rows of the smallest, whose
        columns are a multiple of `widths`, in pairs that it `takes`; the best first."""
        most = (machine.warp_groups // GROUP - 1) * GROUP_ROWS
        found, parts = [], self.parts
        for r, c in product(_ROWS, _COLUMNS):
            fits = r <= min(max(self.rows, GROUP_ROWS), most) and c <= self.columns
            if r * c > _MOST or not fits or c % widths:
                continue
            own = [at for at in self.clusters(r, c) if at in _CLUSTERS and takes(r, c, at)]
            each = [self.plan(r, c, p, machine, at) for p in parts for at in own]
            each += [self.plan(r, c, 1, machine, joined=n) for n in self.joins(c)]
            found.append(min(each, key=lambda x: x.clocks))
        return sorted(found, key=lambda x: x.clocks)

    def joins(self, columns: int) -> list[int]:
        """How many blocks may share so many columns, each a part of the reduction. (Sums that they
        join have room in an array of as many elements as the tile of each.)"""
        return [
            n
            for n in _JOINED
            if columns // n >= _LEAST_JOINED
            and self.steps >= _LEAST * n
            and 2 * min(self.rows, GROUP_ROWS) >= n
            and -(-self.columns // (columns // n)) % n == 0
        ]

    def ways(self, rows: int, columns: int, parts: int) -> tuple[int, ...]:
        """How blocks may make their tiles."""
        down, across = self.tiles(rows, columns)
        shared = parts == 1 and down * across * self.count * self.steps < _MOST_STEPS
        return (ALONE, STAYS, STREAM) if shared else (ALONE, STAYS)

    def stages(self, rows: int, columns: int, most: int) -> int:
        """Steps to have under way, of `most`: one that is multiplied, and as many on their way as
        the memory takes to bring one."""
        step = (min(rows, self.rows) + columns) * SPAN
        return min(most, max(MOST_STAGES, 1 + -(-_FAR * PORT // step)))

    def plan(
        self,
        rows: int,
        columns: int,
        parts: int,
        machine: GpuMachine,
        cluster: Cluster = (1, 1),
        joined: int = 1,
    ) -> GroupPlan:
        """The plan of a tile that so many blocks make together, so many parts and a cluster, with
        its clocks."""
        down, across = self.tiles(rows, columns)
        blocks = down * across * self.count * parts * joined
        processors = machine.processors or blocks
        busiest = -(-blocks // processors)
        rate = cache_rate(min(blocks, processors))
        groups = rows // GROUP_ROWS
        step = max(
            rows * columns / _TENSOR,
            (groups * (GROUP_ROWS + columns) + rows + columns) * SPAN / _SHARED,
            (min(rows, self.rows) / cluster[1] + columns / cluster[0]) * SPAN / rate,
        )
        sums = rows * columns * _SUM
        each = -(-self.steps // (parts * joined)) * step + sums / joined / rate
        start = LATENCY + _MEETING * (cluster != (1, 1) or joined > 1)
        if joined > 1:
            each += sums / _SHARED + sums * (1 - 1 / joined) / _BETWEEN
        rounds = -(-busiest // _at_once(rows, columns, machine))
        ways = {ALONE: busiest * each + rounds * start}
        # where several blocks have room, one multiplies while another one begins or ends
        if joined == 1 and rounds == busiest > 1:
            ways[STAYS] = busiest * each + start + (rounds - 1) * _TURN
            if STREAM in self.ways(rows, columns, parts):
                ways[STREAM] = self._streamed(blocks / processors, step, sums / rate, start)
        stays = min(ways, key=lambda way: ways[way] * (_WORTH if way == STREAM else 1))
        clocks = ways[stays]
        clocks += joining_clocks(parts, self.rows * self.columns * self.count * _SUM)
        return GroupPlan(rows, columns, parts, clocks, cluster, joined, stays)

    def _streamed(self, tiles: float, step: float, stored: float, start: float) -> float:
        """Clocks where a multiprocessor has so many tiles, the last of them in part: the sums of
        two parts are kept, and read by one more kernel."""
        return tiles * (self.steps * step + stored + _TURN) + start + LAUNCH + 4 * stored


def _at_once(rows: int, columns: int, machine: GpuMachine) -> int:
    """Blocks that a multiprocessor has room for, with two steps under way."""
    threads = rows // GROUP_ROWS * GROUP + GROUP
    registers = threads * (columns // 2 + _BESIDE)
    shared = machine.shared_bytes or inf
    room = shared // (2 * (rows + columns) * SPAN + rows * _SUM * 64)
    return max(1, int(min(room, machine.registers // registers, 2048 // threads)))
