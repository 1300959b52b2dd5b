"""Activations and per-channel arithmetic."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import const, const_int
from ...tensor.compute import compute
from ...tensor.extents import dimension
from ...tensor.tensor import Tensor
from ..elemwise import unary
from ..transform import flatten as flatten_from


def relu(x: Tensor) -> Tensor:
    """max(x, 0). Takes numbers of any type, which the result keeps."""
    zero = const(0, x.dtype)
    return unary(lambda v: O.max(v, zero), x, "T_relu")


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """x where positive, else times a slope per index of dimension `axis`. The result has the type
    that arithmetic brings both to. He et al., Delving Deep into Rectifiers, ICCV 2015. Raises
    TilewrightError where slope has not one value for each index of the axis, where `axis` is no
    integer, or no dimension of the tensor."""
    axis = dimension(axis, x.ndim)
    if slope.ndim != 1 or const_int(slope.shape[0]) not in (None, const_int(x.shape[axis])):
        raise TilewrightError(f"prelu: {slope!r} has no slope per index of dimension {axis}")
    zero = const(0, x.dtype)
    result: Tensor = compute(
        x.shape,
        lambda *i: O.select(x(*i) > zero, x(*i), x(*i) * slope(i[axis])),
        "T_prelu",
        "broadcast",
    )
    return result


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x where positive, else alpha * x. Shape and type of `x` stay. Raises OperandError where
    `alpha` is neither a number nor an expression."""
    slope, zero = const(alpha, x.dtype), const(0, x.dtype)
    return unary(lambda v: O.select(v > zero, v, v * slope), x, "T_leaky_relu")


def channel_reader(x: Tensor, values: Tensor, axis: int) -> Any:
    """How to read a value per channel at an element of x.

    `values` is 1-D over dimension `axis` of x; or 2-D (channel block, lane) where x has its
    channels split between `axis` and its last dimension.
    """
    axis = dimension(axis, x.ndim)
    if values.ndim == 2:
        return lambda i: values(i[axis], i[-1])
    return lambda i: values(i[axis])


def bias_add(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """x + bias, the bias being one value per index of dimension `axis`. The result has the type
    that arithmetic brings both to. Raises TilewrightError where `axis` is no integer, or no
    dimension of the tensor."""
    read = channel_reader(x, bias, axis)
    result: Tensor = compute(x.shape, lambda *i: x(*i) + read(i), "T_bias_add", "broadcast")
    return result


def scale_shift(x: Tensor, scale: Tensor, shift: Tensor, axis: int = 1) -> Tensor:
    """x * scale + shift, one pair per index of dimension `axis` (an inference-time batch norm). The
    result has the type that arithmetic brings both to. Raises TilewrightError where `axis` is no
    integer, or no dimension of the tensor."""
    a, b = channel_reader(x, scale, axis), channel_reader(x, shift, axis)
    result: Tensor = compute(x.shape, lambda *i: x(*i) * a(i) + b(i), "T_scale_shift", "broadcast")
    return result


def flatten(data: Tensor) -> Tensor:
    """Two dimensions: the first, and all others. Takes any type, which the result keeps."""
    return flatten_from(data, 1)


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input (N, C, H, W) times a scale plus a shift for each channel. The result has the type that
    arithmetic brings both to."""
    return scale_shift(Input, Scale, Shift, 1)


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input (N, H, W, C) times a scale plus a shift for each channel. The result has the type that
    arithmetic brings both to."""
    return scale_shift(Input, Scale, Shift, 3)


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input (N, C / b, H, W, b) times a scale plus a shift for each channel, (C / b, b). The result
    has the type that arithmetic brings both to."""
    return scale_shift(Input, Scale, Shift, 1)
