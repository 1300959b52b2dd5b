"""Matrix products by Hopper's warp groups: wgmma on tiles that TMA brings, on sm_90a.

A block makes a tile of the product with one or two warp groups, and one whose thread brings the
operands, three or four steps of the reduction under way (topi.tensor_intrin.wgmma); blocks that
read the same rows, or columns, may be a cluster. Sums go to shared memory, from where all threads
store them side by side, together with what follows the product; there alone is it asked where the
arrays end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....base.dtype import parse
from ....loopir.expr import const_int
from ....loopir.iter import ProducerLoad
from ....loopir.visit import walk
from ....schedule.api import Schedule
from ....schedule.state import GROUP_ROOT
from ....tensor.compute import compute
from ....tensor.op import PlaceholderOp, domain
from ....tensor.tensor import Tensor
from ...tensor_intrin.warp_group_tile import GROUP, GROUP_ROWS, SPAN, SUMS, WarpGroupTile
from ...tensor_intrin.wgmma import wgmma_store, wgmma_tile
from ..decisions import Value
from ..machine import extent_of, extents_of, nearby, whole_vectors
from ..restated import restated
from .group_plan import ALONE, STAYS, STREAM, Cluster, GroupPlan, Work
from .machine import VECTOR_BYTES, GpuMachine, bind, bind_blocks, fused
from .operands import Operand, read_widened
from .packing import kept_as_they_lie
from .split_k import in_place

_STAGES = (2, 3, 4, 6, 8)
_STRIPE = 32  # columns of a tile that are in shared memory at a time
_PAD = 8  # sums behind a row, so that rows lie in other banks; 4 behind four rows, see `fours`
_ROOM = 1 << 10  # bytes of a block's shared memory that barriers and the start of all may take


def tile_for(
    s: Schedule, product: Tensor, sides: tuple[Operand, Operand], machine: GpuMachine
) -> WarpGroupTile | None:
    """The tile of a product that warp groups are for, None of others: of matrices, or of a batch of
    them, of types and sums that `SUMS` has, that lie in memory, at least as large as the smallest
    tile. Sizes are known, but for rows of a matrix along which the reduction runs."""
    kinds = {x.tensor.dtype for x in sides}
    if machine.warp_groups < 2 * GROUP or len(product.shape) not in (2, 3):
        return None
    dtype = sides[0].tensor.dtype
    if len(kinds) != 1 or SUMS.get(dtype) != product.dtype:
        return None
    if not read_widened(product.op, sides):
        return None
    shapes = [[const_int(n) or 0 for n in x.tensor.shape] for x in sides]
    open_rows = len(product.shape) == 2 and sides[0].along and not shapes[0][0]
    if open_rows:
        shapes[0][0] = extent_of(product.op.axis[0])
    if any(0 in shape or len(shape) != len(product.shape) for shape in shapes):
        return None
    batch = None
    if len(product.shape) == 3:
        batch = (shapes[0][0], shapes[1][0])
        if not all(_one_each(product.op, x) for x in sides):
            return None
    if not all(is_array(s, x.tensor) for x in sides):
        return None
    m, n, k = (extent_of(a) for a in (*product.op.axis[-2:], *product.op.reduce_axis))
    first, second = (x.along or not y for x, y in zip(sides, kept_as_they_lie(sides, k)))
    along = (first, second)
    k += -k % sides[0].widest
    if k < 1:
        return None
    rows = domain(product.op.axis[-2]).extent if open_rows else m
    whole = WarpGroupTile(dtype, GROUP_ROWS, SPAN, (rows, n, k), along, 2, True, batch)
    work = Work(m, n, 1 if batch is None else max(batch), -(-k // whole.step))
    return best_tile(whole, work, machine, product.op.name)


def best_tile(
    whole: WarpGroupTile, work: Work, machine: GpuMachine, name: str
) -> WarpGroupTile | None:
    """The tile of a product of such operands, with all else that is decided about it; None where no
    tile has room."""
    open_rows = not isinstance(whole.extents[0], int)
    tiles: dict[Value, tuple[WarpGroupTile, GroupPlan]] = {}

    def takes(rows: int, columns: int, cluster: Cluster) -> bool:
        # how many blocks there are has to be known, so that they are whole clusters
        known = cluster[0] == 1 or not open_rows
        return known and replace(whole, rows=rows, columns=columns).takes(cluster)

    for plan in work.plans(machine, 1 if whole.along[1] else whole.step, takes):
        tile = replace(whole, rows=plan.rows, columns=plan.columns)
        if _room(tile, machine) >= 2 * tile.stage_bytes:
            tiles[plan.rows, plan.columns] = (tile, plan)
    if not tiles:
        return None
    tile, plan = tiles[machine.choose(name, "tile", tiles)]
    return _decided(tile, plan, work, machine, name)


def _decided(
    tile: WarpGroupTile, plan: GroupPlan, work: Work, machine: GpuMachine, name: str
) -> WarpGroupTile:
    """A tile, as wide as blocks make together, with all else that is decided about it."""
    parts, open_rows = 1, not isinstance(tile.extents[0], int)
    if not open_rows:
        (parts,) = machine.choose(name, "parts", [(plan.parts,), *((p,) for p in work.parts)])
    steps = -(-work.steps // parts)
    tile = replace(tile, length=None if parts == 1 else steps * tile.step)
    tile = _in_cluster(tile, plan, work, machine, name)
    most = min(_STAGES[-1], _room(tile, machine) // tile.stage_bytes, max(steps // tile.joined, 2))
    best = work.stages(tile.rows, tile.wide, most)
    (stages,) = machine.choose(name, "stages", nearby(best, *_STAGES, most=most))
    stay = ALONE
    if tile.joined == 1 and machine.processors:
        ways = (ALONE, STAYS) if open_rows else work.ways(tile.rows, tile.columns, parts)
        order = sorted(ways, key=lambda way: way != plan.stays)
        (stay,) = machine.choose(name, "persistent", [(way,) for way in order])
    return replace(tile, stages=stages, persistent=stay != ALONE, stream=stay == STREAM)


def _in_cluster(
    tile: WarpGroupTile, plan: GroupPlan, work: Work, machine: GpuMachine, name: str
) -> WarpGroupTile:
    """A tile as the blocks of a cluster make it: each one of its own, below or beside the others,
    or together one whose columns they share."""
    open_rows = not isinstance(tile.extents[0], int)
    options: dict[Value, WarpGroupTile] = {}
    for below, beside in (plan.cluster, *work.clusters(tile.rows, tile.columns)):
        if tile.takes((below, beside)) and not (open_rows and below > 1):
            options[below, beside, 1] = replace(tile, cluster=(below, beside))
    for blocks in work.joins(tile.columns) if tile.length is None else ():
        together = replace(tile, columns=tile.columns // blocks, joined=blocks)
        if _room(together, machine) >= 2 * together.stage_bytes:
            options[1, 1, blocks] = together
    best = (*plan.cluster, plan.joined)
    order = sorted(options, key=lambda option: option != best)
    return options[machine.choose(name, "cluster", order)]


def _in_rows(s: Schedule, product: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The sums in shared memory, as they are in the product, and those in registers."""
    if product.op is out.op:
        shared = s.cache_write(out, "shared")
    else:
        s[product].set_scope("shared")
        shared = product
    return shared, s.cache_write(shared, "local")


def _in_fours(s: Schedule, product: Tensor) -> tuple[Tensor, Tensor]:
    """The sums in shared memory, (four, row of it, column), which the output reads instead of a
    product, and those in registers."""
    total = s.cache_write(product, "local")
    *lead, rows, columns = extents_of(s[product].op)

    def kept(*at: Any) -> Any:
        *b, four, row, j = at
        return total(*b, four * 4 + row, j)

    def read(*at: Any) -> Any:
        *b, i, j = at
        return shared(*b, i // 4, i % 4, j)

    shared: Tensor = compute((*lead, (rows + 3) // 4, 4, columns), kept, f"{product.op.name}.sums")
    restated(s, product, compute((*lead, rows, columns), read, product.op.name))
    s[product].compute_inline()
    shared = s[shared].op.output(0)
    s[shared].set_scope("shared")
    return shared, total


def _rows_apart(stage: Any, y: Any, x: Any, wide: int, tile: WarpGroupTile) -> Any:
    """The rows of a tile in an order by which those that threads read side by side, `wide` sums
    each, lie in different banks."""
    if tile.fours:
        count = 3  # pieces of 16 bytes between those of the four behind
    elif wide == _PAD * 2 and tile.held % 4 == 0:
        count = 2  # 24 words from row to row: 16 banks between every other one
    else:
        return y
    bits = []
    for _ in range(count):
        y, bit = stage.split(y, factor=2)
        bits.append(bit)
    first = bits[:2] if wide == _PAD * 2 else bits[1::-1]
    stage.reorder(y, *first, *bits[2:], x)
    return fused(stage, [y, *first, *bits[2:]])


def _room(tile: WarpGroupTile, machine: GpuMachine) -> int:
    """Bytes of a block's shared memory that stages may take."""
    sums = tile.rows * (_STRIPE + _PAD + 1) * parse(SUMS[tile.dtype]).nbytes
    return machine.shared_bytes - _ROOM - sums - tile.exchange_bytes


def is_array(s: Schedule, t: Tensor) -> bool:
    """Whether a tensor lies in the device's memory before the product begins."""
    return isinstance(t.op, PlaceholderOp) or s[t].attach_spec().attach_type == GROUP_ROOT


def _one_each(op: Any, side: Operand) -> bool:
    """Whether an operand's first index counts the batch as the product's does, or is 0."""
    loads = [e for e in walk(op.body[0]) if type(e) is ProducerLoad and e.producer is side.tensor]
    if const_int(side.tensor.shape[0]) == 1:
        return all(const_int(e.indices[0]) == 0 or e.indices[0] is op.axis[0].var for e in loads)
    return all(e.indices[0] is op.axis[0].var for e in loads)


def schedule_on_warp_groups(
    s: Schedule, product: Tensor, out: Tensor, tile: WarpGroupTile, machine: GpuMachine
) -> None:
    """A product by tiles (`tile_for`), of operands that `lay_along` has laid, and the element-wise
    stage that ends its group. Of windows, whose rows this counts by images, lines and pixels."""
    if tile.length is not None:
        product = out = in_place(s, product, out, tile.parts, tile.length, machine)
    stage = s[out]
    lanes = VECTOR_BYTES // parse(stage.op.output_dtype(0)).nbytes
    lanes = whole_vectors(extent_of(stage.op.axis[-1]), lanes)
    # eight sums of a thread or more are accesses to every other piece of 16 bytes
    tile = replace(tile, fours=lanes >= 8 and tile.there >= 4)
    shared, total = _in_fours(s, product) if tile.fours else _in_rows(s, product, out)
    *batch, i, j = stage.op.axis
    if tile.windows is not None and tile.length is None:
        batch, i = [], fused(stage, [*batch, i])
    wide = min(_STRIPE, tile.columns)
    by, y = stage.split(i, factor=tile.held + -tile.held % 8 if tile.fours else tile.held)
    bx, x = stage.split(j, factor=tile.columns)
    stripe, x = stage.split(x, factor=wide)
    stage.reorder(*batch, by, bx, stripe, y, x)
    # which rows of blocks lie side by side follows from how many there are
    count = tile.extents[0] if isinstance(tile.extents[0], int) else 0
    shape = (-(-count // tile.rows), -(-extent_of(j) // tile.columns))
    below, beside = tile.cluster
    place = bind_blocks(
        stage,
        batch,
        by,
        bx,
        shape,
        machine,
        (tile.rows, tile.columns),
        (below, beside * tile.joined),
    )
    if tile.persistent:
        # as many blocks as there are multiprocessors, in whole clusters
        count = machine.processors // tile.blocks * tile.blocks
        stage.pragma(place, "persistent_blocks", count)
    stage.unroll(stripe)
    y = _rows_apart(stage, y, x, wide, tile)
    flat = stage.fuse(y, x)
    if lanes > 1:
        flat, vector = stage.split(flat, factor=lanes)
        stage.vectorize(vector)
    rest, thread = stage.split(flat, factor=tile.threads)
    bind(stage, thread, "threadIdx.x")
    stage.unroll(rest)
    sums = s[shared]
    sums.compute_at(stage, stripe)
    sums.storage_align(sums.op.axis[-2], wide, _PAD)
    if tile.fours:
        sums.storage_align(sums.op.axis[-3], _STRIPE, _PAD // 2)
    sums.tensorize(sums.op.axis[0], wgmma_store(tile, wide))
    s[total].compute_at(stage, place)
    s[total].tensorize(s[total].op.axis[0], wgmma_tile(tile))
