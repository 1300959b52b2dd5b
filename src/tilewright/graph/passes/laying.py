"""Passes that lay values otherwise in memory, from where operations like it to where one does not.

A value is laid anew where an operation first needs it and laid back where something reads it that
knows plain values only; both vanish between operations that do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ..ir import Graph, Node, Value
from ..ops import ELEMWISE, OPS, node_of

Rule = Callable[[Node], bool]


class Laying(ABC):
    """One walk over a graph. `laid`: the other form of a value; `plain`: the plain form of one that
    is there in the other; `rules`: by operations, whether a node was made anew on laid values."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.laid: dict[Value, Value] = {}
        self.plain: dict[Value, Value] = {}
        self.rules: dict[str, Rule] = {"quantize": self.conversion, "dequantize": self.conversion}

    def run(self) -> Graph:
        """The graph, changed."""
        for node in self.graph.nodes:
            rule = self.rules.get(node.op, self._elementwise)
            if not rule(node):
                node.inputs = [self.plainly(v) for v in node.inputs]
                self.nodes.append(node)
        outputs = [self.plainly(v) for v in self.graph.outputs]
        for old, new in zip(self.graph.outputs, outputs):
            if new is not old:
                old.name, new.name = old.name + ".old", old.name
        self.graph.outputs = outputs
        self.graph.nodes = self.nodes
        self.graph.drop_dead_nodes()
        return self.graph

    def emit(self, op: str, inputs: list[Value], name: str, attrs: dict[str, object]) -> Value:
        """A new node's result."""
        self.nodes.append(node_of(op, inputs, name, attrs))
        return self.nodes[-1].output

    def replace(
        self, node: Node, inputs: list[Value], attrs: dict[str, object] | None = None, op: str = ""
    ) -> bool:
        """Have a node's result in the other form."""
        self.laid[node.output] = self.emit(op or node.op, inputs, node.name, attrs or node.attrs)
        return True

    def conversion(self, node: Node) -> bool:
        """A conversion with one scale for all. What fills up a form becomes whatever zero point
        there is, which is finite."""
        source, *parameters = node.inputs
        if source not in self.laid or any(v.shape for v in parameters):
            return False
        return self.replace(node, [self.laid[source], *parameters])

    def plainly(self, v: Value) -> Value:
        """The plain form of a value."""
        if v not in self.laid or v in self.plain:
            return self.plain.get(v, v)
        self.plain[v] = self._laid_back(v)
        return self.plain[v]

    def keep(self, v: Value, laid: Value) -> Value:
        """Remember the other form of a value that is there plainly too."""
        self.laid[v], self.plain[v] = laid, v
        return laid

    @abstractmethod
    def _laid_back(self, v: Value) -> Value:
        """The plain form of a value that is there in the other, by a node."""

    @abstractmethod
    def _operand(self, v: Value, shape: tuple[int, ...]) -> Value | None:
        """An operand of an element-wise operation on `shape`, for one on laid values; None where it
        would have to be laid first."""

    def _takes(self, node: Node, laid: list[Value]) -> bool:
        """Whether an element-wise operation of these inputs may be made of what is laid."""
        del node
        return bool(laid)

    def _elementwise(self, node: Node) -> bool:
        shape = node.output.shape
        if OPS[node.op].kind != ELEMWISE or "axis" in node.attrs:
            return False
        if not self._takes(node, [v for v in node.inputs if v in self.laid and v.shape == shape]):
            return False
        inputs = [self._operand(v, shape) for v in node.inputs]
        known = [v for v in inputs if v is not None]
        return len(known) == len(inputs) and self.replace(node, known)
