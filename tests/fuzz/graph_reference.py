"""What a node of ONNX gives: by the evaluator of onnx in float64, or by NumPy where it is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.fuzz.graph_draws import Array, is_float


def wide(a: Array | None) -> Array | None:
    return a.astype(np.float64) if a is not None and is_float(a) else a


def _gemm(opset: int, attrs: Any, x: Array, y: Array, c: Any = 0) -> Array:
    x, y = (a.T if attrs.get(k) else a for a, k in ((x, "transA"), (y, "transB")))
    if not is_float(x):
        return x @ y + c  # the evaluator multiplies with a float
    return np.asarray(attrs.get("alpha", 1.0) * (x @ y) + attrs.get("beta", 1.0) * c)


def _softmax(log: bool) -> Any:
    def compute(opset: int, attrs: Any, x: Array) -> Array:
        axis = attrs.get("axis", -1 if opset >= 13 else 1)
        rows = x if opset >= 13 else x.reshape(int(np.prod(x.shape[: axis % x.ndim])), -1)
        axis = axis if opset >= 13 else 1
        moved = rows - rows.max(axis, keepdims=True)
        total = np.exp(moved).sum(axis, keepdims=True)
        return (moved - np.log(total) if log else np.exp(moved) / total).reshape(x.shape)

    return compute


def _padded(node: Any, given: Sequence[Array | None]) -> Any:
    """A node with its `auto_pad` as numbers: the evaluator gives some a wrong shape."""
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    auto = attrs.pop("auto_pad", b"NOTSET").decode()
    if not auto.startswith("SAME"):
        return node
    assert given[0] is not None
    kernel = attrs.get("kernel_shape") or given[1].shape[2:]  # type: ignore[union-attr]
    low, high = [], []
    for k, (size, extent) in enumerate(zip(given[0].shape[2:], kernel)):
        stride, dilation = (attrs.get(n, [1] * 9)[k] for n in ("strides", "dilations"))
        whole = max(0, (-(-size // stride) - 1) * stride + (extent - 1) * dilation + 1 - size)
        low.append(whole // 2 if auto == "SAME_UPPER" else whole - whole // 2)
        high.append(whole - low[-1])
    attrs["pads"] = [*low, *high]
    return onnx.helper.make_node(node.op_type, node.input, node.output, **attrs)


def _over_image(function: Any) -> Any:
    return lambda opset, attrs, x: function(x, tuple(range(2, x.ndim)), keepdims=True)


def _batch_norm(opset: int, attrs: Any, x: Array, *parts: Array) -> Array:
    gamma, beta, mean, var = (a.reshape(-1, *[1] * (x.ndim - 2)) for a in parts)
    return (x - mean) / np.sqrt(var + attrs["epsilon"]) * gamma + beta


def _slice(opset: int, attrs: Any, x: Array, *parts: Array) -> Array:
    starts, ends, axes, steps = parts or (
        *(np.array(attrs[k]) for k in ("starts", "ends", "axes")), np.ones(9, np.int64)
    )  # fmt: skip
    for a, start, end, step in zip(axes, starts, ends, steps):
        first = max(int(start), -x.shape[a]) if step < 0 and x.shape[a] else int(start)
        places = range(*slice(first, int(end), int(step)).indices(x.shape[a]))
        x = np.take(x, list(places), a)
    return x


def _conv(opset: int, attrs: Any, x: Array, w: Array, bias: Array | None = None) -> Array:
    rank, groups = x.ndim - 2, attrs.get("group", 1)
    strides, dilations = (attrs.get(k) or [1] * rank for k in ("strides", "dilations"))
    pads = attrs.get("pads") or [0] * (2 * rank)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilations, strides)
    ]
    result = np.zeros((x.shape[0], w.shape[0], *sizes))
    parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    filters = w.reshape(groups, -1, *w.shape[1:])
    for tap in np.ndindex(*w.shape[2:]):
        cut = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, sizes, strides)
        )
        here: tuple[Any, ...] = (..., *cut)
        seen, weight = parts[here], filters[(..., *tap)]
        result += np.einsum("ngc...,gfc->ngf...", seen, weight).reshape(result.shape)
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _pool(largest: bool) -> Any:
    def compute(opset: int, attrs: Any, x: Array) -> Array:
        """Over windows that begin in the image or its front padding, cut at the padded image."""
        sizes, kernel = x.shape[2:], attrs["kernel_shape"]
        rank = len(sizes)
        strides, dilations = (attrs.get(k) or [1] * rank for k in ("strides", "dilations"))
        pads = attrs.get("pads") or [0] * (2 * rank)
        counts, behind = [], []
        for n, k, s, d, low, high in zip(
            sizes, kernel, strides, dilations, pads[:rank], pads[rank:]
        ):
            free = n + low + high - (k - 1) * d - 1
            steps = -(-free // s) if attrs.get("ceil_mode") else free // s
            counts.append(steps + 1 - (steps * s >= n + low))
            behind.append(high + max(0, steps * s - free))

        def taps(a: Array, fill: float, beyond: float) -> list[Array]:
            pad = [(0, 0), (0, 0)]
            inner = np.pad(a, pad + [*zip(pads[:rank], pads[rank:])], constant_values=fill)
            more = [(0, b - h) for b, h in zip(behind, pads[rank:])]
            whole: Any = np.pad(inner, pad + more, constant_values=beyond)
            return [
                whole[(..., *(
                    slice(t * d, t * d + (c - 1) * s + 1, s)
                    for t, d, c, s in zip(tap, dilations, counts, strides)
                ))]
                for tap in np.ndindex(*kernel)
            ]  # fmt: skip

        if largest:
            least = -np.inf if is_float(x) else np.iinfo(x.dtype).min
            return np.asarray(np.max(taps(x, least, least), axis=0))
        inside = float(attrs.get("count_include_pad", 0))
        seen = np.sum(taps(np.ones(x.shape), inside, 0), axis=0)
        return np.asarray(np.sum(taps(x, 0, 0), axis=0) / seen)

    return compute


OWN = {  # what the evaluator computes in float32, of the wrong shape, or as later operator sets do
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "Slice": _slice,
    "GlobalMaxPool": _over_image(np.max),
    "GlobalAveragePool": _over_image(np.mean),
    "MaxPool": _pool(True),
    "AveragePool": _pool(False),
    "Erf": lambda opset, attrs, x: np.vectorize(math.erf, otypes=[np.float64])(x),
    "Gemm": _gemm,
    "Softmax": _softmax(False),
    "LogSoftmax": _softmax(True),
}


def reference(opset: int, node: Any, given: Sequence[Array | None]) -> Array:
    """One node by ONNX's evaluator, floats in float64."""
    node = _padded(node, given)
    if node.op_type in OWN:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        with np.errstate(all="ignore"):
            return np.asarray(OWN[node.op_type](opset, attrs, *map(wide, given)))
    names = {n: a for n, a in zip(node.input, given) if a is not None}
    body = onnx.helper.make_graph(
        [node], "one", [onnx.ValueInfoProto(name=n) for n in names],
        [onnx.ValueInfoProto(name=node.output[0])],
    )  # fmt: skip
    sets = [onnx.helper.make_opsetid("", opset)]
    run = ReferenceEvaluator(onnx.helper.make_model(body, opset_imports=sets, ir_version=10))
    with np.errstate(all="ignore"):
        (result, *_) = run.run(None, {n: wide(a) for n, a in names.items()})
    return np.asarray(result)
