"""log, log2, log10, log1p, asinh, acosh, atanh as vector code.

x = 2^n m with 2/3 <= m < 4/3, so that n is 0 around 1 and log(1 + r), r = m - 1, keeps its relative
accuracy there; log(1 + r) = r - r^2/2 + r^3 L(r) with a minimax polynomial L.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .math_emit import Emitter, Value
from .math_tables import COEFFICIENTS, PARTS

Finish = Callable[[Emitter, "Exponent", Value], Value]

_INFINITY = math.inf
_TWO_THIRDS = 2 / 3


class Exponent:
    """The exponent n of x = 2^n (1 + r) as a float that counts in units of its own: converting the
    exponent field where it stands saves a shift."""

    __slots__ = ("value", "unit")

    def __init__(self, value: Value, unit: float) -> None:
        self.value = value
        self.unit = unit

    def times(self, e: Emitter, factor: float, plus: Value) -> Value:
        """n * factor + plus, rounded once."""
        return e.fma(self.value, factor * self.unit, plus)


def split_bits(e: Emitter, x: Value, low: float) -> tuple[Exponent, Value]:
    """n and m of x = 2^n m, low <= m < 2 low, for normal x."""
    f = e.format
    shifted = e.bits(x) - f.encode(low)
    field = shifted & (-1 << f.mantissa)
    m = e.from_bits(e.bits(x) - field)
    if f.bits == 32:
        return Exponent(e.cast("sitofp", field, "float"), math.ldexp(1.0, -f.mantissa)), m
    # Not every target converts 64-bit integers: add the small number to the bits of a big one.
    big = e.from_bits((shifted >> f.mantissa) + f.encode(f.rounder))
    return Exponent(big - f.rounder, 1.0), m


def split_exponent(e: Emitter, x: Value, low: float = _TWO_THIRDS) -> tuple[Exponent, Value]:
    """n and m of x = 2^n m, low <= m < 2 low, for positive finite x, denormal ones too."""
    f = e.format
    tiny = x.lt(f.smallest_normal)
    n, m = split_bits(e, e.select(tiny, x * math.ldexp(1.0, f.mantissa + 1), x), low)
    less = n.value - (f.mantissa + 1) / n.unit
    return Exponent(e.select(tiny, less, n.value), n.unit), m


def log_tail(e: Emitter, r: Value) -> Value:
    """(log(1 + r) - r) / r^2."""
    return e.fma(r, e.poly(r, COEFFICIENTS["log"][e.format.name]), -0.5)


def natural(e: Emitter, n: Exponent, r: Value) -> Value:
    """n ln(2) + log(1 + r)."""
    high, low = PARTS["ln2"][e.format.name]
    # In float32 the rounded ln(2) is good to 28 bits by luck, and needs no second part.
    head = r if e.format.bits == 32 else n.times(e, low, r)
    return n.times(e, high, e.fma(r * r, log_tail(e, r), head))


def with_specials(e: Emitter, x: Value, pole: float, result: Value) -> Value:
    """result, but -inf at the pole, NaN below it, and x itself where that is +inf or NaN."""
    result = e.select(x.lt(_INFINITY), result, x)
    below = e.select(x.lt(pole), e.real(math.nan), result)
    return e.select(x.eq(pole), e.real(-_INFINITY), below)


def is_normal(e: Emitter, x: Value) -> Value:
    """Whether x is positive, finite and not denormal."""
    first, last = (e.format.encode(v) for v in (e.format.smallest_normal, _INFINITY))
    return (e.bits(x) - first).below(last - first)


def _logarithm(e: Emitter, x: Value, finish: Finish) -> Value:
    """finish(n, r), x = 2^n (1 + r); what is not positive and normal goes through a function of its
    own, which spares all others three comparisons and as many selects."""
    n, m = split_bits(e, x, _TWO_THIRDS)
    result = finish(e, n, m - 1.0)
    other = e.fork(e.name + ".everywhere")
    argument = Value(other, "%x", e.format.kind)
    n, m = split_exponent(other, argument)
    whole = with_specials(other, argument, 0.0, finish(other, n, m - 1.0))
    e.others.append(other.function([argument], [whole], "noinline cold"))
    (result,) = e.unless_all(is_normal(e, x), other, [x], [result])
    return result


def _log2_finish(e: Emitter, n: Exponent, r: Value) -> Value:
    name = e.format.name
    table = COEFFICIENTS["log2" if e.format.bits == 32 else "log2f64"][name]
    return n.times(e, 1.0, e.fma(r, PARTS["log2e"][name][0], r * e.poly(r, table)))


def _log10_finish(e: Emitter, n: Exponent, r: Value) -> Value:
    high, low = PARTS["log10e"][e.format.name]
    two_high, two_low = PARTS["log10_2"][e.format.name]
    tail = e.fma(r, low, r * r * log_tail(e, r) * high)
    return n.times(e, two_high, e.fma(r, high, n.times(e, two_low, tail)))


def log(e: Emitter, x: Value) -> Value:
    return _logarithm(e, x, natural)


def log2(e: Emitter, x: Value) -> Value:
    return _logarithm(e, x, _log2_finish)


def log10(e: Emitter, x: Value) -> Value:
    return _logarithm(e, x, _log10_finish)


def log1p_core(e: Emitter, x: Value, more: Value | None = None) -> Value:
    """log(1 + x) for finite x > -1, plus ln(2) in the lanes where `more` (an i1) holds."""
    f = e.format
    u = x + 1.0
    lost = x - (u - 1.0)
    n, m = split_bits(e, u, _TWO_THIRDS)
    # 2^-n by its bits: what was lost matters for small n only, where this is a normal number.
    scale = e.bits(m) - e.bits(u) + f.encode(1.0)
    r = e.fma(lost, e.from_bits(e.select(scale.lt(0), 0, scale)), m - 1.0)
    if more is not None:
        n = Exponent(e.select(more, n.value + 1 / n.unit, n.value), n.unit)
    return natural(e, n, r)


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
