"""Sums of products with few columns, such as a convolution to three colours: vectors run along the
reduction, since those of columns would be empty for the most part, and the lanes of each sum are
added at the end.

All columns of some rows are at work at once: each vector of the row side serves all columns, each
of the vector side all rows. That side is copied where its steps are no neighbours.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...arith import detect_linear_equation
from ...loopir.expr import Call, Select, const_int
from ...loopir.iter import ProducerLoad
from ...loopir.visit import free_vars
from ...schedule.api import Schedule, Stage
from ...tensor.tensor import Tensor
from .contraction import Contraction, kept_inputs, step_of
from .decisions import Value
from .machine import (
    PARALLEL_STEPS,
    Machine,
    bytes_of,
    even,
    extent_of,
    parallel_if,
    size_of,
    work_of,
)
from .tiles import has_loops, place_pad

LANES_ADDED = 8  # products in vectors, that take as long as to add the lanes of a sum
MOST_ROWS = 8  # of a tile
ASKED = 2  # conditions that take as long as to copy a vector
BEGUN = 8192  # and that take as long as to begin another loop on threads
SUMS_OF_16 = 9  # registers: beside more, vectors of the two sides are loaded again and again


def most_columns(lanes: int) -> int:
    """How many columns are few beside vectors of so many lanes."""
    return lanes // 2 - 1


def steps_in_lanes(op: Any, form: Contraction, machine: Machine) -> int | None:
    """The place among the axes of a reduction that vectors are to run along: they would be fuller
    than those of columns. None where there is no such axis."""
    row, side = form.row_side, form.vector_side
    lanes, n = machine.lanes(op.output_dtype(0)), extent_of(op.axis[-1])
    if row is None or side is None or not 0 < n <= most_columns(lanes):
        return None
    alike = row.dtype == side.dtype == op.output_dtype(0)
    others = form.both or form.group or form.panel or form.column < 0
    others = others or any(extent_of(op.axis[i]) != 1 for i in form.columns)
    if others or not alike or not form.rows:
        return None
    every = prod(map(extent_of, op.reduce_axis))
    for place, axis in enumerate(op.reduce_axis):
        steps = extent_of(axis)
        if steps < lanes or step_of(row, axis.var) != 1 or _dimension(side, axis.var) is None:
            continue
        whole = -(-steps // lanes)
        vectors = every // steps * whole
        filled = steps / (whole * lanes) * vectors / (vectors + LANES_ADDED)
        if filled * lanes > n:
            return place
    return None


def _dimension(side: ProducerLoad, v: Any) -> int | None:
    """The dimension that an axis is the index of, or the index behind where its part begins."""
    places = [d for d, x in enumerate(side.indices) if v in free_vars(x)]
    if len(places) != 1:
        return None
    factors = detect_linear_equation(side.indices[places[0]], [v])
    return places[0] if factors and const_int(factors[0]) == 1 else None


def few_columns(
    s: Schedule, product: Tensor, out: Tensor, machine: Machine, form: Contraction, place: int
) -> None:
    """Tiles of some rows and all columns, whose sums have their lanes along the axis at `place` of
    the reduction."""
    op = s[product].op
    lanes, work, name = machine.lanes(product.dtype), work_of(product), op.name
    pads = [x for x in kept_inputs(s, op) if not has_loops(s, x)]
    assert form.vector_side is not None, "steps_in_lanes has found it"
    near = _dimension(form.vector_side, op.reduce_axis[place].var)
    assert near is not None, "steps_in_lanes has found it"
    copied = _pays_to_copy(op, form, place, machine)
    if product.op is out.op:
        product = s.cache_write(out, "local")
    if step_of(form.vector_side, op.reduce_axis[place].var) != 1:
        _turned(s, form.vector_side, product, near, form.column, machine)
    _, lane = s[product].split(s[product].op.reduce_axis[place], factor=lanes)
    parts = s.rfactor(product, lane, len(product.op.axis))
    axes = list(s[out].op.axis)
    row, j = axes[form.rows[-1]], axes[-1]
    options = tile_rows(extent_of(row), extent_of(j), machine.working)
    (rows,) = machine.choose(name, "few_columns", options)
    around, within = s[out].split(row, factor=rows)
    outer = [a for a in axes[:-1] if a is not row]
    s[out].reorder(*outer, around, within, j)
    s[out].unroll(within)
    s[out].unroll(j)
    piece = s[out].fuse(*outer, around)
    # elements of rows take the time, as in sums of rows
    parallel_if(s[out], piece, work // extent_of(j), PARALLEL_STEPS, machine)
    total = s[product]
    total.compute_at(s[out], piece)
    for axis in total.op.axis:
        total.unroll(axis)
    total.pragma(total.op.reduce_axis[0], "tree_reduce")
    stage = s[parts]
    stage.compute_at(s[out], piece)
    *own, j, lane = stage.op.axis
    row = own.pop(form.rows[-1])
    stage.reorder(*own, *stage.op.reduce_axis, row, j, lane)
    stage.unroll(row)
    stage.unroll(j)
    stage.vectorize(lane)
    for pad in pads:
        at_reads = _moves(pad) and not copied
        place_pad(pad, s[out], None, False, at_reads, True, machine)


def tile_rows(m: int, n: int, registers: int) -> list[Value]:
    """Rows of tiles whose sums are in registers beside vectors of both sides, of m rows and n
    columns, best first."""
    most = max(1, min(MOST_ROWS, registers * SUMS_OF_16 // 16 // n))
    found = (even(m, most), even(m, max(1, most // 2)), even(m, max(1, most * 3 // 4)), 1)
    return [(rows,) for rows in dict.fromkeys(found)]


def _turned(
    s: Schedule, side: ProducerLoad, product: Tensor, near: int, column: int, machine: Machine
) -> None:
    """A copy whose columns lie one behind the other, in each the steps of vectors innermost."""
    copy = s[s.cache_read(side.producer, "global", [product])]
    others = [d for d in range(len(side.indices)) if d not in (near, column)]
    *outer, k = copy.transform_layout(lambda *i: [i[d] for d in (column, *others, near)])
    chunk, vector = copy.split(k, factor=machine.lanes(product.dtype))
    copy.vectorize(vector)
    work = prod(map(size_of, side.producer.shape))
    if work >= PARALLEL_STEPS:
        parallel_if(copy, copy.fuse(*outer, chunk), work, PARALLEL_STEPS, machine)


def _pays_to_copy(op: Any, form: Contraction, place: int, machine: Machine) -> bool:
    """Whether a padded copy of the row side, near enough, takes less time than conditions at its
    reads: one for each row and step, but for those along the vectors."""
    side = form.row_side
    assert side is not None, "steps_in_lanes has found it"
    if bytes_of(side.producer) > machine.l2_bytes:
        return False
    steps = [extent_of(axis) for axis in op.reduce_axis]
    *shape, run = map(size_of, side.producer.shape)
    asked = prod(extent_of(op.axis[i]) for i in form.rows) * prod(steps) // steps[place]
    return ASKED * prod(shape) * -(-run // machine.lanes(side.dtype)) + BEGUN < asked


def _moves(pad: Stage) -> bool:
    """Whether a stage only pads what it reads."""
    body = pad.op.body[0]
    if type(body) is Select:
        body = body.true_value
    elif type(body) is Call and body.op.name == "tir.if_then_else":
        body = body.args[1]
    return type(body) is ProducerLoad
