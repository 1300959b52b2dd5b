"""Operators that search: how much they find depends on data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import one, required
from .suppress import non_max_suppression


def _non_zero(node: HostNode) -> list[Any]:
    x = required(node, 0)
    if not x.ndim:  # no coordinates, where NumPy would give one
        return [np.zeros((0, int(bool(x))), np.int64)]
    return [np.stack(np.nonzero(x)).astype(np.int64, copy=False)]


def _unique(node: HostNode) -> list[Any]:
    x = required(node, 0)
    axis = node.get("axis")
    axis = None if axis is None else node.axis(axis, x.ndim)
    # strings by numbers in the same order: NumPy does not compare rows of objects
    keys = np.unique(x.reshape(-1), return_inverse=True)[1] if x.dtype == object else x.reshape(-1)
    rows = keys.reshape(x.shape) if axis is not None else keys.reshape(-1)
    _, first, inverse, counts = np.unique(rows, True, True, True, axis)
    if not node.get("sorted", 1):
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        first, inverse, counts = first[order], place[inverse], counts[order]
    found = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
    return [found, *(r.reshape(-1).astype(np.int64, copy=False) for r in (first, inverse, counts))]


def _top_k(node: HostNode) -> list[Any]:
    x = required(node, 0)
    k = int(node.get("k", 0) if node.opset < 10 else one(node, 1, 0))
    axis = node.axis(node.get("axis", -1), x.ndim)
    if not 0 <= k <= x.shape[axis]:
        raise node.error(f"{k} of {x.shape[axis]} elements")
    if node.get("largest", 1):
        # sorted from behind, so that of equal elements the first is the last
        order = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
        order = x.shape[axis] - 1 - order
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(k), axis).astype(np.int64, copy=False)
    return [np.take_along_axis(x, order, axis), order]


FUNCTIONS: dict[str, HostFunction] = {
    "NonMaxSuppression": non_max_suppression,
    "NonZero": _non_zero,
    "TopK": _top_k,
    "Unique": _unique,
}
