"""Compose chains of transposes and reshapes, of which little or nothing may be left.

Where a convolution gives channels last and a layer norm wants them there, the network itself moves
them to the front and back again, with reshapes between. Each value of such a chain is a view of
what the chain reads: its dimensions go along that with certain strides. Where these are the ones
that a reshape has, no element moves; else one transpose does what several did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ..ir import Graph, Node, Value
from ..ops import node_of

Dims = Sequence[tuple[int, int]]
"""Extents and strides, in elements of a compact array."""


@dataclass(frozen=True)
class _View:
    """A value as a view of `source`: what its dimensions are made of, in order. `axes`: the
    dimensions of the source that its own are, where it is transposed only; `moves`: transposes
    between the two."""

    source: Value
    dims: Sequence[Dims]
    axes: tuple[int, ...] | None
    moves: int


def join_moves(graph: Graph) -> Graph:
    """Have the ends of chains of transposes, with reshapes that split and join dimensions between
    them, read what the chain reads, by one transpose at most."""
    views: dict[Value, _View] = {}

    def instead(node: Node) -> Sequence[Node] | None:
        view = _view_after(node, views)
        if view is None:
            return None
        joined = _joined([d for dims in view.dims for d in dims])
        left = int(len(joined) > 1)
        made = _shortest(node, view, joined) if left < view.moves else None
        views[node.output] = view if made is None else replace(view, moves=left)
        return made

    return graph.rewrite(instead)


def _view_after(node: Node, views: dict[Value, _View]) -> _View | None:
    """The result of a node as a view; None where it is none, or empty, or not of known sizes."""
    if node.op not in ("transpose", "reshape") or node.inputs[0].is_constant:
        return None
    (source,) = node.inputs
    if not all(isinstance(d, int) and d > 0 for d in source.shape):
        return None
    before = views.get(source) or _whole(source)
    if node.op == "transpose":
        axes = [k % len(source.shape) for k in node.attrs["axes"]]
        whole = None if before.axes is None else tuple(before.axes[k] for k in axes)
        return _View(before.source, [before.dims[k] for k in axes], whole, before.moves + 1)
    flat = [d for dims in before.dims for d in dims]
    split = _split(_joined(flat), node.output.shape)
    if split is None:
        before, split = _whole(source), _split(_joined(_strided(source)), node.output.shape)
        assert split is not None  # a compact array has any shape
    return _View(before.source, split, None, before.moves)


def _strided(v: Value) -> Dims:
    return [(d, prod(v.shape[k + 1 :])) for k, d in enumerate(v.shape)]


def _whole(v: Value) -> _View:
    return _View(v, [[d] for d in _strided(v)], tuple(range(len(v.shape))), 0)


def _joined(dims: Dims) -> Dims:
    """As few dimensions as go along the same elements in the same order."""
    found: list[tuple[int, int]] = []
    for extent, stride in dims:
        if extent == 1:
            continue
        if found and found[-1][1] == extent * stride:
            found[-1] = (found[-1][0] * extent, stride)
        else:
            found.append((extent, stride))
    return found


def _split(dims: Dims, shape: Sequence[int]) -> Sequence[Dims] | None:
    """What of `dims` the dimensions of a shape of as many elements are made of; None where one of
    them would begin within one and end within another."""
    left = list(reversed(dims))
    found: list[Dims] = []
    for wanted in shape:
        mine: list[tuple[int, int]] = []
        while wanted > 1:
            extent, stride = left.pop()
            if wanted % extent == 0:
                mine.append((extent, stride))
                wanted //= extent
            elif extent % wanted == 0:
                mine.append((wanted, extent // wanted * stride))
                left.append((extent // wanted, stride))
                wanted = 1
            else:
                return None
        found.append(mine)
    return found


def _shortest(node: Node, view: _View, joined: Dims) -> Sequence[Node]:
    """What gives a node's result from the source of its view: a transpose where one does, else
    reshapes and, where elements move, a transpose between them."""
    out, source = node.output, view.source
    if len(joined) <= 1:
        return [Node("reshape", node.name, [source], [out], {"shape": out.shape})]
    if view.axes is not None:
        return [Node("transpose", node.name, [source], [out], {"axes": view.axes})]
    inside = sorted(joined, key=lambda d: -d[1])
    apart = tuple(extent for extent, _ in inside)
    axes = tuple(inside.index(d) for d in joined)
    first = node_of("reshape", [source], f"{node.name}.apart", {"shape": apart})
    moved = node_of("transpose", [first.output], f"{node.name}.moved", {"axes": axes})
    last = Node("reshape", node.name, [moved.output], [out], {"shape": out.shape})
    return [first, moved, last]
