"""Operators on the lines of a tensor, and tensors made of numbers that are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtype import parse
from ..ir import Value
from ..sizes import Size
from .convert import Builder, Converter, OnnxNode
from .math import type_of


def _one(node: OnnxNode, index: int) -> Any:
    """An input that is one known number."""
    data = np.asarray(node.array(index))
    if data.size != 1:
        raise node.error(f"input {index} is one number, got {data.size}")
    return data.reshape(-1)[0]


def topk(b: Builder, node: OnnxNode) -> list[Value]:
    x = node.input(0)
    if not x.shape:
        raise node.error("a number has no largest elements")
    axis = node.axis(node.get("axis", -1), len(x.shape))
    k = node.get("k", 0) if b.opset < 10 else _one(node, 1)
    k = k if isinstance(k, Size) and k == x.shape[axis] else int(k)  # whole lines are sorted
    if not 0 <= k <= x.shape[axis]:
        raise node.error(f"{k} elements of dimension {axis} of {x!r}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    if 0 in shape:
        kinds = (parse(x.dtype).numpy, np.int64)
        return [b.full(shape, 0, kind, node.name) for kind in kinds]
    largest = bool(node.get("largest", 1))
    places = b.add("topk_places", [x], node.name, k=k, axis=axis, largest=largest)
    return [b.add("take_along", [x, places], node.name, axis=axis), places]


def _scan(op: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        x = node.input(0)
        if not x.shape:
            raise node.error("a number has no axis")
        axis = node.axis(int(_one(node, 1)), len(x.shape))
        if 0 in x.shape:
            return x
        exclusive, reverse = bool(node.get("exclusive", 0)), bool(node.get("reverse", 0))
        return b.add(op, [x], node.name, axis=axis, exclusive=exclusive, reverse=reverse)

    return convert


def det(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise node.error(f"{x!r} has no square matrices")
    if 0 in x.shape:
        return b.full(x.shape[:-2], 1, parse(x.dtype).numpy, node.name)
    return b.add("det", [x], node.name)


def trilu(b: Builder, node: OnnxNode) -> Value:
    x, k = node.input(0), node.optional(1)
    if len(x.shape) < 2:
        raise node.error(f"{x!r} is no matrix")
    if k is None:
        k = b.constant(np.zeros((), np.int64), node.name + ".k")
    elif k.shape:
        k = b.add("reshape", [k], shape=())
    return b.add("trilu", [x, k], node.name, upper=bool(node.get("upper", 1)))


def one_hot(b: Builder, node: OnnxNode) -> Value:
    indices, values = node.input(0), node.input(2)
    depth = int(_one(node, 1))
    if depth < 0 or values.shape != (2,):
        raise node.error(f"depth {depth} and values {values!r}, which must be two")
    axis = node.axis(node.get("axis", -1), len(indices.shape) + 1)
    return b.add("one_hot", [indices, values], node.name, axis=axis, depth=depth)


def eye_like(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    if len(x.shape) != 2:
        raise node.error(f"{x!r} is no matrix")
    dtype = type_of(node, node.get("dtype")) if "dtype" in node.attrs else x.dtype
    k, (rows, columns) = node.get("k", 0), x.shape
    out = b.full(x.shape, 0, parse(dtype).numpy, node.name)
    diagonal = np.arange(max(0, -k), max(0, min(rows, columns - k)))
    assert out.data is not None
    out.data[diagonal, diagonal + k] = 1
    return out


def range_(b: Builder, node: OnnxNode) -> Value:
    """start + i * delta, of narrow floats in float32."""
    dtype = node.input(0).dtype
    given = [node.input(k) for k in range(3)]
    if any(v.has_sizes for v in given):
        return _open_range(b, node, dtype)
    start, limit, delta = (_one(node, k) for k in range(3))
    kind = parse(dtype)
    if not delta:
        raise node.error("delta is 0")
    if kind.is_float:
        wide: Any = np.float64 if dtype == "float64" else np.float32
        start, limit, delta = (wide(v) for v in (start, limit, delta))
        steps = np.ceil((limit - start) / delta)
        if not np.isfinite(steps):
            raise node.error(f"there is no end of steps of {delta} from {start} to {limit}")
        count = max(int(steps), 0)
    else:
        start, limit, delta = (int(v) for v in (start, limit, delta))
        count = max(-((start - limit) // delta), 0)
        wide = np.int64
    out = b.full((count,), 0, kind.numpy, node.name)
    out.data = (start + np.arange(count, dtype=wide) * delta).astype(kind.numpy)
    return out


def _open_range(b: Builder, node: OnnxNode, dtype: str) -> Value:
    """A range of whole numbers whose ends are not known."""
    ends = (_one(node, k) for k in range(3))
    start, limit, delta = (n if isinstance(n, Size) else int(n) for n in ends)
    if parse(dtype).is_float or not delta > 0:
        raise node.error("a range to an end that is not known is of whole numbers, upwards")
    count = -((start - limit) // delta)
    count = count if count > 0 else 0
    how = {"start": start, "step": delta, "count": count, "dtype": dtype}
    return b.add("arange", [], node.name, **how)


CONVERTERS: dict[str, Converter] = {
    "TopK": topk,
    "CumSum": _scan("cumsum"),
    "CumProd": _scan("cumprod"),
    "Det": det,
    "Trilu": trilu,
    "OneHot": one_hot,
    "EyeLike": eye_like,
    "Range": range_,
}
