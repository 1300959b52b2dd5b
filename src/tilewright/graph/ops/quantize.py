"""Quantised data: whole numbers with a scale and a zero point.

Scales and zero points are tensors as the data, stretched over it (`_parameter`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir import op as O
from ...loopir.calls import fma
from ...loopir.expr import cast, const
from ...tensor.broadcast import broadcast
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ...topi.elemwise import accumulator
from .spec import INJECTIVE, Array, OpSpec, elementwise


def less_zero(whole: Array, zero: Array | None) -> Array | None:
    """Whole numbers of 8 bits less their zero point, where that fits int8; None for others. What
    is unsigned about 128 fits as what is signed about 0 does."""
    if whole.dtype not in (np.int8, np.uint8):
        return None
    found = whole.astype(np.int16)
    found = found if zero is None else found - zero.astype(np.int16)
    fits = not found.size or (found.min() >= -128 and found.max() <= 127)
    return found.astype(np.int8) if fits else None


def _parameter(p: Tensor, x: Tensor, axis: int, block: int) -> Callable[[Any], Any]:
    """How to read a scale or zero point at an element of x: one number, one for each index of an
    axis, or one for each block of an axis; or a tensor that is stretched to x."""
    if p.ndim == 0:
        return lambda i: p()
    if block and p.ndim == x.ndim:
        return lambda i: p(*i[:axis], i[axis] // block, *i[axis + 1 :])
    if p.ndim == 1 and axis >= 0:
        return lambda i: p(i[axis])
    skip = x.ndim - p.ndim
    ones = [getattr(d, "value", None) == 1 for d in p.shape]
    return lambda i: p(*(const(0) if one else v for one, v in zip(ones, i[skip:])))


_MAGIC = 12582912.0
"""1.5 * 2^23: what is added to it is rounded to a whole number, in the sum's last bits."""


def nearest(value: Any) -> Any:
    """The whole number nearest to a float32 of less than 2^17, to the even one of two, as int32.
    One addition in the place of a rounding and a conversion that saturates."""
    bits = O.reinterpret("int32", value + const(_MAGIC, "float32"))
    return bits - const(int(np.float32(_MAGIC).view(np.int32)), "int32")


def saturated(value: Any, zero: Any, dtype: str, wide: str) -> Any:
    """A float rounded to the nearest whole number, plus a zero point, as an integer of a narrow
    type, limited to what it holds. NaN becomes the least of it."""
    if wide == "float32" and parse(dtype).bits <= 16:
        return _whole(value, zero, dtype)
    info = parse(dtype)
    low, high = (const(n, wide) for n in (info.min_value, info.max_value))
    rounded = O.nearbyint(O.select(O.isnan(value), low, value))
    if zero is None:
        return cast(dtype, O.max(O.min(rounded, high), low))
    # a float of `wide` cannot hold every sum, an integer every rounded value: both are limited
    span = const(float(info.max_value - info.min_value), wide)
    near = cast("int32", O.max(O.min(rounded, span), -span)) + cast("int32", zero)
    least, most = (const(int(n), "int32") for n in (info.min_value, info.max_value))
    return cast(dtype, O.max(O.min(near, most), least))


def _whole(value: Any, zero: Any, dtype: str, scale: Any = None) -> Any:
    """`saturated` of a float32, or of its quotient by a scale, which is limited first: so what is
    converted is in range, and no quotient goes over. By selections, which are an instruction each
    where neither is NaN."""
    info = parse(dtype)
    start = const(0, "int32") if zero is None else cast("int32", zero)
    low, high = (
        cast("float32", const(int(n), "int32") - start) for n in (info.min_value, info.max_value)
    )
    if scale is not None:
        low, high = low * scale, high * scale

    def limited(x: Any) -> Any:
        above = O.select(x > low, x, low)  # low for NaN
        inside = O.select(above < high, above, high)
        return inside if scale is None else _once(inside, lambda x: _divided(x, scale))

    return cast(dtype, nearest(_once(value, limited)) + start)


def _once(value: Any, use: Callable[[Any], Any]) -> Any:
    """What is made of a value that is used several times."""
    var = E.Var("once", value.dtype)
    return E.Let(var, value, use(var))


def _divided(x: Any, scale: Any) -> Any:
    """x / scale by the reciprocal, which is the same for many x, and one step of correction, after
    Markstein (1990): what multiplying twice by rounded numbers loses comes back by the remainder,
    which fma has exactly. Needs a quotient that is far from overflow; one that is near underflow
    may differ."""
    inverse = const(1.0, "float32") / scale
    return _once(x * inverse, lambda near: fma(fma(-near, scale, x), inverse, near))


def _quantize(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """saturate(round(x / scale) + zero point); the division in `precision`. `by_reciprocal`: the
    scale is one positive number far from the ends of float32."""
    x, wide, axis, block = t[0], a["precision"], a["axis"], a["block"]
    scale = _parameter(t[1], x, axis, block)
    zero = _parameter(t[2], x, axis, block) if len(t) > 2 else None

    def element(*i: Any) -> Any:
        value, by, start = cast(wide, x(*i)), cast(wide, scale(i)), zero(i) if zero else None
        if a.get("by_reciprocal"):
            return _whole(value, start, a["dtype"], by)
        return saturated(cast("float32", value / by), start, a["dtype"], "float32")

    result: Tensor = compute(x.shape, element, "T_quantize", "elemwise")
    return result


def _dequantize(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """(x - zero point) * scale, the product rounded once to the type of the result."""
    x, dtype, axis, block = t[0], a["dtype"], a["axis"], a["block"]
    wide = accumulator(dtype)
    scale = _parameter(t[1], x, axis, block)
    zero = _parameter(t[2], x, axis, block) if len(t) > 2 else None
    whole = len(t) < 3 or "float" not in t[2].dtype

    def element(*i: Any) -> Any:
        value = cast("int32" if whole else wide, x(*i))
        if zero:
            value = value - cast(value.dtype, zero(i))
        return cast(dtype, cast(wide, value) * cast(wide, scale(i)))

    result: Tensor = compute(x.shape, element, "T_dequantize", "elemwise")
    return result


def _requantize(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """saturate(round(x * factor) + zero point), of sums in int32."""
    x, dtype = t[0], a["dtype"]
    factor, zero = _parameter(t[1], x, a["axis"], 0), _parameter(t[2], x, -1, 0)

    def element(*i: Any) -> Any:
        return saturated(cast("float32", x(*i)) * factor(i), zero(i), dtype, "float32")

    result: Tensor = compute(x.shape, element, "T_requantize", "elemwise")
    return result


def _unpack_bits(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Numbers of a few bits each out of bytes (..., n), the first in the lowest bits, as
    (..., count)."""
    x, bits = t[0], a["bits"]
    each = 8 // bits
    mask = const((1 << bits) - 1, x.dtype)

    def element(*i: Any) -> Any:
        byte = x(*i[:-1], i[-1] // each)
        amount = cast(x.dtype, i[-1] % each * bits)
        return O.bitwise_and(O.shift_right(byte, amount), mask)

    shape = (*x.shape[:-1], a["count"])
    result: Tensor = compute(shape, element, "T_unpack_bits", "injective")
    return result


def _dynamic_scale(low: Any, high: Any) -> Any:
    """What makes 255 steps of a range; 1 where all is 0, as ONNX Runtime has it."""
    step = (high - low) / const(255, low.dtype)
    return O.select(step.equal(const(0, low.dtype)), const(1, low.dtype), step)


def _dynamic_zero(low: Any, scale: Any) -> Any:
    return saturated(-low / scale, None, "uint8", low.dtype)


OPS: dict[str, OpSpec] = {
    "quantize": OpSpec(_quantize),
    "dequantize": OpSpec(_dequantize),
    "dynamic_scale": elementwise(
        lambda low, high: broadcast(_dynamic_scale, low, high, name="T_scale")
    ),
    "dynamic_zero": elementwise(
        lambda low, scale: broadcast(_dynamic_zero, low, scale, name="T_zero_point")
    ),
    "requantize": OpSpec(_requantize),
    "unpack_bits": OpSpec(_unpack_bits, INJECTIVE),
}
