"""Fold constants and batch norms, and drop what computes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..evaluate import evaluate, is_quick
from ..ir import Graph, Node, Value, constant
from ..ops import frozen, node_of
from ..shapes import is_open, symbols_in


def fold_constants(graph: Graph) -> Graph:
    """Compute nodes whose inputs are all known, except outputs of the graph."""

    def known(node: Node) -> Value | None:
        if not node.inputs or not all(v.is_constant for v in node.inputs):
            return None
        if is_open(node.output.shape) or symbols_in(list(node.attrs.values())):
            return None
        if not is_quick(node.op, node.inputs, node.attrs):
            return None
        return constant(node.output.name, evaluate(node.op, node.inputs, node.attrs))

    graph.replace_nodes(known)
    return graph


def merge_equal(graph: Graph) -> Graph:
    """Compute once what several nodes compute alike: the same operation on the same values."""
    known: dict[Any, Value] = {}
    outputs = set(graph.outputs)

    def computed(node: Node) -> Value | None:
        if len(node.outputs) != 1 or node.output in outputs:
            return None
        attrs = tuple((k, frozen(v)) for k, v in sorted(node.attrs.items()))
        try:
            before = known.setdefault((node.op, tuple(node.inputs), attrs), node.output)
        except TypeError:  # an attribute that is no plain value
            return None
        return None if before is node.output else before

    graph.replace_nodes(computed)
    return graph


def fold_batch_norm(graph: Graph) -> Graph:
    """Move a scale and shift behind a convolution or dense layer into its weights and a bias.

    conv(x, w) + b, then * s + t, is conv(x, w * s) + (b * s + t). Weights in fewer bits than the
    scale stay as they are: it would round each of them anew.
    """
    readers = graph.consumers()
    outputs = set(graph.outputs)

    def alone(node: Node) -> bool:
        """Whether one node reads the output of `node`, and nothing else does."""
        return len(readers.get(node.output, ())) == 1 and node.output not in outputs

    for node in graph.nodes:
        if node.op != "scale_shift" or not all(v.is_constant for v in node.inputs[1:]):
            continue
        source = node.inputs[0].producer
        bias: Value | None = None
        before = source
        if source is not None and source.op == "bias_add" and alone(source):
            bias = source.inputs[1]
            before = source.inputs[0].producer
        if before is None or before.op != "conv2d" or not alone(before):
            continue
        weight = before.inputs[1]
        scale, shift = node.inputs[1].data, node.inputs[2].data
        if weight.data is None or scale is None or shift is None:
            continue
        if weight.dtype != node.inputs[1].dtype:
            continue
        if bias is not None and bias.data is None:
            continue
        old = np.zeros_like(shift) if bias is None or bias.data is None else bias.data
        folded = weight.data * scale.reshape(-1, 1, 1, 1)
        before.inputs[1] = constant(weight.name + ".scaled", folded.astype(weight.dtype))
        node.inputs = [before.output, constant(node.name + ".bias", old * scale + shift)]
        node.op, node.attrs = "bias_add", {"axis": 1}
    graph.drop_dead_nodes()
    return graph


def multiply_powers(graph: Graph) -> Graph:
    """Squares and cubes as products; what erf is taken of multiplied where it was divided."""

    def instead(node: Node) -> list[Node] | None:
        power = _number(node.inputs[1]) if node.op == "power" else None
        x = node.inputs[0] if node.inputs else None
        same = x is not None and (x.shape, x.dtype) == (node.output.shape, node.output.dtype)
        if x is None or not same or power not in (2, 3) or not _is_float(x):
            return None
        if power == 2:
            return [Node("multiply", node.name, [x, x], node.outputs)]
        square = node_of("multiply", [x, x], node.name, {}, node.output.name + ".2")
        cube = Node("multiply", node.name + ".3", [square.output, x], node.outputs)
        return [square, cube]

    graph.rewrite(instead)
    readers, outputs = graph.consumers(), set(graph.outputs)
    for node in graph.nodes:
        by = _number(node.inputs[1]) if node.op == "divide" else None
        known = {reader.op for reader in readers.get(node.output, ())}
        if by and known == {"erf"} and node.output not in outputs and _is_float(node.output):
            inverse = np.asarray(1 / by, np.asarray(node.inputs[1].data).dtype)
            node.op = "multiply"
            node.inputs[1] = constant(node.inputs[1].name + ".inverse", inverse)
    return graph


def quantize_by_reciprocals(graph: Graph) -> Graph:
    """Have conversions to whole numbers multiply by the reciprocal of their scale, where that is
    one number from which no quotient of a float in the range of the result goes over or under: a
    vector division takes as long as twenty products. For targets that have fma."""
    for node in graph.nodes:
        if node.op == "quantize" and node.attrs["precision"] == "float32":
            scale = None if node.inputs[1].shape else _number(node.inputs[1])
            narrow = node.attrs["dtype"] in ("int8", "uint8", "int16", "uint16")
            if scale is not None and narrow and 2.0**-100 <= scale <= 2.0**100:
                node.attrs = {**node.attrs, "by_reciprocal": True}
    return graph


def _number(v: Value) -> float | None:
    """The one element of a constant."""
    return float(v.data.reshape(())) if v.data is not None and v.data.size == 1 else None


def _is_float(v: Value) -> bool:
    return v.dtype in ("float32", "float64")


def drop_identities(graph: Graph) -> Graph:
    """Remove reshapes to the same shape, transposes that move nothing, casts to the same type."""
    outputs = set(graph.outputs)

    def source_of(node: Node) -> Value | None:
        source = node.inputs[0] if node.inputs else None
        if source is None or not _is_identity(node, source):
            return None
        if node.output in outputs and source.producer is None:
            return None  # an input that is an output must be copied
        return source

    graph.replace_nodes(source_of)
    return graph


def _is_identity(node: Node, source: Value) -> bool:
    same = source.shape == node.output.shape and source.dtype == node.output.dtype
    if node.op in ("reshape", "cast"):
        return same
    if node.op == "transpose":
        return list(node.attrs["axes"]) == list(range(len(source.shape)))
    return False
