"""Matrix products on a GPU without tensor cores: tiles of the operands in shared memory, fetched a
step ahead, and a tile of sums in the registers of each thread.

How operands lie in memory decides who reads what. Where the reduction runs along rows, a thread
reads a few steps of a row at a time; its neighbours read the same row, or the next ones, which are
padded by such a vector against bank conflicts. Of an operand that lies the other way round,
neighbours read neighbours in a row.
"""

from __future__ import annotations

from math import prod

from ....base.dtype import parse
from ....loopir.iter import IterVar
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ..machine import known_extent, nearby
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
from .tile_plan import ALIKE, BANKS, WARP, busy, filling

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
    threads: tuple[int, int],
    count: int,
    machine: GpuMachine,
) -> None:
    """`count` products by `threads` at most along rows and along columns, and the element-wise
    stage that ends their group."""
    steps = planned(product.op.reduce_axis[0])
    if product.op is out.op:
        product = s.cache_write(out, "local")
    else:
        s[product].set_scope("local")
    copies = copies_of(s, sides, product)
    parts = [s.cache_read(c, "local", [product.op]) for c in copies]
    rows, columns = sides
    shape = [planned(a) for a in product.op.axis[-2:]]
    block = _block(out, shape, threads, count, machine)
    threads = (min(threads[0], block[0] // TILE), min(threads[1], block[1] // TILE))
    (together,) = machine.choose(
        out.op.name, "together", _together(product, prod(threads), shape, block, machine)
    )
    at = _bind_output(s[out], sides, (together, *threads), block, machine)
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
            load.storage_align(load.op.axis[-3], BANKS // nbytes, apart)
        fill(load, side, (together, *own), machine, stages)


def _block(
    out: Tensor, shape: list[int], threads: tuple[int, int], count: int, machine: GpuMachine
) -> tuple[int, int]:
    """Rows and columns of a block of so many threads at most, of `count` products of a shape."""
    whole, filled = blocks_of((shape[0], shape[1]), threads, count, machine.filling)
    smaller = [
        (whole[0] // a, whole[1] // b)
        for a in (1, 2, 4)
        for b in (1, 2, 4)
        if whole[0] // a >= TILE and whole[1] // b >= TILE
    ]
    high, broad = machine.choose(out.op.name, "tile", [filled, *smaller])
    return high, broad


def blocks_of(
    shape: tuple[int, int], threads: tuple[int, int], count: int, processors: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns of a block of so many threads that each have all the sums they may, and of
    one of which there are as many as so many multiprocessors are best kept busy with."""
    again = [AGAIN if size >= AGAIN * n * TILE else 1 for size, n in zip(shape, threads)]
    whole = (threads[0] * TILE * again[0], threads[1] * TILE * again[1])
    least = (min(whole[0], LEAST), min(whole[1], LEAST))
    of_thread = prod(again) * TILE**2

    def clocks(high: int, wide: int, tiles: int, processors: int) -> float:
        """Of a step of the reduction."""
        warps, read = -(-high * wide // of_thread // WARP), (high + wide) * _REGISTER
        return busy(warps, tiles, warps * WARP * of_thread / UNITS, read, processors)

    return whole, filling(shape, count, whole, least, processors, clocks)


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
    product: Tensor, threads: int, shape: list[int], block: tuple[int, int], machine: GpuMachine
) -> list[tuple[int]]:
    """How many products of a batch, each of that shape and made in blocks of so many threads, a
    block may make: so many that it has a warp, and more where there are many blocks of few."""
    *batch, _, _ = product.op.axis
    count = known_extent(batch[0]) if len(batch) == 1 else None
    if count is None:
        return [(1,)]
    tiles = prod(-(-n // size) for n, size in zip(shape, block))
    fit = [n for n in range(1, WARP + 1) if count % n == 0 and n * threads <= FEW_THREADS]
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
    machine: GpuMachine,
) -> IterVar:
    """The loop of a thread, of matrices that blocks make in tiles, some together."""
    *batch, i, j = stage.leaf_iter_vars
    length = steps_of(stage, j)
    together, *each = threads
    near: list[IterVar] = []
    if together > 1:
        far, own = stage.split(fused(stage, batch), factor=together)
        batch, near = [far], [own]
    rows, columns = sides
    both = rows.along and columns.along  # neighbouring threads read neighbouring rows then
    again = [size // (n * TILE) for size, n in zip(block, each)]
    by, y = stage.split(i, factor=block[0])
    bx, x = stage.split(j, factor=block[1])
    vx, x = stage.split(x, nparts=again[1])
    tx, x = stage.split(x, factor=TILE)
    vy, y = stage.split(y, nparts=block[0] // each[0] if both else again[0])
    ty, y = stage.split(y, nparts=each[0])
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
