"""Operators that move elements or work on shapes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Value
from ..shapes import broadcast_shapes
from ..sizes import Size, same
from .convert import Builder, Converter, OnHostError, OnnxNode
from .file import carried

_WIDEST = 16
FAR = (1 << 31) - 1


def reshape(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    shape = node.numbers("shape" if b.opset < 5 else 1) or []
    if not node.get("allowzero", 0):
        if 0 in shape[len(x.shape) :]:
            raise node.error(f"shape {shape} copies a dimension that {x!r} does not have")
        shape = [x.shape[k] if d == 0 else d for k, d in enumerate(shape)]
    found = shape
    if -1 in shape:
        known = prod(d for d in shape if d != -1)
        left = prod(x.shape) // known if known else 0
        found = [left if d == -1 else d for d in shape]
    if not same(prod(found), prod(x.shape)):
        raise node.error(f"reshape of {prod(x.shape)} elements to {shape}")
    return b.add("reshape", [x], node.name, shape=tuple(found))


def flatten(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    axis = node.get("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    shape = (prod(x.shape[:axis]), prod(x.shape[axis:]))
    return b.add("reshape", [x], node.name, shape=shape)


def transpose(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    axes = node.get("perm") or list(reversed(range(len(x.shape))))
    return b.add("transpose", [x], node.name, axes=tuple(axes))


def concat(b: Builder, node: OnnxNode) -> Value:
    values = [node.input(i) for i in range(len(node.inputs))]
    axis = node.axis(node.get("axis", 1), len(values[0].shape))

    def joined(part: list[Value]) -> Value:
        return part[0] if len(part) == 1 else b.add("concat", part, node.name, axis=axis)

    while len(values) > _WIDEST:  # a kernel chooses among its inputs at each element
        values = [joined(values[k : k + _WIDEST]) for k in range(0, len(values), _WIDEST)]
    return joined(values)


def squeeze(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    axes = node.numbers("axes" if b.opset < 13 else 1, scalar=True)
    rank = len(x.shape)
    gone = (
        node.axes(axes, rank)
        if axes is not None
        else [k for k, d in enumerate(x.shape) if same(d, 1)]
    )
    shape = tuple(d for k, d in enumerate(x.shape) if k not in gone)
    return b.add("reshape", [x], node.name, shape=shape)


def unsqueeze(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    axes = node.numbers("axes" if b.opset < 13 else 1, scalar=True) or []
    rank = len(x.shape) + len(axes)
    new = node.axes(axes, rank)
    old = iter(x.shape)
    shape = tuple(1 if k in new else next(old) for k in range(rank))
    return b.add("reshape", [x], node.name, shape=shape)


def places(start: int, end: int, step: int, extent: int) -> tuple[int, int, int]:
    """A slice within a dimension. As Python's, but that downwards a start in front of the first
    element means this one."""
    if any(isinstance(n, Size) for n in (start, end, extent)):
        return _open_places(start, end, step, extent)
    if step < 0 and extent:
        start = max(start, -extent)
    places = slice(start, end, step).indices(extent)
    return places if range(*places) else (0, 0, 1)


def _open_places(start: Any, end: Any, step: int, extent: Any) -> tuple[Any, Any, int]:
    """As `places`, of sizes that are not known."""
    back = step < 0

    def within(n: Any, least: int) -> Any:
        most = extent - 1 if back else extent
        if isinstance(n, int) and abs(n) >= FAR:
            return most if n > 0 else least
        if n < 0:
            n = n + extent
        return least if n < least else most if n > most else n

    first, last = within(start, 0), within(end, -1 if back else 0)
    some = first >= last if back else last >= first
    return (first, last, step) if some else (0, 0, 1)


def slice_(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    old = b.opset < 10
    starts = node.numbers("starts" if old else 1) or []
    ends = node.numbers("ends" if old else 2, len(starts)) or []
    axes = node.numbers("axes" if old else 3, len(starts))
    axes = node.axes(range(len(starts)) if axes is None else axes, rank)
    steps = None if old else node.numbers(4, len(starts))
    steps = [1] * len(axes) if steps is None else steps
    begin, end, strides = [0] * rank, list(x.shape), [1] * rank
    for a, s, e, step in zip(axes, starts, ends, steps):
        if step == 0:
            raise node.error("steps must not be zero")
        begin[a], end[a], strides[a] = places(s, e, step, x.shape[a])
    return b.add("slice", [x], node.name, begin=begin, end=end, strides=strides)


def shape_of(b: Builder, node: OnnxNode) -> Value:
    shape = node.input(0).shape[node.get("start", 0) : node.get("end")]
    return b.sizes(shape, node.name)


_CONSTANT_TYPES = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def constant(b: Builder, node: OnnxNode) -> Value:
    for key in ("value", "sparse_value", "value_float", "value_int", "value_floats", "value_ints"):
        data = node.get(key)
        if data is not None:
            dtype: Any = _CONSTANT_TYPES.get(key)
            if key == "value" and carried(np.asarray(data).dtype) is None:
                raise OnHostError(str(node.error(f"compiled code has no {data.dtype}")))
            return b.constant(np.asarray(data, dtype), node.name)
    if "value_string" in node.attrs or "value_strings" in node.attrs:
        raise OnHostError(str(node.error("text is no number")))
    raise node.error("the constant has no value")


def constant_of_shape(b: Builder, node: OnnxNode) -> Value:
    value = np.asarray(node.get("value", np.zeros(1, np.float32))).reshape(-1)
    shape = node.numbers(0) or []
    return b.full(shape, value[0], value.dtype, node.name)


def gather(b: Builder, node: OnnxNode) -> Value:
    x, indices = node.input(0), node.input(1)
    axis = node.axis(node.get("axis", 0), len(x.shape))
    if indices.data is not None:
        least, most = -x.shape[axis], x.shape[axis] - 1
        if np.any(indices.data < least) or np.any(indices.data > most):
            raise node.error(f"an index is outside [{least}, {most}]")
    return b.add("take", [x, indices], node.name, axis=axis)


def expand(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    shape = broadcast_shapes(x.shape, tuple(node.numbers(1) or []))
    return b.add("broadcast_to", [x], node.name, shape=shape)


CONVERTERS: dict[str, Converter] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Concat": concat,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Slice": slice_,
    "Shape": shape_of,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Gather": gather,
    "Expand": expand,
}
