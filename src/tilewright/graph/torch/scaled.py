"""Extents times factors that are no whole numbers, rounded down, as PyTorch computes them."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ...base.errors import ImportModelError
from ..sizes import Size

_MOST = 2**16 - 1
"""Extents up to which factors that binary fractions do not tell exactly are looked at."""
_EXACT = 2**15
"""Numerators by which any such extent stays in int32."""


def scaled(extent: Any, factor: float) -> Any:
    """int(extent * factor) in float64. Of a size it is a quotient, where it is that of some whole
    numbers; up to which extent is a condition."""
    if not isinstance(extent, Size):
        return int(extent * factor)
    exact = Fraction(factor)
    if exact <= 0:
        raise ImportModelError(f"the extent {extent!r} times {factor} is not supported")
    if exact.numerator < _EXACT and exact.denominator < _EXACT:
        return extent * exact.numerator // exact.denominator
    most, by = _quotient(factor)
    if extent.likely > most:
        raise ImportModelError(
            f"int({factor} * {extent!r}), in float64, is no quotient of whole numbers where "
            f"{extent!r} is above {most}: give the size, or a factor that a fraction of 2 tells"
        )
    extent.symbols.conditions[(extent - most).dim, "<=", True] = None
    return extent * by.numerator // by.denominator


@lru_cache
def _quotient(factor: float) -> tuple[int, Fraction]:
    """A fraction by which all extents up to one become what the factor makes them, rounded down.
    Products of float64 are rounded, so that 1.4 * 45 is below 63, and 1.4 * 10 is not below 14."""
    extents = np.arange(1, _MOST + 1)
    found = np.floor(extents * factor).astype(np.int64)
    low = np.maximum.accumulate(found / extents)
    high = np.minimum.accumulate((found + 1) / extents)
    wrong = np.nonzero(low >= high)[0]
    most = int(wrong[0]) if len(wrong) else _MOST
    while True:
        at = int(np.argmax(found[:most] / extents[:most]))
        least = Fraction(int(found[at]), at + 1)
        at = int(np.argmin((found[:most] + 1) / extents[:most]))
        end = Fraction(int(found[at]) + 1, at + 1)
        below = 1
        while not -(-least * below // 1) < end * below:
            below += 1
        by = Fraction(int(-(-least * below // 1)), below)
        if by.numerator * most < 2**31:
            return most, by
        most //= 2
