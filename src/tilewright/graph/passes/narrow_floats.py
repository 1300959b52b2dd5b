"""Keep a network's values in float16 or bfloat16.

Weights and what flows between kernels take half the memory; on machines that compute with such
numbers the work is done in them too. Inputs and outputs of the network keep their types. What each
operation asks for stands in its row (`OpSpec.precision`): products are summed in `accumulate`, and
what a type has too small a range or too few digits for is done in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtype import parse
from ...base.errors import CompileError
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, OPS
from ..ops.spec import INSIDE, PRODUCT, WIDE
from .two_forms import TwoForms


def narrow_floats(graph: Graph, dtype: str = "float16", accumulate: str = "float32") -> Graph:
    """Convert float32 values to `dtype`, "float16" or "bfloat16". CompileError where a weight does
    not fit it."""
    return _Narrow(graph, dtype, accumulate).run()


class _Narrow(TwoForms):
    """What products and the element-wise nodes after them give is rounded once, where something
    else needs it."""

    def __init__(self, graph: Graph, dtype: str, accumulate: str) -> None:
        super().__init__(graph, ("float32",))
        self.dtype, self.accumulate = dtype, accumulate
        self.wide.update({v: v for v in graph.inputs})
        readers = graph.consumers()
        self.single = {v for v, nodes in readers.items() if len(nodes) == 1}
        self.single.difference_update(graph.outputs)

    def convert(self, node: Node) -> None:
        attrs = dict(node.attrs)
        in_wide = self._is_wide(node.op) or len(node.outputs) != 1 or self._continues(node)
        inputs = [self.as_was(v) if in_wide else self._as_narrow(v) for v in node.inputs]
        if not in_wide and node.op == "cast" and attrs["dtype"] == "float32":
            attrs["dtype"] = self.dtype
        if not in_wide and OPS[node.op].precision == PRODUCT:
            attrs["out_dtype"] = self.accumulate
        if node.output.dtype != "float32" or len(node.outputs) != 1:
            node.inputs, node.attrs = inputs, attrs
            self.nodes.append(node)
            self.wide.update({v: v for v in node.outputs})
            return
        result = self.emit(node.op, inputs, node.name, attrs)
        (self.narrow if result.dtype == self.dtype else self.wide)[node.output] = result
        if result.dtype != self.dtype and node.output not in self.single:
            self._as_narrow(node.output)
            if not self._is_wide(node.op):
                del self.wide[node.output]

    def _is_wide(self, op: str) -> bool:
        """Whether an operation is done in float32; float16 has too small a range for the results
        of what sums in float32 by itself."""
        kind = OPS[op].precision
        return kind == WIDE or (kind == INSIDE and self.dtype == "float16")

    def _continues(self, node: Node) -> bool:
        """Whether a node goes on, element by element, with a value not rounded yet."""
        elementwise = OPS[node.op].kind == ELEMWISE or node.op == "reshape"
        return elementwise and any(
            v in self.wide and v not in self.narrow and v.producer is not None for v in node.inputs
        )

    def _as_narrow(self, v: Value) -> Value:
        """The narrow form of a float32 value; other values as they are."""
        if v.dtype != "float32":
            return v
        if v not in self.narrow:
            if v.data is not None:
                self.narrow[v] = constant(v.name, rounded(v, self.dtype))
            else:
                name = f"{v.name}.narrow"
                self.narrow[v] = self.emit("cast", [self.wide[v]], name, {"dtype": self.dtype})
        return self.narrow[v]

    def as_was(self, v: Value) -> Value:
        """The float32 form of a value."""
        if v.dtype != "float32" or v.data is not None:
            return v
        if v not in self.wide:
            name = f"{v.name}.wide"
            self.wide[v] = self.emit("cast", [self.narrow[v]], name, {"dtype": "float32"})
        return self.wide[v]


def rounded(v: Value, dtype: str) -> np.ndarray[Any, Any]:
    """A constant in a narrow type. Its last numbers stand for the last ones of float32, with which
    masks are made, and, of bfloat16, for those that are rounded beyond it."""
    assert v.data is not None
    with np.errstate(over="ignore"):
        data = v.data.astype(parse(dtype).numpy)
    lost = np.isinf(data.astype("float32")) & np.isfinite(v.data)
    if lost.any():
        worst = float(np.abs(v.data[lost]).min())
        if dtype == "float16" and worst < np.finfo("float32").max:
            raise CompileError(
                f"constant {v.name} holds {worst:g}, which float16 cannot (65504 at most); compile "
                "the network in float32"
            )
        most = np.array(_MOST[dtype], "float32").astype(data.dtype)
        return np.where(lost, np.where(v.data < 0, -most, most), data)
    return data


_MOST = {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120}
