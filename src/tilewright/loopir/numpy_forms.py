"""What operations are on NumPy arrays, where NumPy has no function for it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_erf: Any = np.frompyfunc(math.erf, 1, 1)


def erf(x: Any) -> Array:
    return np.asarray(_erf(x)).astype(np.float64)


def sigmoid(x: Any) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.asarray(np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole), x))


def popcount(x: Array) -> Array:
    """How many bits are set, in the type of `x`."""
    bits = _unsigned(x)
    count = np.zeros(bits.shape, dtype=np.uint8)
    for i in range(bits.dtype.itemsize * 8):
        count = count + ((bits >> bits.dtype.type(i)) & bits.dtype.type(1)).astype(np.uint8)
    return np.asarray(count.astype(x.dtype))


def clz(x: Array) -> Array:
    """How many leading bits are zero, as int32."""
    bits = _unsigned(x)
    width = bits.dtype.itemsize * 8
    count = np.full(bits.shape, width, dtype=np.int32)
    for i in range(width):
        count = np.where(bits >> bits.dtype.type(i) != 0, np.int32(width - 1 - i), count)
    return np.asarray(count)


def _unsigned(x: Array) -> Array:
    return x.astype(np.dtype(f"uint{x.dtype.itemsize * 8}"))


def int_pow(x: Any, n: Any) -> Array:
    """x^n of integers; see SEMANTICS.md."""
    x, n = np.asarray(x), np.asarray(n)
    square, left = _unsigned(x), _unsigned(n)
    result = np.ones_like(square)
    with np.errstate(over="ignore"):
        while left.any():
            result = np.where(left & left.dtype.type(1) != 0, result * square, result)
            square, left = np.asarray(square * square), left >> left.dtype.type(1)
    result = result.astype(x.dtype)
    if x.dtype.kind == "u":
        return np.asarray(result)
    sign = np.where(n % 2 == 0, 1, -1)
    inverse = np.where(x == 1, 1, np.where(x == -1, sign, 0)).astype(x.dtype)
    return np.asarray(np.where(n < 0, inverse, result))


def q_multiply_shift(x: Array, y: Array, q: Array, s: Array) -> Array:
    shift = (q - s).astype(np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), np.int64(0))
    return np.asarray(((x.astype(np.int64) * y.astype(np.int64) + half) >> shift).astype(np.int32))


def nextafter(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f" and a.dtype.itemsize > 1:
        return np.asarray(np.nextafter(a, b))
    # bfloat16: step the bit pattern, which is ordered like the magnitude
    bits = np.ascontiguousarray(a).view(np.int16)
    up = (b > a) == (bits >= 0)
    zero = a == 0
    stepped = np.where(zero, np.where(b > a, 1, -32767), bits + np.where(up, 1, -1))
    moved = np.where(a == b, bits, stepped).astype(np.int16).view(a.dtype)
    nan = np.isnan(a.astype(np.float32)) | np.isnan(b.astype(np.float32))
    return np.asarray(np.where(nan, np.asarray(np.nan, dtype=a.dtype), moved))
