"""Compute a network's values in float16 or bfloat16 in float32.

A CPU converts such numbers whenever it computes with them, so that keeping values between kernels
in them would only round each one more. What stays narrow is what was: inputs, weights, what moves
their elements, and what the network itself converts to a narrow type (casts with the attribute
`rounds`). Outputs keep their types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..evaluate import evaluate
from ..ir import Graph, Node, Value, constant
from ..ops import OPS
from ..ops.spec import BITS, MOVED, PRODUCT
from .narrow_floats import rounded
from .two_forms import TwoForms

WIDE_TYPE = "float32"


def widen_floats(graph: Graph, types: Collection[str]) -> Graph:
    """Compute what is of one of the narrow `types` in float32, and round outputs alone."""
    return _Widen(graph, types).run()


def narrow_weights(graph: Graph, dtype: str) -> Graph:
    """Store float32 weights of products and tables in `dtype`, "float16" or "bfloat16", from which
    kernels convert them; all else stays. CompileError where a weight does not fit it."""
    narrow: dict[Value, Value] = {}

    def instead(node: Node) -> list[Node] | None:
        place = _weight_of(node)
        weight = None if place is None else node.inputs[place]
        if place is None or weight is None or weight.data is None or weight.dtype != WIDE_TYPE:
            return None
        if weight not in narrow:
            narrow[weight] = constant(weight.name, rounded(weight, dtype))
        node.inputs[place] = narrow[weight]
        if node.op != "take":  # which gives what it reads
            return None
        taken = Value(f"{node.name}.{dtype}", node.output.shape, dtype)
        wide = Node("cast", f"{node.name}.wide", [taken], node.outputs, {"dtype": WIDE_TYPE})
        node.outputs, taken.producer = [taken], node
        return [node, wide]

    return graph.rewrite(instead)


def _weight_of(node: Node) -> int | None:
    """Which input of a node is a weight, or a table of which it takes a part."""
    if OPS[node.op].precision == PRODUCT:
        return 1
    return 0 if node.op == "take" else None


def _is_stored(v: Value) -> bool:
    """Whether a value is a constant that stands in the file, or whose elements do."""
    return v.is_constant and (v.recipe is None or OPS[v.recipe.op].precision == BITS)


class _Widen(TwoForms):
    """What was never rounded has no narrow form until something needs it."""

    def __init__(self, graph: Graph, types: Collection[str]) -> None:
        super().__init__(graph, types)
        self.narrow.update({v: v for v in graph.inputs if v.dtype in types})

    def run(self) -> Graph:
        values = [*self.graph.inputs, *(v for n in self.graph.nodes for v in n.outputs)]
        return super().run() if any(v.dtype in self.types for v in values) else self.graph

    def convert(self, node: Node) -> None:
        if self._stays(node):
            node.inputs = [self.as_was(v) for v in node.inputs]
            self.nodes.append(node)
            self.narrow.update({v: v for v in node.outputs if v.dtype in self.types})
            return
        weight = _weight_of(node)
        inputs = [
            v if k == weight and _is_stored(v) else self._as_wide(v)
            for k, v in enumerate(node.inputs)
        ]
        if node.output.dtype not in self.types or node.attrs.get("rounds"):
            node.inputs = inputs  # the file asks for this type
            self.nodes.append(node)
            self.narrow.update({v: v for v in node.outputs if v.dtype in self.types})
            return
        out = self.emit(node.op, inputs, node.name, self._in_wide(node.attrs))
        (self.narrow if out.dtype in self.types else self.wide)[node.output] = out

    def _stays(self, node: Node) -> bool:
        """Whether a node takes narrow values as they are: it reads their bits, or moves those that
        have been rounded anyway."""
        kind = OPS[node.op].precision
        known = all(v.is_constant or v in self.narrow for v in node.inputs if v.dtype in self.types)
        return kind == BITS or len(node.outputs) != 1 or (kind == MOVED and known)

    def _as_wide(self, v: Value) -> Value:
        """The float32 form of a narrow value; other values as they are."""
        if v.dtype not in self.types:
            return v
        if v not in self.wide:
            if v.data is not None:
                self._compute(v)
            else:
                self.wide[v] = self.emit(
                    "cast", [self.narrow[v]], f"{v.name}.wide", {"dtype": WIDE_TYPE}
                )
        return self.wide[v]

    def _compute(self, v: Value) -> None:
        """The float32 form of a constant, where it was computed without rounding in between."""
        todo = [v]
        while todo:
            u = todo[-1]
            recipe = None if _is_stored(u) else u.recipe
            before = [] if recipe is None else recipe.inputs
            missing = [x for x in before if x.dtype in self.types and x not in self.wide]
            if missing:
                todo += missing
                continue
            todo.pop()
            if recipe is None:
                data = np.asarray(u.data).astype(WIDE_TYPE)
            else:
                inputs = [self.wide.get(x, x) for x in before]
                data = evaluate(recipe.op, inputs, self._in_wide(recipe.attrs))
            self.wide[u] = constant(u.name, data)

    def _in_wide(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes, of which those that name a narrow type of the result name float32."""
        named = ("dtype", "out_dtype")
        return {k: WIDE_TYPE if k in named and x in self.types else x for k, x in attrs.items()}

    def as_was(self, v: Value) -> Value:
        """The form of a narrow value in its own type; other values as they are."""
        if v.dtype not in self.types or v.data is not None:
            return v
        if v not in self.narrow:
            name, attrs = f"{v.name}.narrow", {"dtype": v.dtype}
            self.narrow[v] = self.emit("cast", [self.wide[v]], name, attrs)
        return self.narrow[v]
