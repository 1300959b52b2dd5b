"""Batch normalisation, dense layers, softmax."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...topi.elemwise import accumulator
from ..ir import Value
from .compose import Compose
from .convert import Builder, Converter, OnnxNode
from .norm import batch_norm_training
from .products import matrices, product


def batch_norm(b: Builder, node: OnnxNode) -> Any:
    """y = (x - mean) / sqrt(var + eps) * gamma + beta, as one multiplication and addition."""
    x = node.input(0)
    if not node.get("spatial", 1) and len(x.shape) > 2:  # old: statistics of every element
        c = Compose(b, node)
        flat = [v if v is None else c.reshape(v, (prod(v.shape),)) for v in node.inputs]
        flat[0] = c.reshape(x, (x.shape[0], prod(x.shape[1:])))
        attrs = {**node.attrs, "spatial": 1}
        found = batch_norm(b, OnnxNode(node.kind, node.name, flat, node.outputs, attrs))
        first, *rest = found if isinstance(found, list) else [found]
        rest = [v if v is None else c.reshape(v, x.shape[1:]) for v in rest]
        return [c.reshape(first, x.shape), *rest]
    statistics = [node.input(i) for i in range(1, 5)]
    for v in statistics:
        if v.shape != x.shape[1:2]:
            raise node.error(f"{v!r} does not fit the channels of {x!r}")
    # before opset 14, a node has more outputs than one where it trains
    if node.get("training_mode", 0) if b.opset >= 14 else any(node.outputs[1:]):
        return batch_norm_training(b, node)
    epsilon = node.get("epsilon", 1e-5)
    if all(v.is_constant for v in statistics):
        gamma, beta, mean, var = (node.array(i).astype(np.float64) for i in range(1, 5))
        scale = gamma / np.sqrt(var + epsilon)
        shift = beta - mean * scale
        wide = accumulator(x.dtype)  # in which a shift keeps what the mean takes from it
        values = [
            b.constant(scale.astype(wide), node.name + ".scale"),
            b.constant(shift.astype(wide), node.name + ".shift"),
        ]
        return b.add("scale_shift", [x, *values], node.name, axis=1)
    g, t, m, v = statistics
    small = b.constant(np.asarray(epsilon, v.dtype), node.name + ".epsilon")
    deviation = b.add("sqrt", [b.add("add", [v, small])])
    factor = b.add("divide", [g, deviation], node.name + ".scale")
    moved = b.add("subtract", [t, b.add("multiply", [m, factor])], node.name + ".shift")
    return b.add("scale_shift", [x, factor, moved], node.name, axis=1)


def gemm(b: Builder, node: OnnxNode) -> Value:
    x, w, c = node.input(0), node.input(1), node.optional(2)
    if node.get("transA", 0):
        x = b.add("transpose", [x], node.name + ".a", axes=(1, 0))
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    c = c if beta != 0.0 else None  # C that nothing comes of is not read: it may hold NaN
    alone = alpha == 1.0 and c is None
    sums = x.dtype if alone else accumulator(x.dtype)  # rounded once, with C
    how = {} if sums == x.dtype else {"out_dtype": sums}
    if node.get("transB", 0):
        out = b.add("dense", [x, w], node.name, **how)
    else:
        out = matrices(b, node.name, x, w, how)
    whole = alpha == 1.0 and beta in (0.0, 1.0)
    wide = sums if "float" in sums or whole else "float64"
    result = _times(b, out, alpha, wide, node.name + ".alpha")
    if c is not None:
        result = b.add(
            "add", [result, _times(b, c, beta, wide, node.name + ".beta")], node.name + ".c"
        )
    return result if wide == x.dtype else b.add("cast", [result], dtype=x.dtype)


def _times(b: Builder, v: Value, factor: float, dtype: str, name: str) -> Value:
    """A multiple of a value, in the given type."""
    v = v if v.dtype == dtype else b.add("cast", [v], dtype=dtype)
    if factor == 1.0:
        return v
    return b.add("multiply", [v, b.constant(np.asarray(factor, dtype), name)])


def matmul(b: Builder, node: OnnxNode) -> Value:
    return product(b, node, node.input(0), node.input(1))


def softmax(b: Builder, node: OnnxNode, op: str, opset: int) -> Value:
    """Or its logarithm (`op`), as a set of operators has it."""
    x = node.input(0)
    axis = node.axis(node.get("axis", 1 if opset < 13 else -1), len(x.shape))
    if opset >= 13 or axis == len(x.shape) - 1:
        return b.add(op, [x], node.name, axis=axis)
    rows = prod(x.shape[:axis])  # before opset 13: over all dimensions from axis on
    flat = b.add("reshape", [x], shape=(rows, prod(x.shape[axis:])))
    return b.add("reshape", [b.add(op, [flat], node.name, axis=1)], shape=x.shape)


CONVERTERS: dict[str, Converter] = {
    "BatchNormalization": batch_norm,
    "Gemm": gemm,
    "MatMul": matmul,
    "Softmax": lambda b, node: softmax(b, node, "softmax", b.opset),
    "LogSoftmax": lambda b, node: softmax(b, node, "log_softmax", b.opset),
}
