"""Matrix products on a GPU without tensor cores: tiles of the operands in shared memory, fetched a
step ahead, and a tile of sums in the registers of each thread.

How operands lie in memory decides who reads what. Where the reduction runs along rows, a thread
reads a few steps of a row at a time; its neighbours read the same row, or the next ones, which are
padded by such a vector against bank conflicts. Of an operand that lies the other way round,
neighbours read neighbours in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from ....base.dtype import parse
from ....loopir.iter import IterVar
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ..machine import known_extent, nearby, size_of_axes
from .machine import (
    VECTOR_BYTES,
    GpuMachine,
    bind,
    bind_blocks,
    fused,
    planned,
    steps_of,
)
from .operands import Operand, along_lines, copies_of, fill, pipeline, pitch_of, spread
from .tile_plan import ALIKE, BANKS, UNCUT, WARP, Reduction, busy, filling

TILE = 4  # neighbouring rows and columns a thread
AGAIN = 2  # such tiles a thread along rows, and along columns
FEW_THREADS = 128  # of a block that makes several products
LEAST = 32  # rows and columns of a block, below which copies and barriers outweigh products
STAGES = 2  # a step of sums takes longer than a copy
_REGISTER = 4  # bytes
UNITS = 16  # sums of float32 a clock of a part of a multiprocessor: A100's, others have 32
ROW_BYTES = 64  # of a tile of an operand, along the reduction


def schedule_in_registers(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    sides: tuple[Operand, Operand],
    count: int,
    machine: GpuMachine,
    groups: int = 1,
) -> None:
    """`count` products, and the element-wise stage that ends their group. So many `groups` that
    follow each other have operands of their own, and the next ones the same again (1: none)."""
    steps = planned(product.op.reduce_axis[0])
    if product.op is out.op:
        product = s.cache_write(out, "local")
    else:
        s[product].set_scope("local")
    copies = copies_of(s, sides, product)
    parts = [s.cache_read(c, "local", [product.op]) for c in copies]
    rows, columns = sides
    i, j = product.op.axis[-2:]
    shape = (planned(i), planned(j))
    blocks = Blocks.of(shape, count, machine)
    block = _block(out, blocks, machine)
    high, wide = blocks.threads
    threads = (min(high, block[0] // TILE), min(wide, block[1] // TILE))
    (together,) = machine.choose(
        out.op.name, "together", _together(product, prod(threads), shape, block, groups, machine)
    )
    dimensions = len(product.op.axis) - 2
    at = _bind_output(s[out], sides, (together, *threads), block, dimensions, groups > 1, machine)
    stage = s[product]
    stage.compute_at(s[out], at)
    nbytes = parse(rows.tensor.dtype).nbytes
    depth = max(TILE, ROW_BYTES // nbytes)
    (k,) = stage.op.reduce_axis
    *batch, i, j = stage.op.axis
    outer, k = stage.split(k, factor=depth)
    middle, k = stage.split(k, factor=max(1, min(TILE, VECTOR_BYTES // nbytes)))
    both = rows.along and columns.along
    order = (middle, j, k, i) if both else (middle, k, i, j)
    stage.reorder(*batch, outer, *order)
    for axis in order:
        machine.unroll(stage, axis)
    stages = _stages(out, sides, block, (together, *threads), (steps, depth), machine)
    pipeline(stage, outer, stages)
    places = [middle if x.along else k for x in sides]
    if both:
        places[1] = j
    own = (threads[1], threads[0]) if columns.along else threads
    for d, (side, copy, part, place) in enumerate(zip(sides, copies, parts, places)):
        s[part].compute_at(stage, place)
        *others, last = s[part].op.axis
        for axis in others:
            machine.unroll(s[part], axis)
        s[part].vectorize(last)
        load = s[copy]
        load.compute_at(stage, outer)
        line = min(block[d], shape[d])
        _lay(load, side, line, min(depth, steps or depth), nbytes)
        if together > 1 and prod(threads) < ALIKE and len(load.op.axis) > 2:
            # vectors of several products are read at once
            apart = prod(threads) * VECTOR_BYTES // nbytes
            load.storage_align(load.op.axis[0], BANKS // nbytes, apart)
        fill(load, side, (together, *own), machine, stages)


@dataclass(frozen=True)
class Blocks:
    """How products of a shape are made in registers: by so many `threads` at most, along rows and
    along columns, and tiles `whole` of all sums that these may have, or `filled`, of which there
    are as many as multiprocessors are best kept busy with; `parts`: of the reduction."""

    threads: tuple[int, int]
    whole: tuple[int, int]
    filled: tuple[int, int]
    parts: int

    @staticmethod
    def of(
        shape: tuple[int, int], count: int, machine: GpuMachine, reduction: Reduction = UNCUT
    ) -> Blocks:
        """For `count` products whose reduction has so many steps."""
        side, least = (16, WARP) if machine.threads >= 256 else (8, 8)
        high, wide = (whole_threads(n, side) for n in shape)
        # along a few rows as many columns as a warp has lanes for, and the other way round
        threads = (
            whole_threads(shape[0], max(side, least // wide)),
            whole_threads(shape[1], max(side, least // high)),
        )
        # a few rows of many columns are one tile, so that the columns are read once
        thin = max(shape) > LEAST
        again = [
            AGAIN if size >= AGAIN * n * TILE or (thin and n * TILE < size <= LEAST) else 1
            for size, n in zip(shape, threads)
        ]
        whole = (threads[0] * TILE * again[0], threads[1] * TILE * again[1])
        smallest = (min(whole[0], LEAST), min(whole[1], LEAST))
        of_thread = prod(again) * TILE**2

        def clocks(high: int, wide: int, tiles: int, processors: int) -> float:
            """Of a step of the reduction."""
            warps, read = -(-high * wide // of_thread // WARP), (high + wide) * _REGISTER
            return busy(warps, tiles, warps * WARP * of_thread / UNITS, read, processors)

        filled, parts = filling(shape, count, whole, smallest, machine.filling, clocks, reduction)
        return Blocks(threads, whole, filled, parts)


def whole_threads(extent: int, most: int) -> int:
    """Threads along an axis whose tile it fills: a power of two, so that a warp has whole rows of
    them, which lie in different banks."""
    threads = max(1, min(most, extent // TILE))
    return 1 << (threads.bit_length() - 1)


def _block(out: Tensor, blocks: Blocks, machine: GpuMachine) -> tuple[int, int]:
    """Rows and columns of a block."""
    high, wide = blocks.whole
    smaller = [
        (high // a, wide // b)
        for a in (1, 2, 4)
        for b in (1, 2, 4)
        if high // a >= TILE and wide // b >= TILE
    ]
    high, wide = machine.choose(out.op.name, "tile", [blocks.filled, *smaller])
    return high, wide


def _lay(load: Stage, side: Operand, line: int, deep: int, nbytes: int) -> None:
    """How the copy of a tile lies: so many rows or columns, and steps of the reduction, of elements
    of so many bytes."""
    if not side.along:
        along_lines(load, line * nbytes)
        return
    row = -(-deep * nbytes // VECTOR_BYTES) * VECTOR_BYTES
    load.storage_align(load.op.axis[-2], pitch_of(row) // nbytes, 0)
    if pitch_of(row) > deep * nbytes:
        spread(load, row)


def _together(
    product: Tensor,
    threads: int,
    shape: tuple[int, int],
    block: tuple[int, int],
    groups: int,
    machine: GpuMachine,
) -> list[tuple[int]]:
    """How many products along the first batch dimension, each of that shape and made in blocks of
    so many threads, a block may make: so many that it has a warp, and more where there are many
    blocks of few."""
    *batch, _, _ = product.op.axis
    count = known_extent(batch[0]) if batch else None
    if count is None:
        return [(1,)]
    tiles = prod(-(-n // size) for n, size in zip(shape, block)) * size_of_axes(batch[1:])
    even = gcd(count, groups) if groups > 1 else count  # of a block, no group is the first again
    fit = [n for n in range(1, WARP + 1) if even % n == 0 and n * threads <= FEW_THREADS]
    enough = 2 * machine.filling
    full = [n for n in fit if count // n * tiles >= enough or n * threads <= machine.warp]
    best = max(full, key=lambda n: (n * threads % machine.warp == 0, n), default=1)
    return [(best,), *((n,) for n in fit if n != best)]


def _stages(
    out: Tensor,
    sides: tuple[Operand, Operand],
    block: tuple[int, int],
    threads: tuple[int, int, int],
    deep: tuple[int, int],
    machine: GpuMachine,
) -> int:
    """How many tiles are under way in a loop over so many steps, so many at a time."""
    if not all(x.copied_late(machine) for x in sides):
        return 1
    steps, depth = deep
    together, each = threads[0], threads[1:]
    nbytes, count = parse(sides[0].tensor.dtype).nbytes, prod(each)
    held, copied = prod(block) // count, 0
    for x, size, n in zip(sides, block, each):
        copies = -(-size * depth // (x.lanes * count))
        copied += copies * -(-x.lanes * nbytes // _REGISTER)
        held += size // n * (VECTOR_BYTES // _REGISTER if x.along else 1)
    tiles = together * sum(block) * (depth * nbytes + VECTOR_BYTES)
    most = machine.stages(tiles, -(-steps // depth), together * count, (held, copied))
    if most == 1:
        return 1
    options = nearby(min(STAGES, most), 1, 3, 4, most=most)
    (stages,) = machine.choose(out.op.name, "stages", options)
    return int(stages)


def _bind_output(
    stage: Stage,
    sides: tuple[Operand, Operand],
    threads: tuple[int, int, int],
    block: tuple[int, int],
    products: int,
    is_grouped: bool,
    machine: GpuMachine,
) -> IterVar:
    """The loop of a thread, of matrices that blocks make in tiles, some together, of a batch of
    so many dimensions."""
    *batch, i, j = stage.leaf_iter_vars
    length = steps_of(stage, j)
    together, *each = threads
    near: list[IterVar] = []
    if together > 1:
        # the output may have several dimensions for the product's first, or its last are groups
        first = -1 if is_grouped else 0
        last = len(batch) - (0 if is_grouped else products - 1)
        far, own = stage.split(fused(stage, batch[first:last]), factor=together)
        batch, near = [*(batch[:first] if is_grouped else ()), far, *batch[last:]], [own]
    rows, columns = sides
    both = rows.along and columns.along  # neighbouring threads read neighbouring rows then
    again = [size // (n * TILE) for size, n in zip(block, each)]
    by, y = stage.split(i, factor=block[0])
    bx, x = stage.split(j, factor=block[1])
    # by factors, as a tile may be larger than the product
    vx, x = stage.split(x, factor=block[1] // again[1])
    tx, x = stage.split(x, factor=TILE)
    high = each[0] if both else block[0] // again[0]
    vy, y = stage.split(y, factor=high)
    ty, y = stage.split(y, factor=high // each[0])
    stage.reorder(*batch, by, bx, *near, vy, vx, ty, tx, y, x)
    tags = ("threadIdx.x", "threadIdx.y") if columns.along else ("threadIdx.y", "threadIdx.x")
    bind_blocks(stage, batch, by, bx, (steps_of(stage, by), steps_of(stage, bx)), machine)
    for axis, tag in zip((vy, vx, ty, tx), ("vthread", "vthread", *tags)):
        bind(stage, axis, tag)
    for axis in near:
        bind(stage, axis, "threadIdx.z")
    stage.unroll(y)
    if length and length % TILE == 0:
        stage.vectorize(x)
    else:
        stage.unroll(x)
    return tx
