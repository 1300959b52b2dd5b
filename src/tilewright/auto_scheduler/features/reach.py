"""How far an index gets that does not move evenly: through quotients, remainders, several places.

At each level of loops an interval of distances from where all loops stand at 0. For quotients it is
exact. For remainders it is where nothing wraps around, and where what wraps is made of digits, as
are loops that are fused and split again: of each loop then counts what is left of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .program import Array
from .uneven import Sloped, Uneven

Mask = npt.NDArray[np.bool_]


class Span(NamedTuple):
    """low and high of each level, (K + 1, N); terms: stride and steps of each loop, (K, N)."""

    low: Array
    high: Array
    terms: list[tuple[Array, Array]]


def join(parts: Array, first: int, mask: Mask) -> None:
    """Count what the parts of a fused loop add, (..., K, N), as its first part's."""
    inner = parts[:, first + 1 : first + 1 + len(mask)]
    moved = inner * mask
    inner -= moved
    parts[:, first] += moved.sum(axis=1)


class Reach:
    """Evaluates the uneven dimensions of one statement.

    slots (slots, N); steps (K, N): of the loops around it; joins: which of them are fused.
    """

    def __init__(
        self, uneven: Uneven, slots: Array, steps: Array, joins: list[tuple[int, Mask]]
    ) -> None:
        self.uneven, self.slots = uneven, slots
        self.steps = steps[uneven.columns]
        self.joins = []
        for first, mask in joins:
            begin, start, end = np.searchsorted(
                uneven.columns, [first, first + 1, first + 1 + len(mask)]
            )
            if end > start:
                chosen = uneven.columns[start:end] - (first + 1)
                self.joins.append((int(begin), mask[chosen]))
        self.known: dict[Any, Span] = {}

    def widths(self) -> Array:
        """Highest minus lowest index of each dimension, (dimensions, K + 1, N)."""
        found = [self._width(places) for places in self.uneven.dimensions]
        result: Array = np.array(found)[:, self.uneven.levels]
        return result

    def _width(self, places: list[tuple[int, Sloped]]) -> Array:
        low: Any = None
        high: Any = None
        for start, sloped in places:
            span = self._span(sloped)
            down, up = span.low + self.slots[start], span.high + self.slots[start]
            low = down if low is None else np.minimum(low, down)
            high = up if high is None else np.maximum(high, up)
        width: Array = high - low
        return width

    def _span(self, sloped: Sloped) -> Span:
        known = self.known.get(sloped.number)
        if known is not None:
            return known
        slope = self.slots[sloped.strides]
        parts = slope * self.steps
        low, high = self._levels(np.stack((np.minimum(parts, 0.0), np.maximum(parts, 0.0))))
        terms = [(slope, self.steps)]
        for factor, kind, inner, start, size in sloped.quotients:
            part = self._quotient(kind, inner, start, size)
            by = self.slots[factor]
            ends = part.low * by, part.high * by
            low, high = low + np.minimum(*ends), high + np.maximum(*ends)
            terms += [(stride * by, steps) for stride, steps in part.terms]
        found = self.known[sloped.number] = Span(low, high, terms)
        return found

    def _levels(self, parts: Array) -> Array:
        """Sums over the loops of each level, (..., K + 1, N), of parts (..., K, N)."""
        for first, mask in self.joins:
            join(parts, first, mask)
        sums = np.zeros((len(parts), parts.shape[1] + 1, parts.shape[2]))
        for k in range(parts.shape[1] - 1, -1, -1):
            np.add(sums[:, k + 1], parts[:, k], out=sums[:, k])
        return sums

    def _quotient(self, kind: str, inner: Sloped, start: int, size: int) -> Span:
        key = (kind, inner.number, start, size)
        known = self.known.get(key)
        if known is None:
            begin, divisor = self.slots[start], self.slots[size]
            known = self.known[key] = self._divide(kind, self._span(inner), begin, divisor)
        return known

    def _divide(self, kind: str, span: Span, begin: Array, divisor: Array) -> Span:
        below = np.floor((span.low + begin) / divisor)
        above = np.floor((span.high + begin) / divisor)
        zero = np.floor(begin / divisor)
        if kind == "div":
            terms = [_divided(stride, steps, divisor) for stride, steps in span.terms]
            return Span(below - zero, above - zero, terms)
        terms = [_wrapped(stride, steps, divisor) for stride, steps in span.terms]
        at = begin - zero * divisor
        same = below == above
        digits = sum(stride * steps for stride, steps in terms)
        most = np.minimum(divisor - 1.0, self._levels(np.array([digits]))[0])
        most = np.where(at == 0.0, most, divisor - 1.0)
        least = np.where(same, span.low + begin - below * divisor, 0.0)
        most = np.where(same, span.high + begin - above * divisor, most)
        return Span(least - at, most - at, terms)


def _divided(stride: Array, steps: Array, divisor: Array) -> tuple[Array, Array]:
    """Stride and steps of a loop's part of a quotient."""
    even = np.mod(stride, divisor) == 0.0
    return (
        np.where(even, stride / divisor, 1.0),
        np.where(even, steps, np.floor(np.abs(stride) * steps / divisor)),
    )


def _wrapped(stride: Array, steps: Array, divisor: Array) -> tuple[Array, Array]:
    """Stride and steps of a loop's part of a remainder."""
    size = np.abs(stride)
    step = np.gcd(size.astype(np.int64), divisor.astype(np.int64)).astype(np.float64)
    inside = size * steps < divisor
    whole = divisor == step
    return (
        np.where(whole, 0.0, np.where(inside, size, step)),
        np.where(inside, steps, divisor / step - 1.0),
    )
