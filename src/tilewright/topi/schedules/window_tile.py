"""The register tile where both sides of a sum of products are read in vectors: windows that slide
over each channel alone, as in depthwise convolutions.

Nothing is used for more than one product but what neighbours share: a vector of the row side by the
steps of the windows that reach it, one of the vector side by all rows of the tile. What such a
kernel takes is what it loads: from registers where the line of a tile stays in them, from the first
level of the cache where the lines that a window covers stay there, and are not more of one set than
this has ways. The numbers were fitted to all tiles of 18 layers (3, 5 and 7 taps, 32 to 1152
channels, strides 1 and 2) on a Zen 5 with AVX-512; registers, ways and bytes are the target's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.expr import const_int
from ...loopir.visit import free_vars
from .contraction import Contraction, step_of
from .machine import LINE, SPARE_WAYS, Machine, even, extent_of

MOST_PANELS = 8
SUMS_OF_16 = 11  # registers for sums, weights and the line of a tile
MANY_SUMS = 12  # beyond which the code of whole windows becomes long
CHAINS = 6  # of FMAs
LOADED = 0.5  # of the time of a product, that a load takes
AROUND = 8  # products of each step of a window that take as long as to begin and end a tile
CROWDED, FARTHER, LONG, IN_LINES = 2.0, 1.3, 1.2, 1.2  # times as long
ALONE = 1.2  # where each line comes from farther away, and not its neighbours with it
ENDS = 1.05  # where the last panel is no whole one
WHOLE = 0.8  # where a tile is as wide as the image: no condition


@dataclass(frozen=True)
class Tile:
    """Vectors that accumulate: `rows` of the last row axis times `lines` of the one before it,
    `panels` in each row."""

    rows: int
    lines: int
    panels: int


def waste(n: int, step: int) -> float:
    """How many times what there is is computed by so many at a time (n = 0: not known)."""
    return -(-n // step) * step / n if n else 1.0


def window_tiles(
    op: Any, form: Contraction, lanes: int, registers: int, machine: Machine
) -> list[Tile]:
    """The tiles whose sums, and a vector of each side, fit the registers, best first."""
    windows = _Windows(op, form, lanes, machine)
    most = max(4, registers * SUMS_OF_16 // 16)
    found = sorted(windows.tiles(most), key=lambda tile: windows.cost(tile, registers))
    return found or [Tile(1, 1, 1)]


class _Windows:
    """What tiles of such a sum read: of a `side`, `near` steps of its windows along the last row
    axis (bytes from one to the next, and how many), and `far` ones along others."""

    def __init__(self, op: Any, form: Contraction, lanes: int, machine: Machine) -> None:
        side = form.row_side
        assert side is not None, "both sides are read"
        size = parse(side.dtype).nbytes
        *before, last = [None, *(op.axis[i] for i in form.rows[-2:])]
        self.machine, self.lanes, self.vector = machine, lanes, lanes * size
        self.n = form.group or extent_of(op.axis[-1])
        self.last = 0 if last is None else extent_of(last)
        self.before = extent_of(before[-1]) if before and before[-1] is not None else 0
        self.step = 0 if last is None else step_of(side, last.var) * size
        places = [] if last is None else [
            d for d, x in enumerate(side.indices) if last.var in free_vars(x)
        ]  # fmt: skip
        shape = [const_int(d) or 1 for d in side.producer.shape]
        self.line = [(prod(shape[d + 1 :]) * size, shape[d]) for d in places]
        self.near: list[tuple[int, int]] = []
        self.far: list[tuple[int, int]] = []
        for k in op.reduce_axis:
            along = any(k.var in free_vars(side.indices[d]) for d in places)
            tap = step_of(side, k.var) * size, max(1, extent_of(k))
            (self.near if along else self.far).append(tap)
        self.crowd = cache(self._crowd)

    def tiles(self, registers: int) -> Iterator[Tile]:
        for panels in range(1, MOST_PANELS + 1):
            most = (registers - panels - 1) // panels
            if most < 1 or (panels > 1 and 0 < self.n < panels * self.lanes):
                continue
            for rows in range(1, (min(most, self.last) if self.last else most) + 1):
                whole = rows == self.last and self.before > 1
                yield Tile(rows, even(self.before, max(1, most // rows)) if whole else 1, panels)

    def cost(self, tile: Tile, registers: int) -> float:
        """Of a product, in what one takes where nothing else does."""
        sums = tile.rows * tile.lines * tile.panels
        line, taps = len(_sums(self._reads(tile.rows))), prod(n for _, n in self.near)
        fits = sums + (line + 1) * tile.panels <= registers * SUMS_OF_16 // 16
        loads = line / (tile.rows * taps) if fits else 1.0
        cost = max(1.0, CHAINS / sums) + LOADED * loads + AROUND / sums
        cost *= waste(self.last, tile.rows) * waste(self.before, tile.lines)
        cost *= waste(self.n, tile.panels * self.lanes)
        ways = self.machine.l1_bytes // self.machine.way_bytes
        leaves = self.crowd(0, tile.panels) > ways
        factors = [
            (self.crowd(tile.rows, tile.panels) > ways - SPARE_WAYS, CROWDED),
            (leaves, FARTHER),
            (leaves and tile.panels == 1 < self.n // self.lanes, ALONE),
            (sums > MANY_SUMS, LONG),
            (tile.lines > 1, IN_LINES),
            (self.n % (tile.panels * self.lanes) > 0, ENDS),
            (tile.rows == self.last, WHOLE),
        ]
        return cost * prod(factor for true, factor in factors if true)

    def _reads(self, rows: int) -> list[tuple[int, int]]:
        """The steps to the vectors that a line of a tile reads."""
        return [(self.step, rows), *self.near]

    def _crowd(self, rows: int, panels: int) -> int:
        """The most lines of a set of the cache, of those that windows over `rows` of a tile cover
        in some panels; over a whole line of pixels for 0."""
        line = self._reads(rows) if rows else self.line
        counts = [0] * (self.machine.way_bytes // LINE)
        for at in {(x + y) // LINE for x in _sums(line) for y in _sums(self.far)}:
            counts[at % len(counts)] += 1
        beside = max(1, self.vector // LINE) * panels
        return max(sum(counts[n - q] for q in range(beside)) for n in range(len(counts)))


def _sums(steps: Sequence[tuple[int, int]]) -> set[int]:
    """What so many steps along each of some axes come to."""
    return {sum(at) for at in product(*([s * i for i in range(n)] for s, n in steps))}
