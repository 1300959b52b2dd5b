"""Matrix products: a register tile in cache tiles, the right side packed into panels.

Goto and van de Geijn: Anatomy of high-performance matrix multiplication, TOMS 2008. The register
tile is `rows` times `panels` vectors; the reduction is cut so that the panel stays in the
second-level cache.
"""

from __future__ import annotations

from ...loopir.expr import const_int
from ...schedule.api import Schedule
from ...tensor.op import domain
from ...tensor.tensor import Tensor
from .machine import (
    PARALLEL_PRODUCTS,
    Machine,
    extent_of,
    largest_divisor,
    parallel_if,
    work_of,
)

SMALL_ROWS = 4


def schedule_matmul(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Schedule a (M, N) product, plain or batched, and the element-wise stage that ends its
    group.
    """
    lanes = machine.lanes(product.dtype)
    m, n = (extent_of(a) for a in s[out].op.axis[-2:])
    work = work_of(product)
    if product.op is out.op:
        product = s.cache_write(out, "local")
    *batch, i, j = s[out].op.axis
    rows, panels = register_tile(m, n, lanes, machine.registers)
    io, ii = s[out].split(i, factor=rows)
    jo, ji = s[out].split(j, factor=panels * lanes)
    jp, jv = s[out].split(ji, factor=lanes)
    s[out].reorder(*batch, jo, io, ii, jp, jv)
    s[out].vectorize(jv)
    s[out].unroll(jp)
    s[out].unroll(ii)
    outer = s[out].fuse(*batch, jo) if batch else jo
    parallel_if(s[out], outer, work, PARALLEL_PRODUCTS)
    stage = s[product]
    stage.compute_at(s[out], io)
    *batch, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    jp, jv = stage.split(j, factor=lanes)
    stage.reorder(*batch, k, i, jp, jv)
    stage.vectorize(jv)
    stage.unroll(jp)
    stage.unroll(i)


def register_tile(m: int, n: int, lanes: int, registers: int) -> tuple[int, int]:
    """(rows, vectors a row) of accumulators that fit the registers beside their operands."""
    panels = 2 if registers >= 32 else 2 if n >= 2 * lanes or not n else 1
    if n and n < 2 * lanes:
        panels = 1
    budget = max(1, (registers - panels - 1) // panels)
    rows = min(budget, 14 if panels == 2 else 28)
    if m:
        whole = largest_divisor(m, rows)
        rows = whole if whole * 2 > rows else min(rows, m)
    return rows, panels


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
