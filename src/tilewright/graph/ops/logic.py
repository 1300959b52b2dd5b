"""Conditions, bits and remainders, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import topi
from ...base.dtype import parse
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...loopir.operators import bitwise
from ...tensor.broadcast import broadcast
from ...tensor.tensor import Tensor
from ...topi.elemwise import unary
from .spec import BITS, OpSpec, elementwise


def _bits(name: str, numpy: Any) -> OpSpec:
    """An operation on the bits of integers, or on conditions."""
    return OpSpec(
        lambda t, a: broadcast(lambda x, y: bitwise(f"tir.{name}", x, y), *t, name=f"T_{name}"),
        numpy=lambda x, a: numpy(*x),
    )


def _invert(x: Any) -> Any:
    """All bits the other way round: -1 of a signed type has all of them set, as the largest number
    of an unsigned one."""
    t = parse(x.dtype)
    ones = const(True) if t.is_bool else const(-1 if t.is_int else t.max_value, x.dtype)
    return bitwise("tir.bitwise_xor", x, ones)


def _shift(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """An amount that is negative, or no less than the number of bits, leaves copies of the sign;
    the IR has no meaning for such a shift."""
    left = a["direction"] == "LEFT"
    name = "tir.shift_left" if left else "tir.shift_right"

    def element(x: Any, y: Any) -> Any:
        info = parse(x.dtype)
        most, zero = const(info.bits - 1, x.dtype), const(0, x.dtype)
        small = y <= most if info.is_uint else O.all(y >= zero, y <= most)
        moved = bitwise(name, x, O.max(O.min(y, most), zero))
        gone = bitwise("tir.shift_right", x, most) if info.is_int and not left else zero
        return O.select(small, moved, gone)

    return broadcast(element, *t, name="T_shift")


def _mod(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """The remainder with the sign of the divisor; with `fmod`, of the dividend."""

    def element(x: Any, y: Any) -> Any:
        if "float" not in x.dtype:
            return O.truncmod(x, y) if a["fmod"] else O.floormod(x, y)
        rest, zero = O.fmod(x, y), const(0, x.dtype)
        if a["fmod"]:
            return rest
        other = (rest < zero) != (y < zero)
        return O.select(rest.equal(zero), O.copysign(zero, y), O.select(other, rest + y, rest))

    return broadcast(element, *t, name="T_mod")


def _sign(x: Any) -> Any:
    """A NaN, which is neither above nor below 0, stays."""
    t = parse(x.dtype)
    one, zero = const(1, x.dtype), const(0, x.dtype)
    if t.is_uint:
        return O.min(x, one)
    rest = O.select(x.equal(zero), zero, x) if t.is_float else zero
    return O.select(x > zero, one, O.select(x < zero, const(-1, x.dtype), rest))


def _is_inf(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    def element(x: Any) -> Any:
        zero = const(0, x.dtype)
        above = O.all(O.isinf(x), x > zero)
        below = O.all(O.isinf(x), x < zero)
        if a["positive"] and a["negative"]:
            return O.isinf(x)
        if a["positive"] or a["negative"]:
            return above if a["positive"] else below
        return const(False)

    return unary(element, t[0], "T_isinf")


def _bit_cast(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """A condition is a byte in memory, 0 or 1."""
    dtype: str = a["dtype"]

    def element(x: Any) -> Any:
        if "bool" in (dtype, x.dtype):
            return cast(dtype, x)
        return O.reinterpret(dtype, x)

    return unary(element, t[0], "T_bit_cast")


OPS: dict[str, OpSpec] = {
    "bitwise_and": _bits("bitwise_and", np.bitwise_and),
    "bitwise_or": _bits("bitwise_or", np.bitwise_or),
    "bitwise_xor": _bits("bitwise_xor", np.bitwise_xor),
    "invert": OpSpec(
        lambda t, a: unary(_invert, t[0], "T_invert"), numpy=lambda x, a: np.invert(x[0])
    ),
    "shift": OpSpec(_shift),
    "mod": OpSpec(_mod),
    "sign": OpSpec(lambda t, a: unary(_sign, t[0], "T_sign")),
    "isinf": OpSpec(_is_inf),
    "isnan": elementwise(topi.isnan),
    "nearbyint": OpSpec(lambda t, a: unary(O.nearbyint, t[0], "T_nearbyint")),
    "bit_cast": OpSpec(_bit_cast, precision=BITS),
    **{
        name: elementwise(getattr(topi, name))
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "sinh", "cosh", "tan"),
            *("less_equal", "greater_equal"),
        )
    },
}
