"""log, log2, log10, log1p, asinh, acosh, atanh as branch-free vector code.

x = 2^n m with 2/3 <= m < 4/3, so that n is 0 around 1 and log(1 + r), r = m - 1, keeps its relative
accuracy there; log(1 + r) = r - r^2/2 + r^3 L(r) with a minimax polynomial L.
"""

from __future__ import annotations

import math

from .math_emit import Emitter, Value
from .math_tables import COEFFICIENTS, PARTS

_INFINITY = math.inf
_TWO_THIRDS = 2 / 3


def exponent_as_float(e: Emitter, k: Value, less: Value | float) -> Value:
    """float(k) - less for small integers k, without a conversion (64-bit ones may be missing)."""
    rounder = e.format.rounder
    shifted = e.from_bits(k + e.format.encode(rounder))
    if isinstance(less, Value):
        return shifted - less
    return shifted - (rounder + less)


def split_exponent(e: Emitter, x: Value) -> tuple[Value, Value]:
    """n and r of x = 2^n (1 + r), for positive finite x, denormal ones too."""
    f = e.format
    tiny = x.lt(f.smallest_normal)
    scaled = e.select(tiny, x * math.ldexp(1.0, f.mantissa + 1), x)
    offset = f.encode(_TWO_THIRDS)
    shifted = e.bits(scaled) - offset
    k = shifted >> f.mantissa
    m = e.from_bits((shifted & ((1 << f.mantissa) - 1)) + offset)
    less = e.select(tiny, e.real(f.rounder + f.mantissa + 1), e.real(f.rounder))
    return exponent_as_float(e, k, less), m - 1.0


def log_tail(e: Emitter, r: Value) -> Value:
    """log(1 + r) - r."""
    tail = e.poly(r, COEFFICIENTS["log"][e.format.name])
    return r * r * e.fma(r, tail, -0.5)


def natural(e: Emitter, n: Value, r: Value) -> Value:
    """n ln(2) + log(1 + r)."""
    high, low = PARTS["ln2"][e.format.name]
    return e.fma(n, high, r + e.fma(n, low, log_tail(e, r)))


def with_specials(e: Emitter, x: Value, pole: float, result: Value) -> Value:
    """result, but -inf at the pole, NaN below it, and x itself where that is +inf or NaN."""
    result = e.select(x.lt(_INFINITY), result, x)
    below = e.select(x.lt(pole), e.real(math.nan), result)
    return e.select(x.eq(pole), e.real(-_INFINITY), below)


def log(e: Emitter, x: Value) -> Value:
    n, r = split_exponent(e, x)
    return with_specials(e, x, 0.0, natural(e, n, r))


def log2(e: Emitter, x: Value) -> Value:
    n, r = split_exponent(e, x)
    high, low = PARTS["log2e"][e.format.name]
    tail = e.fma(r, low, log_tail(e, r) * high)
    return with_specials(e, x, 0.0, n + e.fma(r, high, tail))


def log10(e: Emitter, x: Value) -> Value:
    n, r = split_exponent(e, x)
    high, low = PARTS["log10e"][e.format.name]
    two_high, two_low = PARTS["log10_2"][e.format.name]
    tail = e.fma(n, two_low, e.fma(r, low, log_tail(e, r) * high))
    return with_specials(e, x, 0.0, e.fma(n, two_high, e.fma(r, high, tail)))


def log1p_core(e: Emitter, x: Value, more: Value | None = None) -> Value:
    """log(1 + x) for finite x > -1, plus ln(2) in the lanes where `more` (an i1) holds."""
    f = e.format
    u = x + 1.0
    lost = x - (u - 1.0)
    offset = f.encode(_TWO_THIRDS)
    shifted = e.bits(u) - offset
    k = shifted >> f.mantissa
    m = e.from_bits((shifted & ((1 << f.mantissa) - 1)) + offset)
    # Beyond 2^mantissa nothing that matters is lost, and 2^-k may not be a normal number.
    exponent = e.constant(f.encode(1.0), f.integer) - (k << f.mantissa)
    scale = e.from_bits(e.select(exponent.lt(0), 0, exponent))
    r = e.fma(lost, scale, m - 1.0)
    less: Value | float = 0.0
    if more is not None:
        less = e.select(more, e.real(f.rounder - 1), e.real(f.rounder))
    return natural(e, exponent_as_float(e, k, less), r)


def log1p(e: Emitter, x: Value) -> Value:
    result = with_specials(e, x, -1.0, log1p_core(e, x))
    return e.select(e.abs(x).lt(math.ldexp(1.0, -e.format.mantissa - 2)), x, result)


def _huge(e: Emitter) -> float:
    """Where the square of x swallows 1."""
    return math.ldexp(1.0, e.format.mantissa + 2)


def asinh(e: Emitter, x: Value) -> Value:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))), a = |x|."""
    a = e.abs(x)
    far = a.gt(_huge(e))
    root = e.sqrt(e.fma(a, a, 1.0)) + 1.0
    near = a + a * a / root
    result = log1p_core(e, e.select(far, a, near), far)
    result = e.select(a.lt(_INFINITY), result, a)
    result = e.select(a.lt(math.ldexp(1.0, -e.format.mantissa // 2 - 2)), a, result)
    return e.copysign(result, x)


def acosh(e: Emitter, x: Value) -> Value:
    """log1p(t + sqrt(t^2 + 2 t)), t = x - 1."""
    t = x - 1.0
    far = x.gt(_huge(e))
    near = t + e.sqrt(e.fma(t, t, t + t))
    result = log1p_core(e, e.select(far, x, near), far)
    result = e.select(x.lt(_INFINITY), result, x)
    return e.select(x.lt(1.0), e.real(math.nan), result)


def atanh(e: Emitter, x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2, a = |x|."""
    a = e.abs(x)
    ratio = (a + a) / (e.real(1.0) - a)
    result = log1p_core(e, ratio) * 0.5
    result = e.select(a.lt(math.ldexp(1.0, -e.format.mantissa // 2 - 2)), a, result)
    result = e.select(a.eq(1.0), e.real(_INFINITY), result)
    return e.copysign(e.select(a.gt(1.0), e.real(math.nan), result), x)
