"""Convolutions with so few filters that they are no product with tiles, on a GPU.

A thread has some pixels and all filters, whose weights lie next to each other, so that a vector of
them is multiplied with each element of the data. Threads side by side have neighbouring pixels, and
where pixels are too few for a GPU, others of the block have other channels of the same pixels: the
block adds up their sums, which wait in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ....loopir.construct import cast
from ....loopir.expr import const_int
from ....loopir.op import if_then_else
from ....schedule.api import Schedule
from ....tensor.axes import reduce_axis
from ....tensor.compute import compute
from ....tensor.op import ComputeOp
from ....tensor.reduce import sum as reduce_sum
from ....tensor.tensor import Tensor
from ..machine import even, extent_of, extents_of
from ..restated import restated
from .injective import arrange
from .machine import GpuMachine, bind, bind_grid, fused
from .planes import unpadded
from .reduce_parts import AT_ONCE, LEAST_LOADS, first
from .windows import Windows

MOST_ROWS = 2  # of a thread, whose windows are read with the same weights
MOST_UNROLLED = 25  # taps
BANKS = 32  # of sums


@dataclass(frozen=True)
class _Block:
    """`rows` of pixels a thread, of which a block has `across` side by side in so many places
    `down`, each `high` times, of interleaved channels."""

    rows: int
    across: int
    down: int
    high: int

    @staticmethod
    def of(shape: tuple[int, int, int], channels: int, machine: GpuMachine) -> _Block:
        """For (images, lines, pixels): as many pixels as there are blocks for all multiprocessors
        with, and channels that all of a GPU's threads have work for."""
        images, lines, pixels = shape
        for rows, across, down in _Block._tiles(lines, pixels, machine):
            blocks = images * -(-lines // (rows * down)) * -(-pixels // across)
            if blocks >= machine.filling:
                break
        high, threads = 1, across * down
        while (
            2 * high * threads <= machine.threads
            and 2 * high * LEAST_LOADS <= channels
            and blocks * threads * high < AT_ONCE * machine.filling * machine.threads
        ):
            high *= 2
        return _Block(rows, across, down, high)

    @staticmethod
    def _tiles(lines: int, pixels: int, machine: GpuMachine) -> Iterator[tuple[int, int, int]]:
        """Rows of a thread, and threads along pixels and lines, the largest first."""
        most = machine.threads // 2
        for rows, threads in ((MOST_ROWS, most), (MOST_ROWS, machine.warp), (1, machine.warp)):
            across = even(pixels, machine.warp)
            yield rows, across, max(1, min(threads // across, -(-lines // rows)))
        for across in (machine.warp // 2, machine.warp // 4):
            yield 1, even(pixels, across), 1


def schedule_few_filters(
    s: Schedule, conv: Tensor, out: Tensor, w: Windows, machine: GpuMachine
) -> None:
    """A convolution of NCHW data, without groups, of few filters."""
    op, last = s[conv].op, conv.op is out.op
    images, f, y, x = extents_of(op)
    n = max(extent_of(op.axis[0]), 1)
    lanes = 1 << (f - 1).bit_length()
    weights = machine.ahead(_packed(w, lanes))
    sums = op.output_dtype(0)
    steps = [reduce_axis((0, size), k) for size, k in zip((w.channels, *w.taps), ("c", "dy", "dx"))]
    c, dy, dx = (k.var for k in steps)

    def element(n: Any, f: Any, y: Any, x: Any) -> Any:
        place = [
            at * stride + tap * far
            for at, tap, stride, far in zip((y, x), (dy, dx), w.strides, w.dilation)
        ]
        product = cast(sums, w.pixel(n, c, *place)) * cast(sums, weights(c, dy, dx, f))
        return reduce_sum(product, axis=steps)

    product: Tensor = compute((images, lanes, y, x), element, f"{op.name}.pixels")

    def pixel(n: Any, at: Any, y: Any, x: Any) -> Any:
        # the last of a vector is read too, as in `part_of`: all of it is computed then
        value = product(n, at, y, x)
        return if_then_else(at < f, value, product(n, lanes - 1, y, x)) if f < lanes else value

    restated(s, conv, compute((images, f, y, x), pixel, op.name))
    if last:
        out = s[conv].op.output(0)
    else:
        out = s[out].op.output(0)
        s[conv].compute_inline()
    if w.data.op.tag.endswith("pad"):
        source, _, _ = unpadded(w.data)
        if isinstance(source.op, ComputeOp):  # once for all taps
            arrange(s[w.data], list(s[w.data].op.axis), machine)
        else:
            s[w.data].compute_inline()
    if isinstance(weights.op, ComputeOp):
        arrange(s[weights], list(s[weights].op.axis), machine)
    _in_blocks(s, s[product].op.output(0), out, _Block.of((n, y, x), w.channels, machine), machine)


def _packed(w: Windows, lanes: int) -> Tensor:
    """(channels, lines, pixels, filters) of weights, with zeros for filters that are none."""
    filters = const_int(w.filters.shape[w.of[0]]) or 1

    def element(c: Any, dy: Any, dx: Any, f: Any) -> Any:
        value = w.weight(f, c, dy, dx)
        none = cast(value.dtype, 0)
        return if_then_else(f < filters, value, none) if filters < lanes else value

    packed: Tensor = compute((w.channels, *w.taps, lanes), element, f"{w.filters.op.name}.near")
    return packed


def _in_blocks(s: Schedule, red: Tensor, out: Tensor, b: _Block, machine: GpuMachine) -> None:
    """Sums of threads, which wait in shared memory, and what they are added up by."""
    taps = prod(extent_of(k) for k in red.op.reduce_axis[1:])
    lanes = extent_of(red.op.axis[1])
    _, inner = s[red].split(s[red].op.reduce_axis[0], factor=b.high)
    part = first(s.rfactor(red, inner, 2))
    at, total = s[out], s[red]
    n, f, y, x = at.op.axis
    by, y = at.split(y, factor=b.rows * b.down)
    bx, x = at.split(x, factor=b.across)
    at.reorder(n, by, bx, f, y, x)
    block = bind_grid(at, [fused(at, [n, by, bx])])
    rest, thread = at.split(at.fuse(f, y, x), factor=b.across * b.down)
    rest, row = at.split(rest, factor=b.high)
    at.unroll(rest)
    bind(at, row, "threadIdx.y")
    bind(at, thread, "threadIdx.x")
    total.compute_at(at, thread)
    machine.unroll(total, total.op.reduce_axis[0])
    sums = first(s.cache_write(part, "local"))
    kept = s[part]
    kept.set_scope("shared")
    kept.compute_at(at, block)
    n, f, inner, y, x = kept.op.axis
    # pixels of one filter follow those of the other in the banks that threads add up from
    kept.storage_align(f, BANKS, b.rows * b.down * b.across % BANKS)
    near, y = kept.split(y, factor=b.down)
    kept.reorder(inner, n, y, x, near, f)
    thread = kept.fuse(y, x)
    bind(kept, inner, "threadIdx.y")
    bind(kept, thread, "threadIdx.x")
    for axis in (near, f):
        kept.unroll(axis)
    stage = s[sums]
    stage.compute_at(kept, thread)
    n, f, inner, y, x = stage.op.axis
    *own, c = stage.op.reduce_axis
    stage.reorder(inner, n, x, c, *own, y, f)
    for axis in (*(own if taps <= MOST_UNROLLED else own[1:]), y):
        machine.unroll(stage, axis)
    if lanes > 1:
        stage.vectorize(f)
