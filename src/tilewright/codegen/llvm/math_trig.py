"""sin, cos, tan and their inverses as vector code.

Arguments up to 2^17 (float32) or 2^20 (float64) are reduced by pi/2 in three parts with fused
multiply-adds: x - n c1 is exact, and the next steps round relative to what is left. When a lane is
larger, a helper function reduces all lanes with a window of the bits of 2/pi that matter (M. Payne
and R. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

import math

from .math_emit import Emitter, Value
from .math_reduce import reduce_large
from .math_tables import COEFFICIENTS, PARTS

_LARGE = {"f32": 2.0**17, "f64": 2.0**20}


def reduce_half_pi(e: Emitter, a: Value) -> tuple[Value, Value]:
    """r and the integer q (its low two bits count) with a = q pi/2 + r, |r| <= pi/4, for a >= 0."""
    f = e.format
    small = a.not_above(_LARGE[f.name])
    shifted = e.fma(a, 2 / math.pi, f.rounder)
    n = shifted - f.rounder
    r = a
    for part in PARTS["half_pi"][f.name]:
        r = e.fma(n, -part, r)
    q = e.bits(shifted)
    helper = e.fork(e.name + ".large")
    e.others.append(reduce_large(helper))
    r, q = e.unless_all(small, helper, [a], [r, q])
    return r, q


def sin_poly(e: Emitter, r: Value, z: Value) -> Value:
    return e.fma(r * z, e.poly(z, COEFFICIENTS["sin"][e.format.name]), r)


def cos_poly(e: Emitter, z: Value) -> Value:
    return e.fma(z, e.fma(z, e.poly(z, COEFFICIENTS["cos"][e.format.name]), -0.5), 1.0)


def _sin_cos(e: Emitter, r: Value, q: Value) -> Value:
    """sin(q pi/2 + r)."""
    z = r * r
    odd = (q & 1).ne(0)
    result = e.bits(e.select(odd, cos_poly(e, z), sin_poly(e, r, z)))
    return e.from_bits(result ^ ((q << (e.format.bits - 2)) & e.format.sign_mask))


def sin(e: Emitter, x: Value) -> Value:
    r, q = reduce_half_pi(e, e.abs(x))
    result = e.bits(_sin_cos(e, r, q))
    return e.from_bits(result ^ (e.bits(x) & e.format.sign_mask))


def cos(e: Emitter, x: Value) -> Value:
    r, q = reduce_half_pi(e, e.abs(x))
    return _sin_cos(e, r, q + 1)


def tan(e: Emitter, x: Value) -> Value:
    r, q = reduce_half_pi(e, e.abs(x))
    z = r * r
    t = e.fma(r * z, e.poly(z, COEFFICIENTS["tan"][e.format.name]), r)
    odd = (q & 1).ne(0)
    t = e.select(odd, e.real(-1.0), t) / e.select(odd, t, e.real(1.0))
    return e.from_bits(e.bits(t) ^ (e.bits(x) & e.format.sign_mask))


def _asin_parts(e: Emitter, a: Value) -> tuple[Value, Value, Value]:
    """(near, p, s): near if a <= 1/2; p is asin(a) - a there, else p = asin(s) - s,
    s = sqrt((1 - a) / 2)."""
    near = a.le(0.5)
    z = e.select(near, a * a, (e.real(1.0) - a) * 0.5)
    s = e.select(near, a, e.sqrt(z))
    p = s * z * e.poly(z, COEFFICIENTS["asin"][e.format.name])
    return near, p, s


def asin(e: Emitter, x: Value) -> Value:
    """asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2."""
    a = e.abs(x)
    near, p, s = _asin_parts(e, a)
    high, low, _ = PARTS["half_pi"][e.format.name]
    far = e.real(high) - (((s + p) * 2.0) - low)
    return e.copysign(e.select(near, s + p, far), x)


def acos(e: Emitter, x: Value) -> Value:
    """acos(x) = 2 asin(sqrt((1 - x) / 2)) above 1/2, pi - acos(-x) below -1/2."""
    near, p, s = _asin_parts(e, e.abs(x))
    high, low, _ = PARTS["half_pi"][e.format.name]
    signed = e.copysign(s, x)
    middle = e.real(high) - (signed - (e.real(low) - e.copysign(p, x)))
    twice = (s + p) * 2.0
    pi_high, pi_low = PARTS["pi"][e.format.name]
    left = e.real(pi_high) - (twice - pi_low)
    return e.select(near, middle, e.select(x.lt(0.0), left, twice))


def _atan_unit(e: Emitter, q: Value) -> Value:
    """atan(q) for |q| <= 1."""
    z = q * q
    return e.fma(q * z, e.poly(z, COEFFICIENTS["atan"][e.format.name]), q)


def atan(e: Emitter, x: Value) -> Value:
    """atan(a) = pi/2 + atan(-1 / a) above 1."""
    a = e.abs(x)
    far = a.gt(1.0)
    q = e.select(far, e.real(-1.0), a) / e.select(far, a, e.real(1.0))
    high, low, _ = PARTS["half_pi"][e.format.name]
    p = _atan_unit(e, q)
    return e.copysign(e.select(far, (p + low) + high, p), x)


def atan2(e: Emitter, y: Value, x: Value) -> Value:
    """The angle of (x, y), with C99's results for zeros and infinities."""
    ay, ax = e.abs(y), e.abs(x)
    swap = ay.gt(ax)
    top, bottom = e.select(swap, ax, ay), e.select(swap, ay, ax)
    q = top / bottom
    q = e.select(top.eq(bottom), 1.0, q)
    q = e.select(top.eq(0.0), 0.0, q)
    p = _atan_unit(e, q)
    left = e.bits(x).lt(0)
    high, low, _ = PARTS["half_pi"][e.format.name]
    # angle = base + p or base - p, with base 0, pi/2 or pi
    zero = e.real(0.0)
    base = e.select(swap, e.real(high), e.select(left, e.real(2 * high), zero))
    rest = e.select(swap, e.real(low), e.select(left, e.real(2 * low), zero))
    sign = e.select(swap, left ^ 1, left)
    signed = e.select(sign, -p, p)
    angle = e.copysign((signed + rest) + base, y)
    return e.select(y.unordered(x), x + y, angle)
