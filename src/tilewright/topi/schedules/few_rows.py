"""Sums of products with few rows: nothing of the vector side is used often enough to be copied."""

from __future__ import annotations

from math import prod

from ...base.dtype import parse
from ...loopir.iter import IterVar
from ...schedule.api import Schedule, Stage
from ...tensor.tensor import Tensor
from .contraction import Contraction
from .decisions import Value
from .machine import (
    LIKELY_ROWS,
    PARALLEL_PRODUCTS,
    PIECES,
    UNEVEN,
    Machine,
    even,
    extent_of,
    nearby,
    parallel_if,
    work_of,
)

LEAST_WIDTH = 4  # vectors of such a row
WIDEST = 512  # elements of a row of output at work at once
ROWS_AT_ONCE = 8  # of the vector side, added while an element of the output is in a register


def sums_of_rows(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    machine: Machine,
    form: Contraction,
    on_threads: bool = True,
) -> None:
    """A wide piece of a few rows of the output, to which some rows of the vector side are added at
    once."""
    lanes = machine.lanes(product.dtype)
    work, name = work_of(product), s[product].op.name
    if product.op is out.op:
        product = s.cache_write(out, "local")
    axes = list(s[out].op.axis)
    rows = [axes[i] for i in form.rows]
    outer = [axes[i] for i in (*form.batch, *form.columns)]
    n = extent_of(axes[-1])
    width = machine.l1_bytes // 2 // parse(product.dtype).nbytes // prod(map(extent_of, rows))
    width = min(WIDEST, width)
    pieces = max(1, prod(map(extent_of, outer)))
    if n:
        width = min(width, -(-n // -(-PIECES * machine.cores // pieces)))
    width = max(LEAST_WIDTH, width // lanes)
    if n and machine.longest(pieces * -(-n // (width * lanes))) > UNEVEN:
        able = range(2 * width, LEAST_WIDTH - 1, -1)
        width = min(able, key=lambda w: machine.longest(pieces * -(-n // (w * lanes))))
    sizes = nearby(width, width // 2, 2 * width, width // 4, 4 * width, 1)
    width = machine.choose(name, "width", sizes)[0] * lanes
    jo, ji = s[out].split(axes[-1], factor=width)
    jp, jv = s[out].split(ji, factor=lanes)
    s[out].reorder(*outer, jo, *rows, jp, jv)
    s[out].vectorize(jv)
    piece = s[out].fuse(*outer, jo) if outer else jo
    if on_threads:
        parallel_if(s[out], piece, work, PARALLEL_PRODUCTS, machine)
    stage = s[product]
    stage.compute_at(s[out], piece)
    axes = list(stage.op.axis)
    rows = [axes[i] for i in form.rows]
    outer = [axes[i] for i in (*form.batch, *form.columns)]
    inner: list[IterVar] = []
    if rows:
        rows[-1], ii = stage.split(rows[-1], factor=even(extent_of(rows[-1]), 4))
        inner = [ii]
    jp, jv = stage.split(axes[-1], factor=lanes)
    *before, k = stage.op.reduce_axis
    (at_once,) = machine.choose(name, "at_once", nearby(ROWS_AT_ONCE, 4, 16, 2))
    ko, ki = stage.split(k, factor=at_once)
    stage.reorder(*outer, *before, ko, *rows, jp, *inner, ki, jv)
    stage.vectorize(jv)
    for axis in (ki, *inner):
        stage.unroll(axis)


def in_dot_tiles(stage: Stage, rows: int, columns: int, work: int, machine: Machine) -> IterVar:
    """Cut the output of `work` products in tiles of dot products, columns of which threads share;
    the loop over tiles of one."""
    *batch, i, j = stage.op.axis
    jo, ji = stage.split(j, factor=columns)
    io, ii = stage.split(i, factor=rows)
    stage.reorder(*batch, jo, io, ii, ji)
    stage.unroll(ii)
    stage.unroll(ji)
    piece = stage.fuse(*batch, jo) if batch else jo
    parallel_if(stage, piece, work, PARALLEL_PRODUCTS, machine)
    return io


def dot_products(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Tiles of dot products, each in the lanes of a vector that are added at the end."""
    lanes = machine.lanes(product.dtype)
    work, name = work_of(product), s[product].op.name
    m = extent_of(s[out].op.axis[-2]) or LIKELY_ROWS
    _, lane = s[product].split(s[product].op.reduce_axis[0], factor=lanes)
    parts = s.rfactor(product, lane, len(product.op.axis))
    rows, columns = machine.choose(name, "dots", dot_tiles(m, machine.working))
    io = in_dot_tiles(s[out], rows, columns, work, machine)
    total = s[product]
    if product.op is not out.op:
        total.compute_at(s[out], io)
        for axis in total.op.axis[-2:]:
            total.unroll(axis)
    total.pragma(total.op.reduce_axis[0], "tree_reduce")
    stage = s[parts]
    stage.compute_at(s[out], io)
    *batch, i, j, lane = stage.op.axis
    (k,) = stage.op.reduce_axis
    stage.reorder(*batch, k, i, j, lane)
    stage.vectorize(lane)
    stage.unroll(i)
    stage.unroll(j)


def dot_tiles(m: int, registers: int) -> list[Value]:
    """(rows, columns) of tiles of dot products whose sums and one row's vectors are in registers,
    for m rows; those of 4 rows first."""
    heights = dict.fromkeys(even(m, most) for most in (4, 2, 1, 3, 6))
    found = [(h, max(1, min(8, (registers - 1) // (h + 1)))) for h in heights]
    return [*found, *((h, c // 2) for h, c in found if c > 1)]
