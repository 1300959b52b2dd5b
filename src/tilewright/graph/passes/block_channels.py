"""Keep activations in blocks of channels, (N, C / b, ..., b), between convolutions.

A vector then holds neighbouring channels of one pixel, which convolution, pooling and element-wise
work all like. Values are packed where a convolution first needs it and unpacked where something
reads them that does not know blocks; both vanish between nodes that do. Weights are packed ahead
of time. Filters that do not fill the last block are padded with zeros, where that wastes little,
and cut where the value is unpacked. A few filters are a block of their own, where the target has
vectors along the channels for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from ...target.dots import FLIPPED, Dot, best_first
from ..evaluate import evaluate
from ..ir import Graph, Node, Value, constant
from .laying import Laying

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
HIGHEST = 0x80  # the highest bit of a byte
MOST_WASTE = 1.4  # padded filters over filters


def block_channels(
    graph: Graph, block: int, dots: Sequence[Dot] = (), few: int = 0, least: int = 0
) -> Graph:
    """Rewrite convolutions whose channels divide into blocks of `block`, and what lies between.

    `dots`: the target's instructions that add up products of neighbours: kernels get groups of
    channels for these. `few`: up to so many filters read blocks, and make one of their own;
    fewer than `least` of images are left as they are."""
    return _Blocker(graph, block, dots, few, least).run()


def in_whole_blocks(data: Array, axis: int, block: int) -> Array:
    """Data with zeros up to whole blocks along an axis; the same data where they are whole."""
    widths = [(0, 0)] * data.ndim
    widths[axis] = (0, -data.shape[axis] % block)
    return np.pad(data, widths) if widths[axis][1] else data  # np.pad always copies


def _laid_kernel(node: Node, weights: Array, blocks: tuple[int, int], terms: int = 1) -> Value:
    """The weights of a convolution in blocks of channels and of filters."""
    name = node.inputs[1].name
    attrs = {"in_block": blocks[0], "out_block": blocks[1], "terms": terms}
    packed = evaluate("pack_kernel", [constant(name, weights)], attrs)
    return constant(name + ".packed", packed)


def _joined(weights: Array, groups: int, together: int) -> Array:
    """Weights of which so many groups are one, which multiplies the channels of the others by 0."""
    if together == 1:
        return weights
    filters, channels = weights.shape[:2]
    each = filters // groups
    found = np.zeros((filters, channels * together, *weights.shape[2:]), weights.dtype)
    for g in range(groups):
        first, rows = g % together * channels, slice(g * each, (g + 1) * each)
        found[rows, first : first + channels] = weights[rows]
    return found


class _Blocker(Laying):
    def __init__(self, graph: Graph, block: int, dots: Sequence[Dot], few: int, least: int) -> None:
        super().__init__(graph)
        self.block, self.dots, self.few, self.least = block, dots, few, least
        self.rules |= {
            "conv2d": self._conv,
            "conv_nd": self._conv,
            "pool2d": self._spatial,
            "pool_nd": self._spatial,
            "global_pool": self._spatial,
            "bias_add": self._channelwise,
            "scale_shift": self._channelwise,
            "concat": self._concat,
            "reduce": self._over_pixels,
            "resample": self._along_pixels,
            "take": self._along_pixels,
            "pad": self._padded,
            "mirror_pad": self._padded,
            "slice": self._cut,
            "reshape": self._reshaped,
        }

    def _laid_back(self, v: Value) -> Value:
        attrs: dict[str, object] = {"channels": v.shape[1]}
        return self.emit("unpack_channels", [self.laid[v]], v.name + ".plain", attrs)

    def _is_padded(self, v: Value) -> bool:
        return bool(self.laid[v].shape[1] * self.block != v.shape[1])

    def _packed(self, v: Value, block: int) -> Value:
        """The blocked form of a value; in blocks of one it lies as it is."""
        if block == 1:
            return self.emit("reshape", [v], v.name + ".planes", {"shape": (*v.shape, 1)})
        if v not in self.laid:
            out = self.emit("pack_channels", [v], v.name + ".blocked", {"block": block})
            if block != self.block:
                return out
            self.keep(v, out)
        return self.laid[v]

    def _filled(self, v: Value, channels: int) -> Value:
        """A value with zeros up to so many channels."""
        more = channels - v.shape[1]
        if not more:
            return v
        others = len(v.shape) - 2
        sides = {"before": [0] * (2 + others), "after": [0, more, *[0] * others]}
        return self.emit("pad", [v], v.name + ".filled", {**sides, "value": 0})

    def _conv(self, node: Node) -> bool:
        data, kernel = node.inputs
        filters, channels = kernel.shape[:2]
        if node.attrs["groups"] == filters == data.shape[1] > 1 and channels == 1:
            return self._depthwise(node)
        if kernel.data is None:
            return False
        if node.attrs["groups"] != 1:
            return self._grouped(node)
        if filters < self.least and node.op == "conv2d":
            return False
        if filters <= self.few and data in self.laid:
            return self._few(node)
        if filters + -filters % self.block > MOST_WASTE * filters:
            return False
        terms = self._instruction(node)[0]
        filled = channels + -channels % terms  # few channels: groups are filled up with zeros
        whole = channels % self.block == 0 or data in self.laid or 1 < terms < self.block < filled
        weights = in_whole_blocks(kernel.data, 0, self.block)
        weights = in_whole_blocks(weights, 1, self.block) if whole else weights
        inner = self.block if whole else filled if terms > 1 and filled <= self.block else 1
        if inner > 1 and data not in self.laid:
            data = self._filled(data, channels + -channels % inner)
            weights = in_whole_blocks(weights, 1, inner)
        return self._in_blocks(node, self._packed(data, inner), weights, inner)

    def _instruction(self, node: Node) -> tuple[int, bool]:
        """Neighbouring channels that an instruction multiplies and adds up, 1 where there is none,
        and whether it wants the data's bytes of the other sign."""
        data, kernel = node.inputs
        sums = str(node.attrs.get("out_dtype", data.dtype))
        lanes = max((d.lanes for d in self.dots if self.block % d.lanes == 0), default=0)
        found = best_first(self.dots, lanes, data.dtype, kernel.dtype, sums)
        return (found[0][0].terms, found[0][1].flipped) if found else (1, False)

    def _grouped(self, node: Node) -> bool:
        """A convolution in groups of whole blocks of channels, to whole blocks of filters; where an
        instruction multiplies some channels at a time, several groups are one of whole blocks, with
        zeros between them."""
        data, kernel = node.inputs
        (filters, channels), groups = kernel.shape[:2], node.attrs["groups"]
        sizes = channels, filters // groups
        most = min(self._instruction(node)[0], groups)
        fits = [m for m in range(1, most + 1) if groups % m == 0]
        together = next((m for m in fits if not any(n * m % self.block for n in sizes)), 0)
        if not together:
            return False
        assert kernel.data is not None
        weights = _joined(kernel.data, groups, together)
        attrs = {**node.attrs, "groups": groups // together}
        source = self._packed(data, self.block)
        return self._in_blocks(node, source, weights, self.block, attrs)

    def _in_blocks(
        self,
        node: Node,
        source: Value,
        weights: Array,
        inner: int,
        given: Mapping[str, Any] | None = None,
    ) -> bool:
        """A convolution of data in blocks of `inner` channels, with weights of whole blocks; with
        the attributes `given`, or the node's."""
        terms, flipped = self._instruction(node)
        terms = terms if inner % terms == 0 else 1
        kernel = _laid_kernel(node, weights, (inner, self.block), terms)
        attrs = dict(node.attrs if given is None else given)
        if terms == 1 or not flipped:
            return self.replace(node, [source, kernel], attrs, "conv_nchwc")
        zero = HIGHEST if source.dtype == "int8" else HIGHEST - 256  # what becomes of 0
        source = self._turned(source, node.name)
        around = list(attrs["padding"])
        if any(around):
            half = len(around) // 2
            sides = {"before": [0, 0, *around[:half], 0], "after": [0, 0, *around[half:], 0]}
            source = self.emit("pad", [source], f"{node.name}.around", {**sides, "value": zero})
            attrs["padding"] = tuple(0 for _ in around)
        sums = self.emit("conv_nchwc", [source, kernel], f"{node.name}.turned", attrs)
        more = zero * weights.sum(tuple(range(1, weights.ndim)), dtype=np.int32)
        shape = (1, len(more) // self.block, *[1] * (weights.ndim - 2), self.block)
        lost = constant(f"{node.name}.more", more.astype(np.int32).reshape(shape))
        return self.replace(node, [sums, lost], {}, "subtract")

    def _turned(self, source: Value, name: str) -> Value:
        """Bytes with their highest bits turned over, of the other sign: 128 more or less."""
        bit = constant(f"{name}.bit", np.array(HIGHEST, "uint8"))
        to = FLIPPED[source.dtype]
        if source.dtype == "int8":
            source = self.emit("cast", [source], f"{name}.bits", {"dtype": "uint8"})
        turned = self.emit("bitwise_xor", [source, bit], f"{name}.other", {})
        if to == "uint8":
            return turned
        return self.emit("cast", [turned], f"{name}.signed", {"dtype": to})

    def _few(self, node: Node) -> bool:
        """A convolution of laid data whose filters are one block; what it makes is plain."""
        data, kernel = node.inputs
        filters = kernel.shape[0]
        if not data.dtype == kernel.dtype == node.output.dtype == "float32":
            return False
        assert kernel.data is not None
        weights = in_whole_blocks(kernel.data, 1, self.block)
        inputs = [self.laid[data], _laid_kernel(node, weights, (self.block, filters))]
        out = self.emit("conv_nchwc", inputs, node.name + ".block", node.attrs)
        unpacked: dict[str, object] = {"channels": filters}
        self.nodes.append(Node("unpack_channels", node.name, [out], [node.output], unpacked))
        return True

    def _depthwise(self, node: Node) -> bool:
        data, kernel = node.inputs
        known = data in self.laid or data.shape[1] % self.block == 0
        if kernel.data is None or not known:
            return False
        weights = constant(kernel.name, in_whole_blocks(kernel.data, 0, self.block))
        attrs = {"block": self.block}
        packed = constant(kernel.name + ".packed", evaluate("pack_depthwise", [weights], attrs))
        keep = {k: v for k, v in node.attrs.items() if k != "groups"}
        source = self._packed(data, self.block)
        return self.replace(node, [source, packed], keep, "depthwise_nchwc")

    def _spatial(self, node: Node) -> bool:
        source = node.inputs[0]
        return source in self.laid and self.replace(node, [self.laid[source]])

    def _along_pixels(self, node: Node) -> bool:
        """What goes along one dimension of images, by a table of places."""
        source, places, *rest = node.inputs
        if source not in self.laid or (node.op == "take" and len(places.shape) != 1):
            return False
        axis = node.attrs["axis"] % len(source.shape)
        attrs = {**node.attrs, "axis": axis}
        return axis >= 2 and self.replace(node, [self.laid[source], places, *rest], attrs)

    def _padded(self, node: Node) -> bool:
        """Pixels put around images, no channels."""
        (source,) = node.inputs
        if source not in self.laid or any(node.attrs[key][1] for key in ("before", "after")):
            return False
        if not isfinite(node.attrs.get("value", 0)) and self._is_padded(source):
            return False
        return self._moved(node, {"before": (0, 0), "after": (0, 0)})

    def _cut(self, node: Node) -> bool:
        """Pixels cut off images, of which all channels stay, or whole blocks."""
        (source,) = node.inputs
        ends = self._blocks_of(node, source) if source in self.laid else None
        if ends is None:
            return False
        last = self.laid[source].shape[-1]
        return self._moved(node, {"begin": (ends[0], 0), "end": (ends[1], last), "strides": (1, 1)})

    def _moved(self, node: Node, within: dict[str, tuple[int, int]]) -> bool:
        """The same of blocks. `within`: by attribute, what it says of blocks and inside of each."""
        attrs = {**node.attrs}
        for key, (first, last) in within.items():
            image, _, *pixels = node.attrs[key]
            attrs[key] = [image, first, *pixels, last]
        return self.replace(node, [self.laid[node.inputs[0]]], attrs)

    def _blocks_of(self, node: Node, source: Value) -> tuple[int, int] | None:
        """The blocks of channels that a slice takes, their first and their end; None where it takes
        a part of one."""
        begin, end, step = (node.attrs[key][1] for key in ("begin", "end", "strides"))
        channels = source.shape[1]
        if step != 1 or not 0 <= begin < end <= channels or begin % self.block:
            return None
        if end < channels and end % self.block:
            return None
        return begin // self.block, -(-end // self.block)

    def _reshaped(self, node: Node) -> bool:
        """Other dimensions of images, whose pixels stay in order."""
        (source,) = node.inputs
        if source not in self.laid or source.shape[:2] != node.output.shape[:2]:
            return False
        if len(node.output.shape) < 3:
            return False
        laid = self.laid[source]
        shape = (*laid.shape[:2], *node.output.shape[2:], laid.shape[-1])
        return self.replace(node, [laid], {**node.attrs, "shape": shape})

    def _over_pixels(self, node: Node) -> bool:
        """A reduction over all of an image, whose dimensions stay with extent 1."""
        every = list(range(2, len(node.inputs[0].shape)))
        pixels = sorted(node.attrs["axes"]) == every and bool(node.attrs["keepdims"])
        return pixels and self._spatial(node)

    def _channelwise(self, node: Node) -> bool:
        if node.inputs[0] not in self.laid or node.attrs["axis"] != 1:
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
        return self.replace(node, [self.laid[node.inputs[0]], *values])

    def _takes(self, node: Node, laid: list[Value]) -> bool:
        return bool(laid) and (node.op in _FINITE or not self._is_padded(laid[0]))

    def _operand(self, v: Value, shape: tuple[int, ...]) -> Value | None:
        if v in self.laid and v.shape[1] == shape[1]:
            return self.laid[v]
        if v.data is None:
            if len(v.shape) == len(shape) and v.shape[1] == shape[1] and set(v.shape[2:]) == {1}:
                return self._packed(v, self.block)  # few numbers, one for each channel
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
        if node.attrs["axis"] != 1 or not all(v in self.laid for v in node.inputs):
            return False
        if any(self._is_padded(v) for v in node.inputs):
            return False
        return self.replace(node, [self.laid[v] for v in node.inputs])
