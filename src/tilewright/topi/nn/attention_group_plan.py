"""How attention in one kernel is cut for warp groups (sm_90a): rows of a block and keys of a tile,
by the clocks that a model of the device counts (see schedules/gpu/group_plan.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from ...base.dtype import parse
from ..schedules.gpu.group_plan import LATENCY
from ..schedules.gpu.machine import VECTOR_BYTES, GpuMachine, cache_rate
from ..schedules.gpu.operands import LEAST_COPY
from ..tensor_intrin.warp_group_tile import GROUP, GROUP_ROWS, SPAN
from .attention_plan import Plan, parts_of, seen_tiles
from .warp_registers import TILE

_ROWS, _KEYS = (128, 192, 64), (128, 64, 32)  # of the same clocks the first
_LEAST_ROWS = GROUP_ROWS // 2  # fewer are not worth a warp group, whose rows are 64
_BESIDE = 64  # registers of a thread beside those of arrays and copies
_WAITING, _MOST_WAITING = 3, 48  # registers for each copy through them, and for all
_MOST_REGISTERS = 255  # that a thread can name
# a clock of a multiprocessor (H100 architecture, dense): products of halves, powers, what else a
# score takes (a product, a comparison, a sum, a conversion), sums of values that are scaled, and
# bytes of shared memory
_PRODUCTS, _POWERS, _SCORES, _SCALED, _SHARED = 2048, 16, 32, 128, 128


@dataclass(frozen=True)
class GroupPlan(Plan):
    """As `Plan`: blocks are of warp groups, of 64 rows each. Tiles lie in shared memory as products
    of warp groups read them: panels of 128 bytes of each row, whose vectors of 16 bytes are
    swizzled."""

    blocks: int = 1  # at once on a processor
    tile_align = 8 * SPAN

    @property
    def groups(self) -> int:
        return self.rows // GROUP_ROWS

    @property
    def panel(self) -> int:
        """Elements of a row that lie together."""
        return SPAN // parse(self.dtype).nbytes

    def panels(self, fragments: int) -> int:
        return -(-fragments * TILE // self.panel)

    def tile_shape(self, rows: int, fragments: int) -> tuple[int, ...]:
        return self.panels(fragments), rows, self.panel

    def place(self, row: Any, column: Any, lane: Any) -> list[Any]:
        vector = VECTOR_BYTES // parse(self.dtype).nbytes
        at = column % self.panel
        swizzled = (at // vector ^ row % (SPAN // VECTOR_BYTES)) * vector + at % vector
        return [column // self.panel, row, swizzled + lane]

    def vectors(self, size: int) -> int:
        """Those of whole panels: what is copied at once meets in no bank."""
        return self.panels(-(-size // TILE)) * self.panel // self.lanes(size)

    @cached_property
    def shared_bytes(self) -> int:
        deep, wide = self.panels(self.deep), self.panels(self.wide)
        stages = min(self.stages, self.tiles)
        return (self.rows * deep + stages * self.keys * (deep + wide)) * SPAN

    @property
    def registers(self) -> int:
        """Of a thread, for arrays: sums, scores and powers."""
        share = GROUP_ROWS * TILE // GROUP
        return self.wide * share + self.keys * GROUP_ROWS // GROUP * 3 // 2

    @property
    def all_registers(self) -> int:
        """Of a thread: what no thread waits for has one for its address, of what is copied
        otherwise some are on their way at once."""
        count = self.registers + _BESIDE
        for n in (self.sizes.size, self.sizes.last):
            copies = -(-self.keys * self.vectors(n) // self.threads)
            late = self.lanes(n) * parse(self.dtype).nbytes >= LEAST_COPY
            count += copies if late else min(_WAITING * copies, _MOST_WAITING)
        return count

    def at_once(self, machine: GpuMachine) -> int:
        """Blocks that a multiprocessor has room for."""
        each = min(_MOST_REGISTERS, machine.registers // self.threads // 8 * 8)
        if self.all_registers > each or self.shared_bytes > machine.room(1):
            return 0
        own = -(-self.all_registers // 8) * 8 * self.threads
        return min(machine.registers // own, machine.room_for(self.shared_bytes))

    def clocks(self, machine: GpuMachine) -> float:
        """Of all blocks. Of two tiles of a block the products of one and the powers of the other
        are made at once, and so are those of two blocks. Each warp group reads all keys and values
        of a tile from shared memory, and its queries anew; for each tile its sums are scaled."""
        sizes, parts = self.sizes, parts_of(self)
        blocks = -(-prod(sizes.rows) // self.rows) * prod(sizes.batch) * parts
        processors = machine.filling
        busiest = -(-blocks // processors)
        tiles = seen_tiles(self) * (self.part_keys // self.keys) / parts
        scores = self.rows * self.keys
        first, second = (scores * TILE * n / _PRODUCTS for n in (self.deep, self.wide))
        powers = scores / _POWERS + scores / _SCORES
        scaled = self.rows * TILE * self.wide / _SCALED
        nbytes = TILE * parse(self.dtype).nbytes
        read = self.keys * (self.deep + self.wide) * nbytes
        operands = self.groups * (GROUP_ROWS + self.keys) * self.deep * nbytes / _SHARED
        shared = operands + (self.groups * self.keys * self.wide * nbytes + read) / _SHARED
        rate = cache_rate(min(blocks, processors))

        def turn(count: int) -> float:
            """Of so many blocks at once."""
            alone = max(first, operands) + max(second, powers) + scaled
            each = max(alone, count * max(first + second, powers + scaled, read / rate, shared))
            return float(tiles * each + LATENCY)

        whole, rest = divmod(busiest, self.blocks)
        return float(whole * turn(self.blocks) + (turn(rest) if rest else 0.0))


def group_plan_of(sizes: Any, dtype: str, machine: GpuMachine) -> GroupPlan | None:
    """How attention of these sizes (see `attention.Sizes`) is cut for warp groups; None where it is
    not made by them."""
    if prod(sizes.rows) <= _LEAST_ROWS:
        return None
    found = []
    for rows, keys in product(_ROWS, _KEYS):
        fits = rows // GROUP_ROWS * GROUP <= machine.warp_groups
        fits &= rows == GROUP_ROWS or rows < prod(sizes.rows) + GROUP_ROWS
        fits &= keys == _KEYS[-1] or keys < sizes.keys + _KEYS[-1]
        plan = GroupPlan(sizes, dtype, rows, keys, 2, False, True, machine.filling)
        blocks = plan.at_once(machine) if fits else 0
        if blocks:
            found.append(replace(plan, blocks=blocks))
    return min(found, key=lambda plan: plan.clocks(machine), default=None)
