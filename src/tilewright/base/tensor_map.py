"""What a tensor map says of an array: how the copies of Hopper's TMA see it.

A copy takes a box of the array to shared memory, zeros for what lies outside of the array; by a map
with `Pixels` (im2col mode) it takes a column of pixels of images. See the CUDA driver API, "Tensor
Map Object Management", for what may be asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .dtype import parse

SWIZZLES = (0, 32, 64, 128)
"""Bytes within which pieces of 16 bytes change places; 0: they stay where they are."""
_RANKS = 5
_BOX = 256  # elements along a dimension
_ALIGN = 16
_MOST_STRIDE = 1 << 40
_MOST_DIM = 1 << 32
_MOST_STEP = 8
_CHANNELS, _PIXELS = 256, 1024  # of a column
_BITS = {3: 16, 4: 8, 5: 5}  # of numbers of corners and of offsets, by a map's dimensions


@dataclass(frozen=True)
class Pixels:
    """Which pixels a copy in im2col mode walks through, (W, H[, D]) each: those within a bounding
    box of each image, from `lower` (0: the first pixel) to `upper` (0: the last one; the box has
    it too) in `steps`. W is fastest, then H, D, and the images; a line, and an image, begins at the
    lower corner. A copy begins anywhere within the box."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]

    def last(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """The largest place within the box of images of (C, W, H, ..., N) elements."""
        return tuple(n - 1 + x for n, x in zip(dims[1:], self.upper))

    def problem(self, dims: tuple[int, ...]) -> str:
        """What of it the driver refuses for such images."""
        rank = len(dims)
        bits = _BITS.get(rank)
        if bits is None:
            return f"images have 3 to 5 dimensions (C, W, H, ..., N), not {rank}"
        if not len(self.lower) == len(self.upper) == len(self.steps) == rank - 2:
            return (
                f"{rank} dimensions have corners of {rank - 2} numbers and as many steps, not "
                f"{self.lower}, {self.upper} and {self.steps}"
            )
        most = 1 << (bits - 1)
        for corner in (self.lower, self.upper):
            if not all(-most <= n < most for n in corner):
                return f"a corner of a map of rank {rank} is of {-most} to {most - 1}, not {corner}"
        if not all(1 <= n <= _MOST_STEP for n in self.steps):
            return f"steps are 1 to {_MOST_STEP} pixels, not {self.steps}"
        last = self.last(dims)
        if not all(a <= b for a, b in zip(self.lower, last)):
            return f"the bounding box from {self.lower} to {last} is empty"
        return ""


def most_offset(rank: int) -> int:
    """The largest offset that a copy in im2col mode adds to pixels (0 is the least one)."""
    return (1 << _BITS[rank]) - 1


@dataclass(frozen=True)
class TensorMap:
    """`dims` and `box` count elements, innermost first; `strides` has the bytes from one element to
    the next along each dimension but the innermost, whose elements are neighbours. With `pixels`
    `dims` are (C, W[, H[, D]], N), and `box` has the channels of a pixel and the pixels of a
    column."""

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    pixels: Pixels | None = None

    @property
    def box_bytes(self) -> int:
        """What a copy writes, and counts at its barrier, zeros included."""
        return prod(self.box) * parse(self.dtype).nbytes

    def problem(self) -> str:
        """What of it the driver refuses; empty where it takes all."""
        item = parse(self.dtype).nbytes
        rank = len(self.dims)
        if not 1 <= rank <= _RANKS:
            return f"it has {rank} dimensions, not 1 to {_RANKS}"
        if len(self.strides) != rank - 1 or len(self.box) != (rank if self.pixels is None else 2):
            return f"{rank} dimensions have {len(self.strides)} strides and a box of {self.box}"
        if not all(1 <= n <= _MOST_DIM for n in self.dims):
            return f"dimensions are 1 to 2^32 elements, not {self.dims}"
        for n in self.strides:
            if n % _ALIGN or not 0 < n < _MOST_STRIDE:
                return f"a stride of {n} bytes is no multiple of {_ALIGN} below 2^40"
        wrong = self._of_box()
        if wrong:
            return wrong
        inner = self.box[0] * item
        if inner % _ALIGN:
            return f"a row of the box has {inner} bytes, no multiple of {_ALIGN}"
        if self.swizzle not in SWIZZLES:
            return f"there is no swizzle of {self.swizzle} bytes, only of {SWIZZLES}"
        if self.swizzle and inner > self.swizzle:
            return f"a row of the box has {inner} bytes, more than the swizzle of {self.swizzle}"
        return ""

    def _of_box(self) -> str:
        """What of the box, or of the column, is refused, but for the bytes of its rows."""
        if self.pixels is None:
            if not all(1 <= n <= _BOX for n in self.box):
                return f"a box has 1 to {_BOX} elements along a dimension, not {self.box}"
            return ""
        channels, pixels = self.box
        if not 1 <= channels <= _CHANNELS or not 1 <= pixels <= _PIXELS:
            return (
                f"a column has 1 to {_CHANNELS} channels of 1 to {_PIXELS} pixels, not {self.box}"
            )
        return self.pixels.problem(self.dims)
