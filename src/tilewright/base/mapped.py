"""Arrays that lie in files: read as they are touched, and given back when they are done with."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from .aligned import Array, aligned_empty
from .files import open_file


def map_file(path: str | os.PathLike[str]) -> Array:
    """The bytes of a file, read-only; errors as of `open_file`. Who changes the file changes them;
    an empty file gives an empty array."""
    with open_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


_PART = 1 << 24
"""Bytes that are read of a file before they are given back."""


def compact(array: Array) -> Array:
    """A copy with the elements in order, where vector code reads them. Of an array that lies in a
    file, whatever its strides, no more than a part is in memory beside the copy, and nothing
    afterwards."""
    made = aligned_empty(array.shape, array.dtype)
    if not array.size or not array.ndim or _file_of(array) is None:
        made[...] = array
        return made
    axis = int(np.argmax(np.abs(array.strides)))  # along which parts lie apart in the file
    rows = max(1, _PART * array.shape[axis] // max(array.nbytes, 1))
    for start in range(0, array.shape[axis], rows):
        part = (slice(None),) * axis + (slice(start, start + rows),)
        made[part] = array[part]
        give_back(array[part])
    return made


def give_back(array: Array) -> None:
    """Let the memory of an array that lies in a file go; it is read again where it is touched.

    What of weights was copied in another layout then takes no memory twice. Does nothing to other
    arrays, and where the system cannot do it.
    """
    place = _file_of(array)
    if place is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    whole = np.frombuffer(place, np.uint8)
    if whole.flags.writeable or not array.nbytes:
        return  # what was written may be nowhere else
    reach = [step * (n - 1) for step, n in zip(array.strides, array.shape)]
    start = array.ctypes.data - whole.ctypes.data
    first = (start + sum(min(r, 0) for r in reach)) // mmap.PAGESIZE * mmap.PAGESIZE
    end = start + sum(max(r, 0) for r in reach) + array.itemsize
    place.madvise(mmap.MADV_DONTNEED, first, end - first)


def _file_of(array: Array) -> mmap.mmap | None:
    """The mapping that an array lies in."""
    place: Any = array
    while isinstance(place, (np.ndarray, memoryview)):
        place = place.base if isinstance(place, np.ndarray) else place.obj
    return place if isinstance(place, mmap.mmap) else None
