"""Operators of ONNX Runtime's own, in domain com.microsoft: products, fused ones, experts."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Value
from .compose import Compose
from .convert import Builder, Converter, OnHostError, OnnxNode
from .convolution import conv
from .nn import gemm
from .products import product
from .quantize import dynamic, integer_product, number


def _scaled(
    b: Builder, node: OnnxNode, total: Value, scales: list[Value], bias: Value | None
) -> Value:
    """Sums in int32 as floats: times the scales of both factors, plus a bias."""
    dtype = scales[0].dtype
    factor = b.add("multiply", scales, node.name + ".scale")
    if prod(factor.shape) == 1:
        factor = number(b, factor)
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


def _weighted(c: Compose, node: OnnxNode, gate: Value, up: Value) -> Value:
    """SwiGLU: a gate times its sigmoid, times what it lets through."""
    limit, beta = node.get("swiglu_limit"), node.get("activation_beta", 0.0)
    if node.get("swiglu_limit_after_activation", 0):
        raise node.error("swiglu_limit_after_activation is not supported")
    if limit is not None:
        gate = c("minimum", gate, limit)
        up = c("clip", up, min=-limit, max=limit)
    up = c("add", up, beta) if beta else up
    return c("multiply", c("swish", gate, alpha=node.get("activation_alpha", 1.0)), up)


_OF_EXPERTS: dict[str, tuple[str, dict[str, Any]]] = {
    "relu": ("relu", {}),
    "gelu": ("gelu", {"approximate": "tanh"}),
    "silu": ("swish", {"alpha": 1.0}),
    "identity": ("identity", {}),
}


def moe(b: Builder, node: OnnxNode) -> Value:
    """A mixture of experts: each row goes through those that have its largest scores."""
    c, x, router = Compose(b, node), node.input(0), node.input(1)
    kind, fusion = node.get("activation_type", "relu"), node.get("swiglu_fusion", 0)
    if node.get("use_sparse_mixer", 0) or kind not in (*_OF_EXPERTS, "swiglu"):
        raise node.error(f"use_sparse_mixer, or activation {kind!r}, is not supported")
    k, (count, hidden) = node.get("k", 1), (prod(x.shape[:-1]), x.shape[-1])
    scores = c("softmax", router, axis=1)
    places = c("topk_places", scores, k=k, axis=1, largest=True)
    scores = c("take_along", scores, places, axis=1)
    if node.get("normalize_routing_weights", 0):
        scores = c("divide", scores, c.sum(scores, [1]))
    expert = c.cast(c.reshape(places, (count * k,)), "int32")

    def layer(v: Value, index: int) -> Value:
        w, bias = node.input(index), node.optional(index + 1)
        out = c("grouped_matmul", v, c.transpose(w, (0, 2, 1)), expert)
        return out if bias is None else c("add", out, c("take", bias, expert, axis=0))

    rows = c.broadcast(c.reshape(x, (count, 1, hidden)), (count, k, hidden))
    rows = c.reshape(rows, (count * k, hidden))
    inner = layer(rows, 2)
    if kind == "swiglu" and fusion:
        half, step = inner.shape[1] // 2, 2 if fusion == 1 else 1
        last = (2 * half, 2) if fusion == 1 else (half, 1)
        gate = c.part(inner, 1, 0, *last)
        inner = _weighted(c, node, gate, c.part(inner, 1, 1 if step == 2 else half, 2 * half, step))
    elif kind == "swiglu":
        inner = _weighted(c, node, inner, layer(rows, 6))
    else:
        op, attrs = _OF_EXPERTS[kind]
        inner = c(op, inner, **attrs)
        if node.optional(6) is not None:
            inner = c("multiply", inner, layer(rows, 6))
    out = c.reshape(layer(inner, 4), (count, k, hidden))
    out = c("multiply", out, c.reshape(scores, (count, k, 1)))
    return c.reshape(c("reduce", out, type="sum", axes=[1], keepdims=False), x.shape)


_OWN: dict[str, Converter] = {
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
    "MoE": moe,
}
CONVERTERS: dict[str, Converter] = {f"com.microsoft.{name}": f for name, f in _OWN.items()}
