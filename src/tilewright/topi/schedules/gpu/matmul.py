"""Matrix products on a GPU: a register tile a thread, operands through shared memory."""

from __future__ import annotations

from math import prod

from ....base.dtype import parse
from ....loopir.iter import IterVar
from ....schedule.api import Schedule
from ....tensor.tensor import Tensor
from ..machine import extent_of, known_extent
from .machine import GpuMachine, bind, bind_grid, fused, planned
from .operands import Operand, operands_of, read_widened
from .packing import kept_as_they_lie, lay_along, pack_operands
from .reduce import schedule_reduce
from .register_tiles import Blocks, schedule_in_registers
from .split_k import chosen_parts, in_parts, reduction_of
from .tensor_cores import fits, schedule_on_tensor_cores
from .tile_plan import DEEP, FRAGMENT, UNCUT, WARP, Steps, TilePlan
from .warp_groups import schedule_on_warp_groups, tile_for

TILE = 4  # rows and columns a thread
STEP = 8  # of the reduction, staged at a time
FEW_ROWS = 4


def schedule_matmul(s: Schedule, product: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """A (M, N) product, plain or batched, and the element-wise stage that ends its group."""
    *_, i, j = s[out].op.axis
    if 0 < (known_extent(i) or 0) <= FEW_ROWS and machine.warp > 1:
        schedule_reduce(s, product, out, machine)  # a row of weights for each block
        return
    sides = operands_of(s[product].op) if machine.shared else None
    if sides is not None:
        schedule_sides(s, product, out, sides, machine)
        return
    side = 16 if machine.threads >= 256 else 8
    if product.op is out.op:
        product = s.cache_write(out, "local")
    else:
        s[product].set_scope("local")
    stage = s[out]
    *batch, i, j = stage.op.axis
    high, broad = (_threads(axis, side) for axis in (i, j))
    io, ii = stage.split(i, factor=high * TILE)
    jo, ji = stage.split(j, factor=broad * TILE)
    it, ii = stage.split(ii, factor=TILE)
    jt, ji = stage.split(ji, factor=TILE)
    stage.reorder(*batch, io, jo, it, jt, ii, ji)
    bind_grid(stage, [*([fused(stage, batch)] if batch else []), io, jo])
    bind(stage, it, "threadIdx.y")
    bind(stage, jt, "threadIdx.x")
    machine.unroll(stage, ii)
    if extent_of(j) % TILE == 0:
        stage.vectorize(ji)
    inner = s[product]
    inner.compute_at(stage, jt)
    *batch, i, j = inner.op.axis
    (k,) = inner.op.reduce_axis
    ko, ki = inner.split(k, factor=STEP)
    inner.reorder(*batch, ko, ki, i, j)
    rows, columns = (extent_of(a) for a in stage.op.axis[-2:])
    for axis in (ki, i, j):
        if rows % (high * TILE) or columns % (broad * TILE):
            inner.unroll(axis)  # CUDA's compilers make code a fifth longer of tiles at an edge
        else:
            machine.unroll(inner, axis)
    if machine.shared:
        for t in dict.fromkeys(inner.op.input_tensors):
            copy = s.cache_read(t, "shared", [product.op])
            s[copy].compute_at(inner, ko)
            load = s[copy]
            whole = fused(load, list(load.op.axis))
            whole, x = load.split(whole, factor=broad)
            _, y = load.split(whole, factor=high)
            bind(load, y, "threadIdx.y")
            bind(load, x, "threadIdx.x")


def schedule_sides(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    sides: tuple[Operand, Operand],
    machine: GpuMachine,
    cut: Steps | None = None,
    plan: TilePlan | None = None,
    groups: int = 0,
) -> None:
    """A product whose operands are matrices, or one of them windows, whose reduction is `cut`: by
    warp groups or on tensor cores that have its types, by a `plan` if that is made, else in
    registers. `groups`: of a convolution, whose reduction stays in one here."""
    tile = tile_for(s, product, sides, machine) if cut is None and plan is None else None
    if tile is not None:
        if not all(kept_as_they_lie(sides, extent_of(product.op.reduce_axis[0]))):
            product, out = lay_along(s, product, out, sides, machine)
        schedule_on_warp_groups(s, product, out, tile, machine)
        return
    is_laid = _is_laid(product)
    if machine.warp == WARP and _on_cores(product, sides, is_laid, machine):
        if plan is None:
            rows, columns = (planned(a) for a in product.op.axis[-2:])
            name, sums, count = product.op.name, product.dtype, _count(product)
            together = DEEP // parse(sides[0].tensor.dtype).nbytes
            reduction = reduction_of(product, sides, together) if is_laid else UNCUT
            how = (rows, columns, sums, is_laid, count, machine, reduction)
            plan = TilePlan.chosen(name, *how)
            parts = chosen_parts(name, plan.parts, reduction, machine)
            if parts > 1:
                product, sides = in_parts(s, product, out, sides, parts, machine)
                out = product
        if is_laid:
            product, out = pack_operands(s, product, out, sides, plan, machine)
            sides = operands_of(product.op) or sides
        schedule_on_tensor_cores(s, product, out, sides, plan, machine, cut)
        return
    i, j = product.op.axis[-2:]
    shape = (planned(i), planned(j))
    reduction = UNCUT if groups else reduction_of(product, sides, 1)
    best = Blocks.of(shape, _count(product), machine, reduction).parts
    parts = chosen_parts(product.op.name, best, reduction, machine)
    if parts > 1:
        product, sides = in_parts(s, product, out, sides, parts, machine)
        out = product
    schedule_in_registers(s, product, out, sides, _count(product), machine, groups or 1)


def _count(product: Tensor) -> int:
    """How many products there are; 0 where that is not known."""
    return prod(extent_of(a) for a in product.op.axis[:-2])


def _is_laid(product: Tensor) -> bool:
    """Whether operands may be laid as tensor cores want them: it is known where the steps of the
    reduction lie, of however many rows and columns."""
    sizes = map(known_extent, (*product.op.axis, *product.op.reduce_axis))
    return bool(known_extent(product.op.reduce_axis[0])) and 0 not in sizes


def _on_cores(
    product: Tensor, sides: tuple[Operand, Operand], is_laid: bool, machine: GpuMachine
) -> bool:
    """Whether tensor cores have products of these types, and a tile of them is full, or may be
    filled up."""
    kinds = {x.tensor.dtype for x in sides}
    known = len(kinds) == 1 and (*kinds, product.dtype) in machine.products
    least = (FEW_ROWS + 1, 1) if is_laid else (FRAGMENT, FRAGMENT)
    return known and fits(product.op, *least) and read_widened(product.op, sides)


def _threads(axis: IterVar, most: int) -> int:
    """Threads along an axis: small products have no work for all of them, and empty ones a loop
    that is cut to one."""
    return max(1, min(most, -(-planned(axis) // TILE)))


def schedule_dense_packed(s: Schedule, product: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """A block of columns a thread; weights come as vectors."""
    if product.op is out.op:
        product = s.cache_write(out, "local")
    else:
        s[product].set_scope("local")
    stage = s[out]
    i, j, v = stage.op.axis
    stage.vectorize(v)
    threads = min(machine.threads, 64)
    block, thread = stage.split(j, factor=threads)
    stage.reorder(i, block, thread, v)
    bind_grid(stage, [i, block])
    bind(stage, thread, "threadIdx.x")
    inner = s[product]
    inner.compute_at(stage, thread)
    i, j, v = inner.op.axis
    (k,) = inner.op.reduce_axis
    ko, ki = inner.split(k, factor=4)
    inner.reorder(i, j, ko, ki, v)
    machine.unroll(inner, ki)
    inner.vectorize(v)
