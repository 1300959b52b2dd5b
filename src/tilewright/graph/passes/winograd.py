"""Winograd's minimal filtering (topi/nn/winograd.py) for convolutions that it makes faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...topi.nn.winograd import TAPS, best_tile, winograd_kernel
from ..ir import Graph, Node, Value, constant
from ..ops import infer
from ..sizes import is_open


def winograd(graph: Graph) -> Graph:
    """Rewrite blocked float32 convolutions with constant 3x3 filters and stride 1."""
    nodes: list[Node] = []
    for node in graph.nodes:
        tile = choose_tile(node) if _is_eligible(node) else 0
        nodes.extend(_three(node, tile) if tile else [node])
    graph.nodes = nodes
    return graph


def _is_eligible(node: Node) -> bool:
    if node.op != "conv2d_nchwc":
        return False
    data, kernel = node.inputs
    same = data.shape[-1] == kernel.shape[-1]
    plain = tuple(node.attrs["strides"]) == tuple(node.attrs["dilation"]) == (1, 1)
    square = tuple(kernel.shape[2:4]) == (TAPS, TAPS)
    floats = data.dtype == kernel.dtype == node.output.dtype == "float32"
    known = kernel.data is not None and not is_open(data.shape)  # tiles are counted
    return known and same and plain and square and floats


def choose_tile(node: Node) -> int:
    """Outputs along a side of a tile, 0 for the direct convolution."""
    out = node.output.shape
    return best_tile(out[0], (out[2], out[3]), *_channels(node))


def _channels(node: Node) -> tuple[int, int]:
    data, out = node.inputs[0].shape, node.output.shape
    return data[1] * data[-1], out[1] * out[-1]


def _three(node: Node, tile: int) -> list[Node]:
    """The nodes that take the place of a convolution; the last has its output."""
    data, kernel = node.inputs
    filters, channels, _, _, inner, outer = kernel.shape
    assert kernel.data is not None
    plain = kernel.data.transpose(0, 5, 1, 4, 2, 3)
    plain = plain.reshape(filters * outer, channels * inner, TAPS, TAPS)
    weights = constant(kernel.name + ".winograd", winograd_kernel(plain, tile, inner))
    nodes: list[Node] = []

    def add(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Value:
        name = f"{node.name}.{op.split('_')[1]}"
        shape, dtype = infer(op, inputs, attrs)
        out = Value(name, shape, dtype)
        nodes.append(Node(op, name, list(inputs), [out], dict(attrs)))
        return out

    moved = add("winograd_input", [data], {"tile": tile, "padding": node.attrs["padding"]})
    product = add("winograd_product", [moved, weights], {})
    image = node.output.shape
    attrs = {"tile": tile, "batch": image[0], "size": tuple(image[2:4])}
    nodes.append(Node("winograd_output", node.name, [product], node.outputs, attrs))
    return nodes
