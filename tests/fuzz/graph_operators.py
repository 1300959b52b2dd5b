"""How each operator that imports is drawn: its inputs among a graph's values, and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.graph_draws import EXTENTS, FLOATS, TYPES, Draws, Inputs, NoDraw, Operator, is_float


def unary(d: Draws, kind: str) -> Inputs:
    attrs = {"alpha": d.rng.choice((0.0, 0.25, -0.5))} if kind == "LeakyRelu" else {}
    return [d.data(kind, exact=kind in ("Floor", "Ceil"))], attrs


def pair(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, exact=kind in ("Less", "Greater", "Equal"))
    y = d.like(x)
    if kind in ("Div", "Pow"):
        b = d.drawn.arrays[y]
        b[b == 0] = 1
        if kind == "Div" and not is_float(b):
            b[b == -1] = 2  # the quotient of the least number does not fit
        if kind == "Pow":
            x = d.like(x)
            for n in (x, y):
                a = d.drawn.arrays[n]
                small = np.abs(a.astype(np.float64)) % (5 if n == x else 4) + (is_float(a) and 0.25)
                d.drawn.arrays[n] = d.values[n] = np.asarray(small.astype(a.dtype))
    return ([y, x] if kind not in ("Div", "Pow") and d.rng.random() < 0.3 else [x, y]), {}


def where(d: Draws, kind: str) -> Inputs:
    if d.opset < 9:
        raise NoDraw
    x = d.data(kind, "T")
    condition = d.leaf(d.array(d.values[d.like(x)].shape, "bool"))
    return [condition, x, d.like(x)], {}


def variadic(d: Draws, kind: str) -> Inputs:
    x = d.data(kind)
    stretched = [None if d.opset >= 8 else d.values[x].shape] * d.rng.randrange(3)
    return [x, *(d.like(x, s) for s in stretched)], {}


def clip(d: Draws, kind: str) -> Inputs:
    x = d.data(kind)
    low, high = sorted(d.rng.randint(0, 6) for _ in range(2))
    if d.opset < 11:
        return [x], {"min": low / 2, "max": float(high)}
    ends = [d.known(v, d.values[x].dtype) if d.rng.random() < 0.7 else "" for v in (low, high)]
    return [x, *ends], {}


def cast(d: Draws, kind: str) -> Inputs:
    to = d.rng.choice(d.types(kind, "T2"))
    x = d.data(kind, "T1", exact=True)
    a = d.values[x]
    if is_float(a) and to not in FLOATS and to != "bool":
        if not np.isfinite(a.astype(np.float64)).all():
            raise NoDraw
        low, high = np.iinfo(TYPES[to]).min, np.iinfo(TYPES[to]).max
        if a.size and not low <= float(a.min()) <= float(a.max()) <= min(high, 2**31):
            raise NoDraw
    return [x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[to]))}


def reduce(d: Draws, kind: str) -> Inputs:
    x = d.data(kind)
    rank = d.values[x].ndim
    if 0 in d.values[x].shape and kind != "ReduceSum":
        raise NoDraw
    if kind == "ReduceMean" and not is_float(d.values[x]):
        raise NoDraw  # the evaluator's mean of integers is one of floats
    attrs: dict[str, Any] = {} if d.rng.random() < 0.3 else {"keepdims": d.rng.randrange(2)}
    count = d.rng.randint(0, rank)
    axes = d.rng.sample(range(rank), count)
    axes = [a - rank if d.opset >= 11 and d.rng.random() < 0.3 else a for a in axes]
    if not axes:
        return [x], attrs
    if d.opset >= (13 if kind == "ReduceSum" else 18):
        return [x, d.known(axes)], attrs
    return [x], {**attrs, "axes": axes}


def along(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(1, 4))
    if 0 in d.values[x].shape:
        raise NoDraw
    rank = d.values[x].ndim
    default = rank > 1 or d.opset >= 13  # before, it is 1
    return [x], {} if default and d.rng.random() < 0.3 else {"axis": d.axis(rank)}


def matmul(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(1, 4))
    a = d.values[x]
    if d.rng.random() < 0.2:
        return [x, d.like(x, a.shape[-1:])], {}
    batch = [e if d.rng.random() < 0.7 else 1 for e in a.shape[:-2]]
    batch = batch[d.rng.choice((0, len(batch))) :]
    return [x, d.like(x, [*batch, a.shape[-1], d.rng.choice(EXTENTS)])], {}


def gemm(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(2, 2))
    a, n = d.values[x], d.rng.choice(EXTENTS)
    flip, turn = d.rng.randrange(2), d.rng.randrange(2)
    m, k = reversed(a.shape) if flip else a.shape
    inputs = [x, d.like(x, (n, k) if turn else (k, n))]
    if d.opset < 11 or d.rng.random() < 0.6:
        inputs.append(d.like(x, d.rng.choice([(m, n), (n,), (m, 1), (1, n), (1,), ()])))
    attrs: dict[str, Any] = {"transA": flip, "transB": turn}
    if is_float(a) and d.rng.random() < 0.4:
        attrs |= {"alpha": 0.5, "beta": -2.0}
    return inputs, attrs


def window(d: Draws, kind: str, sizes: Sequence[int], kernel: Sequence[int]) -> dict[str, Any]:
    """Strides, dilations and padding that fit."""
    rank = len(sizes)
    attrs: dict[str, Any] = {}
    dilated = kind == "Conv" or d.opset >= (10 if kind == "MaxPool" else 19)
    if d.rng.random() < 0.6:
        attrs["strides"] = [d.rng.choice((1, 2, 3)) for _ in sizes]
    if dilated and d.rng.random() < 0.25:
        attrs["dilations"] = [d.rng.choice((1, 2)) for _ in sizes]
    if d.rng.random() < 0.25:
        attrs["auto_pad"] = d.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif d.rng.random() < 0.6:
        attrs["pads"] = [d.rng.randrange(min(kernel[k % rank], 3)) for k in range(2 * rank)]
    reach = [(k - 1) * s + 1 for k, s in zip(kernel, attrs.get("dilations", [1] * rank))]
    if any(r > s for r, s in zip(reach, sizes)):
        raise NoDraw
    return attrs


def image(d: Draws, kind: str) -> str:
    x = d.data(kind, rank=(3, 4))
    if 0 in d.values[x].shape:
        raise NoDraw
    return x


def conv(d: Draws, kind: str) -> Inputs:
    x = image(d, kind)
    _, channels, *sizes = d.values[x].shape
    group = d.rng.choice((1, 1, channels))
    filters = group * d.rng.choice((1, 2, 4, 8, 16) if group == 1 else (1, 2))
    kernel = [d.rng.choice((1, 2, 3)) for _ in sizes]
    attrs = {"group": group, **window(d, kind, sizes, kernel)}
    weights = d.like(x, (filters, channels // group, *kernel), known=d.rng.random() < 0.7)
    bias = [d.like(x, (filters,), known=d.rng.random() < 0.8)] if d.rng.random() < 0.5 else []
    return [x, weights, *bias], attrs


def pool(d: Draws, kind: str) -> Inputs:
    x = image(d, kind)
    sizes = d.values[x].shape[2:]
    kernel = [d.rng.choice((1, 2, 3)) for _ in sizes]
    attrs = {"kernel_shape": kernel, **window(d, kind, sizes, kernel)}
    if d.opset >= 10 and d.rng.random() < 0.4 and "auto_pad" not in attrs:
        attrs["ceil_mode"] = 1
    if kind == "AveragePool" and d.rng.random() < 0.4:
        attrs["count_include_pad"] = 1
    return [x], attrs


def global_pool(d: Draws, kind: str) -> Inputs:
    return [image(d, kind)], {}


def batch_norm(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(2, 4))
    c = d.values[x].shape[1:2]
    parts = [d.like(x, c, known=d.rng.random() < 0.8) for _ in range(4)]
    spread = d.drawn.arrays[parts[3]]
    spread[...] = np.abs(spread) + spread.dtype.type(0.5)
    return [x, *parts], {"epsilon": 0.01}


def reshape(d: Draws, kind: str) -> Inputs:
    x = d.data(kind)
    shape = list(d.values[x].shape)
    wanted = d.rng.choice([[*shape, 1], [1, *shape], shape[::-1], [-1], [*shape[:1], -1]])
    if -1 in wanted and (0 in shape or not shape):
        raise NoDraw
    return [x, d.known(wanted)], {}


def flatten(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(1, 4))
    return [x], {"axis": d.axis(d.values[x].ndim)}


def transpose(d: Draws, kind: str) -> Inputs:
    x = d.data(kind)
    rank = d.values[x].ndim
    return [x], {"perm": d.rng.sample(range(rank), rank)} if d.rng.random() < 0.7 and rank else {}


def concat(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(1, 4))
    shape, axis = d.values[x].shape, d.axis(d.values[x].ndim)
    others = []
    for _ in range(d.rng.randint(0, 3)):
        other = list(shape)
        other[axis] = d.rng.choice((1, 2, 3, 0))
        others.append(d.rng.choice((x, d.like(x, other))))
    return [x, *others], {"axis": axis}


def squeeze(d: Draws, kind: str) -> Inputs:
    x = d.data(kind)
    ones = [k for k, e in enumerate(d.values[x].shape) if e == 1]
    axes = d.rng.sample(ones, d.rng.randint(0, len(ones)))
    return _with_axes(d, x, axes) if axes else ([x], {})


def unsqueeze(d: Draws, kind: str) -> Inputs:
    x = d.data(kind)
    count = d.rng.randint(1, 2)
    rank = d.values[x].ndim + count
    return _with_axes(d, x, sorted(d.rng.sample(range(rank), count)))


def _with_axes(d: Draws, x: str, axes: list[int]) -> Inputs:
    return ([x, d.known(axes)], {}) if d.opset >= 13 else ([x], {"axes": axes})


def pad(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(1, 4))
    a = d.values[x]
    pads = [d.rng.randrange(3) for _ in range(2 * a.ndim)]
    if d.opset < 11:
        return [x], {"pads": pads, "value": 1.5}
    value = [d.known(1, a.dtype)] if d.rng.random() < 0.5 else []
    return [x, d.known(pads), *value], {}


def slice_(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(1, 4))
    shape = d.values[x].shape
    axes = d.rng.sample(range(len(shape)), d.rng.randint(1, len(shape)))
    starts = [d.rng.randint(-shape[a] - 1, shape[a] + 1) for a in axes]
    ends = [d.rng.choice((d.rng.randint(-shape[a], shape[a]), 2**31 - 1, -(2**31))) for a in axes]
    if d.opset < 10:
        return [x], {"axes": axes, "starts": starts, "ends": ends}
    steps = [d.rng.choice((1, 1, 2, -1, -3)) for _ in axes]
    return [x, *(d.known(v) for v in (starts, ends, axes, steps))], {}


def gather(d: Draws, kind: str) -> Inputs:
    x = d.data(kind, rank=(1, 4))
    axis = d.axis(d.values[x].ndim)
    extent = d.values[x].shape[axis]
    if not extent:
        raise NoDraw
    low = -extent if d.opset >= 11 else 0
    dtype = d.rng.choice((np.int32, np.int64))
    return [x, d.leaf(d.np_rng.integers(low, extent, d.shape(0, 2)).astype(dtype))], {"axis": axis}


def expand(d: Draws, kind: str) -> Inputs:
    if d.opset < 8:
        raise NoDraw
    x = d.data(kind)
    shape = [d.rng.choice((1, e, 3)) if e == 1 else d.rng.choice((1, e)) for e in d.values[x].shape]
    return [x, d.known([*([2] * d.rng.randrange(2)), *shape])], {}


def shape_of(d: Draws, kind: str) -> Inputs:
    return [d.data(kind)], {}


def constant_of_shape(d: Draws, kind: str) -> Inputs:
    if d.opset < 9:
        raise NoDraw
    fill = np.array([2], TYPES[d.rng.choice(d.types(kind, "T2"))])
    return [d.known(list(d.shape()))], {"value": onnx.numpy_helper.from_array(fill)}


def constant(d: Draws, kind: str) -> Inputs:
    a = d.array(d.shape(), d.rng.choice(d.types(kind)))
    return [], {"value": onnx.numpy_helper.from_array(np.asarray(a))}


OPERATORS: dict[str, Operator] = {
    **dict.fromkeys(("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Floor", "Ceil",
                     "Sin", "Cos", "Identity", "LeakyRelu", "Reciprocal", "Erf", "Dropout"), unary),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "Equal"), pair),
    **dict.fromkeys(("Sum", "Max", "Min"), variadic),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), along),
    **dict.fromkeys(("MaxPool", "AveragePool"), pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), global_pool),
    "Where": where, "Clip": clip, "Cast": cast, "MatMul": matmul, "Gemm": gemm, "Conv": conv,
    "BatchNormalization": batch_norm, "Reshape": reshape, "Flatten": flatten,
    "Transpose": transpose, "Concat": concat, "Squeeze": squeeze, "Unsqueeze": unsqueeze,
    "Pad": pad, "Slice": slice_, "Gather": gather, "Expand": expand, "Shape": shape_of,
    "ConstantOfShape": constant_of_shape, "Constant": constant,
}  # fmt: skip
