"""Recurrent layers (topi/nn/recurrent_layer.py): a step after the other, in tiles of some rows and
a block of columns, whose sums of all gates stay in registers until they are a new state."""

from __future__ import annotations

from typing import Any

from ...loopir.iter import IterVar
from ...schedule.api import Schedule, Stage
from ...tensor.op import ScanOp
from ...tensor.tensor import Tensor
from ..nn.recurrent_layer import INSIDE, PRODUCT, RESET
from .decisions import Value
from .machine import (
    PARALLEL_PRODUCTS,
    UNEVEN,
    Machine,
    even,
    extent_of,
    parallel_if,
    size_of,
    work_of,
)
from .tiles import vectors

MOST_ROWS = 4
SPARE = 4
"""Registers beside sums: weights and elements of the state."""


def recurrent_tile(batch: int, hidden: int, gates: int, dtype: str, machine: Machine) -> Value:
    """(rows, columns) of a tile: as many sums as fit the registers, of more columns where there are
    few rows, since sums wait for each other; of fewer, where threads would."""
    lanes = machine.lanes(dtype)
    most = max(1, min(MOST_ROWS, (machine.working // 2) // gates))
    rows = even(batch, most)
    vectors = 1
    while rows * gates * vectors * 2 <= machine.working - SPARE and vectors * lanes < hidden:
        vectors *= 2

    def longest(vectors: int) -> float:
        return machine.longest(-(-batch // rows) * -(-hidden // (vectors * lanes)))

    while vectors > 1 and longest(vectors) > max(UNEVEN, longest(vectors // 2)):
        vectors //= 2
    return rows, vectors * lanes


def schedule_recurrent(s: Schedule, out: Tensor, machine: Machine) -> None:
    """Tiles of a step run on threads, where there is work for them."""
    assert isinstance(out.op, ScanOp)  # which the tag is of
    update = s[out.op.update[0]]
    readers = s.consumers()
    cells, resets, products = (
        [x for x in s.stages if x.op.tag == tag] for tag in (INSIDE, RESET, PRODUCT)
    )
    steps = max(1, size_of(out.shape[0]))
    ahead = [p for p in products if any(r in resets for r in readers[p.op.output(0)])]
    for end in (*resets, update):
        mine = [p for p in products if (p in ahead) == (end in resets)]
        work = sum(work_of(p.op.output(0)) for p in mine) // steps
        tile, row = _tiles(end, mine[0].op, work, machine)
        for product in mine:
            _in_registers(product, machine)
            product.compute_at(end, tile)
        if end in resets:
            end.compute_at(update, update.op.axis[0])
    for stage in cells:
        vectors(stage, machine)
        stage.compute_at(update, row)


def _tiles(end: Stage, product: Any, work: int, machine: Machine) -> tuple[IterVar, IterVar]:
    """Cut a step of a stage into tiles as those of a product that it reads; the loops over tiles
    and over rows of one."""
    t, batch, *kept, j = end.op.axis
    outer, row = end.split(batch, factor=int(product.attrs["rows"]))
    block, j = end.split(j, factor=extent_of(product.axis[-1]))
    end.reorder(t, block, outer, row, *kept, j)
    tile = end.fuse(block, outer)
    for q in kept:
        end.unroll(q)
    lanes = machine.lanes(product.output_dtype(0))
    if extent_of(product.axis[-1]) >= lanes:
        _, lane = end.split(j, factor=lanes)
        end.vectorize(lane)
    parallel_if(end, tile, work, PARALLEL_PRODUCTS, machine)
    end.pragma(tile, "parallel_there_and_back")  # of weights beyond a cache it has the last still
    return tile, row


def _in_registers(product: Stage, machine: Machine) -> None:
    """All sums of a tile side by side in each step of the reduction."""
    t, row, block, gate, j = product.op.axis
    (k,) = product.op.reduce_axis
    lanes = machine.lanes(product.op.output_dtype(0))
    product.reorder(t, block, k, row, gate, j)
    if extent_of(j) > lanes:
        j, lane = product.split(j, factor=lanes)
        product.unroll(j)
        product.vectorize(lane)
    elif extent_of(j) > 1:
        product.vectorize(j)
    for axis in (row, gate):
        product.unroll(axis)
