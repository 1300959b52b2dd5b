"""Depthwise convolution of NHWC data on a GPU.

A thread makes a vector of channels of some neighbouring pixels, so that what it reads of the
filters serves all of them, and what it reads of the data several taps. Both are in shared memory,
data with its padding: what is computed has no conditions then.
"""

from __future__ import annotations

from math import prod

from ....base.dtype import parse
from ....loopir.expr import const_int
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ..machine import extent_of, largest_divisor, whole_vectors
from .machine import GpuMachine, bind, fused
from .operands import share
from .reduce import inline_padding, schedule_reduce
from .tile_plan import BANKS

PIXELS = 4  # of a line, a thread; one where channels are few
LINES = 2
ACROSS = 4  # threads of a block along a line
ALIKE = 8  # vectors of 16 bytes in different banks
ROOM = 32 << 10  # bytes of shared memory of a block, so that some have room


def schedule_depthwise_nhwc(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """One result for each channel of data; of others any reduction."""
    data, filters = (t for t in s[conv].op.input_tensors)
    sizes = [const_int(d) for d in (*data.shape, *conv.shape)]
    alike = None not in sizes and 0 not in sizes and data.shape[3] is not None
    if not (machine.shared and alike and const_int(data.shape[3]) == const_int(conv.shape[3])):
        inline_padding(s, conv)
        schedule_reduce(s, conv, out, machine)
        return
    lanes = whole_vectors(extent_of(s[conv].op.axis[3]), machine.lanes(data.dtype))
    if conv.op is out.op:
        conv = s.cache_write(out, "local")
    else:
        s[conv].set_scope("local")
    vector, wide = lanes * parse(data.dtype).nbytes, extent_of(s[conv].op.axis[3]) // lanes
    wide, narrow = _channels(wide, machine), wide * vector < BANKS
    group = min(machine.warp, BANKS // vector)  # threads whose vectors are read at once
    strides = _strides(s, conv, data)
    lines, across = _tile([extent_of(a) for a in s[conv].op.reduce_axis], strides, wide * vector)
    stage = s[out]
    n, y, x, c = stage.op.axis
    c, lane = stage.split(c, factor=lanes)
    chunk, channel = stage.split(c, factor=wide)
    y, line = stage.split(y, factor=lines)
    x, pixel = stage.split(x, factor=PIXELS * across)
    own = 1 if narrow else PIXELS  # threads side by side read side by side
    across *= PIXELS // own
    column, pixel = stage.split(pixel, factor=own)
    stage.reorder(n, y, x, chunk, column, channel, line, pixel, lane)
    block = fused(stage, [n, y, x, chunk])
    for axis, tag in ((block, "blockIdx.x"), (column, "threadIdx.y"), (channel, "threadIdx.x")):
        bind(stage, axis, tag)
    for axis in (line, pixel):
        stage.unroll(axis)
    stage.vectorize(lane)
    sums = s[conv]
    sums.compute_at(stage, channel)
    n, y, x, c = sums.op.axis
    taps = list(sums.op.reduce_axis)
    sums.reorder(n, *taps, y, x, c)
    for axis in (*taps, y, x):
        sums.unroll(axis)
    sums.vectorize(c)
    for k, t in enumerate((data, filters)):
        if t.op.tag.endswith("pad"):
            s[t].set_scope("shared")
        else:
            t = s.cache_read(t, "shared", [conv.op])
        s[t].compute_at(stage, block)
        if k == 0 and wide % group and own * strides[1] > 1:
            _sort(s[t], own * strides[1])
        share(s[t], lanes, (across, wide), machine)


def _channels(vectors: int, machine: GpuMachine) -> int:
    """Vectors of channels of a block: all, or so many that those which are read at once are in
    different banks, of two pixels too."""
    if vectors > machine.warp or vectors <= ALIKE or vectors % ALIKE == 0:
        return min(vectors, machine.warp)
    even = largest_divisor(vectors, ALIKE)
    return even if 2 * even >= ALIKE else vectors


def _strides(s: Schedule, conv: Tensor, data: Tensor) -> list[int]:
    """How far windows go, along lines and across them."""
    window = [extent_of(a) for a in s[conv].op.reduce_axis]
    ends = [extent_of(a) for a in s[conv].op.axis[1:3]]
    sizes = [const_int(d) or 1 for d in data.shape[1:3]]
    return [max(1, (n - k) // max(1, e - 1)) for n, k, e in zip(sizes, window, ends)]


def _sort(stage: Stage, apart: int) -> None:
    """Have pixels that threads side by side read at once, so many apart, follow each other, as they
    are copied then: both ways they are in different banks."""
    stage.transform_layout(lambda n, y, x, c: [n, y, x % apart, x // apart, c])


def _tile(window: list[int], strides: list[int], pixel: int) -> tuple[int, int]:
    """Lines of a thread, and threads along a line, whose data have room: pixels of that many bytes
    for windows that move by strides."""
    shapes = [(LINES, ACROSS), (LINES, 2), (1, 2), (1, 1)]

    def nbytes(lines: int, across: int) -> int:
        made = (lines, PIXELS * across)
        return prod((m - 1) * t + k for m, t, k in zip(made, strides, window)) * pixel

    return next((x for x in shapes if nbytes(*x) <= ROOM), shapes[-1])
