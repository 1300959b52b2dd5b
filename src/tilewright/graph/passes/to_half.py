"""Keep a network's values in float16.

Weights and what flows between kernels take half the memory; on devices with half arithmetic the
work is done in it too. Inputs and outputs of the network keep their types. Products and sums of
convolutions and dense layers are taken in `accumulate`; what float16 has too small a range for
(exponentials, powers, means over images, softmax) is done in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import CompileError
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, OPS, infer

_PRODUCTS = frozenset(("conv2d", "dense", "matmul", "batch_matmul"))
_WIDE = frozenset(
    ("softmax", "log_softmax", "reduce", "global_pool", "exp", "log", "power", "erf", "divide")
)


def to_half(graph: Graph, accumulate: str = "float32") -> Graph:
    """Convert float32 values to float16. CompileError where a weight does not fit float16."""
    return _ToHalf(graph, accumulate).run()


class _ToHalf:
    """`half` and `wide` hold the two forms of a value that exist so far. What products and the
    element-wise nodes after them give is rounded once, where something else needs it."""

    def __init__(self, graph: Graph, accumulate: str) -> None:
        self.graph = graph
        self.accumulate = accumulate
        self.nodes: list[Node] = []
        self.half: dict[Value, Value] = {}
        self.wide: dict[Value, Value] = {v: v for v in graph.inputs}
        readers = graph.consumers()
        self.single = {v for v, nodes in readers.items() if len(nodes) == 1}
        self.single.difference_update(graph.outputs)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if any(v.dtype == "float32" for v in (*node.inputs, *node.outputs)):
                self._convert(node)
            else:
                self.nodes.append(node)
        self.graph.outputs = [self._output(v) for v in self.graph.outputs]
        self.graph.nodes = self.nodes
        self.graph.drop_dead_nodes()
        return self.graph

    def _output(self, v: Value) -> Value:
        if v.dtype != "float32" or v.is_constant or v.producer is None:
            return v
        out = self._as_wide(v)
        name, v.name = v.name, f"{v.name}.old"
        out.name = name
        return out

    def _convert(self, node: Node) -> None:
        attrs = dict(node.attrs)
        in_wide = node.op in _WIDE or len(node.outputs) != 1 or self._continues(node)
        inputs = [self._as_wide(v) if in_wide else self._as_half(v) for v in node.inputs]
        if not in_wide and node.op == "cast" and attrs["dtype"] == "float32":
            attrs["dtype"] = "float16"
        if not in_wide and node.op in _PRODUCTS:
            attrs["out_dtype"] = self.accumulate
        if node.output.dtype != "float32" or len(node.outputs) != 1:
            node.inputs, node.attrs = inputs, attrs
            self.nodes.append(node)
            self.wide.update({v: v for v in node.outputs})
            return
        result = self._emit(node.op, inputs, node.name, attrs)
        (self.half if result.dtype == "float16" else self.wide)[node.output] = result
        if result.dtype != "float16" and node.output not in self.single:
            self._as_half(node.output)
            if node.op not in _WIDE:
                del self.wide[node.output]

    def _continues(self, node: Node) -> bool:
        """Whether an element-wise node goes on with a value that has not been rounded yet."""
        return OPS[node.op].kind == ELEMWISE and any(
            v in self.wide and v not in self.half and v.producer is not None for v in node.inputs
        )

    def _emit(self, op: str, inputs: list[Value], name: str, attrs: dict[str, object]) -> Value:
        shape, dtype = infer(op, inputs, attrs)
        out = Value(f"{name}.{dtype}", shape, dtype)
        self.nodes.append(Node(op, name, inputs, [out], attrs))
        return out

    def _as_half(self, v: Value) -> Value:
        """The float16 form of a float32 value; other values as they are."""
        if v.dtype != "float32":
            return v
        if v not in self.half:
            if v.data is not None:
                self.half[v] = constant(v.name, _rounded(v))
            else:
                name = f"{v.name}.half"
                self.half[v] = self._emit("cast", [self.wide[v]], name, {"dtype": "float16"})
        return self.half[v]

    def _as_wide(self, v: Value) -> Value:
        """The float32 form of a value."""
        if v.dtype != "float32" or v.data is not None:
            return v
        if v not in self.wide:
            name = f"{v.name}.wide"
            self.wide[v] = self._emit("cast", [self.half[v]], name, {"dtype": "float32"})
        return self.wide[v]


def _rounded(v: Value) -> np.ndarray[Any, Any]:
    assert v.data is not None
    with np.errstate(over="ignore"):
        data = v.data.astype(np.float16)
    lost = np.isinf(data) & np.isfinite(v.data)
    if lost.any():
        worst = float(np.abs(v.data[lost]).max())
        raise CompileError(
            f"constant {v.name} holds {worst:g}, which float16 cannot (65504 at most); compile the "
            "network in float32"
        )
    return data
