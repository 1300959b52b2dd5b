"""Matrix products: those with many rows are scheduled like other sums of products (`contraction`),
those with few have schedules of their own."""

from __future__ import annotations

from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.expr import const_int
from ...loopir.visit import free_vars
from ...schedule.api import Schedule
from ...tensor.op import domain
from ...tensor.tensor import Tensor
from .contraction import FEW_ROWS, Contraction, contraction_of, even, tiles
from .machine import PARALLEL_PRODUCTS, PIECES, Machine, extent_of, parallel_if, work_of

SMALL_ROWS = 4
SHORT_STEPS = 4  # vectors along the reduction that pay for adding the lanes of one
WIDEST = 512  # elements of a row of output at work at once
ROWS_AT_ONCE = 8  # of the right side, added while an element of the output is in a register


def is_product(op: Any) -> bool:
    """Whether an operation is a sum over k of a[.., i, .., k, ..] * b[.., j, .., k, ..] (casts
    aside), i and j its last two axes: each in one factor alone, k in both."""
    form = contraction_of(op)
    return form is not None and _is_product(op, form)


def _is_product(op: Any, form: Contraction) -> bool:
    steps = {a.var for a in op.reduce_axis}
    return (
        len(op.reduce_axis) == 1
        and len(op.axis) > 1
        and len(op.axis) - 2 in form.rows
        and not form.both
        and not form.group
        and all(
            e is not None and any(steps.intersection(free_vars(x)) for x in e.indices)
            for e in (form.row_side, form.vector_side)
        )
    )


def schedule_matmul(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Schedule a (M, N) product, plain or batched, and the element-wise stage that ends its
    group.

    With few rows nothing of the right side is used often enough to be copied: where its columns
    lie in memory, vectors run along the reduction; where its rows do, and they come from far away,
    they are added up into a wide piece of the output. Otherwise panels of it are packed.
    """
    rank = len(s[out].op.axis)
    m = extent_of(s[out].op.axis[-2])
    steps = extent_of(product.op.reduce_axis[-1])
    form = contraction_of(product.op, plain=False)
    form = form or Contraction(None, None, tuple(range(rank - 2)), (rank - 2,), (), -1)
    right = form.vector_side
    if right is None or form.column < 0 or not m or not _is_product(product.op, form):
        tiles(s, product, out, machine, form, False)
    elif m > FEW_ROWS:
        tiles(s, product, out, machine, form, bool(steps) or form.in_order)
    elif form.in_order and _bytes_of(right.producer) > machine.l2_bytes // 2:
        _sums_of_rows(s, product, out, machine)
    elif not form.in_order and steps >= SHORT_STEPS * machine.lanes(product.dtype):
        _dot_products(s, product, out, machine)
    else:
        tiles(s, product, out, machine, form, False)


def _bytes_of(t: Tensor) -> int:
    """The bytes of a matrix, or of each in a batch; 0 where a size is not known."""
    return prod(const_int(d) or 0 for d in t.shape[-2:]) * parse(t.dtype).nbytes


def _sums_of_rows(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """A wide piece of a few rows of the output, to which some rows of the right side are added at
    once."""
    lanes = machine.lanes(product.dtype)
    work = work_of(product)
    m, n = (extent_of(a) for a in s[out].op.axis[-2:])
    if product.op is out.op:
        product = s.cache_write(out, "local")
    *batch, i, j = s[out].op.axis
    nbytes = parse(product.dtype).nbytes
    width = min(WIDEST, machine.l1_bytes // 2 // nbytes // m)
    if n:
        width = min(width, -(-n // (PIECES * machine.cores)))
    width = max(4, width // lanes) * lanes
    jo, ji = s[out].split(j, factor=width)
    jp, jv = s[out].split(ji, factor=lanes)
    s[out].reorder(*batch, jo, i, jp, jv)
    s[out].vectorize(jv)
    piece = s[out].fuse(*batch, jo) if batch else jo
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS)
    stage = s[product]
    stage.compute_at(s[out], piece)
    *batch, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    io, ii = stage.split(i, factor=even(m, 4))
    jp, jv = stage.split(j, factor=lanes)
    ko, ki = stage.split(k, factor=ROWS_AT_ONCE)
    stage.reorder(*batch, ko, io, jp, ii, ki, jv)
    stage.vectorize(jv)
    stage.unroll(ki)
    stage.unroll(ii)


def _dot_products(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Tiles of dot products, each in the lanes of a vector that are added at the end."""
    lanes = machine.lanes(product.dtype)
    work = work_of(product)
    m = extent_of(s[out].op.axis[-2])
    _, lane = s[product].split(s[product].op.reduce_axis[0], factor=lanes)
    parts = s.rfactor(product, lane, len(product.op.axis))
    *batch, i, j = s[out].op.axis
    rows = even(m, 4)
    columns = max(1, min(8, (machine.registers - 1) // (rows + 1)))
    jo, ji = s[out].split(j, factor=columns)
    io, ii = s[out].split(i, factor=rows)
    s[out].reorder(*batch, jo, io, ii, ji)
    s[out].unroll(ii)
    s[out].unroll(ji)
    piece = s[out].fuse(*batch, jo) if batch else jo
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS)
    total = s[product]
    if product.op is not out.op:
        total.compute_at(s[out], io)
        for axis in total.op.axis[-2:]:
            total.unroll(axis)
    total.unroll(total.op.reduce_axis[0])
    stage = s[parts]
    stage.compute_at(s[out], io)
    *batch, i, j, lane = stage.op.axis
    (k,) = stage.op.reduce_axis
    stage.reorder(*batch, k, i, j, lane)
    stage.vectorize(lane)
    stage.unroll(i)
    stage.unroll(j)


def schedule_dense_packed(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Blocks of columns in parallel; for each, a few rows of accumulators over the reduction."""
    work = work_of(product)
    if product.op is out.op:
        product = s.cache_write(out, "local")
    i, j, v = s[out].op.axis
    rows = max(1, min(extent_of(i) or 1, machine.registers - 4))
    io, ii = s[out].split(i, factor=rows)
    s[out].reorder(j, io, ii, v)
    s[out].vectorize(v)
    s[out].unroll(ii)
    parallel_if(s[out], j, work, PARALLEL_PRODUCTS)
    stage = s[product]
    stage.compute_at(s[out], io)
    i, j, v = stage.op.axis
    (k,) = stage.op.reduce_axis
    if rows < SMALL_ROWS and (const_int(domain(k).extent) or 0) % 4 == 0:
        # several chains: partial sums over interleaved parts of the reduction
        ko, ki = stage.split(k, factor=4)
        stage.reorder(i, j, ko, ki, v)
        stage.unroll(ki)
    else:
        stage.reorder(k, i, j, v)
        stage.unroll(i)
    stage.vectorize(v)
