"""Memory that vector code reads: arrays begin where a cache line does.

A vector as wide as a line that begins within one lies in two, and each load of it takes two turns:
weights that begin anywhere cost up to a quarter of a product's speed.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_BYTE: Any = ctypes.c_char

ALIGNMENT = 64
"""Bytes of a line of the caches, and of the widest vectors."""


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with undefined elements in order, the first at a multiple of ALIGNMENT."""
    return placed_empty(shape, dtype)[0]


def placed_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, int]:
    """`aligned_empty`, and the address of the first element."""
    raw = np.empty(prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    address = ctypes.addressof(_BYTE.from_buffer(raw))
    start = -address % ALIGNMENT
    return np.ndarray(shape, dtype, raw, start), address + start


def is_aligned(array: Array) -> bool:
    """Whether the elements lie in order, and the first at a multiple of ALIGNMENT."""
    return bool(array.flags.c_contiguous) and array.__array_interface__["data"][0] % ALIGNMENT == 0
