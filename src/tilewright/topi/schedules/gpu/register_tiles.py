"""Matrix products on a GPU without tensor cores: tiles of the operands in shared memory, fetched a
step ahead, and a tile of sums in the registers of each thread.

How operands lie in memory decides who reads what. Where the reduction runs along rows, a thread
reads a few steps of a row at a time; its neighbours read the same row, or the next ones, which are
padded by such a vector against bank conflicts. Of an operand that lies the other way round,
neighbours read neighbours in a row.
"""

from __future__ import annotations

from ....base.dtype import parse
from ....loopir.iter import IterVar
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ..machine import nearby
from .machine import VECTOR_BYTES, GpuMachine, bind, bind_blocks, planned, steps_of
from .operands import Operand, along_lines, copies_of, fill, pipeline, pitch_of, spread
from .tile_plan import filling

TILE = 4  # neighbouring rows and columns a thread
AGAIN = 2  # such tiles a thread along rows, and along columns
LEAST = 32  # rows and columns of a block, below which copies and barriers outweigh products
STAGES = 2  # a step of sums takes longer than a copy
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
    again = [AGAIN if size >= AGAIN * n * TILE else 1 for size, n in zip(shape, threads)]
    whole = (threads[0] * TILE * again[0], threads[1] * TILE * again[1])
    least = tuple(min(n, LEAST) for n in whole)
    filled = filling((shape[0], shape[1]), count, whole, (least[0], least[1]))
    smaller = [
        (whole[0] // a, whole[1] // b)
        for a in (1, 2, 4)
        for b in (1, 2, 4)
        if whole[0] // a >= TILE and whole[1] // b >= TILE
    ]
    high, broad = machine.choose(out.op.name, "tile", [filled, *smaller])
    block = (high, broad)
    threads = (min(threads[0], block[0] // TILE), min(threads[1], block[1] // TILE))
    at = _bind_output(s[out], sides, threads, block, machine)
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
    late = all(x.copied_late for x in sides)
    tiles = sum(block) * (depth * nbytes + VECTOR_BYTES)
    stages = min(STAGES, machine.stages(tiles, -(-steps // depth))) if late else 1
    if stages > 1:
        options = nearby(stages, 1, 3, 4, most=machine.stages(tiles, -(-steps // depth)))
        (stages,) = machine.choose(out.op.name, "stages", options)
    pipeline(stage, outer, stages)
    places = [middle if x.along else k for x in sides]
    if both:
        places[1] = j
    y, x = (threads[0], threads[1]) if not columns.along else (threads[1], threads[0])
    for side, copy, part, place in zip(sides, copies, parts, places):
        s[part].compute_at(stage, place)
        *others, last = s[part].op.axis
        for axis in others:
            machine.unroll(s[part], axis)
        s[part].vectorize(last)
        load = s[copy]
        load.compute_at(stage, outer)
        if side.along:
            taken = min(depth, steps or depth) * nbytes
            row = -(-taken // VECTOR_BYTES) * VECTOR_BYTES
            load.storage_align(load.op.axis[-2], pitch_of(row) // nbytes, 0)
            if pitch_of(row) > taken:
                spread(load, row)
        else:
            d = int(side is columns)
            along_lines(load, min(block[d], shape[d]) * nbytes)
        fill(load, side, (y, x), machine, stages)


def _bind_output(
    stage: Stage,
    sides: tuple[Operand, Operand],
    threads: tuple[int, int],
    block: tuple[int, int],
    machine: GpuMachine,
) -> IterVar:
    """The loop of a thread, of a matrix that blocks make in tiles."""
    *batch, i, j = stage.leaf_iter_vars
    length = steps_of(stage, j)
    rows, columns = sides
    both = rows.along and columns.along  # neighbouring threads read neighbouring rows then
    again = [size // (n * TILE) for size, n in zip(block, threads)]
    by, y = stage.split(i, factor=block[0])
    bx, x = stage.split(j, factor=block[1])
    vx, x = stage.split(x, nparts=again[1])
    tx, x = stage.split(x, factor=TILE)
    vy, y = stage.split(y, nparts=block[0] // threads[0] if both else again[0])
    ty, y = stage.split(y, nparts=threads[0])
    stage.reorder(*batch, by, bx, vy, vx, ty, tx, y, x)
    tags = ("threadIdx.x", "threadIdx.y") if columns.along else ("threadIdx.y", "threadIdx.x")
    bind_blocks(stage, batch, by, bx, (steps_of(stage, by), steps_of(stage, bx)), machine)
    for axis, tag in zip((vy, vx, ty, tx), ("vthread", "vthread", *tags)):
        bind(stage, axis, tag)
    stage.unroll(y)
    if length and length % TILE == 0:
        stage.vectorize(x)
    else:
        stage.unroll(x)
    return tx
