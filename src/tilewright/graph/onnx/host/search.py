"""Operators that search: how much they find depends on data."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Array, axis_of, one, required
from .node import HostFunction, HostNode


def _non_zero(node: HostNode) -> list[Any]:
    x = required(node, 0)
    if not x.ndim:  # no coordinates, where NumPy would give one
        return [np.zeros((0, int(bool(x))), np.int64)]
    return [np.stack(np.nonzero(x)).astype(np.int64, copy=False)]


def _unique(node: HostNode) -> list[Any]:
    x = required(node, 0)
    axis = node.get("axis")
    axis = None if axis is None else axis_of(node, axis, x.ndim)
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
    axis = axis_of(node, node.get("axis", -1), x.ndim)
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


def _non_max_suppression(node: HostNode) -> list[Any]:
    boxes, scores = required(node, 0), required(node, 1)
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape != (
        scores.shape[0], scores.shape[2], 4
    ):  # fmt: skip
        raise node.error(
            f"boxes of shape {list(boxes.shape)} and scores of shape {list(scores.shape)}"
        )
    most = int(one(node, 2, 0))
    overlap, least = one(node, 3, np.float32(0)), one(node, 4)
    if not 0 <= overlap <= 1:
        raise node.error(f"iou_threshold must be in 0 to 1, got {overlap}")
    found = []
    for batch, corners in enumerate(_corners(boxes, node.get("center_point_box", 0))):
        for kind, row in enumerate(scores[batch]):
            chosen = _suppressed(corners, row, most, overlap, least)
            found += [(batch, kind, box) for box in chosen]
    return [np.array(found, np.int64).reshape(-1, 3)]


def _corners(boxes: Array, centered: int) -> Array:
    """The lower and the upper corner of each box, four numbers."""
    one_end, other = boxes[..., :2], boxes[..., 2:]
    if centered:
        one_end, other = one_end - other / 2, one_end + other / 2
    return np.concatenate([np.minimum(one_end, other), np.maximum(one_end, other)], -1)


def _suppressed(
    corners: Array, scores: Array, most: int, overlap: np.float32, least: Any
) -> list[int]:
    """The boxes of one class that are kept, best first."""
    left = np.argsort(-scores, kind="stable")
    if least is not None:
        left = left[scores[left] > least]
    areas = np.prod(corners[:, 2:] - corners[:, :2], -1)
    kept: list[int] = []
    while left.size and len(kept) < most:
        best, left = left[0], left[1:]
        kept.append(int(best))
        low = np.maximum(corners[best, :2], corners[left, :2])
        high = np.minimum(corners[best, 2:], corners[left, 2:])
        common = np.prod(np.maximum(high - low, 0), -1)
        union = areas[best] + areas[left] - common
        some = (areas[best] > 0) & (areas[left] > 0) & (union > 0)
        left = left[~(some & (common / np.where(some, union, 1) > overlap))]
    return kept


FUNCTIONS: dict[str, HostFunction] = {
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "TopK": _top_k,
    "Unique": _unique,
}
