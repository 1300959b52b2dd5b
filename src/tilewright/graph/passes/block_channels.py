"""Keep activations in blocks of channels, (N, C / b, ..., b), between convolutions.

A vector then holds neighbouring channels of one pixel, which convolution, pooling and element-wise
work all like. Values are packed where a convolution first needs it and unpacked where something
reads them that does not know blocks; both vanish between nodes that do. Weights are packed ahead
of time. Filters that do not fill the last block are padded with zeros, where that wastes little,
and cut where the value is unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...target.dots import Dot
from ..evaluate import evaluate
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, OPS, infer

Array = np.ndarray[Any, Any]

_FINITE = frozenset(
    (
        *("relu", "leaky_relu", "clip", "sigmoid", "hard_sigmoid", "hard_swish", "swish", "gelu"),
        *("mish", "softplus", "elu", "selu", "tanh", "erf", "abs", "negative", "cast", "identity"),
        *("add", "subtract", "multiply", "maximum", "minimum"),
    )
)
"""Element-wise operations that make finite numbers of small ones: only these see the zeros that
fill up the last block, since what is not finite would spoil sums of products with zeros."""
MOST_WASTE = 1.4  # padded filters over filters


def block_channels(graph: Graph, block: int, dots: Sequence[Dot] = ()) -> Graph:
    """Rewrite convolutions whose channels divide into blocks of `block`, and what lies between.

    `dots`: the target's instructions that add up products of neighbours: kernels get groups of
    channels for these."""
    return _Blocker(graph, block, dots).run()


def in_whole_blocks(data: Array, axis: int, block: int) -> Array:
    """Data with zeros up to whole blocks along an axis; the same data where they are whole."""
    widths = [(0, 0)] * data.ndim
    widths[axis] = (0, -data.shape[axis] % block)
    return np.pad(data, widths) if widths[axis][1] else data  # np.pad always copies


class _Blocker:
    def __init__(self, graph: Graph, block: int, dots: Sequence[Dot]) -> None:
        self.graph, self.dots = graph, dots
        self.block = block
        self.nodes: list[Node] = []
        self.blocked: dict[Value, Value] = {}
        self.plain: dict[Value, Value] = {}
        self.rules: dict[str, Callable[[Node], bool]] = {
            "conv2d": self._conv,
            "conv_nd": self._conv,
            "pool2d": self._spatial,
            "pool_nd": self._spatial,
            "global_pool": self._spatial,
            "bias_add": self._channelwise,
            "scale_shift": self._channelwise,
            "concat": self._concat,
            "reduce": self._over_pixels,
            "quantize": self._conversion,
            "dequantize": self._conversion,
        }

    def run(self) -> Graph:
        for node in self.graph.nodes:
            rule = self.rules.get(node.op, self._elementwise)
            if not rule(node):
                node.inputs = [self._unblocked(v) for v in node.inputs]
                self.nodes.append(node)
        outputs = [self._unblocked(v) for v in self.graph.outputs]
        for old, new in zip(self.graph.outputs, outputs):
            if new is not old:
                old.name, new.name = old.name + ".old", old.name
        self.graph.outputs = outputs
        self.graph.nodes = self.nodes
        self.graph.drop_dead_nodes()
        return self.graph

    def _emit(self, op: str, inputs: list[Value], name: str, attrs: dict[str, object]) -> Value:
        shape, dtype = infer(op, inputs, attrs)
        out = Value(name, shape, dtype)
        self.nodes.append(Node(op, name, inputs, [out], attrs))
        return out

    def _unblocked(self, v: Value) -> Value:
        """The plain form of a value."""
        if v not in self.blocked or v in self.plain:
            return self.plain.get(v, v)
        attrs: dict[str, object] = {"channels": v.shape[1]}
        self.plain[v] = self._emit("unpack_channels", [self.blocked[v]], v.name + ".plain", attrs)
        return self.plain[v]

    def _is_padded(self, v: Value) -> bool:
        return bool(self.blocked[v].shape[1] * self.block != v.shape[1])

    def _packed(self, v: Value, block: int) -> Value:
        """The blocked form of a value; in blocks of one it lies as it is."""
        if block == 1:
            return self._emit("reshape", [v], v.name + ".planes", {"shape": (*v.shape, 1)})
        if v not in self.blocked:
            out = self._emit("pack_channels", [v], v.name + ".blocked", {"block": block})
            if block != self.block:
                return out
            self.blocked[v] = out
            self.plain[v] = v
        return self.blocked[v]

    def _filled(self, v: Value, channels: int) -> Value:
        """A value with zeros up to so many channels."""
        more = channels - v.shape[1]
        if not more:
            return v
        others = len(v.shape) - 2
        sides = {"before": [0] * (2 + others), "after": [0, more, *[0] * others]}
        return self._emit("pad", [v], v.name + ".filled", {**sides, "value": 0})

    def _replace(
        self, node: Node, inputs: list[Value], attrs: dict[str, object] | None = None, op: str = ""
    ) -> bool:
        out = self._emit(op or node.op, inputs, node.name, attrs or node.attrs)
        self.blocked[node.output] = out
        return True

    def _conv(self, node: Node) -> bool:
        data, kernel = node.inputs
        filters, channels = kernel.shape[:2]
        if node.attrs["groups"] == filters == data.shape[1] > 1 and channels == 1:
            return self._depthwise(node)
        if node.attrs["groups"] != 1 or kernel.data is None:
            return False
        if filters + -filters % self.block > MOST_WASTE * filters:
            return False
        whole = channels % self.block == 0 or data in self.blocked
        weights = in_whole_blocks(kernel.data, 0, self.block)
        weights = in_whole_blocks(weights, 1, self.block) if whole else weights
        sums = str(node.attrs.get("out_dtype", data.dtype))
        dot = next((d for d in self.dots if d.takes(data.dtype, kernel.dtype, sums)), None)
        terms = dot.terms if dot is not None and self.block % dot.lanes == 0 else 1
        filled = channels + -channels % terms  # few channels: groups are filled up with zeros
        inner = self.block if whole else filled if terms > 1 and filled <= self.block else 1
        terms = terms if inner % terms == 0 else 1
        if not whole and inner > 1:
            data, weights = self._filled(data, inner), in_whole_blocks(weights, 1, inner)
        attrs = {"in_block": inner, "out_block": self.block, "terms": terms}
        padded = constant(kernel.name, weights)
        packed = constant(kernel.name + ".packed", evaluate("pack_kernel", [padded], attrs))
        keep = {k: v for k, v in node.attrs.items() if k != "groups"}
        source = self._packed(data, inner)
        return self._replace(node, [source, packed], keep, "conv_nchwc")

    def _depthwise(self, node: Node) -> bool:
        data, kernel = node.inputs
        known = data in self.blocked or data.shape[1] % self.block == 0
        if kernel.data is None or not known:
            return False
        weights = constant(kernel.name, in_whole_blocks(kernel.data, 0, self.block))
        attrs = {"block": self.block}
        packed = constant(kernel.name + ".packed", evaluate("pack_depthwise", [weights], attrs))
        keep = {k: v for k, v in node.attrs.items() if k != "groups"}
        source = self._packed(data, self.block)
        return self._replace(node, [source, packed], keep, "depthwise_nchwc")

    def _spatial(self, node: Node) -> bool:
        source = node.inputs[0]
        return source in self.blocked and self._replace(node, [self.blocked[source]])

    def _over_pixels(self, node: Node) -> bool:
        """A reduction over all of an image, whose dimensions stay with extent 1."""
        every = list(range(2, len(node.inputs[0].shape)))
        pixels = sorted(node.attrs["axes"]) == every and bool(node.attrs["keepdims"])
        return pixels and self._spatial(node)

    def _channelwise(self, node: Node) -> bool:
        if node.inputs[0] not in self.blocked or node.attrs["axis"] != 1:
            return False
        values = []
        for v in node.inputs[1:]:
            if v.data is None or v.data.ndim != 1:
                return False
            values.append(
                constant(
                    v.name + ".blocked",
                    in_whole_blocks(v.data, 0, self.block).reshape(-1, self.block),
                )
            )
        return self._replace(node, [self.blocked[node.inputs[0]], *values])

    def _conversion(self, node: Node) -> bool:
        """A conversion with one scale for all; what fills up the last block becomes whatever zero
        point there is, which is finite."""
        source, *parameters = node.inputs
        if source not in self.blocked or any(v.shape for v in parameters):
            return False
        return self._replace(node, [self.blocked[source], *parameters])

    def _elementwise(self, node: Node) -> bool:
        shape = node.output.shape
        if OPS[node.op].kind != ELEMWISE or "axis" in node.attrs:
            return False
        whole = [v for v in node.inputs if v in self.blocked and v.shape == shape]
        if not whole or (node.op not in _FINITE and self._is_padded(whole[0])):
            return False
        inputs = [self._operand(v, shape) for v in node.inputs]
        known = [v for v in inputs if v is not None]
        return len(known) == len(inputs) and self._replace(node, known)

    def _operand(self, v: Value, shape: tuple[int, ...]) -> Value | None:
        """An operand of an element-wise operation on `shape`, for one in blocks; None where it
        would have to be packed first."""
        if v in self.blocked and v.shape[1] == shape[1]:
            return self.blocked[v]
        if v.data is None:
            return v if v.shape == () else None
        if v.data.size == 1:
            return constant(v.name, v.data.reshape(()))
        each = (1,) * (len(shape) - v.data.ndim) + v.shape
        pixel = (1,) * (len(shape) - 2)
        if each != (1, shape[1], *pixel):
            return None
        data = in_whole_blocks(v.data.reshape(each), 1, self.block)
        return constant(v.name + ".blocked", data.reshape(1, -1, *pixel, self.block))

    def _concat(self, node: Node) -> bool:
        if node.attrs["axis"] != 1 or not all(v in self.blocked for v in node.inputs):
            return False
        if any(self._is_padded(v) for v in node.inputs):
            return False
        return self._replace(node, [self.blocked[v] for v in node.inputs])
