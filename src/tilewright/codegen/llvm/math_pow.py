"""pow as vector code: 2^(y log2|x|) with the logarithm in two working-precision parts.

log2(m) = s (C1 + z (C3 + z P(z))), s = (m - 1) / (m + 1), z = s^2: the leading terms are
evaluated in double-word arithmetic (T. J. Dekker, "A floating-point technique for extending the
available precision", Numer. Math. 18, 1971), the minimax polynomial P in working precision.
"""

from __future__ import annotations

import math

from .math_emit import Emitter, Value
from .math_exp import exp2_poly, exp2_sum, limits
from .math_log import Exponent, is_normal, split_bits, split_exponent
from .math_tables import COEFFICIENTS, PARTS

Pair = tuple[Value, Value]


def _fast_sum(e: Emitter, a: Value | float, b: Value) -> Pair:
    """a + b exactly, for |a| >= |b| or a = 0."""
    first = a if isinstance(a, Value) else e.real(a)
    total = first + b
    return total, (first - total) + b


def _product(e: Emitter, a: Value, b: Value) -> Pair:
    """a b exactly."""
    high = a * b
    return high, e.fma(a, b, -high)


def _multiply(e: Emitter, a: Pair, b: Pair) -> Pair:
    high, low = _product(e, a[0], b[0])
    return high, e.fma(a[0], b[1], e.fma(a[1], b[0], low))


def _ratio(e: Emitter, m: Value) -> Pair:
    """(m - 1) / (m + 1) = r / (2 + r), r = m - 1: the remainder r - s (2 + r) is exact."""
    r = m - 1.0
    inverse = e.real(1.0) / (m + 1.0)
    s = r * inverse
    return s, e.fma(-s, r, e.fma(s, -2.0, r)) * inverse


def _log2_mantissa_short(e: Emitter, m: Value) -> tuple[Value, Value, Value]:
    """log2(m) for float32, whose results need no more than 30 bits of it, as high + low, where low
    is up to a hundredth of high; and an approximation good to 12 bits that is ready early."""
    name = e.format.name
    r = m - 1.0
    s = r / (m + 1.0)
    remainder = e.fma(-s, r, e.fma(s, -2.0, r))
    z = s * s
    cube = s * z
    c1_high, c1_low = PARTS["log2_c1"][name]
    c3, _ = PARTS["log2_c3"][name]
    high, lost = _product(e, s, e.real(c1_high))
    # What a remainder adds to the logarithm: its slope in s by the denominator.
    slope = e.poly(m, COEFFICIENTS["log2_slope"][name])
    low = e.fma(remainder, slope, e.fma(s, c1_low, lost))
    low = e.fma(cube, e.poly(z, (c3, *COEFFICIENTS["log2_tail"][name])), low)
    return high, low, e.fma(cube, c3, high)


def _log2_mantissa_long(e: Emitter, m: Value) -> Pair:
    """log2(m) to about 64 bits for float64: the first two terms are pairs."""
    name = e.format.name
    s = _ratio(e, m)
    z_high, z_low = _product(e, s[0], s[0])
    z = z_high, e.fma(s[0] + s[0], s[1], z_low)
    c1_high, c1_low = PARTS["log2_c1"][name]
    c3_high, c3_low = PARTS["log2_c3"][name]
    tail = z_high * e.poly(z_high, COEFFICIENTS["log2_tail"][name])
    inner, inner_low = _fast_sum(e, c3_high, tail)
    weighted, weighted_low = _multiply(e, z, (inner, inner_low + c3_low))
    outer, outer_low = _fast_sum(e, c1_high, weighted)
    return _multiply(e, s, (outer, outer_low + (weighted_low + c1_low)))


def _log2_pair(e: Emitter, n: Exponent, m: Value) -> Pair:
    """n + log2(m) as an unevaluated sum whose first part is the rounded whole."""
    short = e.format.bits == 32
    high, low = _log2_mantissa_short(e, m)[:2] if short else _log2_mantissa_long(e, m)
    total = n.times(e, 1.0, high + low)
    return total, (n.times(e, 1.0, -total) + high) + low


def _exponent(e: Emitter, n: Exponent, m: Value, y: Value) -> Pair:
    """y (n + log2(m)) as k + r: k = rint of it, nearly, in the low bits of a float; and r."""
    magic = e.format.rounder
    if e.format.bits == 64:
        high, low = _log2_pair(e, n, m)
        shifted = e.fma(y, high, magic)
        return shifted, e.fma(y, low, e.fma(y, high, -(shifted - magic)))
    # The chain of dependent operations decides the speed: k comes from a rough logarithm, and
    # y n - k is exact, or good to 2^-25 where |y| < 1, which is as good.
    high, low, rough = _log2_mantissa_short(e, m)
    whole = n.value * n.unit
    shifted = e.fma(y, whole + rough, magic)
    r = e.fma(y, whole, -(shifted - magic))
    return shifted, e.fma(y, low, e.fma(y, high, r))


def _pow_everywhere(e: Emitter) -> str:
    """Text of a function of x and y: x^y with the special cases of C99, annex F.9.4.4."""
    f = e.format
    x, y = Value(e, "%x", f.kind), Value(e, "%y", f.kind)
    infinity = math.inf
    ax = e.abs(x)
    n, m = split_exponent(e, ax, math.sqrt(0.5))

    # A huge y would make infinity * 0; clamped it overflows or underflows alike.
    bound = math.ldexp(1.0, f.bias - 10)
    clamped = e.at_least(e.at_most(y, bound), -bound)
    high, low = _log2_pair(e, n, m)
    product = clamped * high
    tail = e.fma(clamped, low, e.fma(clamped, high, -product))
    least, most = limits(e)
    exponent = e.at_least(e.at_most(product, most), least)
    tail = e.select(exponent.eq(product), tail, e.real(0.0))
    result = exp2_sum(e, exponent, tail)

    # Zero and infinity to the power y, y != 0: one or the other.
    zero, infinite = e.bits(ax).eq(0), e.bits(ax).eq(f.encode(infinity))
    up = e.select(zero, y.lt(0.0), y.gt(0.0))
    result = e.select(zero | infinite, e.select(up, e.real(infinity), e.real(0.0)), result)

    whole = e.trunc(y).eq(y)
    half = y * 0.5
    odd = whole & e.trunc(half).ne(half)
    result = e.select(e.bits(x).lt(0) & odd, -result, result)
    invalid = x.lt(0.0) & ((infinite | whole) ^ 1)
    result = e.select(invalid, e.real(math.nan), result)
    result = e.select(x.unordered(y), x + y, result)
    result = e.select(y.eq(0.0) | x.eq(1.0), e.real(1.0), result)
    return e.function([x, y], [result], "noinline cold")


def pow(e: Emitter, x: Value, y: Value) -> Value:
    """x^y; a lane whose x is not positive, or that comes near overflow, takes the long way."""
    f, e.rounds = e.format, True
    n, m = split_bits(e, x, math.sqrt(0.5))
    shifted, r = _exponent(e, n, m, y)
    k = e.bits(shifted)
    plain = is_normal(e, x) & (k - (f.encode(f.rounder) - (f.bias - 2))).below(2 * f.bias - 3)
    result = e.from_bits(e.bits(exp2_poly(e, r)) + (k << f.mantissa))
    helper = e.fork(e.name + ".everywhere")
    e.others.append(_pow_everywhere(helper))
    (result,) = e.unless_all(plain, helper, [x, y], [result])
    return result
