"""What passes share that compute a network in another type than its values have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from ..ir import Graph, Node, Value
from ..ops import node_of


class TwoForms(ABC):
    """Rewrites the nodes that read or make values of some `types`, whose two forms, `narrow` and
    `wide`, are kept as far as they exist. Outputs keep their types and names."""

    def __init__(self, graph: Graph, types: Collection[str]) -> None:
        self.graph, self.types = graph, types
        self.nodes: list[Node] = []
        self.narrow: dict[Value, Value] = {}
        self.wide: dict[Value, Value] = {}

    @abstractmethod
    def convert(self, node: Node) -> None:
        """Add what takes the place of a node."""

    @abstractmethod
    def as_was(self, v: Value) -> Value:
        """The form of a value in its own type."""

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if any(v.dtype in self.types for v in (*node.inputs, *node.outputs)):
                self.convert(node)
            else:
                self.nodes.append(node)
        self.graph.outputs = [self._output(v) for v in self.graph.outputs]
        self.graph.nodes = self.nodes
        self.graph.drop_dead_nodes()
        return self.graph

    def _output(self, v: Value) -> Value:
        if v.dtype not in self.types or v.is_constant or v.producer is None:
            return v
        out = self.as_was(v)
        if out is not v:
            out.name, v.name = v.name, f"{v.name}.old"
        return out

    def emit(self, op: str, inputs: list[Value], name: str, attrs: dict[str, Any]) -> Value:
        """A new node, its output named after its type."""
        node = node_of(op, inputs, name, attrs)
        node.output.name = f"{name}.{node.output.dtype}"
        self.nodes.append(node)
        return node.output
