"""Move reshapes behind element-wise operations, where they meet others and go.

What a dense layer gives is a matrix; networks view it as (batch, length, channels), add a bias,
apply an activation, and view it as a matrix again for the next one. Element-wise operations do not
care, and without a reshape in between they join the layer's kernel. So it is with other layouts of
channels, where an image has one place, and with conversions to fewer bits, between which and what
made their numbers nothing should move.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...base.dtype import parse
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, OPS, node_of

Shape = tuple[int, ...]


def sink_reshapes(graph: Graph) -> Graph:
    """Compute element-wise nodes in the shape that what they read had before it was reshaped, where
    their other operands can have it too."""

    def instead(node: Node) -> Sequence[Node] | None:
        if node.op == "reshape" or _keeps_order(node):
            before = _source(node.inputs[0]) or node.inputs[0]
            attrs = {"shape": node.output.shape}
            return [Node("reshape", node.name, [before], node.outputs, attrs)]
        elif OPS[node.op].kind == ELEMWISE and "axis" not in node.attrs:
            shape = _shape_before(node)
            return None if shape is None else _reshaped(node, shape)
        elif node.op in ("bias_add", "scale_shift"):
            return _along(node)
        return None

    return graph.rewrite(instead)


def _along(node: Node) -> Sequence[Node] | None:
    """A node with an element for each place of one dimension, before a reshape that leaves that
    dimension, and what lies behind it, one piece."""
    shape, source = node.output.shape, _source(node.inputs[0])
    if source is None:
        return None
    axis = node.attrs["axis"] % len(shape)
    behind = prod(shape[axis + 1 :])
    for d, extent in enumerate(source.shape):
        if extent == shape[axis] and prod(source.shape[d + 1 :]) == behind:
            flat = Value(node.output.name + ".flat", source.shape, node.output.dtype)
            inputs, attrs = [source, *node.inputs[1:]], {**node.attrs, "axis": d}
            view = f"{node.output.name}.shape"
            return [
                Node(node.op, node.name, inputs, [flat], attrs),
                Node("reshape", view, [flat], [node.output], {"shape": shape}),
            ]
    return None


def _keeps_order(node: Node) -> bool:
    """Whether a node moves dimensions of extent 1 only: those of what one place of an image has."""
    shape = node.inputs[0].shape if node.inputs else ()
    if node.op == "transpose":
        moved = [a for a in node.attrs["axes"] if shape[a] != 1]
        return moved == sorted(moved)
    if node.op in ("pack_channels", "unpack_channels"):
        images = all(d == 1 for d in (shape[2:] if node.op == "pack_channels" else shape[2:-1]))
        return images and prod(shape) == prod(node.output.shape)
    return False


def narrow_first(graph: Graph) -> Graph:
    """Convert to fewer bits before elements are moved, not after: fewer bytes move, and the
    conversion joins the kernel of what made them."""
    readers, outputs = graph.consumers(), set(graph.outputs)

    def instead(node: Node) -> Sequence[Node] | None:
        if node.op != "cast" or _bytes(node.inputs[0]) <= _bytes(node.output):
            return None
        first, moves = node.inputs[0], []
        while (move := first.producer) is not None and move.op in ("reshape", "transpose"):
            if len(readers[first]) != 1 or first in outputs:
                break
            moves.append(move)
            first = move.inputs[0]
        if not moves:
            return None
        made = [node_of("cast", [first], node.name, node.attrs)]
        for move in reversed(moves):
            made.append(node_of(move.op, [made[-1].output], f"{move.name}.narrow", move.attrs))
        last = made.pop()
        return [*made, Node(last.op, last.name, last.inputs, node.outputs, last.attrs)]

    return graph.rewrite(instead)


def _bytes(v: Value) -> int:
    return parse(v.dtype).nbytes


def _source(v: Value) -> Value | None:
    """What a value is a reshape of."""
    return v.producer.inputs[0] if v.producer is not None and v.producer.op == "reshape" else None


def _shape_before(node: Node) -> Shape | None:
    """The shape of an operand before its reshape, where the others fit it; None where none does."""
    shape = node.output.shape
    for v in node.inputs:
        source = _source(v)
        if v.shape != shape or source is None or source.shape == shape or not source.shape:
            continue
        if all(_fits(u, shape, source.shape) for u in node.inputs):
            return source.shape
    return None


def _fits(v: Value, shape: Shape, before: Shape) -> bool:
    """Whether an operand of an operation on `shape` can be one of the same on `before`."""
    if v.shape == shape or prod(v.shape) == 1:
        return True
    # one element for each of the last dimension, the same for all others
    return v.is_constant and v.shape[-1:] == before[-1:] and prod(v.shape) == v.shape[-1]


def _reshaped(node: Node, before: Shape) -> Sequence[Node]:
    """The node on another shape, and reshapes around it."""
    made: list[Node] = []
    inputs = []
    shape = node.output.shape
    for k, v in enumerate(node.inputs):
        to = before if v.shape == shape else v.shape[-1:] if prod(v.shape) != 1 else ()
        if v.data is not None:
            v = constant(v.name, v.data.reshape(to)) if v.shape != to else v
        elif v.shape != to:
            source = _source(v) or v
            v = source if source.shape == to else _view(v, to, made, k)
        inputs.append(v)
    flat = Value(node.output.name + ".flat", before, node.output.dtype)
    made.append(Node(node.op, node.name, inputs, [flat], node.attrs))
    made.append(
        Node("reshape", node.output.name + ".shape", [flat], [node.output], {"shape": shape})
    )
    return made


def _view(v: Value, to: Shape, made: list[Node], number: int) -> Value:
    out = Value(f"{v.name}.as{number}", to, v.dtype)
    made.append(Node("reshape", out.name, [_source(v) or v], [out], {"shape": to}))
    return out
