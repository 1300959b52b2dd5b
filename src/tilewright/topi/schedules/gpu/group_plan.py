"""How large the tiles of warp groups are, and into how many parts a reduction is cut: by the clocks
that a model of the device counts.

A multiprocessor makes its tiles one after another, each step as fast as its tensor cores multiply,
as its shared memory is read, and as the second-level cache, which all share, brings the operands;
whichever takes longest. Large tiles read less, small ones leave fewer multiprocessors without any,
and so do parts of a reduction, whose sums are written, read again and added by one more kernel.

Rates are NVIDIA's: 512 products of float16 a clock of each of a multiprocessor's four tensor cores
(H100 architecture, dense), 128 bytes a clock of shared memory, and the caches' of `machine`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import inf

from ...tensor_intrin.wgmma import GROUP, GROUP_ROWS, SPAN
from .machine import CUTS, MOST_STAGES, PORT, GpuMachine, cache_rate, joining_clocks

_ROWS, _COLUMNS = (128, 256, 64), (256, 128, 64, 32)  # of the same clocks the first
_MOST = 128 * 256  # sums of a tile: more threads, or more sums a thread, have no registers
_TENSOR = 32  # sums of a tile that a clock adds a step of 128 bytes to
_SHARED = 128  # bytes a clock
LATENCY = 1500  # from the start of a block to its first products, and its last sums to memory
_FAR = 700  # clocks from the device's memory
_BESIDE = 40  # registers of a thread beside its sums
_SUM = 4  # bytes
_LEAST = 4  # steps of a part: fewer are not as many as are under way


@dataclass(frozen=True)
class GroupPlan:
    """Rows and columns of a block's tile, and into how many `parts` the reduction is cut; `clocks`
    that the model counts."""

    rows: int
    columns: int
    parts: int
    clocks: float


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

    def plans(self, machine: GpuMachine, widths: int) -> list[GroupPlan]:
        """The best plan of each tile that the product fills, but for rows of the smallest, whose
        columns are a multiple of `widths`; the best first."""
        most = (machine.warp_groups // GROUP - 1) * GROUP_ROWS
        found = []
        for r, c in product(_ROWS, _COLUMNS):
            fits = r <= min(max(self.rows, GROUP_ROWS), most) and c <= self.columns
            if r * c > _MOST or not fits or c % widths:
                continue
            each = [self.plan(r, c, p, machine) for p in self.parts]
            found.append(min(each, key=lambda x: x.clocks))
        return sorted(found, key=lambda x: x.clocks)

    def stages(self, rows: int, columns: int, most: int) -> int:
        """Steps to have under way, of `most`: one that is multiplied, and as many on their way as
        the memory takes to bring one."""
        step = (min(rows, self.rows) + columns) * SPAN
        return min(most, max(MOST_STAGES, 1 + -(-_FAR * PORT // step)))

    def plan(self, rows: int, columns: int, parts: int, machine: GpuMachine) -> GroupPlan:
        """The plan of a tile and so many parts, with its clocks."""
        down, across = self.tiles(rows, columns)
        blocks = down * across * self.count * parts
        processors = machine.processors or blocks
        busiest = -(-blocks // processors)
        rate = cache_rate(min(blocks, processors))
        groups = rows // GROUP_ROWS
        step = max(
            rows * columns / _TENSOR,
            groups * (GROUP_ROWS + columns) * SPAN / _SHARED,
            (min(rows, self.rows) + columns) * SPAN / rate,
        )
        each = -(-self.steps // parts) * step + rows * columns * _SUM / rate
        rounds = -(-busiest // _at_once(rows, columns, machine))
        clocks = busiest * each + rounds * LATENCY
        clocks += joining_clocks(parts, self.rows * self.columns * self.count * _SUM)
        return GroupPlan(rows, columns, parts, clocks)


def _at_once(rows: int, columns: int, machine: GpuMachine) -> int:
    """Blocks that a multiprocessor has room for, with two steps under way."""
    threads = rows // GROUP_ROWS * GROUP + GROUP
    registers = threads * (columns // 2 + _BESIDE)
    shared = machine.shared_bytes or inf
    room = shared // (2 * (rows + columns) * SPAN + rows * _SUM * 64)
    return max(1, int(min(room, machine.registers // registers, 2048 // threads)))
