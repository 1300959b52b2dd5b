"""How long kernels take on a device, in clocks, by the tiles that default schedules make of them:
what decides between ways to write a network.

A multiprocessor makes its tiles one after another, each as fast as its units multiply and as the
second-level cache brings the operands, whichever takes longer (see group_plan). Absolute times are
no better than that; those of two ways to do the same work are to be compared.

Rates are NVIDIA's: 256 products of float16 a clock of each of a multiprocessor's four tensor cores,
16 of float32 of each of its four parts without them (A100 architecture, dense).
"""

from __future__ import annotations

from functools import partial

from ....base.dtype import parse
from ...tensor_intrin.warp_group_tile import SPAN
from .group_plan import LATENCY, Work
from .machine import CACHE, LAUNCH, GpuMachine, cache_rate, joining_clocks
from .matmul import FEW_ROWS
from .register_tiles import UNITS, Blocks
from .split_k import cut_of
from .tile_plan import CORE, DEEP, PARTS, TilePlan

_CORES, _LANES = PARTS * CORE, PARTS * UNITS  # products a clock of a multiprocessor
_RESIDENT = 2048  # threads


def kernel_clocks(nbytes: float) -> float:
    """Of a kernel that moves so many bytes, from the one before to the one behind it."""
    return LAUNCH + LATENCY + moving_clocks(nbytes)


def moving_clocks(nbytes: float) -> float:
    """More of a kernel that moves so many bytes more."""
    return nbytes / CACHE


def product_clocks(
    shape: tuple[int, int, int], types: tuple[str, str], machine: GpuMachine
) -> float:
    """Of a product of a shape (rows, columns, steps), of operands and sums of such types."""
    rows, columns, steps = shape
    kind, sums = types
    nbytes = parse(kind).nbytes
    if rows <= FEW_ROWS and machine.warp > 1:  # a block for each result reads weights once
        rounds = _busiest(rows * columns, machine, max(1, _RESIDENT // machine.threads))
        return kernel_clocks(columns * steps * nbytes) + (rounds - 1) * LATENCY
    cores = (kind, sums) in machine.products
    if cores and machine.warp_groups:
        plans = Work(rows, columns, 1, -(-steps * nbytes // SPAN)).plans(machine, 1)
        if plans:
            return LAUNCH + plans[0].clocks
    summed = rows * columns * parse(sums).nbytes
    cut = partial(cut_of, steps, nbytes=summed)
    if cores:
        reduction = cut(DEEP // nbytes)
        plan = TilePlan.of(rows, columns, sums, True, 1, machine.filling, reduction)
        tile, parts = plan.block, plan.parts
    else:
        blocks = Blocks.of((rows, columns), 1, machine, cut(1))
        tile, parts = blocks.filled, blocks.parts
    count, each = -(-rows // tile[0]) * -(-columns // tile[1]) * parts, -(-steps // parts)
    rate = cache_rate(min(count, machine.filling))
    multiplied = tile[0] * tile[1] * each / (_CORES if cores else _LANES)
    clocks = max(multiplied, sum(tile) * each * nbytes / rate) + LATENCY
    return LAUNCH + _busiest(count, machine) * clocks + joining_clocks(parts, summed)


def _busiest(blocks: int, machine: GpuMachine, at_once: int = 1) -> float:
    """Turns of the multiprocessor that has most of so many blocks, `at_once` a turn; where nothing
    is known of them, none is left with less than others at the end."""
    turns = blocks / (at_once * machine.filling)
    return float(-(-turns // 1)) if machine.processors else max(1.0, turns)
