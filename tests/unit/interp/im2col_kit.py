"""Convolutions by chance, what a column of their pixels is by NumPy alone, and kernels by hand that
copy such columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.unit.interp.cluster_kit import THREAD, THREADS, first_thread, launched
from tests.unit.interp.hopper_kit import evaluate
from tilewright.base.tensor_map import Pixels, TensorMap
from tilewright.interp.simt import SimtMap, SimtReport, run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.op import bitwise_xor


@dataclass(frozen=True)
class Window:
    """A convolution along one dimension: places, taps of the filter, and so on."""

    places: int
    taps: int
    before: int
    after: int
    step: int
    dilation: int

    @property
    def out(self) -> int:
        """How many places the filter has; below 1 there is no such convolution."""
        reach = self.dilation * (self.taps - 1)
        return (self.places + self.before + self.after - reach - 1) // self.step + 1


@dataclass(frozen=True)
class Case:
    """A column: of images (N, [D, H,] W, C) of a type with `gap` elements more in memory behind the
    channels of a pixel, from output `start` of the convolution and channel `channel` on, for one
    tap of the filter. `windows` are of W, H, D."""

    dtype: str
    images: int
    channels: int
    gap: int
    windows: tuple[Window, ...]
    box: tuple[int, int]
    swizzle: int
    start: int
    channel: int
    tap: tuple[int, ...]

    @property
    def outs(self) -> int:
        return self.images * int(np.prod([w.out for w in self.windows]))

    def memory(self) -> np.ndarray:
        """The array with its gaps, without a zero."""
        shape = (self.images, *(w.places for w in self.windows[::-1]), self.channels + self.gap)
        rng = np.random.default_rng(self.start)
        return rng.integers(1, 100, shape).astype(self.dtype)

    def described(self) -> TensorMap:
        """The map, by the rule for convolutions: the box has the places of the filter's corner."""
        item = np.dtype(self.dtype).itemsize
        places = [w.places for w in self.windows]
        strides = np.cumprod([(self.channels + self.gap) * item, *places])
        pixels = Pixels(
            tuple(-w.before for w in self.windows),
            tuple(w.after - w.dilation * (w.taps - 1) for w in self.windows),
            tuple(w.step for w in self.windows),
        )
        return TensorMap(
            self.dtype,
            (self.channels, *places, self.images),
            tuple(int(n) for n in strides),
            self.box,
            self.swizzle,
            pixels,
        )

    @property
    def corner(self) -> tuple[int, ...]:
        """The coordinates of the column's first pixel, for the first tap."""
        at, left = [self.channel], self.start
        for w in self.windows:
            left, place = divmod(left, w.out)
            at.append(place * w.step - w.before)
        return (*at, left)

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(t * w.dilation for t, w in zip(self.tap, self.windows))

    def expected(self) -> np.ndarray:
        """(pixels, channels): rows of the im2col matrix of a padded array."""
        pads = [(w.before, w.after) for w in self.windows[::-1]]
        whole = np.pad(self.memory()[..., : self.channels], [(0, 0), *pads, (0, 0)])
        for axis, (w, tap) in enumerate(zip(self.windows[::-1], self.tap[::-1]), 1):
            whole = whole.take(np.arange(w.out) * w.step + tap * w.dilation, axis)
        rows = whole.reshape(self.outs, self.channels)[self.start : self.start + self.box[1]]
        found = np.zeros(self.box[::-1], self.dtype)
        part = rows[:, self.channel : self.channel + self.box[0]]
        found[: part.shape[0], : part.shape[1]] = part
        return found


def draw(seed: int, most: int = 4096) -> Case:
    """A case by chance of at most so many elements (or of one row of channels)."""
    rng = np.random.default_rng(seed)

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    dtype = ("float16", "int8", "float32")[pick(0, 2)]
    piece = 16 // np.dtype(dtype).itemsize
    windows: list[Window] = []
    for _ in range(pick(1, 3)):
        while True:
            w = Window(pick(1, 9), pick(1, 3), pick(0, 3), pick(0, 3), pick(1, 3), pick(1, 3))
            if w.out >= 1:
                break
        windows.append(w)
    swizzle = (0, 128)[pick(0, 1)]
    channels = pick(1, 6 * piece)
    wide = piece * pick(1, 8 if swizzle else 256 // piece)
    images = pick(1, 3)
    outs = images * int(np.prod([w.out for w in windows]))
    start = pick(0, outs + 2)
    # often to the end of all images and beyond it
    pixels = min(
        pick(1, max(outs - start + 8, 1) if pick(0, 2) else 40), max(most // wide, 1), 1024
    )
    tap = tuple(pick(0, w.taps - 1) for w in windows)
    box, channel = (wide, pixels), pick(0, channels - 1)
    return Case(
        dtype,
        images,
        channels,
        -channels % piece,
        tuple(windows),
        box,
        swizzle,
        start,
        channel,
        tap,
    )


def walked(described: TensorMap, corner: Sequence[int], pixels: int) -> list[tuple[int, ...]]:
    """Where the pixels of a column are, step by step, as a program of loops would go."""
    assert described.pixels is not None
    low, steps = described.pixels.lower, described.pixels.steps
    high = [n - 1 + u for n, u in zip(described.dims[1:-1], described.pixels.upper)]
    at, found = list(corner[1:]), []
    for _ in range(pixels):
        found.append(tuple(at))
        for i, step in enumerate(steps):
            at[i] += step
            if at[i] <= high[i]:
                break
            at[i] = low[i]
        else:
            at[-1] += 1
    return found


def column_kernel(
    described: TensorMap, corner: Sequence[int], offsets: Sequence[int], cluster: int = 1
) -> S.PrimFunc:
    """OUT[block, rank] is the column that the block of this rank brings to the shared memory of all
    blocks of its cluster; the rank is added to the number of the image that it begins in."""
    item, count = np.dtype(described.dtype).itemsize, described.box[0] * described.box[1]
    each = -(-described.box_bytes // 1024) * 1024 // item
    out = decl_buffer((cluster * cluster * count,), described.dtype, "OUT")
    stage = decl_buffer(
        (each * cluster,), described.dtype, "stage", None, None, None, "shared", 1024
    )
    source, rank, index = E.Var("IN", "handle"), E.Var("rank", "int32"), E.Var("i", "int32")
    args = (E.const(0, described.dtype), stage.data, rank * each, each, 2)
    to = E.Call("handle", "tir.tvm_access_ptr", args)
    at = (*corner[:-1], rank + corner[-1])
    mask = (1 << cluster) - 1 if cluster > 1 else None
    copy = H.ptx_cp_async_bulk_tensor(described.dtype, to, source, at, 0, mask, offsets)
    place: Any = index * THREADS + THREAD
    # pieces of 16 bytes change places by the number of their 128 bytes within 1024
    piece = 16 // item
    row = E.FloorMod(E.FloorDiv(place, E.const(8 * piece)), E.const(8))
    there = bitwise_xor(place, row * piece) if described.swizzle else place
    stores = [
        S.BufferStore(
            out, E.BufferLoad(stage, [n * each + there]), [(rank * cluster + n) * count + place]
        )
        for n in range(cluster)
    ]
    body = S.seq(
        evaluate(H.create_barriers(1)),
        first_thread(H.ptx_init_barrier_thread_count(0, 1), H.ptx_fence_barrier_init()),
        evaluate(H.ptx_cluster_sync()),
        first_thread(H.ptx_arrive_barrier_expect_tx(0, described.box_bytes * cluster), copy),
        evaluate(H.ptx_wait_barrier(0)),
        S.For(
            index, 0, -(-count // THREADS), S.ForKind.SERIAL,
            S.IfThenElse(E.LT(place, E.const(count)), S.seq(*stores)),
        ),
        evaluate(H.ptx_cluster_sync()),
    )  # fmt: skip
    body = S.LetStmt(rank, H.ptx_cluster_rank(), S.Allocate(stage, body))
    whole = launched(body, (cluster,), cluster)
    return S.PrimFunc([out.data, source], whole, None, {}, {"global_symbol": "column"})


def run_column(
    described: TensorMap,
    memory: Any,
    corner: Sequence[int],
    offsets: Sequence[int],
    cluster: int = 1,
) -> tuple[np.ndarray, SimtReport]:
    """The columns (block, rank, pixels, channels) that a kernel has in shared memory, and what is
    reported of it."""
    kernel = column_kernel(described, corner, offsets, cluster)
    out = np.zeros((cluster, cluster, *described.box[::-1]), described.dtype)
    args = [out.reshape(-1), SimtMap(memory, described)]
    return out, run_kernel(kernel, None, args, check=False)
