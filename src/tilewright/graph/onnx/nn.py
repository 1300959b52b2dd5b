"""Convolution, pooling, normalisation, dense layers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..ir import Value
from .convert import Builder, Converter, OnnxNode


def _pads(node: OnnxNode, spatial: Any, kernel: Any, strides: Any, dilation: Any) -> list[int]:
    """What is added before each dimension, then behind each."""
    auto = node.get("auto_pad", "NOTSET")
    rank = len(spatial)
    if auto in ("NOTSET", ""):
        pads = node.numbers("pads", 2 * rank) or [0] * (2 * rank)
        if min(pads) < 0:
            raise node.error("negative padding is not supported")
        return pads
    if auto == "VALID":
        return [0] * (2 * rank)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.error(f"auto_pad {auto!r} is unknown")
    before, after = [], []
    for size, k, s, d in zip(spatial, kernel, strides, dilation):
        total = max(0, ((size + s - 1) // s - 1) * s + d * (k - 1) + 1 - size)
        low = total // 2 if auto == "SAME_UPPER" else total - total // 2
        before.append(low)
        after.append(total - low)
    return [*before, *after]


@dataclass(frozen=True)
class _Window:
    """A window that slides over two dimensions; of one dimension, the first has extent 1."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]


def _window(node: OnnxNode, data: Value, kernel: Any, what: str) -> _Window:
    spatial = data.shape[2:]
    rank = len(spatial)
    if rank not in (1, 2) or kernel is None or len(kernel) != rank:
        raise node.error(f"only 1-D and 2-D {what} is supported, the data is {data!r}")
    strides = node.numbers("strides", rank) or [1] * rank
    dilation = node.numbers("dilations", rank) or [1] * rank
    if min(*kernel, *strides, *dilation) < 1:
        raise node.error(
            f"kernel {list(kernel)}, strides {strides} and dilations {dilation} must be 1 or more"
        )
    pads = _pads(node, spatial, kernel, strides, dilation)
    whole, sides = [1] * (2 - rank), [0] * (2 - rank)
    before, behind = pads[:rank], pads[rank:]
    (kh, kw), (sh, sw), (dh, dw) = ([*whole, *v] for v in (kernel, strides, dilation))
    (top, left), (bottom, right) = ([*sides, *v] for v in (before, behind))
    return _Window((kh, kw), (sh, sw), (top, left, bottom, right), (dh, dw))


def _plane(b: Builder, v: Value) -> Value:
    """(N, C, W) as (N, C, 1, W)."""
    if len(v.shape) != 3:
        return v
    return b.add("reshape", [v], shape=(*v.shape[:2], 1, v.shape[2]))


def _like(b: Builder, v: Value, data: Value) -> Value:
    """What _plane did to `data`, undone for a result."""
    if len(data.shape) != 3:
        return v
    return b.add("reshape", [v], shape=(*v.shape[:2], v.shape[3]))


def conv(b: Builder, node: OnnxNode) -> Value:
    data, kernel, bias = node.input(0), node.input(1), node.optional(2)
    if len(data.shape) != len(kernel.shape):
        raise node.error(f"data {data!r} and weights {kernel!r} differ in rank")
    w = _window(node, data, kernel.shape[2:], "convolution")
    if bias is not None and bias.shape != kernel.shape[:1]:
        raise node.error(f"the bias {bias!r} does not fit weights {kernel!r}")
    out = b.add(
        "conv2d",
        [_plane(b, data), _plane(b, kernel)],
        node.name,
        strides=w.strides,
        padding=w.padding,
        dilation=w.dilation,
        groups=node.get("group", 1),
    )
    if bias is not None:
        out = b.add("bias_add", [out, bias], node.name + ".bias", axis=1)
    return _like(b, out, data)


def batch_norm(b: Builder, node: OnnxNode) -> Value:
    """y = (x - mean) / sqrt(var + eps) * gamma + beta, as one multiplication and addition."""
    x = node.input(0)
    if node.get("training_mode", 0):
        raise node.error("training mode is not supported")
    statistics = [node.input(i) for i in range(1, 5)]
    for v in statistics:
        if v.shape != x.shape[1:2]:
            raise node.error(f"{v!r} does not fit the channels of {x!r}")
    epsilon = node.get("epsilon", 1e-5)
    if all(v.is_constant for v in statistics):
        gamma, beta, mean, var = (node.array(i).astype(np.float64) for i in range(1, 5))
        scale = gamma / np.sqrt(var + epsilon)
        shift = beta - mean * scale
        values = [
            b.constant(scale.astype(x.dtype), node.name + ".scale"),
            b.constant(shift.astype(x.dtype), node.name + ".shift"),
        ]
        return b.add("scale_shift", [x, *values], node.name, axis=1)
    g, t, m, v = statistics
    small = b.constant(np.asarray(epsilon, v.dtype), node.name + ".epsilon")
    deviation = b.add("sqrt", [b.add("add", [v, small])])
    factor = b.add("divide", [g, deviation], node.name + ".scale")
    moved = b.add("subtract", [t, b.add("multiply", [m, factor])], node.name + ".shift")
    return b.add("scale_shift", [x, factor, moved], node.name, axis=1)


def _pool(kind: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        data = node.input(0)
        w = _window(node, data, node.get("kernel_shape"), "pooling")
        reach = [d * (k - 1) + 1 for k, d in zip(w.kernel, w.dilation)]
        if any(p >= r for p, r in zip(w.padding, reach * 2)):
            raise node.error(
                f"pads {list(w.padding)} must be less than the extent of a window, {reach}: "
                "some windows would lie in the padding, and have no elements"
            )
        out = b.add(
            "pool2d",
            [_plane(b, data)],
            node.name,
            kernel=w.kernel,
            strides=w.strides,
            padding=w.padding,
            dilation=w.dilation,
            type=kind,
            ceil_mode=bool(node.get("ceil_mode", 0)),
            count_include_pad=bool(node.get("count_include_pad", 0)),
        )
        return _like(b, out, data)

    return convert


def _global_pool(kind: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        data = node.input(0)
        if len(data.shape) not in (3, 4):
            raise node.error(f"only 1-D and 2-D pooling is supported, the data is {data!r}")
        return _like(b, b.add("global_pool", [_plane(b, data)], node.name, type=kind), data)

    return convert


def gemm(b: Builder, node: OnnxNode) -> Value:
    x, w, c = node.input(0), node.input(1), node.optional(2)
    if node.get("transA", 0):
        x = b.add("transpose", [x], node.name + ".a", axes=(1, 0))
    if not node.get("transB", 0):
        w = b.add("transpose", [w], node.name + ".b", axes=(1, 0))
    out = b.add("dense", [x, w], node.name)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    whole = alpha == 1.0 and beta in (0.0, 1.0)
    wide = out.dtype if "float" in out.dtype or whole else "float64"
    result = _times(b, out, alpha, wide, node.name + ".alpha")
    if c is not None and beta != 0.0:  # C that nothing comes of is not read: it may hold NaN
        c = _times(b, c, beta, wide, node.name + ".beta")
        result = b.add("add", [result, c], node.name + ".c")
    return result if wide == out.dtype else b.add("cast", [result], dtype=out.dtype)


def _times(b: Builder, v: Value, factor: float, dtype: str, name: str) -> Value:
    """A multiple of a value, in the given type."""
    v = v if v.dtype == dtype else b.add("cast", [v], dtype=dtype)
    if factor == 1.0:
        return v
    return b.add("multiply", [v, b.constant(np.asarray(factor, dtype), name)])


def matmul(b: Builder, node: OnnxNode) -> Value:
    """NumPy's matmul: batch dimensions are broadcast, vectors are rows or columns."""
    x, y = node.input(0), node.input(1)
    if not x.shape or not y.shape:
        raise node.error(f"product of {x!r} and {y!r}: a number has no rows")
    row, column = len(x.shape) == 1, len(y.shape) == 1
    x = b.add("reshape", [x], shape=(1, *x.shape)) if row else x
    y = b.add("reshape", [y], shape=(*y.shape, 1)) if column else y
    out = _product(b, node, x, y)
    if row or column:
        shape = list(out.shape)
        del shape[len(shape) - 2 + (not row) : len(shape) - 1 + column]
        out = b.add("reshape", [out], shape=tuple(shape))
    return out


def _product(b: Builder, node: OnnxNode, x: Value, y: Value) -> Value:
    """Matrices, or batches of them."""
    if len(y.shape) == 2:
        rows = prod(x.shape[:-1])
        flat = x if len(x.shape) == 2 else b.add("reshape", [x], shape=(rows, x.shape[-1]))
        if y.is_constant:
            weight = b.add("transpose", [y], node.name + ".t", axes=(1, 0))
            out = b.add("dense", [flat, weight], node.name)
        else:
            out = b.add("matmul", [flat, y], node.name)
        if len(x.shape) == 2:
            return out
        return b.add("reshape", [out], shape=(*x.shape[:-1], y.shape[1]))
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    both = []
    for v in (x, y):
        if v.shape[:-2] != batch:
            v = b.add("broadcast_to", [v], shape=(*batch, *v.shape[-2:]))
        both.append(b.add("reshape", [v], shape=(prod(batch), *v.shape[-2:])))
    out = b.add("batch_matmul", both, node.name)
    return b.add("reshape", [out], shape=(*batch, x.shape[-2], y.shape[-1]))


def _softmax(op: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        x = node.input(0)
        axis = node.axis(node.get("axis", 1 if b.opset < 13 else -1), len(x.shape))
        if b.opset >= 13 or axis == len(x.shape) - 1:
            return b.add(op, [x], node.name, axis=axis)
        rows = prod(x.shape[:axis])  # before opset 13: over all dimensions from axis on
        flat = b.add("reshape", [x], shape=(rows, prod(x.shape[axis:])))
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
