"""What functions of CUDA and OpenCL C on integers and bits mean, on NumPy arrays, by their names.

CUDA Math API, "Integer Intrinsics", "Type Casting Intrinsics"; OpenCL C, "Integer Functions".
Values are in the types of the program; what is given is converted to the type of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .np_ops import Array


def _bytes(x: Any) -> Array:
    """The four bytes of each word, or of each vector of four, in int64 and along a new first
    axis."""
    a = np.asarray(x)
    if a.dtype.itemsize == 4:
        element = np.int8 if a.dtype.kind == "i" else np.uint8
        a = np.moveaxis(np.ascontiguousarray(a)[..., None].view(element), -1, 0)
    return a.astype(np.int64)


def _dp4a(a: Any, b: Any, c: Any) -> Array:
    x, y = _bytes(a), _bytes(b)
    return np.asarray((x * y.reshape(4, *(1,) * (x.ndim - y.ndim), *y.shape[1:])).sum(axis=0) + c)


def _high(a: Any, b: Any) -> Array:
    """The upper half of a product."""
    x, y = np.asarray(a), np.asarray(b)
    bits = 8 * max(x.itemsize, y.itemsize)
    if bits < 64:
        return (x.astype(np.int64) * y.astype(np.int64)) >> bits
    halves = np.frompyfunc(lambda p, q: int(p) * int(q) >> 64, 2, 1)(x, y)
    return np.asarray(halves).astype(np.result_type(x, y))


def _low24(a: Any, b: Any) -> Array:
    """A product of numbers of 24 bits: what is above them does not count."""
    x, y = (np.asarray(v).astype(np.int64) << 40 for v in (a, b))
    if np.asarray(a).dtype.kind == "u":
        return (x.view(np.uint64) >> 40) * (y.view(np.uint64) >> 40)
    return (x >> 40) * (y >> 40)


def _unsigned(x: Any) -> Array:
    a = np.asarray(x)
    return a.view(f"u{a.itemsize}")


def _first(x: Any) -> Array:
    """The place of the lowest bit that is set, from 1 on; 0 where none is."""
    a = _unsigned(x)
    lowest = a & (~a + a.dtype.type(1))
    return np.where(a == 0, 0, np.log2(np.maximum(lowest, 1).astype(np.float64)) + 1)


def _reversed(x: Any) -> Array:
    a = _unsigned(x)
    out = np.zeros_like(a)
    for i in range(8 * a.itemsize):
        out |= (a >> a.dtype.type(i) & a.dtype.type(1)) << a.dtype.type(8 * a.itemsize - 1 - i)
    return out


def _permuted(a: Any, b: Any, s: Any) -> Array:
    """Bytes of two words, by four digits of `s`."""
    low, high, by = (_unsigned(v).astype(np.uint64) for v in (a, b, s))
    both = high << np.uint64(32) | low
    out: Any = np.uint64(0)
    for i in range(4):
        digit = by >> np.uint64(4 * i) & np.uint64(15)
        byte = both >> (digit & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = np.where(byte > 127, np.uint64(255), np.uint64(0))
        out = out | np.where(digit > 7, sign, byte) << np.uint64(8 * i)
    return np.asarray(out)


def _shifted(left: bool, clamped: bool) -> Callable[..., Array]:
    """A funnel shift of two words: `__funnelshift_*`."""

    def shift(low: Any, high: Any, by: Any) -> Array:
        words = _unsigned(high).astype(np.uint64) << np.uint64(32) | _unsigned(low)
        count = _unsigned(by).astype(np.uint64)
        count = np.minimum(count, np.uint64(32)) if clamped else count & np.uint64(31)
        return words << count >> np.uint64(32) if left else words >> count

    return shift


def _rotated(x: Any, by: Any) -> Array:
    a = _unsigned(x)
    bits = 8 * a.itemsize
    count = (np.asarray(by).astype(np.int64) % bits).astype(a.dtype)
    back = (-np.asarray(by).astype(np.int64) % bits).astype(a.dtype)
    return np.asarray(a << count | a >> back)


def _bits_as(dtype: str) -> Callable[[Any], Any]:
    return lambda x: np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))


_ROUNDINGS = {"n": np.rint, "z": np.trunc, "d": np.floor, "u": np.ceil}

INTEGERS: dict[str, Callable[..., Any]] = {
    "__dp4a": _dp4a,
    **dict.fromkeys(("__mulhi", "__umulhi", "__mul64hi", "__umul64hi", "mul_hi"), _high),
    **dict.fromkeys(("__mul24", "__umul24", "mul24"), _low24),
    "mad24": lambda a, b, c: _low24(a, b) + c,
    **dict.fromkeys(("__ffs", "__ffsll"), _first),
    **dict.fromkeys(("__brev", "__brevll"), _reversed),
    "__byte_perm": _permuted,
    **{
        f"__funnelshift_{side}{end}": _shifted(side == "l", end == "c")
        for side in "lr"
        for end in ("", "c")
    },
    "rotate": _rotated,
    **dict.fromkeys(("__float_as_int", "as_int"), _bits_as("int32")),
    **dict.fromkeys(("__float_as_uint", "as_uint"), _bits_as("uint32")),
    **dict.fromkeys(("__int_as_float", "__uint_as_float", "as_float"), _bits_as("float32")),
    "__double_as_longlong": _bits_as("int64"),
    "__longlong_as_double": _bits_as("float64"),
    **{
        f"__{source}2{name}_r{way}": rounded
        for source in ("float", "double")
        for name in ("int", "uint", "ll", "ull")
        for way, rounded in _ROUNDINGS.items()
    },
}
