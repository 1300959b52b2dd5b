"""Keep activations of narrow floats with channels last, (N, H, W, C) and (N, D, H, W, C), where
tensor cores multiply.

A convolution is then a product of windows that lie in memory as they are read; of 1 x 1 filters, of
the image itself. In blocks of channels (block_channels.py), which other devices like, tensor cores
would find no rows to read.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...base.mapped import compact
from ...topi.elemwise import accumulator
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, INJECTIVE, OPS
from .laying import Laying

LEAST_PIXELS = 16  # of the result: a product has rows of a fragment
LEAST_CHANNELS = 8  # and filters: the smallest product that tensor cores have


def channels_last(graph: Graph, products: Collection[tuple[str, str]]) -> Graph:
    """Rewrite convolutions of images and volumes whose types are among `products`, (operands,
    sums), and what lies between."""
    return _Last(graph, products).run()


def _last(rank: int) -> tuple[int, ...]:
    """The order of dimensions that brings channels to the end."""
    return (0, *range(2, rank), 1)


def _first(rank: int) -> tuple[int, ...]:
    """The one that brings them back."""
    return (0, rank - 1, *range(1, rank - 1))


def _of_image(node: Node) -> tuple[int, ...]:
    """Which dimensions of space the images have on which a convolution's windows move; all of them
    where a volume's windows have more than one place along depth and within a plane."""
    rank = len(node.inputs[1].shape) - 2
    pads, strides = node.attrs["padding"], node.attrs["strides"]
    size = node.inputs[1].shape[2:]
    flat = [size[d] == strides[d] == 1 and pads[d] == pads[rank + d] == 0 for d in range(rank)]
    if rank == 3 and flat[0]:
        return 1, 2
    return (0, 1) if rank == 3 and flat[1] and flat[2] else tuple(range(rank))


def _is_known(size: Any) -> bool:
    """Whether an extent is a number that products can be tiled for."""
    return isinstance(size, int) and size > 0


def _is_of_anchor(v: Value) -> bool:
    """Whether a value is made by the kernel of a product or reduction, which rounds it, so that
    moves bring the narrower type; what is moved already is rounded on the way."""
    while (node := v.producer) is not None and OPS[node.op].kind == ELEMWISE:
        v = node.inputs[0]
    return node is not None and OPS[node.op].kind != INJECTIVE


class _Last(Laying):
    def __init__(self, graph: Graph, products: Collection[tuple[str, str]]) -> None:
        super().__init__(graph)
        self.products = products
        self.readers = graph.consumers()
        self.turned: set[Value] = set()
        self.rules |= {
            "conv2d": self._conv,
            "conv_nd": self._conv,
            "pool2d": self._pool,
            "pool_nd": self._pool,
            "global_pool": self._global_pool,
            "bias_add": self._channelwise,
            "scale_shift": self._channelwise,
            "concat": self._concat,
            "reduce": self._over_pixels,
            "transpose": self._channels_moved,
            "slice": self._cut,
        }

    def _laid_back(self, v: Value) -> Value:
        return self.emit(
            "transpose", [self.laid[v]], v.name + ".plain", {"axes": _first(len(v.shape))}
        )

    def _last(self, v: Value) -> Value:
        """The other form of a value. What is computed element by element from one that is moved
        then joins the move, which no kernel of what was before does."""
        steps = [v]
        while steps[-1] not in self.laid and (source := self._before(steps[-1])) is not None:
            steps.append(source)
        first = steps.pop()
        if first not in self.laid:
            order: dict[str, object] = {"axes": _last(len(first.shape))}
            moved = self.emit("transpose", [first], first.name + ".last", order)
            self.keep(first, moved)
        for value in reversed(steps):
            node = value.producer
            assert node is not None
            inputs = [self._operand(u, value.shape) for u in node.inputs]
            known = [u for u in inputs if u is not None]
            self.keep(value, self.emit(node.op, known, node.name + ".last", node.attrs))
        return self.laid[v]

    def _before(self, v: Value) -> Value | None:
        """What a value that one node reads is computed from element by element, beside numbers."""
        node = v.producer
        if node is None or OPS[node.op].kind != ELEMWISE or "axis" in node.attrs:
            return None
        others = [u for u in dict.fromkeys(node.inputs) if u.shape or not u.is_constant]
        alone = len(self.readers.get(v, ())) == 1 and v not in self.graph.outputs
        if not alone or len(others) != 1 or others[0].shape != v.shape:
            return None
        narrows = parse(v.dtype).nbytes < parse(others[0].dtype).nbytes
        return None if narrows and _is_of_anchor(others[0]) else others[0]

    def _conv(self, node: Node) -> bool:
        data, kernel = node.inputs
        groups, filters = node.attrs["groups"], kernel.shape[0]
        sizes = (*data.shape[1:], *node.output.shape[1:])
        rank = len(data.shape)
        if rank not in (4, 5) or kernel.data is None or not all(map(_is_known, sizes)):
            return False
        if data.shape[0] == 0:
            return False
        one_each = groups == data.shape[1] > 1 and kernel.shape[1] == 1
        if one_each:
            # of volumes, those in blocks have vectors
            if data not in self.laid or filters != groups or len(_of_image(node)) != 2:
                return False
            return self._replaced(node, "depthwise_nhwc", (2, 3, 0, 1))
        sums = str(node.attrs.get("out_dtype", accumulator(data.dtype)))
        small = prod(node.output.shape[2:]) < LEAST_PIXELS or filters // groups < LEAST_CHANNELS
        if (data.dtype, sums) not in self.products or small:
            return False
        return self._replaced(node, "conv2d_nhwc", (2, 3, 1, 0))

    def _replaced(self, node: Node, op: str, order: tuple[int, ...]) -> bool:
        """A convolution on laid data, its filters of images in that order; of volumes as one of
        images, where its windows allow it."""
        data, kernel = node.inputs
        taps, kept = kernel.data, _of_image(node)
        assert taps is not None
        rank, many = len(kept), len(data.shape) - 2
        if rank == 3:
            op, order = "conv3d_ndhwc", (2, 3, 4, 1, 0)
        taps = taps.reshape(*taps.shape[:2], *(taps.shape[2 + d] for d in kept))
        weights = constant(kernel.name + ".last", compact(taps.transpose(order)))
        if rank == many:
            return self.replace(node, [self._last(data), weights], node.attrs, op)
        n, c, deep, *plane = data.shape
        image = (n * deep, *plane, c) if kept == (1, 2) else (n, deep, prod(plane), c)
        images = self.emit("reshape", [self._last(data)], data.name + ".images", {"shape": image})
        attrs = {key: [node.attrs[key][d] for d in kept] for key in ("strides", "dilation")}
        attrs["padding"] = [node.attrs["padding"][side + d] for side in (0, many) for d in kept]
        out = self.emit(op, [images, weights], node.name, {**node.attrs, **attrs})
        shape = tuple(node.output.shape[d] for d in _last(len(data.shape)))
        self.laid[node.output] = self.emit(
            "reshape", [out], node.name + ".volumes", {"shape": shape}
        )
        return True

    def _pool(self, node: Node) -> bool:
        source = node.inputs[0]
        attrs = {**node.attrs, "space": tuple(range(1, len(source.shape) - 1))}
        return source in self.laid and self.replace(node, [self.laid[source]], attrs)

    def _global_pool(self, node: Node) -> bool:
        source = node.inputs[0]
        attrs = {**node.attrs, "layout": "NHWC"}
        return source in self.laid and self.replace(node, [self.laid[source]], attrs)

    def _over_pixels(self, node: Node) -> bool:
        """A reduction over all of an image, whose dimensions stay with extent 1."""
        source = node.inputs[0]
        rank = len(source.shape)
        pixels = sorted(node.attrs["axes"]) == [*range(2, rank)] and bool(node.attrs["keepdims"])
        if not pixels or source not in self.laid:
            return False
        attrs = {**node.attrs, "axes": [*range(1, rank - 1)]}
        return self.replace(node, [self.laid[source]], attrs)

    def _cut(self, node: Node) -> bool:
        """A part of images, of their channels or of their lines."""
        (source,) = node.inputs
        if source not in self.laid or source in self.turned:
            return False
        attrs: dict[str, object] = {}
        for key in ("begin", "end", "strides"):
            attrs[key] = [node.attrs[key][d] for d in _last(len(source.shape))]
        return self.replace(node, [self.laid[source]], attrs)

    def _channels_moved(self, node: Node) -> bool:
        """Channels that the network itself moves to the front: they were last, where this other
        form is wanted."""
        (source,) = node.inputs
        rank = len(source.shape)
        if rank not in (4, 5) or tuple(node.attrs["axes"]) != _first(rank):
            return False
        self.laid[node.output] = self.plainly(source)
        self.turned.add(node.output)
        return True

    def _takes(self, node: Node, laid: list[Value]) -> bool:
        """What is last only because the network had it so goes on like that beside other such
        values: laying these would be a move, and another one to lay the result back."""
        if any(v not in self.turned for v in laid):
            return True
        whole = [v for v in node.inputs if v.shape == node.output.shape and not v.is_constant]
        if not laid or any(v not in self.laid for v in whole):
            return False
        self.turned.add(node.output)
        return True

    def _channelwise(self, node: Node) -> bool:
        source, *values = node.inputs
        if source not in self.laid or node.attrs["axis"] != 1:
            return False
        attrs = {**node.attrs, "axis": len(source.shape) - 1}
        return self.replace(node, [self.laid[source], *values], attrs)

    def _concat(self, node: Node) -> bool:
        if not all(v in self.laid for v in node.inputs):
            return False
        rank = len(node.output.shape)
        attrs = {**node.attrs, "axis": _last(rank).index(node.attrs["axis"] % rank)}
        return self.replace(node, [self.laid[v] for v in node.inputs], attrs)

    def _operand(self, v: Value, shape: tuple[int, ...]) -> Value | None:
        if v in self.laid:
            return self.laid[v]
        if v.data is None:
            if len(v.shape) == len(shape):
                return self._last(v)
            return v if v.shape == () else None
        if v.data.size == 1:
            return constant(v.name, v.data.reshape(()))
        each: Any = v.data.reshape((1,) * (len(shape) - v.data.ndim) + v.shape)
        return constant(v.name + ".last", np.ascontiguousarray(each.transpose(_last(len(shape)))))
