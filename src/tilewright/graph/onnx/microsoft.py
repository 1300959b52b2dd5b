"""Operators of ONNX Runtime's own, in domain com.microsoft: quantised and fused ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Value
from .convert import Builder, Converter, OnHostError, OnnxNode
from .convolution import conv
from .nn import gemm
from .products import product
from .quantize import (
    dequantize_linear,
    dynamic,
    integer_product,
    is_zero,
    quantize_linear,
)


def _number(b: Builder, v: Value) -> Value:
    return b.add("reshape", [v], shape=()) if v.shape else v


def _dequantized(b: Builder, node: OnnxNode, index: int) -> Value:
    """The floats that inputs `index` to `index + 2` mean: data, scale, zero point."""
    x, scale, zero = node.input(index), node.input(index + 1), node.optional(index + 2)
    given = [_number(b, scale)]
    if zero is not None and not is_zero(zero):
        given.append(_number(b, zero))
    return b.add("dequantize", [x, *given], x.name, dtype="float32", axis=-1, block=0)


def _quantized(
    b: Builder, node: OnnxNode, v: Value, scale: Value, zero: Value | None, dtype: str
) -> Value:
    given = [_number(b, scale)]
    if zero is not None and not is_zero(zero):
        given.append(_number(b, zero))
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


def _single(op: str, **defaults: Any) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        attrs = {name: node.get(name, default) for name, default in defaults.items()}
        out = b.add(op, [_dequantized(b, node, 0)], node.name, **attrs)
        dtype = node.input(0).dtype
        return _quantized(b, node, out, node.input(3), node.optional(4), dtype)

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


def qlinear_global_average_pool(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    first = 1 if node.get("channels_last", 0) else 2
    axes = list(range(first, first + len(x.shape) - 2))
    attrs: dict[str, Any] = {"type": "mean", "axes": axes, "keepdims": True}
    out = b.add("reduce", [_dequantized(b, node, 0)], node.name, **attrs)
    return _quantized(b, node, out, node.input(3), node.optional(4), x.dtype)


def _scaled(
    b: Builder, node: OnnxNode, total: Value, scales: list[Value], bias: Value | None
) -> Value:
    """Sums in int32 as floats: times the scales of both factors, plus a bias."""
    dtype = scales[0].dtype
    factor = b.add("multiply", scales, node.name + ".scale")
    if prod(factor.shape) == 1:
        factor = _number(b, factor)
    out = b.add("multiply", [b.add("cast", [total], dtype=dtype), factor], node.name)
    return out if bias is None else b.add("add", [out, bias], node.name)


def dynamic_quantize_matmul(b: Builder, node: OnnxNode) -> Value:
    x, y, y_scale = (node.input(k) for k in range(3))
    data, scale, zero = dynamic(b, node.name + ".a", x)
    total = integer_product(b, node, data, y, (zero, node.optional(3)))
    return _scaled(b, node, total, [scale, y_scale], node.optional(4))


def matmul_integer_to_float(b: Builder, node: OnnxNode) -> Value:
    x, y, x_scale, y_scale = (node.input(k) for k in range(4))
    total = integer_product(b, node, x, y, (node.optional(4), node.optional(5)))
    return _scaled(b, node, total, [x_scale, y_scale], node.optional(6))


def fused_matmul(b: Builder, node: OnnxNode) -> Value:
    """alpha times a product of tensors whose dimensions are exchanged first."""
    both: list[Value] = []
    for k, side in enumerate("AB"):
        v = node.input(k)
        axes = list(range(len(v.shape)))
        if node.get(f"transBatch{side}", 0) and len(axes) > 2:
            axes = [*axes[1:-1], 0, axes[-1]]
        if node.get(f"trans{side}", 0) and len(axes) > 1:
            axes[-2:] = axes[-1], axes[-2]
        moved = axes != sorted(axes)
        both.append(b.add("transpose", [v], axes=tuple(axes)) if moved else v)
    out = product(b, node, both[0], both[1])
    alpha = node.get("alpha", 1.0)
    if alpha == 1.0:
        return out
    factor = b.constant(np.asarray(alpha, out.dtype), node.name + ".alpha")
    return b.add("multiply", [out, factor], node.name)


def matmul_nbits(b: Builder, node: OnnxNode) -> Value:
    """A product with weights of a few bits, (columns, blocks, bytes), each block with a scale and a
    zero point."""
    x, packed, scales = (node.input(k) for k in range(3))
    zeros, groups, bias = (node.optional(k) for k in (3, 4, 5))
    inner, columns = node.get("K"), node.get("N")
    bits, size = node.get("bits", 4), node.get("block_size")
    if bits not in (2, 4, 8):
        raise OnHostError(str(node.error(f"weights of {bits} bits are not supported")))
    blocks = -(-inner // size)
    weights = b.add(
        "reshape", [packed], shape=(columns, blocks, prod(packed.shape) // (columns * blocks))
    )
    weights = b.add("unpack_bits", [weights], bits=bits, count=size)
    given = [b.add("reshape", [scales], shape=(columns, blocks))]
    if zeros is None:
        given.append(b.full((columns, blocks), 1 << (bits - 1), np.uint8, "zero"))
    elif zeros.dtype == "uint8":
        zeros = b.add("reshape", [zeros], shape=(columns, prod(zeros.shape) // columns))
        given.append(b.add("unpack_bits", [zeros], bits=bits, count=blocks))
    else:
        given.append(b.add("reshape", [zeros], shape=(columns, blocks)))
    flat = b.add("reshape", [weights], shape=(columns, blocks * size))
    if blocks * size != inner:
        flat = b.add("slice", [flat], begin=[0, 0], end=[columns, inner], strides=[1, 1])
    attrs: dict[str, Any] = {"dtype": x.dtype, "axis": 1, "block": size}
    if groups is not None:  # of each row of the product, which need not be in order
        given = [b.add("take", [v, groups], axis=1) for v in given]
        attrs["block"] = 1
    weights = b.add("dequantize", [flat, *given], node.name + ".weights", **attrs)
    rows = b.add("reshape", [x], shape=(prod(x.shape[:-1]), x.shape[-1]))
    out = b.add("dense", [rows, weights], node.name)
    out = b.add("reshape", [out], shape=(*x.shape[:-1], columns))
    return out if bias is None else b.add("add", [out, bias], node.name)


def _gelu(approximate: str) -> Converter:
    """Of the sum of two inputs, where there are two."""

    def convert(b: Builder, node: OnnxNode) -> Value:
        x, bias = node.input(0), node.optional(1)
        if bias is not None:
            x = b.add("add", [x, bias], node.name + ".bias")
        return b.add("gelu", [x], node.name, approximate=approximate)

    return convert


def quick_gelu(b: Builder, node: OnnxNode) -> Value:
    return b.add("swish", [node.input(0)], node.name, alpha=node.get("alpha", 1.702))


_ACTIVATIONS = {
    "Relu": ("relu", ()),
    "Tanh": ("tanh", ()),
    "Sigmoid": ("sigmoid", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "Clip": ("clip", ("min", "max")),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
}
"""What fused operators do last: the operation, and the names of its parameters."""


def _activated(b: Builder, node: OnnxNode, v: Value, params: list[float]) -> Value:
    kind = node.get("activation", "")
    if not kind:
        return v
    if kind not in _ACTIVATIONS:
        raise OnHostError(str(node.error(f"activation {kind!r} is not supported")))
    op, names = _ACTIVATIONS[kind]
    if len(params) < len(names):
        raise node.error(f"{kind} needs {len(names)} parameters, got {params}")
    return b.add(op, [v], node.name, **dict(zip(names, params)))


def fused_conv(b: Builder, node: OnnxNode) -> Value:
    """A convolution, the sum with a fourth input, an activation."""
    out, more = conv(b, node), node.optional(3)
    if more is not None:
        out = b.add("add", [out, more], node.name)
    return _activated(b, node, out, node.get("activation_params", []))


def fused_gemm(b: Builder, node: OnnxNode) -> Value:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    params = [node.attrs[n] for n in names if n in node.attrs]
    return _activated(b, node, gemm(b, node), params)


_OWN: dict[str, Converter] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "QLinearAdd": _pair("add"),
    "QLinearMul": _pair("multiply"),
    "QLinearSigmoid": _single("sigmoid"),
    "QLinearLeakyRelu": _single("leaky_relu", alpha=0.01),
    "QLinearConcat": qlinear_concat,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "MatMulNBits": matmul_nbits,
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "Gelu": _gelu("none"),
    "FastGelu": _gelu("tanh"),
    "BiasGelu": _gelu("none"),
    "QuickGelu": quick_gelu,
}
CONVERTERS: dict[str, Converter] = {f"com.microsoft.{name}": f for name, f in _OWN.items()}
