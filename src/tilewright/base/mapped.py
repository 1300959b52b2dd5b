"""Arrays that lie in files: read as they are touched, and given back when they are done with."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from .files import open_file

Array = np.ndarray[Any, Any]


def map_file(path: str | os.PathLike[str]) -> Array:
    """The bytes of a file, read-only; errors as of `open_file`. Who changes the file changes them;
    an empty file gives an empty array."""
    with open_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def give_back(array: Array) -> None:
    """Let the memory of an array that lies in a file go; it is read again where it is touched.

    What of weights was copied in another layout then takes no memory twice. Does nothing to other
    arrays, and where the system cannot do it.
    """
    place: Any = array
    while isinstance(place, (np.ndarray, memoryview)):
        place = place.base if isinstance(place, np.ndarray) else place.obj
    if not isinstance(place, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    whole = np.frombuffer(place, np.uint8)
    if whole.flags.writeable or not array.nbytes:
        return  # what was written may be nowhere else
    reach = [step * (n - 1) for step, n in zip(array.strides, array.shape)]
    start = array.ctypes.data - whole.ctypes.data
    first = (start + sum(min(r, 0) for r in reach)) // mmap.PAGESIZE * mmap.PAGESIZE
    end = start + sum(max(r, 0) for r in reach) + array.itemsize
    place.madvise(mmap.MADV_DONTNEED, first, end - first)
