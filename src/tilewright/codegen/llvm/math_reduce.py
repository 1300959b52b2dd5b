"""Exact reduction of large arguments by pi/2, in integer vector arithmetic.

x = M 2^t with an integer M below 2^53. Of x * 2/pi only the bits from 2^1 downwards matter: those
of M times a window of 2/pi that begins where its bits weigh 2^(1-t). The window is cut from words
of 32 bits, which selects shift into place by the bits of t: no table in memory, no gathers.
"""

from __future__ import annotations

import math

from .math_emit import Emitter, Value
from .math_tables import TWO_OVER_PI

_TABLE_BITS = 1280
_WORD = 0xFFFFFFFF


def _word(index: int, skip: int) -> int:
    """Word `index` of the bits of 2/pi that follow `skip` zeros."""
    shift = _TABLE_BITS + skip - 32 * (index + 1)
    return (TWO_OVER_PI >> shift if shift >= 0 else TWO_OVER_PI << -shift) & _WORD


def window(e: Emitter, position: Value, most: int, words: int, skip: int) -> list[Value]:
    """`words` words of 32 bits of 2/pi after `skip` zeros, in i64 lanes, from the bit `position`.

    position is an i64 of at most `most`.
    """
    index, shift = position.lshr(5), position & 31
    step = 1
    while step * 2 <= most // 32:
        step *= 2
    last = 2 * step - 1
    row = [e.constant(_word(i, skip), "i64") for i in range(last + words + 1)]
    while step:
        taken = (index & step).ne(0)
        keep = step - 1 + words + 1
        row = [e.select(taken, row[i + step], row[i]) for i in range(keep)]
        step //= 2
    out = []
    for i in range(words):
        pair = (row[i] << 32) | row[i + 1]
        out.append((pair << shift).lshr(32))
    return out


def _product(e: Emitter, limbs: list[Value], words: list[Value]) -> tuple[Value, Value]:
    """The top 128 bits, modulo 2^128, of the product of an integer (limbs of 32 bits, low first)
    and a fraction (words, high first) whose first word is what the lowest limb shifts out to.

    Words that reach below the result are used for their carries alone.
    """
    count = len(words)
    columns: list[list[Value]] = [[] for _ in range(count)]
    for i, limb in enumerate(limbs):
        for j, word in enumerate(words):
            place = j - i  # weight 2^(-32 (place + 1)), of the low half
            product = limb * word
            if 0 <= place < count:
                columns[place].append(product & _WORD)
            if 0 <= place - 1 < count:
                columns[place - 1].append(product.lshr(32))
    carry = e.constant(0, "i64")
    digits: list[Value] = []
    for place in range(count - 1, -1, -1):
        total = carry
        for term in columns[place]:
            total = total + term
        digits.append(total & _WORD)
        carry = total.lshr(32)
    digits.reverse()
    return (digits[0] << 32) | digits[1], (digits[2] << 32) | digits[3]


def reduce_large(e: Emitter) -> str:
    """Text of a function of x >= 2^10: r in the float type, the quadrant in its integer type.

    r is NaN for infinities and NaN; smaller x give nonsense.
    """
    f = e.format
    x = Value(e, "%x", f.kind)
    bits = e.bits(x)
    exponent = bits.lshr(f.mantissa)
    mantissa = (bits & ((1 << f.mantissa) - 1)) | (1 << f.mantissa)
    if f.bits == 32:
        exponent, mantissa = e.cast("zext", exponent, "i64"), e.cast("zext", mantissa, "i64")
    # x = mantissa * 2^t, t = exponent - bias - f.mantissa: the window begins at bit t - 2 of 2/pi.
    skip = 64
    base = f.bias + f.mantissa + 2 - skip
    position = exponent - base
    most = 2 * f.bias + 1 - base
    position = e.select(position.lt(0), 0, position)
    limbs = [mantissa & _WORD]
    if f.bits == 64:
        limbs.append(mantissa.lshr(32))
    # Bits for the quadrant and the fraction, zeros that cancellation may leave, and the format's.
    words = window(e, position, most, 4 if f.bits == 32 else 6, skip)
    high, low = _product(e, limbs, words)
    quadrant = (high + (1 << 61)).lshr(62)
    signed = high - (quadrant << 62)
    unit = math.pi / 2 * 2.0**-62
    top = e.cast("sitofp", signed, "double") * unit
    bottom = e.cast("sitofp", low.lshr(1), "double")
    r = e.fma(bottom, e.constant(unit * 2.0**-63, "double"), top)
    if f.bits == 32:
        r, quadrant = e.cast("fptrunc", r, "float"), e.cast("trunc", quadrant, "i32")
    r = e.select(x.lt(math.inf), r, e.real(math.nan))
    return e.function([x], [r, quadrant], "noinline cold")
