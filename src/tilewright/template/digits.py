"""Configurations as rows of digits, one column a knob: what populations are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .neighbours import neighbour_table
from .space import ConfigSpace

Digits = np.ndarray[Any, np.dtype[np.int64]]


class DigitTable:
    """Numbers of configurations of a space to digits and back, many at once."""

    __slots__ = ("_knobs", "_narrow", "_near", "dims", "space", "weights")

    def __init__(self, space: ConfigSpace) -> None:
        self.space = space
        self.dims: Digits = np.array(space.dims, dtype=np.int64)
        self._knobs = list(space.space_map.values())
        self._near: list[Digits | None] = [None] * len(self._knobs)
        # Python integers, since a space may have more than 2**63 configurations
        self.weights: list[int] = []
        weight = 1
        for size in space.dims:
            self.weights.append(weight)
            weight *= size
        self._narrow = np.array(self.weights, dtype=np.int64) if weight < 1 << 62 else None

    def digits(self, indices: Iterable[int]) -> Digits:
        """Rows of digits, shape (configurations, knobs)."""
        rows = [self.space.point2knob(int(i)) for i in indices]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.dims))

    def indices(self, digits: Digits) -> list[int]:
        """The numbers of rows of digits."""
        if self._narrow is not None:
            found: list[int] = (digits @ self._narrow).tolist()
            return found
        return [sum(d * w for d, w in zip(row, self.weights)) for row in digits.tolist()]

    def neighbours(self, digits: Digits, rng: np.random.Generator) -> Digits:
        """Each row with one of its digits changed (see `change`)."""
        moved = digits.copy()
        free = np.flatnonzero(self.dims > 1)
        if not len(free):
            return moved
        columns = free[rng.integers(len(free), size=len(digits))]
        for column in free:
            rows = np.flatnonzero(columns == column)
            moved[rows, column] = self.change(moved[rows, column], int(column), rng)
        return moved

    def change(self, values: Digits, column: int, rng: np.random.Generator) -> Digits:
        """Other digits of a knob that has more than one choice: half of the time next to the
        present one (see `neighbours`), else anywhere."""
        size = int(self.dims[column])
        near = self._near[column]
        if near is None:
            near = self._near[column] = neighbour_table(self._knobs[column])
        close = near[values, rng.integers(near.shape[1], size=len(values))]
        anywhere = (values + 1 + rng.integers(size - 1, size=len(values))) % size
        return np.where((rng.random(len(values)) < 0.5) & (close != values), close, anywhere)
