"""Operators that choose elements by indices, for any type of element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, check_room, required


def _within(node: HostNode, indices: Array, extent: int | Array) -> Array:
    """Indices counted from the front; an error where one is out of range."""
    indices = indices.astype(np.int64)
    bad = (indices < -extent) | (indices >= extent)
    if bad.any():
        raise node.error(f"index {indices[bad][0]} is out of range, the extent is {extent}")
    return np.where(indices < 0, indices + extent, indices)


def _gather(node: HostNode) -> list[Any]:
    x, indices = required(node, 0), required(node, 1)
    axis = node.axis(node.get("axis", 0), x.ndim)
    check_room(node, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    found = np.take(x, _within(node, indices, x.shape[axis]), axis)
    return [np.asarray(found, x.dtype)]  # of one element NumPy makes no array


def _gather_elements(node: HostNode) -> list[Any]:
    x, indices = required(node, 0), required(node, 1)
    axis = node.axis(node.get("axis", 0), x.ndim)
    return [np.asarray(x[_along(node, x, indices, axis)], x.dtype)]


def _along(node: HostNode, x: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """An index of `x` for each element of `indices`: its own place but along `axis`."""
    if indices.ndim != x.ndim or any(
        n > m for k, (n, m) in enumerate(zip(indices.shape, x.shape)) if k != axis
    ):
        raise node.error(
            f"indices of shape {list(indices.shape)} do not fit data of shape {list(x.shape)}"
        )
    places = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    places[axis] = _within(node, indices, x.shape[axis])
    return tuple(places)


def _gather_nd(node: HostNode) -> list[Any]:
    x, indices = required(node, 0), required(node, 1)
    batch = node.get("batch_dims", 0)
    if not 0 <= batch < min(x.ndim, indices.ndim) or x.shape[:batch] != indices.shape[:batch]:
        raise node.error(f"batch_dims {batch} of shapes {list(x.shape)} and {list(indices.shape)}")
    return [np.asarray(x[_rows(node, x, indices, batch)], x.dtype)]


def _rows(node: HostNode, x: Array, indices: Array, batch: int) -> tuple[Array, ...]:
    """An index of `x` for each row of `indices`; the first `batch` dimensions are common."""
    depth = indices.shape[-1]
    if not 1 <= depth <= x.ndim - batch:
        raise node.error(f"rows of {depth} indices for data of shape {list(x.shape)}")
    inner = indices.ndim - 1
    places = [
        np.arange(n).reshape([-1 if k == j else 1 for j in range(inner)])
        for k, n in enumerate(indices.shape[:batch])
    ]
    places += [_within(node, indices[..., k], x.shape[batch + k]) for k in range(depth)]
    return tuple(np.broadcast_to(p, indices.shape[:-1]) for p in places)


_REDUCTIONS: dict[str, Callable[[Array, Any, Array], None]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _put(node: HostNode, x: Array, places: tuple[Array, ...], updates: Array) -> Array:
    result = x.copy()
    reduction = node.get("reduction", "none")
    if reduction == "none":
        result[places] = updates
    elif reduction in _REDUCTIONS:
        _REDUCTIONS[reduction](result, places, updates)
    else:
        raise node.error(f"reduction {reduction!r}; there are none, {', '.join(_REDUCTIONS)}")
    return result


def _scatter_elements(node: HostNode) -> list[Any]:
    x, indices, updates = (required(node, k) for k in range(3))
    axis = node.axis(node.get("axis", 0), x.ndim)
    if updates.shape != indices.shape:
        raise node.error(
            f"updates of shape {list(updates.shape)}, indices of shape {list(indices.shape)}"
        )
    return [_put(node, x, _along(node, x, indices, axis), updates)]


def _scatter_nd(node: HostNode) -> list[Any]:
    x, indices, updates = (required(node, k) for k in range(3))
    if not indices.ndim:
        raise node.error("indices must have a dimension")
    places = _rows(node, x, indices, 0)
    wanted = indices.shape[:-1] + x.shape[indices.shape[-1] :]
    if updates.shape != wanted:
        raise node.error(f"updates of shape {list(updates.shape)}, expected {list(wanted)}")
    return [_put(node, x, places, updates)]


def _slice(node: HostNode) -> list[Any]:
    x = required(node, 0)
    if node.opset < 10:
        starts, ends, axes, steps = (node.numbers(n) for n in ("starts", "ends", "axes", ""))
    else:
        starts, ends, axes, steps = (node.numbers(k) for k in (1, 2, 3, 4))
    if starts is None or ends is None:
        raise node.error("it has no starts or ends")
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if len({len(starts), len(ends), len(axes), len(steps)}) != 1 or 0 in steps:
        raise node.error(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    chosen = [slice(None)] * x.ndim
    for axis, start, end, step in zip(node.axes(axes, x.ndim), starts, ends, steps):
        chosen[axis] = _span(start, end, step, x.shape[axis])
    return [x[tuple(chosen)]]


def _span(start: int, end: int, step: int, extent: int) -> slice:
    """Python's slice of an extent. There, an end before the first element has no number; and what
    goes backwards from before the first element is empty, where ONNX begins with the first."""
    start, end = (n + extent if n < 0 else n for n in (start, end))
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    if not extent or start <= end:
        return slice(0, 0)
    return slice(start, None if end < 0 else end, step)


def _compress(node: HostNode) -> list[Any]:
    x, condition = required(node, 0), required(node, 1)
    if condition.ndim != 1:
        raise node.error(f"the condition must be a list, got shape {list(condition.shape)}")
    axis = node.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = node.axis(axis, x.ndim)
    return [np.compress(condition[: x.shape[axis]], x, axis)]


def _reverse_sequence(node: HostNode) -> list[Any]:
    x, lengths = required(node, 0), required(node, 1)
    batch, time = node.get("batch_axis", 1), node.get("time_axis", 0)
    if x.ndim < 2 or {batch, time} != {0, 1} or lengths.shape != (x.shape[batch],):
        raise node.error(
            f"data of shape {list(x.shape)}, lengths of shape {list(lengths.shape)}, batch_axis "
            f"{batch}, time_axis {time}"
        )
    extent = x.shape[time]
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= extent:
        raise node.error(f"lengths {lengths.tolist()} of sequences of {extent}")
    steps = np.arange(extent)[None, :]
    ends = lengths[:, None]
    order = np.where(steps < ends, ends - 1 - steps, steps)
    sequences = x if batch == 0 else x.swapaxes(0, 1)
    result = sequences[np.arange(len(lengths))[:, None], order]
    return [result if batch == 0 else result.swapaxes(0, 1)]


def _tensor_scatter(node: HostNode) -> list[Any]:
    cache, update = required(node, 0), required(node, 1)
    axis = node.axis(node.get("axis", -2), cache.ndim)
    batch, extent = cache.shape[0], cache.shape[axis]
    starts = node.input(2, np.zeros(batch, np.int64))
    wanted = (*cache.shape[:axis], update.shape[axis], *cache.shape[axis + 1 :])
    if axis == 0 or update.shape != wanted or starts.shape != (batch,):
        raise node.error(
            f"a cache of shape {list(cache.shape)}, an update of shape {list(update.shape)}, "
            f"write_indices of shape {list(starts.shape)}, axis {axis}"
        )
    places = starts[:, None] + np.arange(update.shape[axis])
    if node.get("mode", "linear") == "circular":
        places %= extent
    result = cache.copy()
    rows = np.moveaxis(result, axis, 1)
    rows[np.arange(batch)[:, None], _within(node, places, extent)] = np.moveaxis(update, axis, 1)
    return [result]


FUNCTIONS: dict[str, HostFunction] = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "TensorScatter": _tensor_scatter,
}
