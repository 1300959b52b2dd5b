"""Tensors of known numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtype import parse
from ..ir import Value
from ..sizes import Size
from .convert import Call, Converter
from .views import counting


def full(c: Call, shape: Sequence[int], value: Any, **_: Any) -> Value:
    if isinstance(value, (Value, Size)):
        return c.broadcast(c.value(value, c.dtype), shape)
    return c.full(shape, value, c.dtype)


def full_like(c: Call, x: Value, value: Any, *_: Any, **__: Any) -> Value:
    return full(c, x.shape, value)


def new_full(c: Call, x: Value, shape: Sequence[int], value: Any, **_: Any) -> Value:
    return full(c, shape, value)


def empty_permuted(c: Call, shape: Sequence[int], *_: Any, **__: Any) -> Value:
    """What is in new memory is anything; zeros here."""
    return c.full(shape, 0, c.dtype)


def _filled(value: int) -> Converter:
    return lambda c, shape, *_, **__: c.full(shape, value, c.dtype)


def _filled_like(value: int) -> Converter:
    return lambda c, x, *_, **__: c.full(x.shape, value, c.dtype)


def scalar(c: Call, value: Any, **_: Any) -> Value:
    return c.value(value, c.dtype)


def arange(c: Call, *ends: Any, **_: Any) -> Value:
    """(end), (start, end) or (start, end, step)."""
    start, end, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    info = parse(c.dtype)
    if any(isinstance(n, Size) for n in (start, end, step)):
        return c.cast(counting(c, start, end, step), c.dtype)
    count = max(int(np.ceil((end - start) / step)), 0)
    wide: Any = np.float64 if info.is_float else np.int64
    return c.constant(start + np.arange(count, dtype=wide) * step, c.dtype)


def eye(c: Call, rows: int, columns: int | None = None, **_: Any) -> Value:
    columns = rows if columns is None else columns
    if isinstance(rows, Size) or isinstance(columns, Size):
        down = c.reshape(counting(c, 0, rows, 1), (rows, 1))
        return c.cast(c("equal", down, counting(c, 0, columns, 1)), c.dtype)
    return c.constant(np.eye(rows, columns), c.dtype)


def iota(c: Call, count: int, *, start: int, step: int, **_: Any) -> Value:
    return arange(c, start, start + count * step, step)


def _triangle(upper: bool) -> Converter:
    """Rows and columns of the elements of a triangle."""

    def convert(c: Call, rows: int, columns: int, offset: int = 0, **_: Any) -> Value:
        of = np.triu_indices if upper else np.tril_indices
        return c.constant(np.stack(of(rows, offset, columns)), c.dtype)

    return convert


CONVERTERS: dict[str, Converter] = {
    "full": full,
    "full_like": full_like,
    "new_full": new_full,
    "zeros": _filled(0),
    "ones": _filled(1),
    "zeros_like": _filled_like(0),
    "ones_like": _filled_like(1),
    "new_zeros": lambda c, x, shape, **_: c.full(shape, 0, c.dtype),
    "new_ones": lambda c, x, shape, **_: c.full(shape, 1, c.dtype),
    "empty": _filled(0),
    "empty_like": _filled_like(0),
    "empty_permuted": empty_permuted,
    "empty_strided": empty_permuted,
    "new_empty": lambda c, x, shape, **_: c.full(shape, 0, c.dtype),
    "scalar_tensor": scalar,
    "fill": full_like,
    "arange": arange,
    "eye": eye,
    "tril_indices": _triangle(False),
    "triu_indices": _triangle(True),
    "iota": iota,
}
