"""What a tensor map says of an array: how the copies of Hopper's TMA see it.

A copy takes a box of the array to shared memory, zeros for what lies outside of the array. See the
CUDA driver API, "Tensor Map Object Management", for what may be asked.
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


@dataclass(frozen=True)
class TensorMap:
    """`dims` and `box` count elements, innermost first; `strides` has the bytes from one element to
    the next along each dimension but the innermost, whose elements are neighbours."""

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0

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
        if len(self.strides) != rank - 1 or len(self.box) != rank:
            return f"{rank} dimensions have {len(self.strides)} strides and a box of {self.box}"
        if not all(1 <= n <= _MOST_DIM for n in self.dims):
            return f"dimensions are 1 to 2^32 elements, not {self.dims}"
        for n in self.strides:
            if n % _ALIGN or not 0 < n < _MOST_STRIDE:
                return f"a stride of {n} bytes is no multiple of {_ALIGN} below 2^40"
        if not all(1 <= n <= _BOX for n in self.box):
            return f"a box has 1 to {_BOX} elements along a dimension, not {self.box}"
        inner = self.box[0] * item
        if inner % _ALIGN:
            return f"a row of the box has {inner} bytes, no multiple of {_ALIGN}"
        if self.swizzle not in SWIZZLES:
            return f"there is no swizzle of {self.swizzle} bytes, only of {SWIZZLES}"
        if self.swizzle and inner > self.swizzle:
            return f"a row of the box has {inner} bytes, more than the swizzle of {self.swizzle}"
        return ""
