"""Sequences, which are lists, and optional values, which are None where they are empty."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, one, required
from .move import concatenated


def _sequence(node: HostNode) -> list[Any]:
    found = required(node, 0)
    if not isinstance(found, list):
        raise node.error("input 0 is no sequence")
    return found


def _place(node: HostNode, index: int, length: int, ends: int) -> int | None:
    """A position in a sequence, counted from the front; `ends` is 1 where one past the last is a
    position too."""
    given = one(node, index)
    if given is None:
        return None
    position = int(given)
    if not -length <= position < length + ends:
        raise node.error(f"position {position} in a sequence of {length}")
    return position + length if position < 0 else position


def _at(node: HostNode) -> list[Any]:
    items = _sequence(node)
    place = _place(node, 1, len(items), 0)
    if place is None:
        raise node.error("the position is missing")
    return [items[place]]


def _construct(node: HostNode) -> list[Any]:
    return [[required(node, k) for k in range(len(node.inputs))]]


def _empty(node: HostNode) -> list[Any]:
    return [[]]


def _erase(node: HostNode) -> list[Any]:
    items = _sequence(node)
    place = _place(node, 1, len(items), 0)
    if place is None:
        place = len(items) - 1
    if not items:
        raise node.error("the sequence is empty")
    return [items[:place] + items[place + 1 :]]


def _insert(node: HostNode) -> list[Any]:
    items, item = _sequence(node), required(node, 1)
    place = _place(node, 2, len(items), 1)
    if place is None:
        place = len(items)
    return [[*items[:place], item, *items[place:]]]


def _length(node: HostNode) -> list[Any]:
    return [np.array(len(_sequence(node)), np.int64)]


def _split_to_sequence(node: HostNode) -> list[Any]:
    x, split = required(node, 0), node.input(1)
    axis = node.axis(node.get("axis", 0), x.ndim)
    extent = x.shape[axis]
    if split is None:
        parts = [np.take(x, [k], axis) for k in range(extent)]
        return [parts if node.get("keepdims", 1) else [p.squeeze(axis) for p in parts]]
    if split.ndim == 0:
        size = int(split)
        if size < 1:
            raise node.error(f"parts of {size} elements")
        ends = np.arange(size, extent, size)
        return [list(np.split(x, ends, axis)) if extent else []]
    if split.ndim != 1 or split.sum() != extent or (split < 0).any():
        raise node.error(f"extent {extent} cannot be divided into parts of {split.tolist()}")
    return [list(np.split(x, np.cumsum(split)[:-1], axis)) if split.size else []]


def _concat_from_sequence(node: HostNode) -> list[Any]:
    arrays: list[Array] = _sequence(node)
    if not arrays:
        raise node.error("the sequence is empty")
    new = node.get("new_axis", 0)
    axis = node.get("axis", 0)
    if new:
        axis = node.axis(axis, arrays[0].ndim + 1)
        if len({x.shape for x in arrays}) != 1:
            found = ", ".join(str(list(x.shape)) for x in arrays)
            raise node.error(f"arrays of shapes {found} cannot be stacked")
        arrays = [np.expand_dims(x, axis) for x in arrays]
    return [concatenated(node, arrays, axis)]


def _optional(node: HostNode) -> list[Any]:
    return [node.input(0)]


def _get_element(node: HostNode) -> list[Any]:
    found = node.input(0)
    if found is None:
        raise node.error("the optional value is empty")
    return [found]


def _has_element(node: HostNode) -> list[Any]:
    return [np.array(node.input(0) is not None)]


FUNCTIONS: dict[str, HostFunction] = {
    "ConcatFromSequence": _concat_from_sequence,
    "Optional": _optional,
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split_to_sequence,
}
