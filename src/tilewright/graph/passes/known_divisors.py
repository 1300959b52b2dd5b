"""Whole numbers that others are divided by, as part of the operation.

A compiler divides by a number that it knows with a multiplication and shifts; read from memory it
takes a division, on devices one of 64 bits in a loop of its own.
"""

from __future__ import annotations

from ..ir import Graph, Node
from ..ops import node_of

DIVISIONS = ("floor_divide", "divide", "mod")


def know_divisors(graph: Graph) -> Graph:
    """Rewrite divisions of whole numbers by a constant of one element."""

    def instead(node: Node) -> list[Node] | None:
        if node.op not in DIVISIONS or "float" in node.output.dtype:
            return None
        x, by = node.inputs
        one = by.data is not None and not by.has_sizes and by.data.size == 1
        if not one or by.data is None or x.shape != node.output.shape:
            return None
        number = int(by.data.reshape(()))
        if not number:
            return None
        attrs = {"op": node.op, "number": number, "how": tuple(sorted(node.attrs.items()))}
        made = node_of("divide_by", [x], node.name, attrs)
        same = made.output.dtype == node.output.dtype
        return [Node("divide_by", node.name, [x], node.outputs, attrs)] if same else None

    return graph.rewrite(instead)
