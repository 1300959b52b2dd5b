"""Winograd's three kernels: a tile at a time is transformed in registers and L1, whole places are
multiplied like blocked convolutions of one pixel (see conv2d.py)."""

from __future__ import annotations

from typing import Any

from ...base.dtype import parse
from ...schedule.api import Schedule
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor
from ..nn.winograd import WINDOW
from .conv2d import blocked_tiles
from .machine import (
    LINE,
    PARALLEL_PRODUCTS,
    PARALLEL_STEPS,
    Machine,
    ask_ahead,
    extent_of,
    parallel_if,
    work_of,
)
from .shares import share_rows

HALVES = ("winograd_rows", "winograd_columns")
LINES_APART = 5  # no small multiple is near the lines of a way
MOST_VECTORS = 2  # of a row of channels that are transformed together


def schedule_winograd_input(s: Schedule, moved: Tensor, out: Tensor, machine: Machine) -> None:
    """Threads take tiles of an image, or filters; the places of a tile are written out."""
    stage = s[out]
    places, *outer, lane = stage.op.axis
    head, lane = _lanes(stage, lane, machine)
    stage.reorder(*outer, *head, places, lane)
    stage.unroll(places)
    stage.vectorize(lane)
    _first_half_at(s, moved, stage, (*outer, *head)[-1], lane)
    _apart(stage, machine)
    parallel_if(stage, stage.fuse(*outer), work_of(moved), PARALLEL_STEPS, machine)


def schedule_winograd_product(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """A register tile of columns (tiles of the image) times vectors of filters; threads take
    places."""
    vectors = max(1, extent_of(s[product].op.axis[-1]) // machine.lanes(product.dtype))
    work, name = work_of(product), s[product].op.name
    if product.op is out.op:
        product = s.cache_write(out, "local")
    _, chunks, *_, columns, _ = (extent_of(a) for a in s[out].op.axis)
    blocks = blocked_tiles(columns or 1, chunks or 1, vectors, machine.working)
    width, group = machine.choose(name, "tile", blocks)
    stage = s[out]
    places, filters, *depth, tiles, lane = stage.op.axis
    filters_outer, filters_inner = stage.split(filters, factor=group)
    tiles_outer, tiles_inner = stage.split(tiles, factor=width)
    stage.reorder(places, filters_outer, *depth, tiles_outer, filters_inner, tiles_inner, lane)
    stage.unroll(filters_inner)
    stage.unroll(tiles_inner)
    stage.vectorize(lane)
    inner = s[product]
    inner.compute_at(stage, tiles_outer)
    places_, filters_, *depth_, tiles_, lane_ = inner.op.axis
    *taps, co, ci = inner.op.reduce_axis
    # filters innermost, as in _schedule_sums of conv2d.py: a broadcast serves all and is gone
    inner.reorder(places_, *depth_, *taps, co, ci, tiles_, filters_, lane_)
    inner.unroll(filters_)
    inner.unroll(tiles_)
    inner.vectorize(lane_)
    if taps:
        inner.pragma(ci, "skip_zeros")
    pieces = stage.fuse(places, filters_outer)
    ask_ahead(stage, pieces, inner.op.input_tensors[1], 1, machine)
    parallel_if(stage, pieces, work, PARALLEL_PRODUCTS, machine)


def schedule_winograd_output(s: Schedule, image: Tensor, out: Tensor, machine: Machine) -> None:
    """Threads take filters and rows of tiles; what follows is computed on a tile."""
    tile = extent_of(s[_half_of(image)].op.axis[-3])
    stage = s[out]
    axes = list(stage.op.axis)
    window = s[image].op.attrs[WINDOW]
    others = [a for n, a in enumerate(axes[:-1]) if n not in window]
    y_outer, y_inner = stage.split(axes[window[0]], factor=tile)
    x_outer, x_inner = stage.split(axes[window[1]], factor=tile)
    head, lane = _lanes(stage, axes[-1], machine)
    stage.reorder(*others, y_outer, x_outer, *head, y_inner, x_inner, lane)
    stage.unroll(y_inner)
    stage.unroll(x_inner)
    stage.vectorize(lane)
    if image.op is not out.op:
        s[image].compute_inline()
    _first_half_at(s, image, stage, (x_outer, *head)[-1], lane)
    for product in _half_of(image).op.input_tensors:
        _apart(s[product], machine)
    loops = [*map(extent_of, others), -(-extent_of(axes[window[0]]) // tile)]
    pieces = stage.fuse(*others, y_outer)
    if parallel_if(stage, pieces, work_of(image), PARALLEL_STEPS, machine):
        share_rows(stage, pieces, loops, machine)


def _apart(stage: Any, machine: Machine) -> None:
    """Keep the places of a tile in different sets of the first-level cache: it is written to, or
    read from, all of them at once, and they may lie a multiple of a way apart."""
    if isinstance(stage.op, ComputeOp) and not stage.is_output:
        size = parse(stage.op.output_dtype(0)).nbytes
        stage.storage_align(stage.op.axis[0], machine.way_bytes // size, LINES_APART * LINE // size)


def _lanes(stage: Any, axis: Any, machine: Machine) -> tuple[list[Any], Any]:
    """A vector of an axis, and the loop over its vectors where it has more than a few."""
    lanes = machine.lanes(stage.op.output_dtype(0))
    if extent_of(axis) <= MOST_VECTORS * lanes:
        return [], axis
    outer, lane = stage.split(axis, factor=lanes)
    return [outer], lane


def _half_of(whole: Tensor) -> Tensor:
    """The transform along the other side, which `whole` reads."""
    return next(t for t in whole.op.input_tensors if t.op.tag in HALVES)


def _first_half_at(s: Schedule, whole: Tensor, stage: Any, axis: Any, lane: Any) -> None:
    half = _half_of(whole)
    assert isinstance(half.op, ComputeOp)
    inner = s[half]
    inner.compute_at(stage, axis)
    for side in inner.op.axis[-3:-1]:
        inner.unroll(side)
    inner.vectorize(inner.op.axis[-1])
