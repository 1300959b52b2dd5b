"""Quantised operators of ONNX Runtime's own, in domain com.microsoft."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir import Value
from .compose import Compose
from .convert import Builder, Converter, OnHostError, OnnxNode
from .math import CONVERTERS as MATH
from .nn import softmax
from .pooling import CONVERTERS as POOLING
from .quantize import (
    dequantize_linear,
    integer_product,
    is_zero,
    number,
    qlinear_conv,
    quantize_linear,
    requantized,
)
from .recurrent import CONVERTERS as RECURRENT


def _dequantized(b: Builder, node: OnnxNode, index: int) -> Value:
    """The floats that inputs `index` to `index + 2` mean: data, scale, zero point."""
    x, scale, zero = node.input(index), node.input(index + 1), node.optional(index + 2)
    given = [number(b, scale)]
    if zero is not None and not is_zero(zero):
        given.append(number(b, zero))
    return b.add("dequantize", [x, *given], x.name, dtype="float32", axis=-1, block=0)


def _quantized(
    b: Builder, node: OnnxNode, v: Value, scale: Value, zero: Value | None, dtype: str
) -> Value:
    given = [number(b, scale)]
    if zero is not None and not is_zero(zero):
        given.append(number(b, zero))
    attrs = {"dtype": dtype, "precision": "float32", "axis": -1, "block": 0}
    return b.add("quantize", [v, *given], node.name, **attrs)


def _pair(op: str) -> Converter:
    """An operation of two quantised tensors, each with its scale and zero point."""

    def convert(b: Builder, node: OnnxNode) -> Value:
        both = [_dequantized(b, node, index) for index in (0, 3)]
        out = b.add(op, both, node.name)
        dtype = node.input(0).dtype
        return _quantized(b, node, out, node.input(6), node.optional(7), dtype)

    return convert


def qlinear_concat(b: Builder, node: OnnxNode) -> Value:
    scale, zero = node.input(0), node.input(1)
    if len(node.inputs) < 5 or len(node.inputs) % 3 != 2:
        raise node.error(f"{len(node.inputs)} inputs, which must be two and three for each tensor")
    parts = [
        _quantized(b, node, _dequantized(b, node, k), scale, zero, zero.dtype)
        for k in range(2, len(node.inputs), 3)
    ]
    axis = node.axis(node.get("axis", 1), len(parts[0].shape))
    return parts[0] if len(parts) == 1 else b.add("concat", parts, node.name, axis=axis)


def _of(node: OnnxNode, inputs: list[Value | None], **attrs: Any) -> OnnxNode:
    """A node with other inputs, as another converter takes it."""
    return OnnxNode(node.kind, node.name, inputs, node.outputs, {**node.attrs, **attrs})


def _single(function: Converter) -> Converter:
    """A function of floats, of one quantised tensor."""

    def convert(b: Builder, node: OnnxNode) -> Value:
        out = function(b, _of(node, [_dequantized(b, node, 0)]))
        dtype = node.input(0).dtype
        return _quantized(b, node, out, node.input(3), node.optional(4), dtype)

    return convert


def _channels_last(function: Converter, always: bool = False) -> Converter:
    """A function of images, where the node has their channels last."""

    def convert(b: Builder, node: OnnxNode) -> Any:
        if not always and not node.get("channels_last", 0):
            return function(b, node)
        c, x = Compose(b, node), node.input(0)
        rank = len(x.shape)
        first = c.transpose(x, (0, rank - 1, *range(1, rank - 1)))
        out = function(b, _of(node, [first, *node.inputs[1:]]))
        out = out[0] if isinstance(out, list) else out
        return c.transpose(out, (0, *range(2, rank), 1))

    return convert


def qlinear_where(b: Builder, node: OnnxNode) -> Value:
    both = [_dequantized(b, node, index) for index in (1, 4)]
    out = b.add("where", [node.input(0), *both], node.name)
    return _quantized(b, node, out, node.input(7), node.optional(8), node.input(1).dtype)


def qgemm(b: Builder, node: OnnxNode) -> Value:
    """A product of whole numbers times alpha, plus C in int32; floats where no scale is given for
    the result."""
    c = Compose(b, node)
    x, y, bias = node.input(0), node.input(3), node.optional(6)
    x = c.transpose(x, (1, 0)) if node.get("transA", 0) else x
    y = c.transpose(y, (1, 0)) if node.get("transB", 0) else y
    total = integer_product(b, node, x, y, (node.optional(2), node.optional(5)))
    total = total if bias is None else c("add", total, bias)
    factor = c("multiply", node.input(1), node.input(4))
    factor = c("multiply", factor, node.get("alpha", 1.0))
    scale, zero = node.optional(7), node.optional(8)
    if scale is None or zero is None:
        return c("multiply", c.cast(total, "float32"), factor)
    return requantized(b, node.name, total, c("divide", factor, scale), zero, 1)


def dynamic_quantize_lstm(b: Builder, node: OnnxNode) -> Any:
    """With the floats that its weights mean, which are (directions, elements, gates). What steps
    read is not rounded to 8 bits, as ONNX Runtime does."""
    c = Compose(b, node)
    known: list[Value | None] = [*node.inputs[:8]]
    for index, at in ((1, 8), (2, 10)):
        w = node.input(index)
        given = []
        for v in (node.input(at), node.optional(at + 1)):
            if v is not None and not is_zero(v):
                given.append(c.reshape(v, (v.shape[0], 1, prod(v.shape[1:]))))
        attrs: dict[str, Any] = {"dtype": "float32", "axis": -1, "block": 0}
        known[index] = c.transpose(c("dequantize", w, *given, **attrs), (0, 2, 1))
    lstm = OnnxNode("LSTM", node.name, known, node.outputs, node.attrs)
    return RECURRENT["LSTM"](b, lstm)


def gather_block_quantized(b: Builder, node: OnnxNode) -> Value:
    """Rows of a quantised table, as floats. Where bytes hold several numbers, those of a row."""
    c, (data, indices, scales) = Compose(b, node), (node.input(k) for k in range(3))
    zeros, rank, bits = node.optional(3), len(data.shape), node.get("bits", 4)
    gather = node.axis(node.get("gather_axis", 0), rank)
    axis = node.axis(node.get("quantize_axis", 1), rank)
    block = node.get("block_size", 128)
    if data.dtype != "uint8" or gather != 0 or axis == 0 or bits not in (2, 4, 8):
        raise OnHostError(str(node.error(f"{data!r} by axis {gather} is not supported")))

    def chosen(v: Value, extent: int | None = None) -> Value:
        """Rows; of numbers that lie several in a byte, `extent` of each line."""
        rows = c("take", v, indices, axis=0)
        return rows if extent is None else c("unpack_bits", rows, bits=bits, count=extent)

    several = bits < 8
    rows = chosen(data, data.shape[-1] * (8 // bits) if several else None)
    shape = list(rows.shape)
    axis += len(indices.shape) - 1
    shape[axis] = -(-shape[axis] // block)
    scale = c.broadcast(chosen(scales), shape)
    if zeros is None:
        zero = c.full(shape, 1 << (bits - 1), "uint8")
    else:
        zero = c.broadcast(chosen(zeros, shape[-1] if several else None), shape)
    how: dict[str, Any] = {"dtype": scales.dtype, "axis": axis, "block": block}
    return c("dequantize", rows, scale, zero, **how)


_OWN: dict[str, Converter] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "QLinearAdd": _pair("add"),
    "QLinearMul": _pair("multiply"),
    "QLinearWhere": qlinear_where,
    "QLinearSigmoid": _single(MATH["Sigmoid"]),
    "QLinearLeakyRelu": _single(MATH["LeakyRelu"]),
    "QLinearSoftmax": _single(lambda b, node: softmax(b, node, "softmax", node.get("opset", 13))),
    "QLinearConcat": qlinear_concat,
    "QLinearAveragePool": _channels_last(_single(POOLING["AveragePool"])),
    "QLinearGlobalAveragePool": _channels_last(_single(POOLING["GlobalAveragePool"])),
    "QLinearConv": _channels_last(qlinear_conv),
    "NhwcMaxPool": _channels_last(POOLING["MaxPool"], always=True),
    "QGemm": qgemm,
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "GatherBlockQuantized": gather_block_quantized,
}
CONVERTERS: dict[str, Converter] = {f"com.microsoft.{name}": f for name, f in _OWN.items()}
