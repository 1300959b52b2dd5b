"""What attention in one kernel (attention_kernel.py) takes, and how it cuts it: rows and keys of a
block's tiles, by the shared memory and the registers that a target has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from ...base.dtype import parse
from ..schedules.gpu.machine import VECTOR_BYTES, GpuMachine
from ..schedules.gpu.operands import LEAST_COPY
from ..schedules.gpu.tile_plan import BANKS
from .warp_registers import LANES, OPERANDS, TILE

ROWS, KEYS, WARP_ROWS = 64, 64, 16  # of a block's tile at most, and of a warp
BLOCKS = 2  # at once on a processor: each thread may have all registers that it can name
WIDEST = 256  # elements of a key, and of a value: more have no room in registers
_NAMED = 192  # registers of a thread for arrays: addresses and what is computed have the others
_MOST_WAITING = 256  # bytes of a thread, of a tile on its way
# On tensor cores: tiles of a part of the keys, and those that take as long as one more kernel, of
# 2 us, at about 0.5 us a tile. Without them a tile of heads of 64 is 4096 FFMA of a warp, 3 us or
# more: each that is saved pays for the kernel, and one warp for each scheduler has them busy.
_LEAST_TILES, _JOINING = 2, 4


@dataclass(frozen=True)
class Plan:
    """How attention of some sizes is cut. `rows` of a block and `keys` of a tile; `stages`: tiles
    of keys and of values in shared memory, two where the next ones come while these are computed
    with, one where the next keys come during the second product and values during the first;
    `held`: whether a warp's queries stay in registers; `late`: whether there are copies that no
    thread waits for; `processors`: multiprocessors of the target. With `cores` products are
    those of tensor cores, else of each thread."""

    sizes: Any
    dtype: str
    rows: int
    keys: int
    stages: int
    held: bool
    late: bool
    processors: int

    @property
    def cores(self) -> bool:
        return self.dtype in OPERANDS

    @property
    def warps(self) -> int:
        return self.rows // WARP_ROWS

    @cached_property
    def deep(self) -> int:
        """Fragments of a key."""
        return -(-int(self.sizes.size) // TILE)

    @cached_property
    def wide(self) -> int:
        """Fragments of a value."""
        return -(-int(self.sizes.last) // TILE)

    @property
    def tiles(self) -> int:
        return -(-int(self.sizes.keys) // self.keys)

    @property
    def part_keys(self) -> int:
        """Parts of the keys have a multiple of so many."""
        return max(KEYS, self.keys)

    def pitch(self, fragments: int) -> int:
        """Elements from row to row of so many fragments: an odd number of 16 bytes."""
        return fragments * TILE + VECTOR_BYTES // parse(self.dtype).nbytes

    def tile_shape(self, rows: int, fragments: int) -> tuple[int, ...]:
        """Of rows of so many fragments in shared memory; the last but one are the rows."""
        return rows, self.pitch(fragments)

    tile_align = 16

    def place(self, row: Any, column: Any, lane: Any) -> list[Any]:
        """Of an element in such a tile, `lane` behind the first of a vector."""
        return [row, column + lane]

    @property
    def powers_pitch(self) -> int:
        """Elements from row to row of powers in shared memory: rows of 16 keys or more that follow
        each other begin 8 banks apart."""
        return self.keys + 8

    @property
    def in_place_of_keys(self) -> bool:
        """Whether queries are, at first, where the second tile of keys will be."""
        return self.held and min(self.stages, self.tiles) > 1 and self.rows <= self.keys

    @property
    def shared_bytes(self) -> int:
        """Of a block. Queries that go to registers before the first values come share their
        place."""
        keys, values = (self.keys * self.pitch(n) for n in (self.deep, self.wide))
        queries = 0 if self.in_place_of_keys else self.rows * self.pitch(self.deep)
        stages = min(self.stages, self.tiles)
        places = max(queries, values) if self.held and stages == 1 else queries + stages * values
        powers = 0 if self.cores else self.rows * self.powers_pitch
        return (stages * keys + places + powers) * parse(self.dtype).nbytes

    @property
    def threads(self) -> int:
        return self.warps * LANES

    def lanes(self, size: int) -> int:
        """Elements of a copy of rows of that size."""
        widest = VECTOR_BYTES // parse(self.dtype).nbytes
        return next(n for n in (8, 4, 2, 1) if n <= widest and size % n == 0)

    def vectors(self, size: int) -> int:
        """How many a row of that size is copied in: with what is between rows too, where those that
        are copied at once would meet in banks."""
        fragments = -(-size // TILE)
        even = fragments * TILE * parse(self.dtype).nbytes % BANKS == 0
        return (fragments * TILE if even else self.pitch(fragments)) // self.lanes(size)

    @property
    def copied(self) -> int:
        """Elements of a tile that a thread has in registers on their way to shared memory."""
        return max(map(self.waiting, (self.sizes.size, self.sizes.last)))

    def waiting(self, size: int) -> int:
        """Those of keys or values of that size; 0 where they do not wait there: for they are in
        flight, or many, or less than 32 bits each, which take as many."""
        lanes, nbytes = self.lanes(size), parse(self.dtype).nbytes
        count = -(-self.keys * self.vectors(size) // self.threads) * lanes
        few = lanes * nbytes >= LEAST_COPY and count * nbytes <= _MOST_WAITING
        return count if few and not self.late else 0

    @property
    def registers(self) -> int:
        """Of a thread, for arrays."""
        share = TILE * WARP_ROWS // LANES
        nbytes = parse(self.dtype).nbytes
        queries = self.deep * share * nbytes // 4 if self.held else 0
        powers = self.keys // TILE * share * nbytes // 4 if self.cores else 0
        sums = (self.wide + self.keys // TILE) * share
        return queries + powers + sums + self.copied * nbytes // 4


def _plans(sizes: Any, dtype: str, late: bool, processors: int) -> Iterator[Plan]:
    """Those that there are, the best first where all have as many blocks on a processor."""
    held = (True, False) if dtype in OPERANDS else (False,)
    rows = [ROWS, ROWS // 2, ROWS // 4]
    if dtype not in OPERANDS:  # what is computed for rows that are none is not free
        rows = [n for n in rows if n == WARP_ROWS or n < 2 * prod(sizes.rows)]
    stages = (2, 1) if late and dtype in OPERANDS else (1,)
    for r, keys, s, h in product(rows, (KEYS, KEYS // 2, KEYS // 4), stages, held):
        plan = Plan(sizes, dtype, r, keys, s, h, late, processors)
        if plan.registers <= _NAMED:
            yield plan


def warp_plan_of(sizes: Any, dtype: str, late: bool, machine: GpuMachine) -> Plan | None:
    """How attention of these sizes (see `attention.Sizes`) is cut for blocks of warps; `late`:
    whether there are copies that no thread waits for. As many blocks on a processor as are planned
    for, if there can be; fewer rows, and keys of one fragment, only where others have no room."""
    plans = list(_plans(sizes, dtype, late, machine.filling))
    most = plans[0].rows if plans else 0

    def warps(plan: Plan) -> int:
        """How many a processor has at once, of the blocks that are planned for."""
        return plan.warps * sum(plan.shared_bytes <= machine.room(n + 1) for n in range(BLOCKS))

    for some in ([p for p in plans if p.rows == most and p.keys > TILE], plans):
        best = max(some, key=warps, default=None)
        if best is not None and warps(best):
            return best
    return None


def seen_tiles(plan: Plan) -> int:
    """How many tiles of `part_keys` the rows of a block see at most."""
    sizes, most = plan.sizes, int(plan.sizes.keys)
    if sizes.window is not None:
        low, high = sizes.window
        seen = plan.rows - 1 + high - low
        most = min(most, seen + plan.part_keys - 1)  # they may begin at any key of a tile
    return -(-most // plan.part_keys)


def parts_of(plan: Plan) -> int:
    """Into how many parts the keys that rows see are cut, each a block's: more than one where there
    are few warps for all processors, and many keys."""
    sizes, blocks = plan.sizes, BLOCKS if plan.cores else 1
    least, joining = (_LEAST_TILES, _JOINING) if plan.cores else (1, 1)
    least, joining = (max(1, n * KEYS // plan.part_keys) for n in (least, joining))
    warps = plan.warps * -(-prod(sizes.rows) // plan.rows) * prod(sizes.batch)
    tiles = seen_tiles(plan)
    enough = plan.processors * blocks * (ROWS // WARP_ROWS)
    most = min(tiles // least, enough // warps)
    each = -(-tiles // max(1, most))
    return -(-tiles // each) if tiles - each >= joining else 1
