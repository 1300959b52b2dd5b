"""Store the weights of dense layers in blocks of columns, so that vectors run over outputs."""

from __future__ import annotations

from ..evaluate import evaluate
from ..ir import Graph, Node, constant
from ..ops import node_of
from .block_channels import in_whole_blocks


def pack_dense(graph: Graph, block: int) -> Graph:
    """Rewrite dense layers with constant weights; columns are padded to a multiple of `block`."""

    def instead(node: Node) -> list[Node] | None:
        weight = node.inputs[1] if node.op == "dense" else None
        if weight is None or weight.data is None:
            return None
        n = weight.shape[0]
        padded = in_whole_blocks(weight.data, 0, block)
        attrs = {"block": block}
        packed = constant(
            weight.name + ".packed", evaluate("pack_dense", [constant("w", padded)], attrs)
        )
        reads = [node.inputs[0], packed]
        product = node_of("dense_packed", reads, node.name, node.attrs, node.name + ".blocks")
        out = product.output
        rows, columns = out.shape[0], out.shape[1] * out.shape[2]
        shape = {"shape": (rows, columns)}
        if columns == n:
            return [product, Node("reshape", node.name + ".flat", [out], node.outputs, shape)]
        flat = node_of("reshape", [out], node.name + ".padded", shape)
        cut = {"begin": [0, 0], "end": [rows, n], "strides": [1, 1]}
        last = Node("slice", node.name + ".cut", [flat.output], node.outputs, cut)
        return [product, flat, last]

    return graph.rewrite(instead)
