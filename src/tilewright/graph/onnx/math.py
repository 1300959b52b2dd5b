"""Element-wise arithmetic, conversions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...base.dtype import canonical, parse
from ..ir import Value
from .convert import Builder, Converter, OnHostError, OnnxNode
from .file import carried, numbered_type


def simple(op: str) -> Converter:
    return lambda b, node: b.add(op, [v for v in node.inputs if v is not None], node.name)


def erf(b: Builder, node: OnnxNode) -> Value:
    """Operator sets before 13 take integers too."""
    x = node.input(0)
    if "float" in x.dtype:
        return b.add("erf", [x], node.name)
    wide = b.add("erf", [b.add("cast", [x], dtype="float64")], node.name)
    return b.add("cast", [wide], dtype=x.dtype)


def pair(op: str) -> Converter:
    return lambda b, node: b.add(op, list(operands(b, node)), node.name)


def operands(b: Builder, node: OnnxNode) -> tuple[Value, Value]:
    """The two inputs of an element-wise node. Before opset 7 the second was stretched only on
    demand, and could begin at any dimension of the first."""
    x, y = node.input(0), node.input(1)
    if b.opset >= 7:
        return x, y
    rank = len(x.shape)
    if not node.get("broadcast", 0):
        if x.shape != y.shape:
            raise node.error(f"{x!r} and {y!r} differ in shape, and broadcast is not set")
        return x, y
    axis = node.get("axis", rank - len(y.shape))
    axis = axis + rank if axis < 0 else axis
    window = x.shape[axis : axis + len(y.shape)]
    behind = rank - axis - len(y.shape)
    if axis < 0 or behind < 0 or any(k not in (1, n) for k, n in zip(y.shape, window)):
        raise node.error(f"{y!r} cannot be stretched to {x!r} from dimension {axis} on")
    return x, b.add("reshape", [y], shape=(*y.shape, *[1] * behind)) if behind else y


def _chain(op: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        out = node.input(0)
        for i in range(1, len(node.inputs)):
            out = b.add(op, [out, node.input(i)], node.name)
        return out

    return convert


def identity(b: Builder, node: OnnxNode) -> Value:
    return node.input(0)


def clip(b: Builder, node: OnnxNode) -> Value:
    """A missing limit is the largest or smallest number; those that the network computes are taken
    as they come."""
    x = node.input(0)
    if b.opset < 11:
        given = [node.get("min"), node.get("max")]
        limits = [None if n is None else b.constant(np.asarray(n), "limit") for n in given]
    else:
        limits = [node.optional(1), node.optional(2)]
    for v in limits:
        if v is not None and prod(v.shape) != 1:
            raise node.error(f"a limit is one number, got {prod(v.shape)}")
    info = parse(x.dtype)
    if all(v is None or v.data is not None for v in limits):
        kind: Any = float if info.is_float else int
        least, most = (
            kind(n if v is None or v.data is None else v.data.reshape(-1)[0])
            for v, n in zip(limits, (info.min_value, info.max_value))
        )
        return b.add("clip", [x], node.name, min=least, max=most)
    for op, v in zip(("maximum", "minimum"), limits):
        if v is not None:
            limit = b.add("reshape", [v], shape=()) if v.shape else v
            x = b.add(op, [x, limit], node.name)
    return x


def power(b: Builder, node: OnnxNode) -> Value:
    """The result has the base's type. Powers of integers are exact; other pairs of types go through
    float64."""
    x, y = operands(b, node)
    if "int" in x.dtype and "int" in y.dtype:
        wide = x.dtype if x.dtype == y.dtype else "uint64" if y.dtype == "uint64" else "int64"
    elif x.dtype == y.dtype or ("float" in x.dtype and _fits(y, x.dtype)):
        wide = x.dtype
    else:
        wide = "float64"
    terms = [v if v.dtype == wide else b.add("cast", [v], dtype=wide) for v in (x, y)]
    out = b.add("power", terms, node.name)
    return out if out.dtype == x.dtype else b.add("cast", [out], dtype=x.dtype)


def _fits(v: Value, dtype: str) -> bool:
    """Whether a value is known, and the same in another type."""
    if v.data is None:
        return False
    return np.array_equal(v.data.astype(parse(dtype).numpy).astype(v.data.dtype), v.data)


def dropout(b: Builder, node: OnnxNode) -> list[Value]:
    """Inference keeps everything: the data, and a mask of ones. Training draws random numbers."""
    x = node.input(0)
    if b.opset >= 12 and np.any(node.array(2, False)) and np.any(node.array(1, 0.5)):
        raise OnHostError(str(node.error("training mode is not supported")))
    dtype = "bool" if b.opset >= 10 else x.dtype
    if len(node.outputs) == 1:
        return [x]
    return [x, b.full(x.shape, 1, dtype, node.name + ".mask")]


def leaky_relu(b: Builder, node: OnnxNode) -> Value:
    return b.add("leaky_relu", [node.input(0)], node.name, alpha=node.get("alpha", 0.01))


_FIRST_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}  # in operator sets before 6


def type_of(node: OnnxNode, number: Any) -> str:
    """The type that an ONNX number stands for; OnHostError for those that are not compiled."""
    if isinstance(number, str):
        return canonical(_FIRST_NAMES.get(number, number.lower()))
    numbered = numbered_type(number)
    dtype = None if numbered is None else carried(numbered)
    if dtype is None:
        raise OnHostError(str(node.error(f"ONNX type {number} is not supported")))
    return dtype


def asked_cast(b: Builder, node: OnnxNode, dtype: str) -> Value:
    """A conversion that stands in the network itself, which rounds whatever it is computed in."""
    narrow = {"rounds": True} if dtype in ("float16", "bfloat16") else {}
    return b.add("cast", [node.input(0)], node.name, dtype=dtype, **narrow)


def cast(b: Builder, node: OnnxNode) -> Value:
    return asked_cast(b, node, type_of(node, node.get("to")))


def cast_like(b: Builder, node: OnnxNode) -> Value:
    return asked_cast(b, node, node.input(1).dtype)


def mean(b: Builder, node: OnnxNode) -> Value:
    values = [node.input(i) for i in range(len(node.inputs))]
    if b.opset < 8 and any(v.shape != values[0].shape for v in values):
        raise node.error(f"{values} differ in shape")
    return b.add("mean_of", values, node.name)


def size(b: Builder, node: OnnxNode) -> Value:
    return b.sizes(prod(node.input(0).shape), node.name)


def reciprocal(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    one: Any = b.constant(np.asarray(1, x.dtype), "one")
    return b.add("divide", [one, x], node.name)


CONVERTERS: dict[str, Converter] = {
    **{
        kind: simple(op)
        for kind, op in {
            "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log",
            "Sqrt": "sqrt", "Abs": "abs", "Neg": "negative", "Floor": "floor",
            "Ceil": "ceil", "Sin": "sin", "Cos": "cos", "Where": "where", "Round": "nearbyint",
            "Tan": "tan", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
            "Atan": "atan", "Atanh": "atanh", "Cosh": "cosh", "Sinh": "sinh",
        }.items()
    },
    **{
        kind: pair(op)
        for kind, op in {
            "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Less": "less",
            "Greater": "greater", "Equal": "equal",
        }.items()
    },
    "Sum": _chain("add"),
    "Max": _chain("maximum"),
    "Min": _chain("minimum"),
    "Identity": identity,
    "Dropout": dropout,
    "Pow": power,
    "Erf": erf,
    "Clip": clip,
    "LeakyRelu": leaky_relu,
    "Cast": cast,
    "CastLike": cast_like,
    "Mean": mean,
    "Size": size,
    "Reciprocal": reciprocal,
}  # fmt: skip
