"""Operators whose result's extents are data: Range, ConstantOfShape, OneHot, Pad, Trilu."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isfinite
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, check_room, one, required, zero


def _range(node: HostNode) -> list[Any]:
    start, limit, delta = (one(node, k) for k in range(3))
    if start is None or limit is None or delta is None:
        raise node.error("it needs a start, a limit and a delta")
    dtype = np.asarray(required(node, 0)).dtype
    if delta == 0:
        raise node.error("delta is 0")
    if dtype.kind in "iu":
        first, last, step = int(start), int(limit), int(delta)
        count = max(-((first - last) // step), 0)
        check_room(node, [count], dtype)
        return [(np.arange(count, dtype=np.int64) * step + first).astype(dtype)]
    # 1 is float: the numbers are computed with a longer mantissa than they are stored with
    stored = dtype.type if dtype == np.float64 or node.get("stash_type", 1) != 1 else np.float32
    low, high, each = (stored(n) for n in (start, limit, delta))
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = float(high - low) / float(each)
    if not isfinite(quotient):
        raise node.error(f"from {start} to {limit} in steps of {delta} is no number of steps")
    count = max(ceil(quotient), 0)
    check_room(node, [count], dtype)
    return [(np.arange(count).astype(stored) * each + low).astype(dtype)]


def _constant_of_shape(node: HostNode) -> list[Any]:
    shape = node.numbers(0)
    if shape is None:
        raise node.error("the shape is missing")
    value = np.asarray(node.get("value", np.zeros(1, np.float32)))
    if value.size != 1:
        raise node.error(f"value must be one element, got shape {list(value.shape)}")
    check_room(node, shape, value.dtype)
    return [np.full(shape, value.reshape(-1)[0], value.dtype)]


def _one_hot(node: HostNode) -> list[Any]:
    indices, values = required(node, 0), required(node, 2)
    depth = int(one(node, 1, 0))
    if values.shape != (2,) or depth < 1:
        raise node.error(f"depth {depth}, values of shape {list(values.shape)}")
    rank = indices.ndim + 1
    (axis,) = node.axes([node.get("axis", -1)], rank)
    check_room(node, (*indices.shape[:axis], depth, *indices.shape[axis:]), values.dtype)
    places = np.expand_dims(indices.astype(np.int64), axis)
    places = np.where(places < 0, places + depth, places)
    steps = np.arange(depth).reshape([-1 if k == axis else 1 for k in range(rank)])
    return [np.where(places == steps, values[1], values[0]).astype(values.dtype, copy=False)]


def _pad(node: HostNode) -> list[Any]:
    x = required(node, 0)
    fill: Any
    if node.opset < 11:
        pads = node.numbers("pads" if node.opset > 1 else "paddings", 2 * x.ndim)
        axes, fill = list(range(x.ndim)), node.get("value", 0.0)
    else:
        found = node.numbers(3)
        axes = list(range(x.ndim)) if found is None else node.axes(found, x.ndim)
        pads = node.numbers(1, 2 * len(axes))
        fill = one(node, 2, zero(x.dtype))
    if pads is None:
        raise node.error("the pads are missing")
    mode = node.get("mode", "constant")
    if mode not in _PLACES and mode != "constant":
        raise node.error(f"mode {mode!r}; there are constant, {', '.join(_PLACES)}")
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, front, back in zip(axes, pads, pads[len(axes) :]):
        before[axis], after[axis] = front, back
    check_room(node, [n + b + a for n, b, a in zip(x.shape, before, after)], x.dtype)
    # what is cut off comes first: it does not show in what is padded
    x = x[tuple(slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(x.shape, before, after))]
    before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
    if mode == "constant":
        extents = [n + b + a for n, b, a in zip(x.shape, before, after)]
        result = np.full(extents, fill, x.dtype)
        result[tuple(slice(b, b + n) for n, b in zip(x.shape, before))] = x
        return [result]
    for axis, (front, back) in enumerate(zip(before, after)):
        extent = x.shape[axis]
        if not front and not back:
            continue
        if not extent:
            raise node.error(f"mode {mode!r} of shape {list(x.shape)}: nothing to pad with")
        x = np.take(x, _PLACES[mode](np.arange(-front, extent + back), extent), axis)
    return [x]


def _reflected(places: Array, extent: int) -> Array:
    period = max(2 * (extent - 1), 1)
    return np.asarray(extent - 1 - np.abs(places % period - (extent - 1)))


_PLACES: dict[str, Callable[[Array, int], Array]] = {
    "reflect": _reflected,
    "edge": lambda places, extent: np.clip(places, 0, extent - 1),
    "wrap": lambda places, extent: places % extent,
}


def _trilu(node: HostNode) -> list[Any]:
    x = required(node, 0)
    if x.ndim < 2:
        raise node.error(f"shape {list(x.shape)} has no matrices")
    rows, columns = x.shape[-2:]
    shift = np.arange(columns) - np.arange(rows)[:, None]
    k = int(one(node, 1, 0))
    kept = shift >= k if node.get("upper", 1) else shift <= k
    return [np.where(kept, x, zero(x.dtype)).astype(x.dtype, copy=False)]


FUNCTIONS: dict[str, HostFunction] = {
    "ConstantOfShape": _constant_of_shape,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Trilu": _trilu,
}
