"""Functions of the bits of floats: narrow types to float32 and back, copysign, nextafter, ldexp."""

from __future__ import annotations

import math

from .math_emit import Emitter, Value

# LLVM type of a lane: bits, bits of the mantissa.
_LAYOUT = {"half": (16, 10), "bfloat": (16, 7), "float": (32, 23), "double": (64, 52)}


def widen(e: Emitter, x: Value) -> Value:
    """A half or bfloat as a float; other values as they are."""
    if x.kind == "half":
        return e.cast("fpext", x, "float")
    if x.kind == "bfloat":
        bits = e.cast("zext", e.cast("bitcast", x, "i16"), "i32")
        return e.cast("bitcast", bits << 16, "float")
    return x


def narrow(e: Emitter, x: Value, kind: str) -> Value:
    """x rounded to nearest even; to bfloat in integers, whose conversion may be a library call."""
    if kind == "half":
        return e.cast("fptrunc", x, "half")
    if kind != "bfloat":
        return x
    bits = e.cast("bitcast", x, "i32")
    rounded = bits + 0x7FFF + (bits.lshr(16) & 1)
    # The addition must not carry a NaN over to infinity or zero.
    kept = e.select(x.unordered(x), bits | 0x400000, rounded)
    return e.cast("bitcast", e.cast("trunc", kept.lshr(16), "i16"), "bfloat")


def copysign(e: Emitter, x: Value, y: Value) -> Value:
    """The magnitude of x with the sign of y."""
    return e.copysign(x, y)


def nextafter(e: Emitter, x: Value, y: Value) -> Value:
    """The number of x's own type next to x on the way to y; y where they are equal."""
    width, mantissa = _LAYOUT[x.kind]
    sign = 1 << (width - 1)
    infinity = ((1 << (width - 1 - mantissa)) - 1) << mantissa
    bits, target = (e.cast("bitcast", v, f"i{width}") for v in (x, y))
    magnitude = bits & (sign - 1)
    # Floats of one sign are ordered as their bits are: a step away from zero adds one.
    farther = magnitude.below(target & (sign - 1)) & (bits ^ target).ge(0)
    one = e.constant(1, bits.kind)
    stepped = e.select(farther, bits + one, bits - one)
    stepped = e.select(magnitude.eq(0), (target & sign) | 1, stepped)
    zeros = ((bits | target) & (sign - 1)).eq(0)
    stepped = e.select(bits.eq(target) | zeros, target, stepped)
    missing = [(v & (sign - 1)).gt(infinity) for v in (bits, target)]
    nan = e.constant(infinity | 1 << (mantissa - 1), bits.kind)
    stepped = e.select(missing[0] | missing[1], nan, stepped)
    return e.cast("bitcast", stepped, x.kind)


def ldexp(e: Emitter, x: Value, n: Value) -> Value:
    """x 2^n for an int32 n, rounded once."""
    f = e.format
    bound = 3 * f.bias
    n = e.select(n.gt(bound), bound, e.select(n.lt(-bound), -bound, n))
    if f.bits == 64:
        n = e.cast("sext", n, "i64")
    tiny = e.abs(x).lt(f.smallest_normal)
    lift = f.mantissa + 1
    bits = e.bits(e.select(tiny, x * math.ldexp(1.0, lift), x))
    field = (bits.lshr(f.mantissa)) & (2 * f.bias + 1)
    one = e.from_bits(bits - ((field - f.bias) << f.mantissa))
    power = field - f.bias + n - e.select(tiny, e.constant(lift, f.integer), 0)
    low, high = -(f.bias + f.mantissa + 2), f.bias + 2
    power = e.select(power.gt(high), high, e.select(power.lt(low), low, power))
    half = power >> 1
    first, second = (e.from_bits((p + f.bias) << f.mantissa) for p in (half, power - half))
    same = x.eq(0.0) | e.abs(x).eq(math.inf) | x.unordered(x)
    return e.select(same, x, one * first * second)
