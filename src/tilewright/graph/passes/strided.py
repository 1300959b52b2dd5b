"""What reshapes, transposes, slices and repetitions make of an array: its elements, as steps
through memory.

A dimension is a list of digits, the last one fastest: (extent, stride) each, so that index i of it
stands at the sum of digit times stride. An array that is read so needs no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from ..ir import Node, Value

Digit = tuple[int, int]
Dimension = tuple[Digit, ...]


@dataclass(frozen=True)
class Strided:
    """Dimensions of digits over the elements of `source`, from `offset` on."""

    source: Value
    dims: tuple[Dimension, ...]
    offset: int = 0


def strided(
    v: Value, through: Callable[[Node], Value | None] = lambda node: None
) -> tuple[Strided, list[Node]]:
    """A value as elements of the earliest one that it can be read from, and the nodes passed on the
    way there. `through`: the input for which a further kind of node, which keeps the order of
    elements, may stand."""
    chain: list[Node] = []
    while v.producer is not None:
        node = v.producer
        before = through(node)
        if before is None and node.op not in _MOVES and not _is_constant_take(node):
            break
        chain.append(node)
        v = node.inputs[0] if before is None else before
    while True:
        at: Strided | None = whole(v)
        for n, node in enumerate(reversed(chain)):
            at = at if at is None or through(node) is not None else after(node, at)
            if at is None:  # from here on it is no view: begin behind it
                v = node.output
                chain = chain[: len(chain) - 1 - n]
                break
        if at is not None:
            return at, chain


def whole(v: Value) -> Strided:
    """All of an array, in order."""
    strides = [prod(v.shape[d + 1 :]) for d in range(len(v.shape))]
    return Strided(v, tuple(merged([(n, s)]) for n, s in zip(v.shape, strides)))


def _is_constant_take(node: Node) -> bool:
    return node.op == "take" and node.inputs[1].is_constant and not node.inputs[1].shape


def after(node: Node, at: Strided) -> Strided | None:
    """What a node makes of the array that it reads."""
    if node.op == "transpose":
        return Strided(at.source, tuple(at.dims[a] for a in node.attrs["axes"]), at.offset)
    if node.op == "reshape":
        found = regrouped([d for dim in at.dims for d in dim], node.output.shape)
        return None if found is None else Strided(at.source, found, at.offset)
    if node.op == "broadcast_to":
        return _repeated(at, node.output.shape)
    dims, offset = list(at.dims), at.offset
    if node.op == "take":
        axis, place = node.attrs["axis"], int(np.asarray(node.inputs[1].data))
        begins, extents = {axis: place % node.inputs[0].shape[axis]}, {axis: 1}
    else:
        if any(s != 1 for s in node.attrs["strides"]):
            return None
        shape = node.inputs[0].shape
        cut = [d for d, n in enumerate(node.output.shape) if n != shape[d]]
        begins = {d: node.attrs["begin"][d] % shape[d] for d in cut}
        extents = {d: node.output.shape[d] for d in cut}
    for d, begin in begins.items():
        if len(dims[d]) > 1:
            return None
        (stride,) = (s for _, s in dims[d]) if dims[d] else (0,)
        dims[d] = merged([(extents[d], stride)])
        offset += begin * stride
    if node.op == "take":
        del dims[node.attrs["axis"]]
    return Strided(at.source, tuple(dims), offset)


_MOVES = frozenset(("transpose", "reshape", "broadcast_to", "slice"))


def _repeated(at: Strided, shape: Sequence[int]) -> Strided:
    missing: list[Dimension] = [()] * (len(shape) - len(at.dims))
    dims = [
        merged([(n, 0)]) if not dim and n > 1 else dim
        for dim, n in zip([*missing, *at.dims], shape)
    ]
    return Strided(at.source, tuple(dims), at.offset)


def merged(digits: Iterable[Digit]) -> Dimension:
    """Digits without those of one element, neighbours that are one run as one."""
    found: list[Digit] = []
    for extent, stride in digits:
        if extent == 1:
            continue
        if found and found[-1][1] == extent * stride:
            found[-1] = (found[-1][0] * extent, stride)
        else:
            found.append((extent, stride))
    return tuple(found)


def regrouped(digits: Sequence[Digit], extents: Sequence[int]) -> tuple[Dimension, ...] | None:
    """The digits shared out to dimensions of these extents, the last first; None where one would
    have to be cut at no whole number."""
    if 0 in extents or any(n == 0 for n, _ in digits):
        return None
    rest = list(digits)
    found: list[Dimension] = []
    for extent in reversed(extents):
        mine: list[Digit] = []
        while extent > 1:
            if not rest:
                return None
            n, stride = rest.pop()
            part = gcd(n, extent)
            if part not in (n, extent) or (part == 1 and n > 1):
                return None
            if part < n:
                rest.append((n // part, part * stride))
            if part > 1:
                mine.insert(0, (part, stride))
            extent //= part
        found.insert(0, merged(mine))
    return tuple(found) if all(n == 1 for n, _ in rest) else None


def refined(*several: Sequence[int]) -> list[int] | None:
    """Extents of digits into which those of all of `several` (of one product each) can be cut."""
    rests = [[n for n in extents if n > 1] for extents in several]
    found: list[int] = []
    while any(rests):
        if not all(rests):
            return None
        part = min(rest[-1] for rest in rests)
        for rest in rests:
            n = rest.pop()
            if n % part:
                return None
            if n > part:
                rest.append(n // part)
        found.insert(0, part)
    return found


def cut(dim: Dimension, extents: Sequence[int]) -> list[int] | None:
    """The strides of a dimension in digits of these extents (all above 1)."""
    dims = regrouped(dim, extents)
    if dims is None or any(len(d) > 1 for d in dims):
        return None
    return [s for ((_, s),) in dims]


@dataclass(frozen=True)
class Reading:
    """How an array is read when its elements lie as `shape` says: for each of its dimensions, the
    number of the axis that is its index (-1: none) and where that begins."""

    shape: tuple[int, ...]
    places: tuple[tuple[int, int], ...]


def reading(size: int, axes: Sequence[Digit], offset: int) -> Reading | None:
    """A reading of `size` elements for axes of (extent, stride); None where two axes would meet in
    one dimension. Axes of stride 0 or extent 1 do not occur in it."""
    moving = sorted((n for n, (e, s) in enumerate(axes) if s and e > 1), key=lambda n: -axes[n][1])
    strides = [axes[n][1] for n in moving]
    if not strides or strides[-1] != 1:
        moving, strides = [*moving, -1], [*strides, 1]
    shape: list[int] = []
    places: list[tuple[int, int]] = []
    above = size
    for n, stride in zip(moving, strides):
        if above % stride:
            return None
        extent, begin = above // stride, offset % above // stride
        if begin + (axes[n][0] if n >= 0 else 1) > extent:
            return None
        shape.append(extent)
        places.append((n, begin))
        above = stride
    return Reading(tuple(shape), tuple(places))
