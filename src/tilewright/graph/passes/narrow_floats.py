"""Keep a network's values in float16 or bfloat16.

Weights and what flows between kernels take half the memory; on machines that compute with such
numbers the work is done in them too. What each operation asks for stands in its row
(`OpSpec.precision`): products are summed in `accumulate`, and what a type has too small a range or
too few digits for is done in float32.

Values stay in float32 (they are *kept*) that nobody has rounded: inputs, numbers made of integers,
what a node says to convert to float32, and what is computed and moved from such values alone, up to
the first product. So places and angles, masks and scales of quantised sums have all their digits.
What decides which elements are chosen, and outputs, are not rounded for nothing either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtype import parse
from ...base.errors import CompileError
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, INJECTIVE, OPS
from ..ops.spec import INSIDE, MOVED, ORDER, PRODUCT, WIDE
from .two_forms import TwoForms

_MASKS = {"attention": 3}  # the first input that may be a mask, which is read in any type


def narrow_floats(graph: Graph, dtype: str = "float16", accumulate: str = "float32") -> Graph:
    """Convert float32 values to `dtype`, "float16" or "bfloat16". CompileError where a weight does
    not fit it."""
    return _Narrow(graph, dtype, accumulate).run()


class _Narrow(TwoForms):
    """What products and the element-wise nodes after them give is rounded once, where something
    else needs it.

    `kept`: values whose float32 form counts; `far`: those computed in float32 that constants beyond
    the narrow type's range went into. `wanted`: values that should not be rounded. `behind`:
    unrounded ones that go on from a product or a sum.
    """

    def __init__(self, graph: Graph, dtype: str, accumulate: str) -> None:
        super().__init__(graph, ("float32",))
        self.dtype, self.accumulate = dtype, accumulate
        self.most = _MOST[dtype]
        self.wide.update({v: v for v in graph.inputs})
        self.kept = {v for v in graph.inputs if v.dtype == "float32"}
        self.far: set[Value] = set()
        self.behind: set[Value] = set()
        self.readers = graph.consumers()
        self.single = {v for v, nodes in self.readers.items() if len(nodes) == 1}
        self.single.difference_update(graph.outputs)
        self.wanted = self._wanted()

    def _wanted(self) -> set[Value]:
        """What is chosen by, and what becomes an output alone; also before it is moved."""
        found = {v for v in self.graph.outputs if not self.readers.get(v)}
        for node in reversed(self.graph.nodes):
            kind = OPS[node.op].precision
            if kind == ORDER:
                found.update(node.inputs)
            elif kind == MOVED and node.outputs[0] in found:
                found.update(v for v in node.inputs if v in self.single)
        return found

    def convert(self, node: Node) -> None:
        attrs = dict(node.attrs)
        kept = self._is_kept(node)
        in_wide = kept or self._is_in_wide(node)
        inputs = self._unrounded(node) if in_wide else self._rounded(node)
        if not in_wide and OPS[node.op].precision == PRODUCT:
            attrs["out_dtype"] = self.accumulate
        if node.output.dtype != "float32" or len(node.outputs) != 1:
            node.inputs, node.attrs = inputs, attrs
            self.nodes.append(node)
            self.wide.update({v: v for v in node.outputs})
            return
        out = node.output
        result = self.emit(node.op, inputs, node.name, attrs)
        (self.narrow if result.dtype == self.dtype else self.wide)[out] = result
        if result.dtype == self.dtype:
            return
        if any(self._is_far(v) for v in node.inputs):
            self.far.add(out)
        if kept or out in self.wanted:
            self.kept.add(out)
        elif out in self.single:
            if OPS[node.op].kind != ELEMWISE or any(v in self.behind for v in node.inputs):
                self.behind.add(out)
        elif self.readers.get(out):
            self._as_narrow(out)
            if not self._is_wide(node) and out not in self.graph.outputs:
                del self.wide[out]

    def _is_kept(self, node: Node) -> bool:
        """Whether what a node gives stays in float32 because nothing that it reads was rounded."""
        row = OPS[node.op]
        if node.op == "cast":
            (source,) = node.inputs
            return source.dtype != "float32" or source in self.kept
        if row.precision == PRODUCT or not (row.precision or row.kind in (ELEMWISE, INJECTIVE)):
            return False
        flowing = [v for v in node.inputs if not v.is_constant]
        floats = [v for v in flowing if v.dtype == "float32"]
        if floats:
            return all(v in self.kept for v in floats)
        return row.kind == ELEMWISE and any("int" in v.dtype for v in flowing)

    def _is_in_wide(self, node: Node) -> bool:
        """Whether a node is computed in float32 for other reasons."""
        if self._is_wide(node) or len(node.outputs) != 1 or self._continues(node):
            return True
        if OPS[node.op].kind != ELEMWISE:
            return False
        if any(_lost(v, self.dtype) for v in node.inputs):
            return True
        return node.output in self.wanted or self._is_summed(node)

    def _is_wide(self, node: Node) -> bool:
        """Whether an operation is done in float32; float16 has too small a range for the results
        of what sums in float32 by itself, and for squares."""
        kind = OPS[node.op].precision
        if self.dtype == "float16":
            square = node.op == "multiply" and node.inputs[0] is node.inputs[1]
            return kind in (WIDE, ORDER, INSIDE) or square
        return kind in (WIDE, ORDER)

    def _is_summed(self, node: Node) -> bool:
        """Whether a node makes the terms of a sum, and nothing else."""
        readers = self.readers.get(node.output, [])
        return node.output in self.single and readers[0].op == "reduce"

    def _continues(self, node: Node) -> bool:
        """Whether a node goes on, element by element, with a value not rounded yet."""
        elementwise = OPS[node.op].kind == ELEMWISE or node.op == "reshape"
        return elementwise and any(self._is_open(v) for v in node.inputs)

    def _is_open(self, v: Value) -> bool:
        """Whether a value was computed in float32 and may be rounded still."""
        computed = v.producer is not None and v not in self.kept
        return computed and v in self.wide and v not in self.narrow

    def _unrounded(self, node: Node) -> list[Value]:
        """The inputs of a node in float32. One kernel goes on from one product, that of the last
        input (passes/fuse): what others gave goes through memory, where it is narrow, unless it is
        small beside the result."""
        if OPS[node.op].kind == ELEMWISE:
            found = [v for v in node.inputs if v in self.behind and self._is_open(v)]
            for v in [v for v in found if v.shape == node.output.shape][:-1]:
                self._as_narrow(v)
                del self.wide[v]
        return [self.as_was(v) for v in node.inputs]

    def _rounded(self, node: Node) -> list[Value]:
        """The inputs of a node in the narrow type."""
        masks = _MASKS.get(node.op, len(node.inputs))
        return [
            self.wide[v] if k >= masks and v in self.kept else self._as_narrow(v)
            for k, v in enumerate(node.inputs)
        ]

    def _is_far(self, v: Value) -> bool:
        """Whether finite numbers of a value may be beyond the narrow type's range."""
        if v.data is None or v.dtype != "float32":
            return v in self.far
        beyond = np.isfinite(v.data) & (np.abs(v.data) > self.most)
        return bool(beyond.any())

    def _as_narrow(self, v: Value) -> Value:
        """The narrow form of a float32 value; other values as they are."""
        if v.dtype != "float32":
            return v
        if v not in self.narrow:
            if v.data is not None:
                self.narrow[v] = constant(v.name, rounded(v, self.dtype))
                return self.narrow[v]
            wide, name = self.wide[v], f"{v.name}.narrow"
            if v in self.far:  # of masks: what is finite stays so
                ends = {"min": -self.most, "max": self.most}
                wide = self.emit("clip", [wide], f"{v.name}.in_range", ends)
            self.narrow[v] = self.emit("cast", [wide], name, {"dtype": self.dtype})
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
        if worst := _lost(v, dtype):
            raise CompileError(
                f"constant {v.name} holds {worst:g}, which float16 cannot (65504 at most); compile "
                "the network in float32"
            )
        most = np.array(_MOST[dtype], "float32").astype(data.dtype)
        return np.where(lost, np.where(v.data < 0, -most, most), data)
    return data


def _lost(v: Value, dtype: str) -> float:
    """The least number of a float32 constant that float16 cannot hold and nothing stands for; 0
    where there is none."""
    if v.data is None or v.dtype != "float32" or dtype != "float16":
        return 0.0
    with np.errstate(over="ignore"):
        beyond = np.isfinite(v.data) & np.isinf(v.data.astype("float16"))
    worst = float(np.abs(v.data[beyond]).min()) if beyond.any() else 0.0
    return worst if worst < np.finfo("float32").max else 0.0


_MOST = {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120}
