"""Linear algebra: determinants, systems of equations, and products by groups of rows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...base.dtype import parse
from ..ir import Value
from ..shapes import broadcast_shapes
from .convert import Call, Converter
from .made import eye
from .views import counting


def _same_batch(c: Call, a: Value, b: Value) -> tuple[Value, Value]:
    """Matrices with the same dimensions in front."""
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return c.broadcast(a, (*batch, *a.shape[-2:])), c.broadcast(b, (*batch, *b.shape[-2:]))


def _turned(c: Call, x: Value) -> Value:
    """Rows for columns."""
    rank = len(x.shape)
    return c.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _first(c: Call, bad: Value) -> Value:
    """The place, counted from 1, of the first condition of each row that is true; 0 of none."""
    n = bad.shape[-1]
    last = c.value(n + 1, "int32")
    place = c("where", bad, c.cast(counting(c, 1, n + 1, 1), "int32"), last)
    found = c("reduce", place, type="min", axes=[len(bad.shape) - 1], keepdims=False)
    return c("where", c("equal", found, last), c.number(0, "int32"), found)


def _singular(c: Call, x: Value) -> Value:
    """Which pivot is 0, as LAPACK says it."""
    if 0 in x.shape:
        return c.full(x.shape[:-2], 0, "int32")
    return _first(c, c("equal", c("pivots", x), 0))


def det(c: Call, x: Value) -> list[Value | None]:
    if any(c.read[1:]):
        raise c.error("factors are for the backward pass")
    return [c.onnx("Det", [x]), None, None]


def _solved(c: Call, a: Value, b: Value) -> Value:
    a, b = _same_batch(c, a, b)
    return c.full(b.shape, 0, b.dtype) if 0 in b.shape else c("solve", a, b)


def inverse(c: Call, x: Value, **_: Any) -> list[Value | None]:
    one = c.broadcast(eye(c, x.shape[-1]), x.shape)
    return [_solved(c, x, one), _singular(c, x) if c.read[1] else None]


def solve(c: Call, a: Value, b: Value, *, left: bool = True, **_: Any) -> list[Value | None]:
    """a x = b, or x a = b; b may be vectors, one for each matrix."""
    if any(c.read[1:3]):
        raise c.error("factors are for the backward pass")
    vectors = len(b.shape) == len(a.shape) - 1 and b.shape == a.shape[:-1]
    b = c.reshape(b, (*b.shape, 1)) if vectors else b
    out = _solved(c, a, b) if left else _turned(c, _solved(c, _turned(c, a), _turned(c, b)))
    info = _singular(c, a) if c.read[3] else None
    return [c.reshape(out, out.shape[:-1]) if vectors else out, None, None, info]


def solve_triangular(
    c: Call, a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    a, b = _same_batch(c, a, b)
    if 0 in b.shape:
        return b
    if left:
        return c("solve_triangular", a, b, upper=upper, unit=unitriangular)
    out = c("solve_triangular", _turned(c, a), _turned(c, b), upper=not upper, unit=unitriangular)
    return _turned(c, out)


def cholesky(c: Call, x: Value, *, upper: bool = False, **_: Any) -> list[Value | None]:
    if 0 in x.shape:
        return [x, c.full(x.shape[:-2], 0, "int32")]
    low = c("cholesky", _turned(c, x) if upper else x)
    info = None
    if c.read[1]:
        rank = len(x.shape)
        diagonal = c("diagonal", low, places=(*range(rank - 2), rank - 2, rank - 2))
        info = _first(c, c("invert", c("greater", diagonal, 0)))
    return [_turned(c, low) if upper else low, info]


def grouped_matmul(
    c: Call, x: Value, weight: Value, ends: Value | None = None, bias: Any = None, *_: Any
) -> Value:
    """Rows, of which those before ends[0] are multiplied with weight[0], those behind these and
    before ends[1] with weight[1] ..."""
    if ends is None or bias is not None or len(x.shape) != 2 or len(weight.shape) != 3:
        raise c.error("only rows by the ends of their groups are supported, and no bias")
    rows = c.reshape(counting(c, 0, x.shape[0], 1), (x.shape[0], 1))
    passed = c.cast(c("greater_equal", rows, c.cast(ends, "int64")), "int32")
    group = c("reduce", passed, type="sum", axes=[1], keepdims=False)
    return c("grouped_matmul", x, weight, group)


def histogram(c: Call, x: Value, bins: int = 100, low: float = 0, high: float = 0) -> Value:
    """How many elements are in each of so many parts of a range; the last has its end as well.
    Rounded step by step as in PyTorch, which matters where parts meet."""
    if low == high:
        raise c.error("a range that the data gives is not supported")
    first, last = np.array([low, high], parse(x.dtype).numpy)
    x = c.reshape(x, (prod(x.shape), 1))
    away = c("multiply", c("subtract", x, float(first)), bins)
    part = c("minimum", c("floor", c("divide", away, float(last - first))), bins - 1)
    inside = c("bitwise_and", c("greater_equal", x, low), c("less_equal", x, high))
    hit = c("bitwise_and", inside, c("equal", part, c.constant(np.arange(bins), x.dtype)))
    return c("reduce", c.cast(hit, c.dtype), type="sum", axes=[0], keepdims=False)


CONVERTERS: dict[str, Converter] = {
    "_linalg_det": det,
    "linalg_inv_ex": inverse,
    "_linalg_solve_ex": solve,
    "linalg_solve_triangular": solve_triangular,
    "linalg_cholesky_ex": cholesky,
    "_grouped_mm": grouped_matmul,
    "transformers::grouped_mm_fallback": grouped_matmul,
    "histc": histogram,
}
