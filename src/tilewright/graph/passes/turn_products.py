"""Products of a turned softmax: x s^T is (s x^T)^T, which turns x and the result, both small beside
the softmax s of many keys. Attention over channels of images is written so, x being values."""

from __future__ import annotations

from ..ir import Graph, Node, Value
from ..ops import node_of
from .attention import PRODUCTS, SOFTMAX


def turn_products(graph: Graph) -> Graph:
    """Let the softmax come first in each product of some matrix and a turned softmax."""
    readers = graph.consumers()
    for v in graph.outputs:
        readers.pop(v, None)  # they stay

    def instead(node: Node) -> list[Node] | None:
        turned = _softmax_of(node, readers) if node.op in PRODUCTS else None
        return None if turned is None else _exchanged(node, turned)

    return graph.rewrite(instead)


def _softmax_of(node: Node, readers: dict[Value, list[Node]]) -> Value | None:
    """The softmax that is turned to be the second factor of a product, as batches of matrices of
    its own; None where there is none."""
    x, v = node.inputs
    rank = len(x.shape)
    if rank < 3 or x.shape[:-2] != v.shape[:-2] or not all(isinstance(n, int) for n in v.shape):
        return None
    if x.shape[-2] >= v.shape[-1]:
        return None
    turn = _alone(v, readers)
    if turn is not None and turn.op == "reshape" and turn.inputs[0].shape[-2:] == v.shape[-2:]:
        turn = _alone(turn.inputs[0], readers)
    if turn is None or turn.op != "transpose":
        return None
    source = turn.inputs[0]
    known = source.producer is not None and source.producer.op in SOFTMAX
    return source if known and tuple(turn.attrs["axes"]) == _swapped(source) else None


def _alone(v: Value, readers: dict[Value, list[Node]]) -> Node | None:
    """What makes a value that is read once."""
    return v.producer if len(readers.get(v, ())) == 1 else None


def _swapped(v: Value) -> tuple[int, ...]:
    """Axes that turn the matrices of a value."""
    rank = len(v.shape)
    return (*range(rank - 2), rank - 1, rank - 2)


def _exchanged(node: Node, softmax: Value) -> list[Node]:
    x, name = node.inputs[0], node.output.name
    made: list[Node] = []

    def emit(op: str, inputs: list[Value], last: str, **attrs: object) -> Value:
        made.append(node_of(op, inputs, f"{name}.{last}", attrs))
        return made[-1].output

    if len(softmax.shape) != len(x.shape):
        shape = (*x.shape[:-2], *softmax.shape[-2:])
        softmax = emit("reshape", [softmax], "softmax", shape=shape)
    turned = emit("transpose", [x], "turned", axes=_swapped(x))
    product = emit(node.op, [softmax, turned], "product", **node.attrs)
    made.append(Node("transpose", node.name, [product], [node.output], {"axes": _swapped(product)}))
    return made
