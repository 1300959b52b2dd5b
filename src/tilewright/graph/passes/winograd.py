"""Winograd's minimal filtering (topi/nn/winograd.py) for convolutions that it makes faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...topi.nn.winograd import TAPS, best_tile, winograd_kernel
from ..ir import Graph, Node, Value, constant
from ..ops import node_of
from ..shapes import is_open

_STEPS = ("padding", "strides", "dilation")


def winograd(graph: Graph) -> Graph:
    """Rewrite blocked float32 convolutions with constant 3x3 filters and stride 1; of those over
    more than two dimensions, such filters and strides in the last two."""

    def instead(node: Node) -> list[Node] | None:
        tile = choose_tile(node) if _is_eligible(node) else 0
        return _three(node, tile) if tile else None

    return graph.rewrite(instead)


def _is_eligible(node: Node) -> bool:
    if node.op != "conv_nchwc" or node.attrs.get("groups", 1) > 1:
        return False
    data, kernel = node.inputs
    rank = len(node.attrs["strides"])
    same = data.shape[-1] == kernel.shape[-1] and rank >= 2
    plain = tuple(node.attrs["strides"][-2:]) == tuple(node.attrs["dilation"][-2:]) == (1, 1)
    square = tuple(kernel.shape[rank : 2 + rank]) == (TAPS, TAPS)
    floats = data.dtype == kernel.dtype == node.output.dtype == "float32"
    known = kernel.data is not None and not is_open(data.shape)  # tiles are counted
    return known and same and plain and square and floats


def choose_tile(node: Node) -> int:
    """Outputs along a side of a tile, 0 for the direct convolution."""
    data, kernel = node.inputs
    _, blocks, *depth, height, width, block = node.output.shape
    channels, filters = data.shape[1] * data.shape[-1], blocks * block
    images = node.output.shape[0] * prod(depth)
    window = kernel.shape[2 : 2 + len(depth)]
    frames = prod(
        sum(0 <= o * s + k * d - p < n for o in range(out) for k in range(taps)) / out
        for n, out, taps, p, s, d in zip(
            data.shape[2:], depth, window, *(node.attrs[k] for k in _STEPS)
        )
    )
    how = {"depth": prod(window), "frames": frames}
    return best_tile(images, (height, width), channels, filters, **how)


def _three(node: Node, tile: int) -> list[Node]:
    """The nodes that take the place of a convolution; the last has its output."""
    data, kernel = node.inputs
    filters, channels, *window, inner, outer = kernel.shape
    assert kernel.data is not None
    rank = len(window)
    plain = np.moveaxis(kernel.data, (-1, -2), (1, 3))
    plain = plain.reshape(filters * outer, channels * inner, *window)
    weights = constant(kernel.name + ".winograd", winograd_kernel(plain, tile, inner))
    nodes: list[Node] = []

    def add(op: str, inputs: Sequence[Value], attrs: Mapping[str, Any]) -> Value:
        name = f"{node.name}.{op.split('_')[1]}"
        nodes.append(node_of(op, inputs, name, attrs))
        return nodes[-1].output

    pads = node.attrs["padding"]
    plane = {"tile": tile, "padding": (*pads[rank - 2 : rank], *pads[2 * rank - 2 :])}
    depth = {
        "strides": node.attrs["strides"][: rank - 2],
        "padding": (*pads[: rank - 2], *pads[rank : 2 * rank - 2]),
        "dilation": node.attrs["dilation"][: rank - 2],
    }
    moved = add("winograd_input", [data], plane)
    product = add("winograd_product", [moved, weights], depth)
    image = node.output.shape
    attrs = {"tile": tile, "batch": image[0], "size": tuple(image[rank : 2 + rank])}
    nodes.append(Node("winograd_output", node.name, [product], node.outputs, attrs))
    return nodes
