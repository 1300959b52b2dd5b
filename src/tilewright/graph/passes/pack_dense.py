"""Store the weights of dense layers in blocks of columns, so that vectors run over outputs."""

from __future__ import annotations

from ..evaluate import evaluate
from ..ir import Graph, Node, Value, constant
from ..ops import infer
from .block_channels import in_whole_blocks


def pack_dense(graph: Graph, block: int) -> Graph:
    """Rewrite dense layers with constant weights; columns are padded to a multiple of `block`."""
    nodes: list[Node] = []
    for node in graph.nodes:
        weight = node.inputs[1] if node.op == "dense" else None
        if weight is None or weight.data is None:
            nodes.append(node)
            continue
        n = weight.shape[0]
        padded = in_whole_blocks(weight.data, 0, block)
        attrs = {"block": block}
        packed = constant(
            weight.name + ".packed", evaluate("pack_dense", [constant("w", padded)], attrs)
        )
        previous: list[Value] = [node.inputs[0], packed]
        shape, dtype = infer("dense_packed", previous, node.attrs)
        out = Value(node.name + ".blocks", shape, dtype)
        nodes.append(Node("dense_packed", node.name, previous, [out], node.attrs))
        rows, columns = shape[0], shape[1] * shape[2]
        if columns == n:
            nodes.append(
                Node("reshape", node.name + ".flat", [out], node.outputs, {"shape": (rows, n)})
            )
            continue
        flat = Value(node.name + ".padded", (rows, columns), dtype)
        nodes.append(Node("reshape", flat.name, [out], [flat], {"shape": (rows, columns)}))
        cut = {"begin": [0, 0], "end": [rows, n], "strides": [1, 1]}
        nodes.append(Node("slice", node.name + ".cut", [flat], node.outputs, cut))
    graph.nodes = nodes
    return graph
