"""exp, exp2, exp10, expm1, sigmoid, tanh, sinh, cosh as branch-free vector code.

All split x = n * log(base) + r with |r| <= log(base) / 2 (W. J. Cody and W. Waite, "Software
Manual for the Elementary Functions", 1980), take a minimax polynomial in r, and scale by 2^n.
"""

from __future__ import annotations

import math

from .math_emit import Emitter, Value
from .math_tables import COEFFICIENTS, PARTS


class Scale:
    """A power of two 2^n, n from below the smallest denormal to above overflow, lane by lane.

    n is kept as n + 2 * bias in the low bits of a float that was rounded by adding a big number.
    """

    __slots__ = ("emitter", "low", "high")

    def __init__(self, e: Emitter, shifted: Value) -> None:
        bits = e.bits(shifted)
        half = bits.lshr(1)
        self.emitter = e
        self.low = e.from_bits(half << e.format.mantissa)
        self.high = e.from_bits((bits - half) << e.format.mantissa)

    def apply(self, p: Value) -> Value:
        """p * 2^n for p near 1; only the second product rounds, when the result is denormal."""
        return p * self.low * self.high


def limits(e: Emitter) -> tuple[float, float]:
    """Powers of two that surely round to zero, and surely overflow."""
    f = e.format
    return float(-(f.bias + f.mantissa + 2)), float(f.bias + 2)


def nearest(e: Emitter, x: Value, factor: float, add: int) -> tuple[Value, Value]:
    """n = rint(x * factor), and n + add in the low bits of a float."""
    magic = e.format.rounder + add
    shifted = e.fma(x, factor, magic)
    return shifted - magic, shifted


def exp_tail(e: Emitter, r: Value) -> Value:
    """(e^r - 1 - r) / r^2 for |r| <= ln(2) / 2."""
    return e.poly(r, COEFFICIENTS["exp"][e.format.name])


def reduce_ln2(e: Emitter, x: Value, n: Value) -> Value:
    """x - n ln(2)."""
    high, low = PARTS["ln2"][e.format.name]
    return e.fma(n, -low, e.fma(n, -high, x))


def exp_core(e: Emitter, x: Value, halvings: int = 0) -> Value:
    """e^x / 2^halvings for x that is clamped already."""
    n, shifted = nearest(e, x, 1 / math.log(2), 2 * e.format.bias - halvings)
    r = reduce_ln2(e, x, n)
    p = e.fma(r, e.fma(r, exp_tail(e, r), 1.0), 1.0)
    return Scale(e, shifted).apply(p)


def exp(e: Emitter, x: Value) -> Value:
    low, high = limits(e)
    x = e.at_least(e.at_most(x, high * math.log(2)), low * math.log(2))
    return exp_core(e, x)


def exp2(e: Emitter, x: Value) -> Value:
    low, high = limits(e)
    return exp2_sum(e, e.at_least(e.at_most(x, high), low), None)


def exp2_poly(e: Emitter, r: Value) -> Value:
    """2^r for |r| <= 1/2."""
    return e.fma(r, e.poly(r, COEFFICIENTS["exp2"][e.format.name]), 1.0)


def exp2_sum(e: Emitter, x: Value, tail: Value | None) -> Value:
    """2^(x + tail) for x that is clamped already, and a tail much smaller than 1."""
    magic = e.format.rounder + 2 * e.format.bias
    shifted = x + magic
    r = x - (shifted - magic)
    p = exp2_poly(e, r if tail is None else r + tail)
    return Scale(e, shifted).apply(p)


def exp10(e: Emitter, x: Value) -> Value:
    low, high = limits(e)
    x = e.at_least(e.at_most(x, high * math.log10(2)), low * math.log10(2))
    n, shifted = nearest(e, x, math.log2(10), 2 * e.format.bias)
    first, second = PARTS["log10_2"][e.format.name]
    r = e.fma(n, -second, e.fma(n, -first, x))
    p = e.fma(r, e.poly(r, COEFFICIENTS["exp10"][e.format.name]), 1.0)
    return Scale(e, shifted).apply(p)


def expm1_core(e: Emitter, x: Value, half: bool = False) -> Value:
    """e^x - 1 for clamped x below overflow, or half of that for x up to overflow."""
    magic_add = e.format.bias - (1 if half else 0)
    n, shifted = nearest(e, x, 1 / math.log(2), magic_add)
    r = reduce_ln2(e, x, n)
    p = e.fma(r * r, exp_tail(e, r), r)
    scale = e.from_bits(e.bits(shifted) << e.format.mantissa)
    return e.fma(scale, p, scale - (0.5 if half else 1.0))


def expm1(e: Emitter, x: Value) -> Value:
    f = e.format
    bound = e.at_most(x, (f.bias + 1.4) * math.log(2))
    bound = e.at_least(bound, -(f.mantissa + 3) * math.log(2))
    half = expm1_core(e, bound, half=True)
    tiny = e.abs(x).lt(math.ldexp(1.0, -f.mantissa - 2))
    return e.select(tiny, x, half + half)


def sigmoid(e: Emitter, x: Value) -> Value:
    """1 / (1 + 2^n (1 + q)) where 2^n (1 + q) = e^-x.

    2^n + 1 is exact for moderate n. Far below zero the 1 joins the small part of the sum instead,
    and all is scaled down by a power of two, so that nothing overflows.
    """
    f = e.format
    least, _ = limits(e)
    far = x.lt(-0.5 * f.mantissa * math.log(2))
    x = e.at_least(e.at_most(x, (f.mantissa + 4) * math.log(2)), least * math.log(2))
    n, shifted = nearest(e, x, -1 / math.log(2), f.bias)
    r = reduce_ln2(e, -x, n)
    q = e.fma(r * r, exp_tail(e, r), r)
    step = (f.bias + 1) // 2
    down = math.ldexp(1.0, -step)
    field = e.bits(shifted) << f.mantissa
    power = e.from_bits(e.select(far, field - (step << f.mantissa), field))
    total = e.select(far, power, power + 1.0)
    total = total + e.fma(power, q, e.select(far, e.real(down), e.real(0.0)))
    result = e.real(1.0) / total
    return e.select(far, result * down, result)


def tanh(e: Emitter, x: Value) -> Value:
    """(e^2x - 1) / (e^2x + 1) from expm1, so that small x keep their relative accuracy."""
    a = e.at_most(e.abs(x), (e.format.mantissa + 3) * math.log(2) / 2)
    grown = expm1_core(e, a + a)
    return e.copysign(grown / (grown + 2.0), x)


def half_exp(e: Emitter, a: Value) -> Value:
    """e^a / 2 for a >= 0, infinite only where the result overflows."""
    return exp_core(e, e.at_most(a, (e.format.bias + 3) * math.log(2)), halvings=1)


def sinh(e: Emitter, x: Value) -> Value:
    a = e.abs(x)
    grown = half_exp(e, a)
    far = grown - e.real(0.25) / grown
    z = a * a
    near = e.fma(z * a, e.poly(z, COEFFICIENTS["sinh"][e.format.name]), a)
    return e.copysign(e.select(a.lt(1.0), near, far), x)


def cosh(e: Emitter, x: Value) -> Value:
    grown = half_exp(e, e.abs(x))
    return grown + e.real(0.25) / grown
