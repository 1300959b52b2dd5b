"""Operators that move elements, of any type: strings, and numbers whose shapes are data."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, check_room, one, required


def _identity(node: HostNode) -> list[Any]:
    return [node.inputs[0]]


def _reshape(node: HostNode) -> list[Any]:
    x = required(node, 0)
    wanted = node.numbers("shape" if node.opset < 5 else 1)
    if wanted is None:
        raise node.error("the shape is missing")
    keep = not node.get("allowzero", 0)
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1 or (
        keep and any(n == 0 for n in wanted[x.ndim :])
    ) or (not keep and 0 in wanted and -1 in wanted):  # fmt: skip
        raise node.error(f"shape {wanted} for an array of shape {list(x.shape)}")
    shape = [x.shape[k] if n == 0 and keep else n for k, n in enumerate(wanted)]
    rest = prod(n for n in shape if n != -1)
    if -1 in shape and rest > 0 and x.size % rest == 0:
        shape[shape.index(-1)] = x.size // rest
    if -1 in shape or prod(shape) != x.size:
        raise node.error(f"an array of shape {list(x.shape)} cannot get shape {wanted}")
    return [x.reshape(shape)]


def _flatten(node: HostNode) -> list[Any]:
    x = required(node, 0)
    axis = node.get("axis", 1)
    cut = x.ndim if axis == x.ndim else node.axis(axis, x.ndim)
    return [x.reshape(prod(x.shape[:cut]), prod(x.shape[cut:]))]


def _axes(node: HostNode) -> list[int] | None:
    """The axes of Squeeze and Unsqueeze: an attribute before operator set 13."""
    return node.numbers("axes" if node.opset < 13 else 1)


def _squeeze(node: HostNode) -> list[Any]:
    x = required(node, 0)
    given = _axes(node)
    axes = [k for k, n in enumerate(x.shape) if n == 1] if given is None else given
    chosen = node.axes(axes, x.ndim)
    if any(x.shape[a] != 1 for a in chosen):
        raise node.error(f"axes {axes} of shape {list(x.shape)} are not all of extent 1")
    return [x.reshape([n for k, n in enumerate(x.shape) if k not in chosen])]


def _unsqueeze(node: HostNode) -> list[Any]:
    x = required(node, 0)
    axes = _axes(node)
    if axes is None:
        raise node.error("the axes are missing")
    rank = x.ndim + len(axes)
    chosen = node.axes(axes, rank)
    extents = iter(x.shape)
    return [x.reshape([1 if k in chosen else next(extents) for k in range(rank)])]


def _transpose(node: HostNode) -> list[Any]:
    x = required(node, 0)
    order = node.get("perm")
    if order is None:
        return [x.transpose()]
    if sorted(order) != list(range(x.ndim)):
        raise node.error(f"perm {list(order)} of {x.ndim} dimensions")
    return [x.transpose(order)]


def _concat(node: HostNode) -> list[Any]:
    arrays = [required(node, k) for k in range(len(node.inputs))]
    return [concatenated(node, arrays, node.get("axis", 1))]


def concatenated(node: HostNode, arrays: list[Array], axis: int) -> Array:
    axis = node.axis(axis, arrays[0].ndim)
    shapes = {x.shape[:axis] + x.shape[axis + 1 :] for x in arrays}
    if len(shapes) != 1 or len({x.ndim for x in arrays}) != 1:
        found = ", ".join(str(list(x.shape)) for x in arrays)
        raise node.error(f"arrays of shapes {found} cannot be joined along axis {axis}")
    extent = sum(x.shape[axis] for x in arrays)
    first = arrays[0]
    check_room(node, (*first.shape[:axis], extent, *first.shape[axis + 1 :]), first.dtype)
    return np.concatenate(arrays, axis)


def _split(node: HostNode) -> list[Any]:
    x = required(node, 0)
    axis = node.axis(node.get("axis", 0), x.ndim)
    sizes = node.numbers("split" if 1 < node.opset < 13 else 1)
    if sizes is None and node.opset == 1:
        sizes = node.numbers("split")
    extent = x.shape[axis]
    if sizes is None:
        count = node.get("num_outputs", len(node.outputs))
        if count < 1 or (node.opset < 18 and extent % count):
            raise node.error(f"extent {extent} cannot be divided into {count} equal parts")
        step = -(-extent // count)
        sizes = [max(min(step, extent - k * step), 0) for k in range(count)]
    if min(sizes, default=0) < 0 or sum(sizes) != extent or len(sizes) < len(node.outputs):
        raise node.error(
            f"extent {extent} cannot be divided into {len(node.outputs)} parts of {sizes}"
        )
    return list(np.split(x, np.cumsum(sizes)[:-1], axis))


def _shape(node: HostNode) -> list[Any]:
    extents = np.array(np.shape(required(node, 0)), np.int64)
    return [extents[slice(node.get("start", 0), node.get("end"))]]


def _size(node: HostNode) -> list[Any]:
    return [np.array(np.size(required(node, 0)), np.int64)]


def _constant(node: HostNode) -> list[Any]:
    for name, dtype in (
        ("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
        ("value_ints", np.int64), ("value_string", object), ("value_strings", object),
    ):  # fmt: skip
        if name in node.attrs:
            return [np.array(node.attrs[name], dtype)]
    for name in ("value", "sparse_value"):
        if name in node.attrs:
            return [node.attrs[name]]
    raise node.error("it has no value")


def _expand(node: HostNode) -> list[Any]:
    x = required(node, 0)
    wanted = node.numbers(1)
    if wanted is None:
        raise node.error("the shape is missing")
    try:
        shape = np.broadcast_shapes(x.shape, tuple(wanted))
    except ValueError:
        raise node.error(f"shape {list(x.shape)} cannot be stretched to {wanted}") from None
    check_room(node, shape, x.dtype)
    return [np.broadcast_to(x, shape).copy()]


def _tile(node: HostNode) -> list[Any]:
    x = required(node, 0)
    if node.opset < 6:
        repeats = [1] * x.ndim
        repeats[node.axis(int(one(node, 2, 0)), x.ndim)] = int(one(node, 1, 1))
    else:
        found = node.numbers(1, x.ndim)
        if found is None:
            raise node.error("the repeats are missing")
        repeats = found
    if min(repeats, default=0) < 0:
        raise node.error(f"repeats must not be negative, got {repeats}")
    check_room(node, [n * r for n, r in zip(x.shape, repeats)], x.dtype)
    return [np.tile(x, repeats)]


def _where(node: HostNode) -> list[Any]:
    condition, x, y = (required(node, k) for k in range(3))
    broadcastable(node, condition, x, y)
    return [np.where(condition, x, y).astype(x.dtype, copy=False)]


def _equal(node: HostNode) -> list[Any]:
    x, y = required(node, 0), required(node, 1)
    broadcastable(node, x, y)
    return [np.asarray(x == y, bool)]


def broadcastable(node: HostNode, *arrays: Array) -> None:
    try:
        np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:
        found = ", ".join(str(list(x.shape)) for x in arrays)
        raise node.error(f"shapes {found} do not fit each other") from None


def _depth_to_space(node: HostNode) -> list[Any]:
    x, size = _blocks(node)
    batch, depth, height, width = x.shape
    if depth % size**2:
        raise node.error(f"a depth of {depth} cannot be divided into blocks of {size} x {size}")
    rest = depth // size**2
    if node.get("mode", "DCR") == "DCR":
        parts = x.reshape(batch, size, size, rest, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(batch, rest, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    return [parts.reshape(batch, rest, height * size, width * size)]


def _space_to_depth(node: HostNode) -> list[Any]:
    x, size = _blocks(node)
    batch, depth, height, width = x.shape
    if height % size or width % size:
        raise node.error(f"shape {list(x.shape)} cannot be divided into blocks of {size} x {size}")
    parts = x.reshape(batch, depth, height // size, size, width // size, size)
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = parts.transpose(order)
    return [moved.reshape(batch, depth * size**2, height // size, width // size)]


def _blocks(node: HostNode) -> tuple[Array, int]:
    x, size = required(node, 0), node.get("blocksize", 0)
    if x.ndim != 4 or size < 1 or node.get("mode", "DCR") not in ("DCR", "CRD"):
        raise node.error(
            f"shape {list(x.shape)}, blocksize {size}, mode {node.get('mode', 'DCR')!r}; it takes "
            "4 dimensions, blocks of at least 1, and mode 'DCR' or 'CRD'"
        )
    return x, size


FUNCTIONS: dict[str, HostFunction] = {
    "Concat": _concat,
    "Constant": _constant,
    "DepthToSpace": _depth_to_space,
    "Equal": _equal,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": _identity,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
