"""Convolution, pooling, normalisation, dense layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Value
from .convert import Builder, Converter, OnnxNode


def _pads(node: OnnxNode, spatial: Any, kernel: Any, strides: Any, dilation: Any) -> list[int]:
    """(top, left, bottom, right)."""
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        return list(node.get("pads", [0, 0, 0, 0]))
    if auto == "VALID":
        return [0, 0, 0, 0]
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.error(f"auto_pad {auto!r} is unknown")
    before, after = [], []
    for size, k, s, d in zip(spatial, kernel, strides, dilation):
        total = max(0, ((size + s - 1) // s - 1) * s + d * (k - 1) + 1 - size)
        low = total // 2 if auto == "SAME_UPPER" else total - total // 2
        before.append(low)
        after.append(total - low)
    return [*before, *after]


def conv(b: Builder, node: OnnxNode) -> Value:
    data, kernel, bias = node.input(0), node.input(1), node.optional(2)
    if len(data.shape) != 4:
        raise node.error(f"only 2-D convolution is supported, the data is {data!r}")
    size = kernel.shape[2:]
    strides = node.get("strides", [1, 1])
    dilation = node.get("dilations", [1, 1])
    padding = _pads(node, data.shape[2:], size, strides, dilation)
    out = b.add(
        "conv2d",
        [data, kernel],
        node.name,
        strides=tuple(strides),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=node.get("group", 1),
    )
    return out if bias is None else b.add("bias_add", [out, bias], node.name + ".bias", axis=1)


def batch_norm(b: Builder, node: OnnxNode) -> Value:
    """y = (x - mean) / sqrt(var + eps) * gamma + beta, as one multiplication and addition."""
    x = node.input(0)
    gamma, beta, mean, var = (node.array(i).astype(np.float64) for i in range(1, 5))
    scale = gamma / np.sqrt(var + node.get("epsilon", 1e-5))
    shift = beta - mean * scale
    dtype = np.float32 if x.dtype == "float32" else np.dtype(x.dtype)
    values = [
        b.constant(scale.astype(dtype), node.name + ".scale"),
        b.constant(shift.astype(dtype), node.name + ".shift"),
    ]
    return b.add("scale_shift", [x, *values], node.name, axis=1)


def _pool(kind: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        data = node.input(0)
        if len(data.shape) != 4:
            raise node.error(f"only 2-D pooling is supported, the data is {data!r}")
        kernel = node.get("kernel_shape")
        strides = node.get("strides", [1, 1])
        dilation = node.get("dilations", [1, 1])
        padding = _pads(node, data.shape[2:], kernel, strides, dilation)
        return b.add(
            "pool2d",
            [data],
            node.name,
            kernel=tuple(kernel),
            strides=tuple(strides),
            padding=tuple(padding),
            dilation=tuple(dilation),
            type=kind,
            ceil_mode=bool(node.get("ceil_mode", 0)),
            count_include_pad=bool(node.get("count_include_pad", 0)),
        )

    return convert


def _global_pool(kind: str) -> Converter:
    return lambda b, node: b.add("global_pool", [node.input(0)], node.name, type=kind)


def gemm(b: Builder, node: OnnxNode) -> Value:
    x, w, c = node.input(0), node.input(1), node.optional(2)
    if node.get("transA", 0):
        x = b.add("transpose", [x], node.name + ".a", axes=(1, 0))
    if not node.get("transB", 0):
        w = b.add("transpose", [w], node.name + ".b", axes=(1, 0))
    out = b.add("dense", [x, w], node.name)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    if alpha != 1.0:
        factor = b.constant(np.asarray(alpha, out.dtype), node.name + ".alpha")
        out = b.add("multiply", [out, factor])
    if c is None:
        return out
    if beta != 1.0:
        c = b.add("multiply", [c, b.constant(np.asarray(beta, out.dtype), node.name + ".beta")])
    return b.add("add", [out, c], node.name + ".c")


def matmul(b: Builder, node: OnnxNode) -> Value:
    x, y = node.input(0), node.input(1)
    if len(x.shape) == len(y.shape) == 2:
        if y.is_constant:
            weight = b.add("transpose", [y], node.name + ".t", axes=(1, 0))
            return b.add("dense", [x, weight], node.name)
        return b.add("matmul", [x, y], node.name)
    if len(y.shape) == 2 and len(x.shape) > 2:
        rows = int(np.prod(x.shape[:-1]))
        flat = b.add("reshape", [x], shape=(rows, x.shape[-1]))
        out = b.add("matmul", [flat, y], node.name)
        return b.add("reshape", [out], shape=(*x.shape[:-1], y.shape[1]))
    if len(x.shape) == len(y.shape) > 2 and x.shape[:-2] == y.shape[:-2]:
        batch = int(np.prod(x.shape[:-2]))
        x3 = b.add("reshape", [x], shape=(batch, *x.shape[-2:]))
        y3 = b.add("reshape", [y], shape=(batch, *y.shape[-2:]))
        out = b.add("batch_matmul", [x3, y3], node.name)
        return b.add("reshape", [out], shape=(*x.shape[:-2], x.shape[-2], y.shape[-1]))
    raise node.error(f"product of {x!r} and {y!r} is not supported")


def _softmax(op: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        x = node.input(0)
        axis = node.get("axis", 1 if b.opset < 13 else -1) % len(x.shape)
        if b.opset >= 13 or axis == len(x.shape) - 1:
            return b.add(op, [x], node.name, axis=axis)
        rows = int(np.prod(x.shape[:axis]))  # before opset 13: over all dimensions from axis on
        flat = b.add("reshape", [x], shape=(rows, int(np.prod(x.shape[axis:]))))
        return b.add("reshape", [b.add(op, [flat], node.name, axis=1)], shape=x.shape)

    return convert


CONVERTERS: dict[str, Converter] = {
    "Conv": conv,
    "BatchNormalization": batch_norm,
    "MaxPool": _pool("max"),
    "AveragePool": _pool("avg"),
    "GlobalAveragePool": _global_pool("avg"),
    "GlobalMaxPool": _global_pool("max"),
    "Gemm": gemm,
    "MatMul": matmul,
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
}
