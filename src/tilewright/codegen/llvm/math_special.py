"""erf, cbrt, hypot, fmod, sqrt, rsqrt as vector code."""

from __future__ import annotations

import math

from .math_emit import F64, Emitter, Value
from .math_exp import exp_core
from .math_tables import COEFFICIENTS


def sqrt(e: Emitter, x: Value) -> Value:
    return e.sqrt(x)


def rsqrt(e: Emitter, x: Value) -> Value:
    return e.real(1.0) / e.sqrt(x)


def erf(e: Emitter, x: Value) -> Value:
    """x + x P(x^2) up to 1, then 1 - exp(a Q(a)) where a Q(a) approximates log(erfc(a))."""
    f = e.format
    a = e.abs(x)
    z = a * a
    near = e.fma(a, e.poly(z, COEFFICIENTS["erf"][f.name]), a)
    # erf rounds to 1 from here on, and the polynomial holds up to here.
    bounded = e.at_most(a, 4.0 if f.bits == 32 else 6.0)
    log_erfc = e.poly(bounded, COEFFICIENTS["erfc" if f.bits == 32 else "erfcf64"][f.name])
    far = e.real(1.0) - exp_core(e, bounded * log_erfc)
    return e.copysign(e.select(a.lt(1.0), near, far), x)


def cbrt(e: Emitter, x: Value) -> Value:
    """A third of the exponent as a first guess (W. Kahan), Halley's steps, one exact correction."""
    f = e.format
    a = e.abs(x)
    tiny, huge = a.lt(f.smallest_normal), a.gt(math.ldexp(1.0, f.bias - 3))
    scale = e.select(tiny, e.real(2.0**54), e.select(huge, e.real(2.0**-54), e.real(1.0)))
    back = e.select(tiny, e.real(2.0**-18), e.select(huge, e.real(2.0**18), e.real(1.0)))
    a = a * scale
    bits = e.bits(a)
    third = bits.lshr(2) + bits.lshr(4)  # bits / 3, as 1/4 + 1/16 + ...
    for shift in (4, 8, 16, 32)[: 3 if f.bits == 32 else 4]:
        third = third + third.lshr(shift)
    y = e.from_bits(third + (0x2A5119F2 if f.bits == 32 else 0x2A9F7893 << 32))
    for _ in range(1 if f.bits == 32 else 2):
        cube = y * y * y
        y = y * ((cube + (a + a)) / (cube + cube + a))
    square = y * y
    lost = e.fma(y, y, -square)
    rest = e.fma(square, y, -a) + lost * y
    y = e.copysign((y - rest / (square * 3.0)) * back, x)
    return e.select(a.gt(0.0) & a.lt(math.inf), y, x + x)


def hypot(e: Emitter, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2), scaled so that neither square overflows or vanishes wrongly."""
    f = e.format
    ax, ay = e.abs(x), e.abs(y)
    big, small = e.select(ax.gt(ay), ax, ay), e.select(ax.gt(ay), ay, ax)
    step = f.bias // 2 + 3 * f.mantissa // 2 + 4
    high, low = math.ldexp(1.0, f.bias // 2 - 3), math.ldexp(1.0, f.mantissa - f.bias // 2)
    up, down = math.ldexp(1.0, step), math.ldexp(1.0, -step)
    huge, tiny = big.gt(high), big.lt(low)
    scale = e.select(huge, e.real(down), e.select(tiny, e.real(up), e.real(1.0)))
    back = e.select(huge, e.real(up), e.select(tiny, e.real(down), e.real(1.0)))
    big, small = big * scale, small * scale
    square = big * big
    lost = e.fma(big, big, -square)
    result = e.sqrt(square + e.fma(small, small, lost)) * back
    result = e.select(x.unordered(y), x + y, result)
    infinite = ax.eq(math.inf) | ay.eq(math.inf)
    return e.select(infinite, e.real(math.inf), result)


def _remainder(e: Emitter, x: Value, y: Value) -> Value:
    """x mod y exactly, 0 <= x / y <= 2^52: the quotient is off by one at most, the fma is exact."""
    return _fold(e, x, y, x / y)


def _fold(e: Emitter, x: Value, y: Value, quotient: Value) -> Value:
    r = e.fma(-e.trunc(quotient), y, x)
    r = e.select(r.lt(0.0), r + y, r)
    return e.select(r.ge(y), r - y, r)


def _far(e: Emitter, x: Value, y: Value) -> Value:
    """Whether x / y is too large for one step, for finite x and y > 0; else false."""
    return (x * 2.0**-52).gt(y) & x.lt(math.inf) & y.gt(0.0)


def _reduce_far(e: Emitter) -> str:
    """Text of a function of x and y, both double: x mod y 2^k until that is at most y 2^52."""
    x, y = Value(e, "%x", "double"), Value(e, "%y", "double")
    denormal = y.lt(F64.smallest_normal)
    exponent = e.bits(e.select(denormal, y * 2.0**54, y)).lshr(52)
    exponent = exponent - e.select(denormal, e.constant(54, "i64"), 0)

    def step(r: Value) -> Value:
        # y 2^k in two steps: the power may lie beyond the largest double.
        k = e.bits(r).lshr(52) - exponent - 51
        first = k.lshr(1)
        powers = [
            e.cast("bitcast", (part + F64.bias) << 52, "double") for part in (first, k - first)
        ]
        return _remainder(e, r, y * powers[0] * powers[1])

    r = e.repeat_while(x, lambda r: _far(e, r, y), step)
    return e.function([x, y], [r], "noinline cold")


def _fmod_everywhere(e: Emitter) -> str:
    """Text of a function of x and y in the format: x - trunc(x / y) y for all x and y."""
    narrow = e.format.bits == 32
    x, y = Value(e, "%x", e.format.kind), Value(e, "%y", e.format.kind)
    wx = e.cast("fpext", x, "double") if narrow else x
    wy = e.cast("fpext", y, "double") if narrow else y
    ax, ay = e.abs(wx), e.abs(wy)
    helper = e.fork(e.name + ".far")
    e.others.append(_reduce_far(helper))
    (r,) = e.unless_all(_far(e, ax, ay) ^ 1, helper, [ax, ay], [ax])
    r = e.select(r.lt(ay), r, _remainder(e, r, ay))
    bad = ay.eq(0.0) | ax.eq(math.inf)
    r = e.select(bad, e.constant(math.nan, "double"), r)
    r = e.select(wx.unordered(wy), wx + wy, r)
    signed = e.copysign(r, wx)
    result = e.cast("fptrunc", signed, "float") if narrow else signed
    return e.function([x, y], [result], "noinline cold")


def fmod(e: Emitter, x: Value, y: Value) -> Value:
    """x - trunc(x / y) y exactly, x's sign; large quotients and special values go the long way."""
    ax, ay = e.abs(x), e.abs(y)
    quotient = ax / ay
    plain = quotient.lt(math.ldexp(1.0, e.format.mantissa - 1)) & ay.lt(math.inf)
    r = e.copysign(_fold(e, ax, ay, quotient), x)
    helper = e.fork(e.name + ".everywhere")
    e.others.append(_fmod_everywhere(helper))
    (r,) = e.unless_all(plain, helper, [x, y], [r])
    return r
