"""Convolutions whose filters are as large as the image, as products.

Such a convolution has one place to be at: the channels that a squeeze-and-excitation block weighs,
and classifiers that are written as convolutions. As one, it would have a thread or a few sum up all
channels; as a product of the batch and the filters it has the schedules of those, which cut sums.
"""

from __future__ import annotations

from math import prod

from ..ir import Graph, Node, Value, constant
from ..ops import node_of
from ..shapes import is_open


def multiply_whole_images(graph: Graph, batches: bool = True) -> Graph:
    """Rewrite them, and the biases behind them; those of several images if `batches`, which devices
    compute in small tiles of no more threads where they have no instructions for products."""
    readers, outputs = graph.consumers(), set(graph.outputs)

    def alone(v: Value) -> Node | None:
        """The one reader of a value."""
        found = readers.get(v, ())
        return found[0] if len(found) == 1 and v not in outputs else None

    def instead(node: Node) -> list[Node] | None:
        if _is_whole(node, batches):
            reader = alone(node.output)
            biased = reader is not None and _is_bias(reader)
            return None if biased else _product(node, None)
        conv = node.inputs[0].producer if _is_bias(node) else None
        if conv is None or not _is_whole(conv, batches) or alone(conv.output) is not node:
            return None
        return _product(conv, node)

    return graph.rewrite(instead)


def _is_bias(node: Node) -> bool:
    return node.op == "bias_add" and node.attrs["axis"] == 1


def _is_whole(node: Node, batches: bool) -> bool:
    """Whether a node is a convolution that has one place in its image."""
    if node.op != "conv2d" or node.attrs["groups"] != 1 or len(node.inputs) != 2:
        return False
    data, kernel = node.inputs
    if kernel.data is None or is_open(data.shape) or 0 in data.shape:
        return False
    if data.shape[0] > 1 and not batches:
        return False
    same = data.shape[2:] == kernel.shape[2:] and not any(node.attrs["padding"])
    return same and prod(node.output.shape[2:]) == 1 and "float" in node.output.dtype


def _product(conv: Node, bias: Node | None) -> list[Node]:
    """The product in the place of a convolution and its bias."""
    (data, kernel), end = conv.inputs, bias or conv
    assert kernel.data is not None
    filters, depth = kernel.shape[0], prod(kernel.shape[1:])
    weights = constant(kernel.name + ".matrix", kernel.data.reshape(filters, depth))
    shape = {"shape": (data.shape[0], depth)}
    flat = node_of("reshape", [data], conv.name + ".rows", shape)
    kept = {"out_dtype"} & set(conv.attrs)
    attrs = {name: conv.attrs[name] for name in kept}
    made = [flat, node_of("dense", [flat.output, weights], conv.name, attrs)]
    if bias is not None:
        inputs = [made[-1].output, bias.inputs[1]]
        made.append(node_of("bias_add", inputs, bias.name, bias.attrs))
    back = {"shape": end.output.shape}
    return [*made, Node("reshape", end.name + ".image", [made[-1].output], end.outputs, back)]
