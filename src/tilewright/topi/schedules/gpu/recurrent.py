"""A step of a recurrent layer on a GPU (topi/nn/recurrent_step.py).

A block has some columns of the new state: its warps sum up the products of these columns' gates, a
row of weights and a row of the batch at a time, and hand them to each other in shared memory, where
the elements of the state are made of them. Warps side by side have the same row of weights, which
comes from memory once.
"""

from __future__ import annotations

from math import prod

from ....loopir.iter import IterVar
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ..machine import extent_of, known_extent
from .machine import GpuMachine, bind, fused
from .reduce import lanes_along, part_row, threads_for, together

MOST_ROWS = 16  # of a batch, whose products with tiles of weights take longer than one by one


def takes_step(batch: object, hidden: int, machine: GpuMachine) -> bool:
    """Whether steps of a layer are launches of their own for a batch, rather than products with
    what follows them."""
    return machine.shared and hidden > 0 and isinstance(batch, int) and 0 < batch <= MOST_ROWS


def schedule_step(s: Schedule, out: Tensor, machine: GpuMachine) -> bool:
    """Columns of the state by blocks; False where there are no warps, or sums of other kinds."""
    stage = s[out]
    products = [x for x in s.stages if getattr(x.op, "reduce_axis", ())]
    sizes = [known_extent(a) for x in products for a in (*x.op.axis, *x.op.reduce_axis)]
    if not machine.shared or not products or not all(sizes):
        return False
    for x in s.stages:
        if x is not stage and x not in products and hasattr(x.op, "body"):
            x.compute_inline()
    sums = [x.op.output(0) for x in products]
    lanes = min(lanes_along(s[t], t.op.reduce_axis, machine) for t in sums)
    threads = threads_for(extent_of(sums[0].op.reduce_axis[0]) // lanes, machine)
    threads = min(threads, machine.warp)
    *others, j = stage.op.axis
    each = max(_for_a_column(x) for x in products)  # sums
    columns, most = 1, machine.threads // threads
    while 2 * columns * each <= most and extent_of(j) >= 2 * columns * machine.filling:
        columns *= 2
    block, near = stage.split(j, factor=columns)
    stage.reorder(block, *others, near)
    bind(stage, block, "blockIdx.x")
    high = min(most, columns * each)
    flat, thread = stage.split(fused(stage, [*others, near]), factor=threads)
    _, row = stage.split(flat, factor=high)
    bind(stage, thread, "threadIdx.x")
    bind(stage, row, "threadIdx.y")
    for red in sums:
        _summed(s, red, stage, block, (lanes, threads, high))
    return True


def _for_a_column(product: Stage) -> int:
    """How many sums a column of the state is made of."""
    t, row, _, *more = product.op.axis
    return prod(extent_of(a) for a in (t, row, *more))


def _summed(
    s: Schedule, red: Tensor, at: Stage, block: IterVar, sizes: tuple[int, int, int]
) -> None:
    """Sums of a block in shared memory, each by some threads side by side, as many at once as there
    are rows of them."""
    lanes, threads, high = sizes
    part, vector = part_row(s, red, 1, lanes, threads)
    stage = s[red]
    stage.set_scope("shared")
    stage.compute_at(at, block)
    t, row, *columns = stage.op.axis
    stage.storage_align(columns[0], 2, 1)  # an odd stride: columns are read from all banks
    stage.reorder(t, *columns, row)
    _, y = stage.split(stage.fuse(t, *columns, row), factor=high)
    bind(stage, y, "threadIdx.y")
    lane = together(s, red, part, vector, threads)
    stage.set_store_predicate(lane.var.equal(0))
