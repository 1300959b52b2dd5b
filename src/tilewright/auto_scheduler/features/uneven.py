"""Dimensions of accesses that do not move evenly: tables of their values.

Such a dimension is touched at several places at once or goes through quotients, as those of fused
loops that are split again. Few loops take part, so the tables of a statement hold only their
columns; equal values share one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .program import ZERO, Index, Slot
from .value import Loop, Value, loops_of


class Sloped:
    """A value: strides by column; quotients (factor, kind, inner, start, divisor); as slots."""

    __slots__ = ("number", "quotients", "strides")

    def __init__(self, number: int, strides: Index, quotients: tuple[Any, ...]) -> None:
        self.number, self.strides, self.quotients = number, strides, quotients


class Uneven:
    """The uneven dimensions of one statement.

    columns: those of loops that take part, and of first parts of fused loops if others do. levels:
    for each level of the statement, that of these columns. dimensions: places (start, value).
    """

    def __init__(self, path: Sequence[Loop], columns: int) -> None:
        self.path, self.width = path, columns
        self.values: list[list[Value]] = []
        self.shapes: list[Slot] = []
        self.dimensions: list[list[tuple[int, Sloped]]] = []
        self._known: dict[Any, Sloped] = {}

    def add(self, values: list[Value], shape: Slot) -> int:
        """Note a dimension of that extent that is touched at these values; gives its number."""
        self.values.append(values)
        self.shapes.append(shape)
        return len(self.values) - 1

    def make(self, place: Index) -> None:
        """Make the tables; `place` gives the rows of slots."""
        self.place = place
        used = loops_of([v for values in self.values for v in values])
        marks = [loop in used for loop in self.path]
        first = 0
        for k, loop in enumerate(self.path):
            first = k if loop.first else first
            if marks[k]:
                marks[first] = marks[0] = True
        self.columns: Index = np.flatnonzero(np.array(marks, bool))
        self.levels: Index = np.searchsorted(self.columns, np.arange(self.width + 1))
        for values in self.values:
            parts = [(int(place[v.start]), self._sloped(v)) for v in values]
            self.dimensions.append(parts)

    def _sloped(self, value: Value) -> Sloped:
        quotients = tuple(
            (int(self.place[factor]), kind, self._sloped(inner), self._at(inner.start), self._at(d))
            for factor, kind, inner, d in value.quotients
        )
        slots: list[Slot] = [value.strides.get(self.path[k], ZERO) for k in self.columns]
        key = (tuple(slots), tuple((f, k, v.number, s, d) for f, k, v, s, d in quotients))
        found = self._known.get(key)
        if found is None:
            found = Sloped(len(self._known), self.place[slots], quotients)
            self._known[key] = found
        return found

    def _at(self, slot: Slot) -> int:
        return int(self.place[slot])
