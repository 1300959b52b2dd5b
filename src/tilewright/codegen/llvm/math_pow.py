"""pow as branch-free vector code: 2^(y log2|x|) with the logarithm in two working-precision parts.

log2(m) = s (C1 + z (C3 + z P(z))), s = (m - 1) / (m + 1), z = s^2: the first two terms are
evaluated in double-word arithmetic (T. J. Dekker, "A floating-point technique for extending the
available precision", Numer. Math. 18, 1971), the minimax polynomial P in working precision.
"""

from __future__ import annotations

import math

from .math_emit import Emitter, Value
from .math_exp import exp2_sum, limits
from .math_log import exponent_as_float
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


def log2_pair(e: Emitter, x: Value) -> Pair:
    """log2(x) as an unevaluated sum, for positive finite x, denormal ones too."""
    f = e.format
    tiny = x.lt(f.smallest_normal)
    scaled = e.select(tiny, x * math.ldexp(1.0, f.mantissa + 1), x)
    offset = f.encode(math.sqrt(0.5))
    shifted = e.bits(scaled) - offset
    less = e.select(tiny, e.real(f.rounder + f.mantissa + 1), e.real(f.rounder))
    n = exponent_as_float(e, shifted >> f.mantissa, less)
    m = e.from_bits((shifted & ((1 << f.mantissa) - 1)) + offset)

    top = m - 1.0
    below, below_low = _fast_sum(e, 1.0, m)
    high = top / below
    rest = e.fma(-high, below_low, e.fma(-high, below, top))
    s = high, rest / below
    z_high, z_low = _product(e, high, high)
    z = z_high, e.fma(high + high, s[1], z_low)

    c1_high, c1_low = PARTS["log2_c1"][f.name]
    c3_high, c3_low = PARTS["log2_c3"][f.name]
    tail = z_high * e.poly(z_high, COEFFICIENTS["log2_tail"][f.name])
    inner, inner_low = _fast_sum(e, c3_high, tail)
    weighted, weighted_low = _multiply(e, z, (inner, inner_low + c3_low))
    outer, outer_low = _fast_sum(e, c1_high, weighted)
    high, low = _multiply(e, s, (outer, outer_low + (weighted_low + c1_low)))
    total, lost = _fast_sum(e, n, high)
    return _fast_sum(e, total, lost + low)


def pow(e: Emitter, x: Value, y: Value) -> Value:
    """x^y with the special cases of C99, annex F.9.4.4."""
    f = e.format
    infinity = math.inf
    ax = e.abs(x)
    high, low = log2_pair(e, ax)

    # A huge y would make infinity * 0; clamped it overflows or underflows alike.
    bound = math.ldexp(1.0, f.bias - 10)
    clamped = e.at_least(e.at_most(y, bound), -bound)
    product = clamped * high
    tail = e.fma(clamped, low, e.fma(clamped, high, -product))
    least, most = limits(e)
    exponent = e.at_least(e.at_most(product, most), least)
    tail = e.select(exponent.eq(product), tail, e.real(0.0))
    result = exp2_sum(e, exponent, tail)

    # Zero and infinity to the power y, y != 0: one or the other.
    edge = e.bits(ax).eq(0)
    limit = e.bits(ax).eq(f.encode(infinity))
    up = e.select(edge, y.lt(0.0), y.gt(0.0))
    extreme = e.select(up, e.real(infinity), e.real(0.0))
    edge = edge | limit
    result = e.select(edge, extreme, result)

    negative = e.bits(x).lt(0)
    half = y * 0.5
    whole = e.trunc(y).eq(y)
    odd = whole & e.trunc(half).ne(half)
    result = e.select(negative & odd, -result, result)
    invalid = x.lt(0.0) & e.select(limit | whole, e.constant(0, "i1"), e.constant(1, "i1"))
    result = e.select(invalid, e.real(math.nan), result)
    result = e.select(x.unordered(y), x + y, result)
    return e.select(y.eq(0.0) | x.eq(1.0), e.real(1.0), result)
