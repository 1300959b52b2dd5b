"""What host operators ask their node for."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...limits import require
from ..file import numbered_type
from ..node import HostNode

Array = np.ndarray[Any, Any]


def required(node: HostNode, index: int) -> Any:
    """An input that must not be left out."""
    found = node.input(index)
    if found is None:
        raise node.error(f"input {index} is missing")
    return found


def one(node: HostNode, index: int, default: Any = None) -> Any:
    """The only element of an input, which is a scalar or an array of one element."""
    found = node.input(index)
    if found is None:
        return default
    if np.size(found) != 1:
        raise node.error(f"input {index} must be one value, got shape {list(np.shape(found))}")
    return np.asarray(found).reshape(-1)[0]


def check_room(node: HostNode, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """An error where an array is larger than the machine's memory: extents come from data."""
    if any(n < 0 for n in shape):
        raise node.error(f"the result would have shape {[int(n) for n in shape]}")
    nbytes = dtype.itemsize * prod(max(int(n), 1) for n in shape)
    require(nbytes, f"{node.kind} node {node.name!r}: a result of shape {list(map(int, shape))}")


def zero(dtype: np.dtype[Any]) -> Any:
    """What tensors of a type are filled with: 0, False, or the empty string."""
    return "" if dtype.kind == "O" else dtype.type(0)


def element_type(node: HostNode, number: int) -> np.dtype[Any]:
    """The NumPy type of an ONNX element type."""
    dtype = numbered_type(number)
    if dtype is None:
        raise node.error(f"there is no type of number {number}")
    return dtype
