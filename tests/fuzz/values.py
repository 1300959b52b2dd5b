"""Data of the fuzzer's programs: by class of values, for every type.

Programs in mode "exact" get whole numbers of at most 3, "real" ones floats around 1; "full" ones
anything that a type has: random bits, the ends of its range, minus one, powers of two; for floats
NaN, infinities, both zeros, the largest number and subnormal ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.base.dtype import parse

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64", *HALVES)
ALL_TYPES = ("bool", *INTEGERS, *FLOATS)

Array = np.ndarray[Any, Any]


def draw_array(
    rng: np.random.Generator, mode: str, shape: tuple[int, ...], dtype: str, below: int = 0
) -> Array:
    """An array for an input; `below`: of indices that are less than this."""
    kind = parse(dtype)
    if below:
        most = min(below - 1, int(kind.max_value))
        return rng.integers(0, most + 1, shape).astype(kind.numpy)
    if mode == "exact":
        low = -3 if kind.is_int or kind.is_float else 0
        return rng.integers(low, 4, shape).astype(kind.numpy)
    if kind.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if kind.is_float:
        data = rng.uniform(-2, 2, shape).astype(kind.numpy)
        chance = {"real": 0.0, "special": 0.05}.get(mode, 0.5)
        return _some(rng, data, special_floats(dtype), chance, mode == "full")
    data = random_bits(rng, shape, dtype)
    return _some(rng, data, special_integers(dtype), 0.5, False)


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Any bits, as values of a type."""
    numpy = parse(dtype).numpy
    count = int(np.prod(shape))
    data = np.frombuffer(rng.bytes(count * numpy.itemsize), dtype=f"u{numpy.itemsize}")
    return data.view(numpy).reshape(shape).copy()


def _some(
    rng: np.random.Generator, data: Array, special: Array, chance: float, bits: bool
) -> Array:
    """`data` with special values in some places, and random bits in some others."""
    shape = data.shape
    which = rng.integers(0, len(special), shape)
    result = np.where(rng.random(shape) < chance, special[which], data)
    if bits:
        any_bits = random_bits(rng, shape, data.dtype.name)
        result = np.where(rng.random(shape) < 0.3, any_bits, result)
    return result.astype(data.dtype)


def special_integers(dtype: str) -> Array:
    """The ends of a type's range, numbers around zero and around powers of two."""
    kind = parse(dtype)
    low, high = int(kind.min_value), int(kind.max_value)
    near = [-1, 0, 1, 2, low, low + 1, high, high - 1, low // 2, high // 2, high // 2 + 1, 7, -8]
    return np.array([v for v in near if low <= v <= high], kind.numpy)


def special_floats(dtype: str) -> Array:
    """NaN, infinities, zeros, the largest and the smallest numbers of a type."""
    kind = parse(dtype)
    largest = float(kind.max_value)
    smallest = np.array([1], f"u{kind.nbytes}").view(kind.numpy)
    with np.errstate(all="ignore"):
        plain = [np.nan, np.inf, -np.inf, 0.0, -0.0, largest, -largest, 1.0, -1.0, 0.5]
        values = np.array(plain).astype(kind.numpy)
        bits = np.array([1, 2, 3, 100], f"u{kind.nbytes}").view(kind.numpy)  # subnormal
        return np.concatenate([values, smallest, -smallest, bits, -bits])


def differs(out: Array, expected: Array) -> Array:
    """Where two arrays differ; a NaN is one whatever its bits, and the two zeros are equal."""
    if out.dtype.kind in "iub":
        return np.asarray(out != expected)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        a, b = out.astype(np.float64), expected.astype(np.float64)
    return np.asarray(~((a == b) | (np.isnan(a) & np.isnan(b))))
