"""Keep activations of narrow floats with channels last, (N, H, W, C), where tensor cores multiply.

A convolution is then a product of windows that lie in memory as they are read; of 1 x 1 filters, of
the image itself. In blocks of channels (block_channels.py), which other devices like, tensor cores
would find no rows to read.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

import numpy as np

from ...base.mapped import compact
from ...topi.elemwise import accumulator
from ..ir import Graph, Node, Value, constant
from .laying import Laying

LEAST_PIXELS = 16  # of the result: a product has rows of a fragment
LEAST_CHANNELS = 8  # and filters: the smallest product that tensor cores have
_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def channels_last(graph: Graph, products: Collection[tuple[str, str]]) -> Graph:
    """Rewrite convolutions of images whose types are among `products`, (operands, sums), and what
    lies between."""
    return _Last(graph, products).run()


def _is_known(size: Any) -> bool:
    """Whether an extent is a number that products can be tiled for."""
    return isinstance(size, int) and size > 0


class _Last(Laying):
    def __init__(self, graph: Graph, products: Collection[tuple[str, str]]) -> None:
        super().__init__(graph)
        self.products = products
        self.rules |= {
            "conv2d": self._conv,
            "pool2d": self._pool,
            "global_pool": self._global_pool,
            "bias_add": self._channelwise,
            "scale_shift": self._channelwise,
            "concat": self._concat,
            "reduce": self._over_pixels,
        }

    def _laid_back(self, v: Value) -> Value:
        return self.emit("transpose", [self.laid[v]], v.name + ".plain", {"axes": _FIRST})

    def _last(self, v: Value) -> Value:
        """The other form of a value."""
        if v not in self.laid:
            self.keep(v, self.emit("transpose", [v], v.name + ".last", {"axes": _LAST}))
        return self.laid[v]

    def _conv(self, node: Node) -> bool:
        data, kernel = node.inputs
        groups, filters = node.attrs["groups"], kernel.shape[0]
        sizes = (*data.shape, *node.output.shape)
        if len(data.shape) != 4 or kernel.data is None or not all(map(_is_known, sizes)):
            return False
        one_each = groups == data.shape[1] > 1 and kernel.shape[1] == 1
        if one_each:
            if data not in self.laid or filters != groups:
                return False
            return self._replaced(node, "depthwise_nhwc", (2, 3, 0, 1))
        sums = str(node.attrs.get("out_dtype", accumulator(data.dtype)))
        small = prod(node.output.shape[2:]) < LEAST_PIXELS or filters // groups < LEAST_CHANNELS
        if (data.dtype, sums) not in self.products or small:
            return False
        return self._replaced(node, "conv2d_nhwc", (2, 3, 1, 0))

    def _replaced(self, node: Node, op: str, order: tuple[int, ...]) -> bool:
        """A convolution on laid data, its filters in that order."""
        data, kernel = node.inputs
        assert kernel.data is not None
        weights = constant(kernel.name + ".last", compact(kernel.data.transpose(order)))
        return self.replace(node, [self._last(data), weights], node.attrs, op)

    def _pool(self, node: Node) -> bool:
        source = node.inputs[0]
        attrs = {**node.attrs, "space": (1, 2)}
        return source in self.laid and self.replace(node, [self.laid[source]], attrs)

    def _global_pool(self, node: Node) -> bool:
        source = node.inputs[0]
        attrs = {**node.attrs, "layout": "NHWC"}
        return source in self.laid and self.replace(node, [self.laid[source]], attrs)

    def _over_pixels(self, node: Node) -> bool:
        """A reduction over all of an image, whose dimensions stay with extent 1."""
        source = node.inputs[0]
        pixels = sorted(node.attrs["axes"]) == [2, 3] and bool(node.attrs["keepdims"])
        if not pixels or source not in self.laid:
            return False
        return self.replace(node, [self.laid[source]], {**node.attrs, "axes": [1, 2]})

    def _channelwise(self, node: Node) -> bool:
        source, *values = node.inputs
        if source not in self.laid or node.attrs["axis"] != 1:
            return False
        return self.replace(node, [self.laid[source], *values], {**node.attrs, "axis": 3})

    def _concat(self, node: Node) -> bool:
        if not all(v in self.laid for v in node.inputs):
            return False
        attrs = {**node.attrs, "axis": _LAST.index(node.attrs["axis"] % 4)}
        return self.replace(node, [self.laid[v] for v in node.inputs], attrs)

    def _operand(self, v: Value, shape: tuple[int, ...]) -> Value | None:
        if v in self.laid:
            return self.laid[v]
        if v.data is None:
            if len(v.shape) == len(shape) == 4:
                return self._last(v)
            return v if v.shape == () else None
        if v.data.size == 1:
            return constant(v.name, v.data.reshape(()))
        each: Any = v.data.reshape((1,) * (len(shape) - v.data.ndim) + v.shape)
        return constant(v.name + ".last", np.ascontiguousarray(each.transpose(_LAST)))
