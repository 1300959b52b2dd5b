"""How large the tiles of a product on tensor cores are.

A block's tile is some fragments of 16 rows high and some warps wide. The smaller it is the more
often operands are read and the less work there is for each instruction that moves them; what
reaches over the edge of the product is work for nothing. A product that is smaller than a tile may
be filled up to one. One that has too few tiles for all multiprocessors, or some more than for all
once, twice and so on, takes smaller ones, or parts of the reduction are tiles of their own
(`filling`). All of that is decided by the clocks of the multiprocessor that has most to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import lcm

from ....base.dtype import parse
from ..decisions import Value
from .machine import VECTOR_BYTES, GpuMachine, cache_rate, joining_clocks

FRAGMENT = 16  # rows and columns
BANKS = 128  # bytes of all banks of shared memory, and of sums in a row of a warp
ALIKE = BANKS // VECTOR_BYTES  # threads whose vectors are read at once, from different banks
_ROWS, _COLUMNS = range(8, 0, -1), (8, 4, 2, 1)  # fragments of a tile
_SIDES = (8, 4, 2)  # of those that may be decided on
_EVEN = (8, 4, 2, 1)  # of rows: so many all threads share evenly when they copy them
# in fragments: what there is to do for each tile beside products, and for uneven copies
_OVERHEAD, _UNEVEN = 1.5, 1.25
LEAST_STAGES = 3  # of tiles of windows: a copy takes longer than the products of one tile
_FRAGMENTS = (8, 4, 2, 1)  # along the reduction, of a tile of windows: threads share them evenly
WARP = 32  # threads
DEEP = 32  # bytes of a fragment along the reduction
_FRAGMENT_REGISTERS = FRAGMENT * DEEP // (4 * WARP)
_PRODUCT = 4  # instructions that are issued beside one of tensor cores
_BARRIER = 24  # instructions while a block waits for a tile
_ADDRESS = 2  # instructions for the address of one copy
_WRITTEN = 512, 1024  # products in steps that are written out (lowering/software_pipeline.py)
PARTS = 4  # of a multiprocessor, each with warps, tensor cores and units of its own
CORE = 256  # products of float16 a clock of the tensor cores of a part: A100's
_CLOCKS = FRAGMENT**3 // CORE  # for the products of two fragments, whatever their type
_FULL, _CLOSE = 0.9, 1.1  # of all multiprocessors, and of the least time
_LEAST = (2, 4)  # fragments of a tile, below which copies and barriers outweigh products
_SLOW = 1.05  # more than the fewer of these take long to compile: there has to be a reason


@dataclass(frozen=True)
class Reduction:
    """So many `steps`, which may be cut into any of some `parts`; `nbytes`: of all sums."""

    steps: int = 1
    parts: tuple[int, ...] = (1,)
    nbytes: int = 0

    def clocks(
        self, tiles: int, processors: int, step: Callable[[int, int], float]
    ) -> tuple[float, int]:
        """Those of the multiprocessor that has most of so many tiles, of which some take
        `step(tiles, processors)` while so many multiprocessors work, and into how many parts the
        reduction is cut for that."""

        def time(parts: int) -> float:
            blocks = tiles * parts
            clocks = step(-(-blocks // processors), min(blocks, processors))
            return -(-self.steps // parts) * clocks + joining_clocks(parts, self.nbytes)

        return min((time(parts), parts) for parts in self.parts)


UNCUT = Reduction()


@dataclass(frozen=True)
class TilePlan:
    """Rows and columns of a block's tile, columns of a warp, and the shape of the product with
    what it is filled up by; `parts` into which its reduction is best cut."""

    block: tuple[int, int]
    columns: int
    shape: tuple[int, int]
    parts: int = 1

    @staticmethod
    def of(
        rows: int,
        columns: int,
        sums: str,
        filled: bool,
        count: int = 0,
        enough: int = 0,
        reduction: Reduction = UNCUT,
    ) -> TilePlan:
        """For `count` products of that shape (0: as many as fill the GPU), whose reduction has
        steps of 32 bytes, and `enough` multiprocessors; unless they may be `filled` up, a tile is
        no larger."""
        warp = BANKS // parse(sums).nbytes // FRAGMENT
        needed = -(-columns // FRAGMENT)
        # as many warps as there are columns for
        sizes = [n for n in _COLUMNS if n < needed or n <= -(-needed // warp) * warp]
        tile = (
            _best(rows, _ROWS if filled else _EVEN, filled),
            _best(columns, sizes if filled else _COLUMNS, filled),
        )
        extents = (-(-rows // FRAGMENT), needed)

        def clocks(high: int, wide: int, tiles: int, processors: int) -> float:
            return _clocks(high, wide, warp, tiles, processors)

        tile, parts = filling(extents, count, tile, _LEAST, enough, clocks, reduction)
        high, wide = (n * FRAGMENT for n in tile)
        shape = (max(rows, high), max(columns, wide))
        return TilePlan((high, wide), min(warp * FRAGMENT, wide), shape, parts)

    @staticmethod
    def chosen(
        operation: str,
        rows: int,
        columns: int,
        sums: str,
        filled: bool,
        count: int,
        machine: GpuMachine,
        reduction: Reduction = UNCUT,
    ) -> TilePlan:
        """The plan that is decided on, of those of `options`; as `of` otherwise."""
        plans = TilePlan.options(rows, columns, sums, filled, count, machine.filling, reduction)
        # where warps of as many columns have no registers to copy through, of half as many
        plans.sort(key=lambda plan: not machine.has_registers(*plan.registers(sums, DEEP)))
        by_tile: dict[Value, TilePlan] = {(*plan.block, plan.columns): plan for plan in plans}
        return by_tile[machine.choose(operation, "tile", by_tile)]

    @staticmethod
    def options(
        rows: int,
        columns: int,
        sums: str,
        filled: bool,
        count: int,
        enough: int,
        reduction: Reduction = UNCUT,
    ) -> list[TilePlan]:
        """The plan of `of`, then others by their clocks: tiles of 2 to 8 fragments a side, by warps
        of which each has as many sums in registers or half as many."""
        first = TilePlan.of(rows, columns, sums, filled, count, enough, reduction)
        widest = BANKS // parse(sums).nbytes
        found: list[tuple[float, int, TilePlan]] = []
        for high, wide in product(_SIDES, _SIDES):
            block = (high * FRAGMENT, wide * FRAGMENT)
            if any(2 * side > 3 * max(n, FRAGMENT) for side, n in zip(block, (rows, columns)) if n):
                continue  # a third of it, or more, would be for nothing
            if not filled and (block[0] > rows or block[1] > columns):
                continue
            shape = (max(rows, block[0]), max(columns, block[1]))
            for wider in (widest, widest // 2):
                # where the product is narrower than the tile, warps still have columns each
                taken = -(-columns // wider) * wider
                if not FRAGMENT <= wider <= block[1] <= max(taken, columns):
                    continue
                clocks = partial(_clocks, high, wide, wider // FRAGMENT)
                blocks = count * -(-rows // block[0]) * -(-columns // block[1])
                if blocks:
                    time, parts = reduction.clocks(blocks, enough, clocks)
                else:  # not known: of all multiprocessors, for each fragment
                    time, parts = clocks(1, enough or 1) / (high * wide), 1
                found.append((time, -high * wide, TilePlan(block, wider, shape, parts)))
        found.sort(key=lambda item: item[:2])  # of the same clocks the largest tile
        return [first, *(plan for *_, plan in found if plan != first)]

    def whole(self, side: int) -> int:
        """Rows (side 0) or columns of whole tiles."""
        return -(-self.shape[side] // self.block[side]) * self.block[side]

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.block[1] // self.columns * WARP

    def registers(self, sums: str, row: int) -> tuple[int, int]:
        """Those of a thread: for its sums and for fragments of both sides, and for what it copies
        of tiles with rows of so many bytes."""
        fragments = (self.block[0] + self.columns) // FRAGMENT * _FRAGMENT_REGISTERS
        added = self.block[0] * self.columns * parse(sums).nbytes // (4 * WARP)
        return fragments + added, -(-sum(self.block) * row // (4 * self.threads))

    @property
    def products(self) -> int:
        """Instructions of a warp for one fragment of the reduction: half as wide as it is high."""
        return self.block[0] // FRAGMENT * (self.columns // FRAGMENT) * 2


@dataclass(frozen=True)
class Steps:
    """How the reduction of a product with windows is cut: `deep` of it in a tile, so many tiles
    in a run of neighbours in memory (`tiles`), and `stages` of them under way."""

    deep: int
    tiles: int
    stages: int

    @staticmethod
    def of(
        run: int,
        runs: int,
        fragment: int,
        plan: TilePlan,
        types: tuple[str, str],
        tile_bytes: Callable[[int], int],
        machine: GpuMachine,
    ) -> Steps:
        """For `runs` runs of such length, fragments of so many steps and tiles of `tile_bytes`, of
        operands and sums of those `types`.

        Where a run begins, addresses are computed. So many tiles are written out in the source that
        it always begins at the same ones, and what lies between are constants: as many as slots and
        runs both count by. What is left behind the end of a run is multiplied for nothing.
        """
        threads = plan.threads

        def cost(at: tuple[int, int, int]) -> tuple[float, int]:
            fragments, tiles, stages = at
            copies = tile_bytes(fragments * fragment) / 16 / threads
            products = fragments * plan.products
            work = tiles * (products * _PRODUCT + _BARRIER)
            starts, written = _starts(tiles, stages, products)
            slow = _SLOW if written > _WRITTEN[0] else 1.0
            return (work + starts * copies * _ADDRESS) * slow, -stages

        (kind, sums), each = types, []
        for fragments in _FRAGMENTS:
            deep = fragments * fragment
            least = -(-run // deep)
            held = plan.registers(sums, deep * parse(kind).nbytes)
            most = machine.stages(tile_bytes(deep), runs * least, threads, held)
            for stages in range(1, most + 1):
                even = -(-least // stages) * stages  # so that slots count as runs do
                each += [(fragments, tiles, stages) for tiles in {least, even}]
        many = [x for x in each if x[2] >= min(LEAST_STAGES, machine.most_stages)]
        fragments, tiles, stages = min(many or each, key=cost)
        return Steps(fragments * fragment, tiles, stages)


def _starts(tiles: int, stages: int, products: int) -> tuple[float, int]:
    """How often in a run of so many tiles the addresses of copies are computed anew, and how many
    products are written out: those of as many steps as slots and runs both count by, or, where
    those are too many, as there are slots, of which the first fill up a run and the others begin
    the next."""
    every, is_even = lcm(stages, tiles), tiles % stages == 0
    if every * products <= _WRITTEN[not is_even]:
        return tiles / every, every * products
    return min(2.0 * tiles / stages, tiles) if is_even else tiles, stages * products


def filling(
    shape: tuple[int, int],
    count: int,
    tile: tuple[int, int],
    least: tuple[int, int],
    processors: int,
    clocks: Callable[[int, int, int, int], float],
    reduction: Reduction = UNCUT,
) -> tuple[tuple[int, int], int]:
    """A tile of `count` products of a shape, or one with halves of its sides, down to `least`, and
    into how many parts the reduction is cut. Extents and counts of 0 are those not known.

    All is done when the multiprocessor is that has most tiles: `clocks` are what one with so many
    of such sides takes a step of the reduction while so many multiprocessors work. Of those that
    are close to the best the largest that leaves few without one, or else that of most blocks.
    """
    if not count or 0 in shape:
        return tile, 1
    made: list[tuple[tuple[int, int], int, int, float]] = []
    for high, wide in product(*(_halves(side, low) for side, low in zip(tile, least))):
        tiles = count * -(-shape[0] // high) * -(-shape[1] // wide)
        time, parts = reduction.clocks(tiles, processors, partial(clocks, high, wide))
        made.append(((high, wide), parts, tiles * parts, time))
    # the fewest parts, the largest tile, of the same size the one that reads least, then that of
    # more columns, which has more warps
    made.sort(key=lambda x: (x[1], -x[0][0] * x[0][1], sum(x[0]), x[0][0]))
    best = min(time for *_, time in made)
    close = [x for x in made if x[3] <= _CLOSE * best]
    full = (x for x in close if x[2] >= _FULL * processors)
    return next(full, max(close, key=lambda x: x[2]))[:2]


def _halves(side: int, least: int) -> list[int]:
    """A side, half of it and so on."""
    found = [side]
    while found[-1] > least:
        found.append(max(-(-found[-1] // 2), least))
    return found


def busy(warps: int, tiles: int, work: float, nbytes: int, processors: int) -> float:
    """Clocks that a multiprocessor takes for some tiles while so many multiprocessors work: each of
    so many warps, that are `work` for one of its four parts, and of so many bytes to read."""
    most = -(-tiles * warps // PARTS)
    return max(most * work / warps, tiles * nbytes / cache_rate(processors))


def _clocks(high: int, wide: int, of_warp: int, tiles: int, processors: int) -> float:
    """Of a multiprocessor with some tiles of so many fragments, for a step of 32 bytes along the
    reduction, whatever their type; a warp has `of_warp` of those side by side."""
    read = (high + wide) * FRAGMENT * DEEP
    return busy(-(-wide // of_warp), tiles, high * wide * _CLOCKS, read, processors)


def _best(extent: int, sizes: Sequence[int], filled: bool) -> int:
    """Fragments of a tile."""
    if not filled:
        return next((n for n in sizes if n * FRAGMENT <= extent), 1)
    needed = -(-extent // FRAGMENT)

    def cost(n: int) -> float:
        return -(-needed // n) * (n + _OVERHEAD) + (0 if n in _EVEN else _UNEVEN)

    return min(sizes, key=cost)
