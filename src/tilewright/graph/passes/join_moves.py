"""Compose chains of transposes and reshapes, of which little or nothing may be left.

Where a convolution gives channels last and a layer norm wants them there, the network itself moves
them to the front and back again, with reshapes between. Each value of such a chain is a view of
what the chain reads: its dimensions go along that with certain strides. Where these are the ones
that a reshape has, no element moves; else one transpose does what several did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir import Graph, Node, Value
from ..ops import node_of
from .strided import Dimension, Strided, after, merged, regrouped, whole


@dataclass(frozen=True)
class _View:
    """A value as a view `at` of what a chain reads. `axes`: the dimensions of the source that its
    own are, where it is transposed only; `moves`: transposes between the two."""

    at: Strided
    axes: tuple[int, ...] | None
    moves: int

    @property
    def run(self) -> Dimension:
        """All elements, one after another."""
        return merged(d for dim in self.at.dims for d in dim)


def join_moves(graph: Graph) -> Graph:
    """Have the ends of chains of transposes, with reshapes that split and join dimensions between
    them, read what the chain reads, by one transpose at most."""
    views: dict[Value, _View] = {}

    def instead(node: Node) -> Sequence[Node] | None:
        view = _view_after(node, views)
        if view is None:
            return None
        left = int(len(view.run) > 1)
        made = _shortest(node, view) if left < view.moves else None
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
        at, axes = after(node, before.at), before.axes
        assert at is not None
        if axes is not None:
            axes = tuple(axes[k] for k in node.attrs["axes"])
        return _View(at, axes, before.moves + 1)
    dims = regrouped(before.run, node.output.shape)
    if dims is None:
        before = _whole(source)
        dims = regrouped(before.run, node.output.shape)
        assert dims is not None  # a compact array has any shape
    return _View(Strided(before.at.source, dims), None, before.moves)


def _whole(v: Value) -> _View:
    return _View(whole(v), tuple(range(len(v.shape))), 0)


def _shortest(node: Node, view: _View) -> Sequence[Node]:
    """What gives a node's result from the source of its view: a transpose where one does, else
    reshapes and, where elements move, a transpose between them."""
    out, source, joined = node.output, view.at.source, view.run
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
