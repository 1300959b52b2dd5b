"""Operators that read or write at places that the data says."""

from __future__ import annotations

import numpy as np

from ..ir import Value
from .convert import Builder, Converter, OnnxNode


def check_indices(node: OnnxNode, indices: Value, extent: int) -> None:
    """Known indices must be within a dimension; those that come with the data are limited to it."""
    if indices.data is not None and (
        np.any(indices.data < -extent) or np.any(indices.data >= extent)
    ):
        raise node.error(f"an index is outside [{-extent}, {extent - 1}]")


def gather_elements(b: Builder, node: OnnxNode) -> Value:
    x, indices = node.input(0), node.input(1)
    axis = node.axis(node.get("axis", 0), len(x.shape))
    _check_places(node, x, indices, axis)
    check_indices(node, indices, x.shape[axis])
    return b.add("gather_elements", [x, indices], node.name, axis=axis)


def _check_places(node: OnnxNode, x: Value, indices: Value, axis: int) -> None:
    pairs = enumerate(zip(indices.shape, x.shape))
    fits = len(indices.shape) == len(x.shape)
    if not fits or any(n > m for k, (n, m) in pairs if k != axis):
        raise node.error(f"the indices {indices!r} do not fit {x!r}")


def gather_nd(b: Builder, node: OnnxNode) -> Value:
    x, indices = node.input(0), node.input(1)
    batch = node.get("batch_dims", 0)
    depth = _depth(node, x, indices, batch)
    if indices.shape[:batch] != x.shape[:batch]:
        raise node.error(f"the indices {indices!r} and {x!r} differ in {batch} batch dimensions")
    _check_columns(b, node, indices, x.shape[batch : batch + depth])
    return b.add("gather_nd", [x, indices], node.name, batch_dims=batch)


def _depth(node: OnnxNode, x: Value, indices: Value, batch: int = 0) -> int:
    if not indices.shape or indices.shape[-1] + batch > len(x.shape):
        raise node.error(f"the indices {indices!r} name more dimensions than {x!r} has")
    return int(indices.shape[-1])


def _check_columns(b: Builder, node: OnnxNode, indices: Value, extents: tuple[int, ...]) -> None:
    if indices.data is not None:
        for k, extent in enumerate(extents):
            check_indices(node, b.constant(indices.data[..., k]), extent)


_REDUCTIONS = ("none", "add", "mul", "min", "max")


def _reduction(node: OnnxNode) -> str:
    kind = str(node.get("reduction", "none"))
    if kind not in _REDUCTIONS:
        raise node.error(f"reduction {kind!r} is none of {', '.join(_REDUCTIONS)}")
    return "update" if kind == "none" else kind


def scatter_elements(b: Builder, node: OnnxNode) -> Value:
    x, indices, updates = (node.input(k) for k in range(3))
    axis = node.axis(node.get("axis", 0), len(x.shape))
    _check_places(node, x, indices, axis)
    if updates.shape != indices.shape:
        raise node.error(f"the updates {updates!r} do not fit the indices {indices!r}")
    check_indices(node, indices, x.shape[axis])
    inputs = [x, indices, updates]
    return b.add("scatter_elements", inputs, node.name, axis=axis, reduction=_reduction(node))


def scatter_nd(b: Builder, node: OnnxNode) -> Value:
    x, indices, updates = (node.input(k) for k in range(3))
    depth = _depth(node, x, indices)
    if updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise node.error(f"the updates {updates!r} do not fit the indices {indices!r} of {x!r}")
    _check_columns(b, node, indices, x.shape[:depth])
    return b.add("scatter_nd", [x, indices, updates], node.name, reduction=_reduction(node))


def tensor_scatter(b: Builder, node: OnnxNode) -> Value:
    """A cache with the newest entries written into it."""
    past, update, start = node.input(0), node.input(1), node.optional(2)
    axis = node.axis(node.get("axis", -2), len(past.shape))
    mode = node.get("mode", "linear")
    fits = len(update.shape) == len(past.shape) and axis > 0
    if not fits or any(
        n > m if k == axis else n != m for k, (n, m) in enumerate(zip(update.shape, past.shape))
    ):
        raise node.error(f"the update {update!r} does not fit {past!r} along axis {axis}")
    if mode not in ("linear", "circular"):
        raise node.error(f"mode {mode!r} is neither linear nor circular")
    if start is None:
        start = b.full((past.shape[0],), 0, np.int64, node.name + ".start")
    return b.add("tensor_scatter", [past, update, start], node.name, axis=axis, mode=mode)


CONVERTERS: dict[str, Converter] = {
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
}
