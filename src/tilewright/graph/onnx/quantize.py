"""Quantised data: conversions, and products and convolutions of whole numbers."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...base.dtype import parse
from ..ir import Value
from ..ops.quantize import less_zero
from ..shapes import is_open
from .compose import Compose
from .convert import Builder, Converter, OnHostError, OnnxNode
from .convolution import biased, conv, convolve
from .math import type_of
from .products import product
from .window import cropped, window_of

GROUP = 4
"""Neighbours whose products instructions add up, at most: sums are padded to so many with zeros."""
_NARROW = ("int8", "uint8", "int16", "uint16")


def _place(node: OnnxNode, x: Value, p: Value, axis: int, block: int) -> tuple[int, int]:
    """The axis along which a scale differs, and the elements of it that share one; -1 and 0 where
    there is one scale for all. ImportModelError where it does not fit."""
    rank = len(x.shape)
    if prod(p.shape) == 1 and len(p.shape) < 2:
        return -1, 0
    axis = node.axis(axis, rank)
    if len(p.shape) == 1 and p.shape[0] == x.shape[axis]:
        return axis, 0
    if block > 0 and len(p.shape) == rank:
        wanted = list(x.shape)
        wanted[axis] = -(-x.shape[axis] // block)
        if list(p.shape) == wanted:
            return axis, block
    raise node.error(f"scales {p!r} do not fit {x!r} along axis {axis} in blocks of {block}")


def _parameters(
    b: Builder, node: OnnxNode, x: Value, scale: Value, zero: Value | None
) -> tuple[list[Value], dict[str, int]]:
    """Scale and zero point as the operations take them, and the attributes that say how."""
    if zero is not None and zero.shape != scale.shape and {zero.shape, scale.shape} != {(), (1,)}:
        raise node.error(f"scale {scale!r} and zero point {zero!r} differ in shape")
    axis, block = _place(node, x, scale, node.get("axis", 1), node.get("block_size", 0))
    values = [scale] if zero is None or is_zero(zero) else [scale, zero]
    return [number(b, v) if axis < 0 else v for v in values], {"axis": axis, "block": block}


def number(b: Builder, v: Value) -> Value:
    """A tensor of one element without its dimensions."""
    return b.add("reshape", [v], shape=()) if v.shape else v


def is_zero(v: Value) -> bool:
    """Whether a value is known to be 0."""
    return v.data is not None and not np.any(v.data)


def quantize_linear(b: Builder, node: OnnxNode) -> Value:
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    given = node.get("output_dtype", 0)
    dtype = zero.dtype if zero is not None else type_of(node, given) if given else "uint8"
    if dtype not in _NARROW:
        raise OnHostError(str(node.error(f"quantisation to {dtype} is not supported")))
    how = node.get("precision", 0)
    precision = type_of(node, how) if how else scale.dtype
    precision = precision if parse(precision).is_float else "float32"
    values, attrs = _parameters(b, node, x, scale, zero)
    return b.add("quantize", [x, *values], node.name, dtype=dtype, precision=precision, **attrs)


def dequantize_linear(b: Builder, node: OnnxNode) -> Value:
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    given = node.get("output_dtype", 0)
    dtype = type_of(node, given) if given else scale.dtype
    if zero is not None and zero.dtype != x.dtype:
        raise node.error(f"{x!r} and its zero point {zero!r} differ in type")
    values, attrs = _parameters(b, node, x, scale, zero)
    return b.add("dequantize", [x, *values], node.name, dtype=dtype, **attrs)


def dynamic(b: Builder, name: str, x: Value) -> list[Value]:
    """x in 8 bits, its scale and its zero point, which its range decides."""
    none = b.constant(np.zeros((), x.dtype), name + ".zero")
    axes = list(range(len(x.shape)))
    ends = []
    for kind, op in (("min", "minimum"), ("max", "maximum")):
        attrs: dict[str, Any] = {"type": kind, "axes": axes, "keepdims": False}
        end = b.add("reduce", [x], f"{name}.{kind}", **attrs) if axes else x
        ends.append(b.add(op, [end, none], f"{name}.{kind}"))
    scale = b.add("dynamic_scale", ends, name + ".scale")
    zero = b.add("dynamic_zero", [ends[0], scale], name + ".zero_point")
    attrs = {"dtype": "uint8", "precision": x.dtype, "axis": -1, "block": 0}
    return [b.add("quantize", [x, scale, zero], name, **attrs), scale, zero]


def dynamic_quantize_linear(b: Builder, node: OnnxNode) -> list[Value]:
    return dynamic(b, node.name, node.input(0))


def centred(b: Builder, v: Value, zero: Value | None) -> Value:
    """Whole numbers of 8 bits less their zero point, which stretches to them."""
    if v.dtype not in ("int8", "uint8"):
        raise OnHostError(f"products of {v.dtype} are not supported")
    if zero is None or is_zero(zero):
        return v
    both = [b.add("cast", [u], dtype="int16") for u in (v, zero)]
    return b.add("subtract", both, v.name + ".centred")


def per_row(b: Builder, v: Value | None, x: Value) -> Value | None:
    """A scale or zero point for the rows of the matrices of x."""
    if v is None or len(v.shape) != 1:
        return v
    return b.add("reshape", [v], shape=(*v.shape, 1) if len(x.shape) > 1 else ())


def integer_product(
    b: Builder, node: OnnxNode, x: Value, y: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """A product of matrices of 8 bits in int32. With known factors on the right and one zero point
    on the left, this is taken out of the sums, which then are those of bytes."""
    matrices = len(x.shape) > 1 and len(y.shape) == 2
    known = _known_bytes(y, zeros[1]) if matrices else None
    zero = zeros[0]
    if (
        known is not None
        and x.dtype in ("int8", "uint8")
        and (zero is None or prod(zero.shape) == 1)
    ):
        more = -known.shape[0] % GROUP if known.shape[0] > GROUP and not is_open(x.shape) else 0
        left, right = x, np.pad(known, ((0, more), (0, 0)))
        if more:
            behind = [0] * (len(x.shape) - 1) + [more]
            ends: dict[str, Any] = {"before": [0] * len(x.shape), "after": behind}
            left = b.add("pad", [x], x.name + ".whole", value=0, **ends)
        total = product(b, node, left, b.constant(right, y.name + ".centred"), "int32")
        if zero is None or is_zero(zero):
            return total
        columns = b.constant(known.astype("int32").sum(0, dtype="int32"), y.name + ".sums")
        amount = b.add("cast", [number(b, zero)], dtype="int32")
        lost = b.add("multiply", [columns, amount], node.name + ".lost")
        return b.add("subtract", [total, lost], node.name)
    left = centred(b, x, per_row(b, zeros[0], x))
    return product(b, node, left, centred(b, y, zeros[1]), "int32")


def _known_bytes(y: Value, zero: Value | None) -> np.ndarray[Any, Any] | None:
    """Known whole numbers less their zero point where that fits int8; None for others."""
    if y.data is None or (zero is not None and zero.data is None):
        return None
    found = less_zero(y.data, None if zero is None else zero.data)
    return found if found is not None and found.shape == y.shape else None


def matmul_integer(b: Builder, node: OnnxNode) -> Value:
    zeros = (node.optional(2), node.optional(3))
    return integer_product(b, node, node.input(0), node.input(1), zeros)


def qlinear_matmul(b: Builder, node: OnnxNode) -> Value:
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = (node.input(k) for k in range(8))
    if zero.dtype not in _NARROW:
        raise OnHostError(str(node.error(f"products of {zero.dtype} are not supported")))
    total = integer_product(b, node, x, y, (x_zero, y_zero))
    rows = per_row(b, x_scale, x)
    assert rows is not None
    factor = _factor(b, node.name, [rows, y_scale], scale)
    return requantized(b, node.name, total, factor, zero)


def _factor(b: Builder, name: str, scales: list[Value], last: Value) -> Value:
    """The product of the scales of two factors over that of the result."""
    wide = [
        v if v.dtype == "float32" else b.add("cast", [v], dtype="float32") for v in (*scales, last)
    ]
    both = b.add("multiply", wide[:2], name + ".scale")
    return b.add("divide", [both, wide[2]], name + ".factor")


def requantized(
    b: Builder, name: str, total: Value, factor: Value, zero: Value, axis: int = -1
) -> Value:
    """Sums in int32 as whole numbers of another scale, with the type of its zero point."""
    if prod(factor.shape) == 1:
        factor = number(b, factor)
    if prod(zero.shape) == 1:
        zero = number(b, zero)
    return b.add("requantize", [total, factor, zero], name, dtype=zero.dtype, axis=axis)


def integer_conv(
    b: Builder, node: OnnxNode, x: list[Value | None], w: list[Value | None], bias: Value | None
) -> Value:
    """A convolution of 8 bits in int32, each with its zero point. Padding is the data's zero
    point, which is 0 once it is subtracted. With known filters and one zero point of the data, this
    is taken out of the sums, which then are those of bytes."""
    data, kernel = x[0], w[0]
    assert data is not None and kernel is not None
    zero = w[1]
    if zero is not None and len(zero.shape) == 1 and zero.shape[0] > 1:
        zero = b.add("reshape", [zero], shape=(*zero.shape, *[1] * (len(kernel.shape) - 1)))
    known, lost = _known_bytes(kernel, zero), x[1]
    alone = lost is None or prod(lost.shape) == 1
    if known is not None and data.dtype in ("int8", "uint8") and alone:
        return _conv_of_bytes(b, node, data, lost, b.constant(known, kernel.name + ".whole"), bias)
    wide = []
    for v, z in ((data, x[1]), (kernel, zero)):
        v = centred(b, v, z)
        wide.append(b.add("cast", [v], dtype="int32"))
    inner = OnnxNode(node.kind, node.name, [*wide, bias], node.outputs, node.attrs)
    result: Value = conv(b, inner)
    return result


def _conv_of_bytes(
    b: Builder, node: OnnxNode, data: Value, zero: Value | None, kernel: Value, bias: Value | None
) -> Value:
    """Sums of x * w, less zero * (sum of w) of each filter; padding is the zero point."""
    c = Compose(b, node)
    data, w = cropped(c, data, window_of(node, data, kernel.shape[2:], "convolution"))
    zero = None if zero is None or is_zero(zero) else number(b, zero)
    if zero is not None and any(w.padding):
        ends = {"before": (0, 0, *w.before), "after": (0, 0, *w.after)}
        if zero.data is None:
            data = c("pad_by", data, zero, **ends)
        else:
            data = c("pad", data, value=int(zero.data), **ends)
        w = replace(w, before=(0,) * w.rank, after=(0,) * w.rank)
    total = convolve(c, data, kernel, w, node.get("group", 1), "int32")
    if zero is not None and kernel.data is not None:
        weights = kernel.data.astype("int32").reshape(kernel.shape[0], -1).sum(1, dtype="int32")
        sums = weights.reshape(-1, *[1] * w.rank)
        amount = b.add("cast", [zero], dtype="int32")
        columns = b.add("multiply", [b.constant(sums, kernel.name + ".sums"), amount])
        total = b.add("subtract", [total, columns], node.name + ".sums")
    return biased(c, total, bias)


def conv_integer(b: Builder, node: OnnxNode) -> Value:
    data = [node.input(0), node.optional(2)]
    return integer_conv(b, node, data, [node.input(1), node.optional(3)], None)


def qlinear_conv(b: Builder, node: OnnxNode) -> Value:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = (node.input(k) for k in range(8))
    total = integer_conv(b, node, [x, x_zero], [w, w_zero], node.optional(8))
    factor = _factor(b, node.name, [x_scale, w_scale], scale)
    return requantized(b, node.name, total, factor, zero, 1)


CONVERTERS: dict[str, Converter] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": qlinear_matmul,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
}
