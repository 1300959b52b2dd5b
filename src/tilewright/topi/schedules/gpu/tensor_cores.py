"""Matrix products on a GPU's tensor cores.

A block makes a tile of the product, each warp some of its columns. Tiles of the operands come to
shared memory some steps ahead, with zeros beyond the edges, rows padded against bank conflicts.
What a warp has summed goes to shared memory 16 rows at a time, whose elements all lanes then store
side by side, together with what follows the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....base.dtype import parse
from ....loopir.expr import const_int
from ....loopir.iter import IterVar
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ...tensor_intrin import mma_gemm, mma_load, mma_store, wmma_gemm, wmma_load, wmma_store
from ...tensor_intrin.mma import depth as mma_depth
from ..machine import extent_of, nearby, whole_vectors
from .machine import (
    GpuMachine,
    bind,
    bind_blocks,
    loop_extent,
    planned,
    steps_of,
)
from .operands import Operand, copies_of, fill, pipeline, pitch_of, spread, steps_of_tile
from .tile_plan import FRAGMENT, WARP, Steps, TilePlan

PAIRS = 8  # elements of a row that four lanes store at once


@dataclass(frozen=True)
class _Unit:
    """How fragments are held, and the intrinsics that load, multiply and store them; `steps`: of
    the reduction in one."""

    scopes: tuple[str, str, str]
    steps: int
    loads: tuple[Any, Any]
    gemm: Any
    store: Any

    @staticmethod
    def of(kind: str, sums: str, along: tuple[bool, bool], extent: int) -> _Unit:
        """For operands along whose rows the reduction, of that extent, runs, or not. WMMA takes
        any. mma on registers takes what ldmatrix brings into their order, and compilers make fewer
        instructions of it, of bytes a quarter of WMMA's."""
        layouts = [
            "row_major" if x == first else "col_major" for x, first in zip(along, (True, False))
        ]
        nbytes = parse(kind).nbytes
        is_brought = along[0] and (along[1] or nbytes == 2) and nbytes <= 2
        if is_brought and extent >= mma_depth(kind):
            return _Unit(
                ("local", "local", "local"), mma_depth(kind),
                (mma_load("a", kind), mma_load("b", kind, layouts[1])),
                mma_gemm(kind, sums, layouts[1]), mma_store(sums, scope="shared"),
            )  # fmt: skip
        size = (FRAGMENT,) * 3
        a, b = (wmma_load(role, size, kind, layout) for role, layout in zip("ab", layouts))
        return _Unit(
            ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"), FRAGMENT, (a, b),
            wmma_gemm(size, kind, sums, *layouts), wmma_store(size, sums, "shared"),
        )  # fmt: skip


def schedule_on_tensor_cores(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    sides: tuple[Operand, Operand],
    plan: TilePlan,
    machine: GpuMachine,
    cut: Steps | None = None,
) -> None:
    """A product of types that tensor cores have, and the element-wise stage that ends its group;
    `cut`: how the reduction is, where an operand is computed from places in another tensor."""
    kind, sums = sides[0].tensor.dtype, product.dtype
    extent = planned(product.op.reduce_axis[0])
    unit = _Unit.of(kind, sums, (sides[0].along, sides[1].along), extent)
    size, block = parse(kind).nbytes, plan.block
    deep, stages = _tiles_of(product, sides, plan, unit, extent, machine, cut)
    if product.op is out.op:
        shared = s.cache_write(out, "shared")
    else:
        s[product].set_scope("shared")
        shared = product
    total = s.cache_write(shared, unit.scopes[2])
    copies = copies_of(s, sides, total)
    parts = [s.cache_read(c, name, [total.op]) for c, name in zip(copies, unit.scopes)]
    columns = plan.columns
    at, stripe = _bind_output(s[out], plan, machine)
    s[shared].compute_at(s[out], stripe)
    _store_fragments(s[shared], columns, unit.store)
    s[total].compute_at(s[out], at)
    rows = [(deep if x.along else tile) * size for x, tile in zip(sides, block)]
    step, depth = _multiply(s[total], unit, deep)
    pipeline(s[total], step, stages)
    for load, part in zip(unit.loads, parts):
        s[part].compute_at(s[total], depth)
        _load_fragments(s[part], load)
    for side, copy, row in zip(sides, copies, rows):
        load = s[copy]
        load.compute_at(s[total], step)
        load.storage_align(load.op.axis[-2], pitch_of(row) // size, 0)
        spread(load, row)
        fill(load, side, (plan.threads // WARP, WARP), machine, stages)


def _tiles_of(
    product: Tensor,
    sides: tuple[Operand, Operand],
    plan: TilePlan,
    unit: _Unit,
    extent: int,
    machine: GpuMachine,
    cut: Steps | None,
) -> tuple[int, int]:
    """Steps of a reduction of that extent in a tile, and how many tiles are under way: less deep
    ones where there is no room for two."""
    size = parse(sides[0].tensor.dtype).nbytes

    def stages(deep: int) -> int:
        nbytes = _bytes(sides, plan.block, deep, size)
        held = plan.registers(product.dtype, deep * size)
        return machine.stages(nbytes, -(-extent // deep), plan.threads, held)

    late = all(x.copied_late(machine) for x in sides)
    if cut:
        return cut.deep, min(stages(cut.deep), cut.stages) if late else 1
    deep = steps_of_tile(extent, unit.steps)
    if not late:
        return deep, 1
    deep = max(deep, unit.steps, key=lambda n: min(stages(n), 2))
    first, nbytes = stages(deep), _bytes(sides, plan.block, deep, size)
    if first == 1:
        return deep, 1
    most = min(-(-extent // deep), machine.shared_bytes // nbytes, machine.most_stages)
    options = nearby(first, *range(1, machine.most_stages + 1), most=most)
    (first,) = machine.choose(product.op.name, "stages", options)
    return deep, first


def _bytes(sides: tuple[Operand, Operand], block: tuple[int, int], deep: int, size: int) -> int:
    """Bytes of the tiles of both operands for so many steps."""
    return sum(
        pitch_of((deep if x.along else tile) * size) * (tile if x.along else deep)
        for x, tile in zip(sides, block)
    )


def fits(op: Any, side: int, least: int) -> bool:
    """Whether a product has `side` rows and columns and a reduction of `least` steps."""
    rows, columns, steps = (planned(a) for a in (*op.axis[-2:], *op.reduce_axis))
    return min(rows, columns) >= side and steps >= least


def _bind_output(stage: Stage, plan: TilePlan, machine: GpuMachine) -> tuple[IterVar, IterVar]:
    """The loops of the output: those of a warp, in which sums are made, and of 16 of its rows. A
    tile may be larger than the output, which its fragments are not."""
    block, columns = plan.block, plan.columns
    *batch, i, j = stage.leaf_iter_vars
    extent = const_int(loop_extent(stage, j))
    i, row = stage.split(i, factor=FRAGMENT)
    by, y = stage.split(i, factor=block[0] // FRAGMENT)
    j, x = stage.split(j, factor=FRAGMENT)
    bx, warp = stage.split(j, factor=block[1] // FRAGMENT)
    warp, xs = stage.split(warp, factor=columns // FRAGMENT)
    stage.reorder(*batch, by, bx, warp, y, row, xs, x)
    bind_blocks(stage, batch, by, bx, (steps_of(stage, by), steps_of(stage, bx)), machine)
    bind(stage, warp, "threadIdx.y")
    stage.unroll(y)
    near: list[IterVar] = []
    if columns == FRAGMENT:  # two rows are read at once, which half the banks are between
        row, odd = stage.split(row, factor=2)
        row, far = stage.split(row, factor=2)
        stage.reorder(row, odd, far, xs, x)
        near = [odd]
        x = stage.fuse(far, xs, x)
    else:
        x = stage.fuse(xs, x)
    if extent is not None and extent < FRAGMENT:
        # a row has no whole number of lanes: those of two rows, on their own
        bind(stage, x, "threadIdx.x")
        for axis in (row, *near):
            stage.unroll(axis)
        return warp, y
    flat = stage.fuse(row, *near, x)
    lanes = whole_vectors(extent or 1, machine.lanes(stage.op.output_dtype(0)))
    if lanes > 1:
        flat, vector = stage.split(flat, factor=lanes)
        stage.vectorize(vector)
    rest, lane = stage.split(flat, factor=WARP)
    bind(stage, lane, "threadIdx.x")
    stage.unroll(rest)
    return warp, y


def _store_fragments(stage: Stage, columns: int, store: Any) -> None:
    """16 rows of the block's tile in shared memory, of each warp its columns."""
    *_, i, j = stage.op.axis
    stage.storage_align(i, columns, PAIRS)
    rows, row = stage.split(i, factor=FRAGMENT)
    warp, x = stage.split(j, factor=columns)
    x, column = stage.split(x, factor=FRAGMENT)
    stage.reorder(rows, warp, x, row, column)
    bind(stage, warp, "threadIdx.y")
    stage.unroll(x)
    stage.tensorize(row, store)


def _multiply(stage: Stage, unit: _Unit, deep: int) -> tuple[IterVar, IterVar]:
    """The loops over tiles of the reduction, and over the fragments in one."""
    *batch, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    step, k = stage.split(k, factor=deep)
    depth, k = stage.split(k, factor=unit.steps)
    y, row = stage.split(i, factor=FRAGMENT)
    x, column = stage.split(j, factor=FRAGMENT)
    stage.reorder(*batch, step, depth, y, x, row, column, k)
    stage.unroll(depth)
    stage.unroll(y)
    stage.unroll(x)
    stage.tensorize(row, unit.gemm)
    return step, depth


def _load_fragments(stage: Stage, intrinsic: Any) -> None:
    *_, a, b = stage.op.axis
    rows, columns = (extent_of(x) for x in intrinsic.op.axis)
    y, row = stage.split(a, factor=rows)
    x, column = stage.split(b, factor=columns)
    stage.reorder(y, x, row, column)
    stage.unroll(y)
    stage.unroll(x)
    stage.tensorize(row, intrinsic)
