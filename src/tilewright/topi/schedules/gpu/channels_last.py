"""Depthwise convolution of NHWC data on a GPU.

A thread makes a vector of channels of some neighbouring pixels, so that what it reads of the
filters serves all of them, and what it reads of the data several taps. Both are in shared memory,
data with its padding: what is computed has no conditions then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from ....base.dtype import parse
from ....loopir.expr import const_int
from ....schedule.api import Schedule, Stage
from ....tensor.tensor import Tensor
from ..decisions import Value
from ..machine import extent_of, whole_vectors
from .machine import VECTOR_BYTES, GpuMachine, bind, fused
from .operands import share
from .reduce import inline_padding, schedule_reduce
from .tile_plan import ALIKE, BANKS, WARP

_BLOCKS = 3  # at once at least, which copy by turns
OFFERED = 6  # tiles that may be decided on
_THREADS = 8 * WARP  # of a block: two warps for each scheduler of a multiprocessor
_SIDES = (1, 2, 4, 8, 16, 32)  # threads along lines and pixels
_DEEP = 32  # vectors of channels of a block at most
# of a warp, what takes as long as so many products: to read vectors of shared memory, to copy them
# there (reasoned, not measured: the search is offered other tiles)
_READ, _COPY = 4, 16
_TAPS = 49  # of windows that are written out whole
_LATENCY = 2048  # products in the time that a block waits for its copies
_AT_ONCE = 16  # warps of a multiprocessor that hide it
_HALF = 4  # warps of it by which half of the products wait for what is read


@dataclass(frozen=True)
class _Tile:
    """`lines` and `pixels` of a thread; threads `down`, `across` and `deep` in channels, each of
    which has a vector of them."""

    lines: int
    pixels: int
    down: int
    across: int
    deep: int

    @property
    def threads(self) -> int:
        return self.down * self.across * self.deep


@dataclass(frozen=True)
class _Depthwise:
    """What is tiled: images of lines and pixels (`places`) with so many `vectors` of channels, of
    `lanes` elements and so many bytes; windows and their strides, in both dimensions."""

    images: int
    places: tuple[int, int]
    vectors: int
    lanes: int
    nbytes: int
    window: tuple[int, int]
    strides: tuple[int, int]

    @staticmethod
    def of(op: Any, data: Tensor, lanes: int) -> _Depthwise:
        """A convolution in vectors of so many channels; windows go as far as data is wide."""
        images, high, wide, channels = (extent_of(a) for a in op.axis)
        down, across = (extent_of(a) for a in op.reduce_axis)
        lines, pixels = (const_int(d) or 1 for d in data.shape[1:3])
        strides = (
            max(1, (lines - down) // max(1, high - 1)),
            max(1, (pixels - across) // max(1, wide - 1)),
        )
        nbytes = lanes * parse(data.dtype).nbytes
        places, window = (high, wide), (down, across)
        return _Depthwise(images, places, channels // lanes, lanes, nbytes, window, strides)

    def tiles(self, machine: GpuMachine) -> list[_Tile]:
        """Those that may be decided on, by what they cost."""
        return sorted(self._each(machine), key=lambda t: self._cost(t, machine))[:OFFERED]

    def _each(self, machine: GpuMachine) -> Iterator[_Tile]:
        """Blocks of whole warps, where pixels and channels are enough for them."""
        found = list(self._fitting(machine))
        whole = [t for t in found if t.threads % WARP == 0]
        yield from whole or found

    def _fitting(self, machine: GpuMachine) -> Iterator[_Tile]:
        group = min(WARP, BANKS // self.nbytes)  # threads whose vectors are read at once
        for deep in self._depths():
            # those of few channels have pixels side by side, one each
            own = (1,) if deep * self.nbytes < BANKS else (4, 2, 1)
            for lines, pixels, down, across in product((2, 1), own, _SIDES, _SIDES):
                t = _Tile(lines, pixels, down, across, deep)
                if t.threads > _THREADS or (down > 1 and across * deep % group):
                    continue  # no vectors of two lines are read at once
                if (down > 1 and lines * down >= 2 * self.places[0]) or (
                    across > 1 and pixels * across >= 2 * self.places[1]
                ):
                    continue
                if self.shared(t) <= machine.room(_BLOCKS):
                    yield t

    def _depths(self) -> list[int]:
        """Vectors of channels of a block: those that divide all, and such as fill all banks."""
        all_of = [d for d in range(1, _DEEP + 1) if self.vectors % d == 0]
        more = [d for d in (ALIKE, 2 * ALIKE, _DEEP) if d < self.vectors]
        least = min(self.vectors, ALIKE) // 2  # fewer are less than half of what is read at once
        return sorted({d for d in (*all_of, *more) if d >= least})

    def read(self, t: _Tile) -> tuple[int, int]:
        """Lines and pixels of data that a block reads."""
        made = (t.lines * t.down, t.pixels * t.across)
        y, x = ((m - 1) * s + k for m, s, k in zip(made, self.strides, self.window))
        return y, x

    def shared(self, t: _Tile) -> int:
        """Bytes of shared memory of a block."""
        return (prod(self.read(t)) + prod(self.window)) * t.deep * self.nbytes

    def _cost(self, t: _Tile, machine: GpuMachine) -> float:
        """Of all blocks, in products of a warp."""
        made = (t.lines * t.down, t.pixels * t.across, t.deep)
        sizes = (*self.places, self.vectors)
        blocks = self.images * prod(-(-n // m) for n, m in zip(sizes, made))
        warps = -(-t.threads // WARP)
        own = (t.lines - 1, t.pixels - 1)
        read = prod(m * s + k for m, s, k in zip(own, self.strides, self.window))
        taps = prod(self.window)
        each = t.lines * t.pixels * taps * self.lanes + (read + taps) * _READ
        nbytes = self.shared(t)
        at_once = min(machine.room_for(nbytes) * warps, _AT_ONCE)
        copies = -(-nbytes // (VECTOR_BYTES * WARP)) * _COPY
        work = warps * each * (1 + _HALF / at_once) + copies + _LATENCY * warps / at_once
        # without a block, or with few warps, a multiprocessor has nothing to do
        few = machine.filling / blocks * max(1.0, _HALF / warps)
        return blocks * work * max(1.0, few)


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
    what = _Depthwise.of(s[conv].op, data, lanes)
    tiles = what.tiles(machine)
    each: dict[Value, _Tile] = {(t.lines, t.pixels, t.down, t.across, t.deep): t for t in tiles}
    tile = each[machine.choose(out.op.name, "tile", each)]
    if conv.op is out.op:
        conv = s.cache_write(out, "local")
    else:
        s[conv].set_scope("local")
    stage = s[out]
    n, y, x, c = stage.op.axis
    c, lane = stage.split(c, factor=lanes)
    chunk, channel = stage.split(c, factor=tile.deep)
    y, line = stage.split(y, factor=tile.lines * tile.down)
    row, line = stage.split(line, factor=tile.lines)
    x, pixel = stage.split(x, factor=tile.pixels * tile.across)
    column, pixel = stage.split(pixel, factor=tile.pixels)
    stage.reorder(n, y, x, chunk, row, column, channel, line, pixel, lane)
    block = fused(stage, [n, y, x, chunk])
    bind(stage, block, "blockIdx.x")
    for axis, tag in ((row, "threadIdx.z"), (column, "threadIdx.y"), (channel, "threadIdx.x")):
        bind(stage, axis, tag)
    for axis in (line, pixel):
        stage.unroll(axis)
    stage.vectorize(lane)
    sums = s[conv]
    sums.compute_at(stage, channel)
    n, y, x, c = sums.op.axis
    taps = list(sums.op.reduce_axis)
    sums.reorder(n, *taps, y, x, c)
    # of many taps, a line of them at a time: ptxas keeps what several lines read, and spills
    some = taps if prod(what.window) <= _TAPS else taps[1:]
    for axis in (*some, y, x):
        sums.unroll(axis)
    sums.vectorize(c)
    for k, t in enumerate((data, filters)):
        if t.op.tag.endswith("pad"):
            s[t].set_scope("shared")
        else:
            t = s.cache_read(t, "shared", [conv.op])
        s[t].compute_at(stage, block)
        apart = tile.pixels * what.strides[1]
        if k == 0 and apart > 1 and tile.deep * what.nbytes % BANKS:
            _sort(s[t], apart)
        share(s[t], lanes, (tile.down, tile.across, tile.deep), machine)


def _sort(stage: Stage, apart: int) -> None:
    """Have pixels that threads side by side read at once, so many apart, follow each other, as they
    are copied then: both ways they are in different banks."""
    stage.transform_layout(lambda n, y, x, c: [n, y, x % apart, x // apart, c])
