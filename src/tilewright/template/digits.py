"""Configurations as rows of digits, one column a knob: what populations are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .space import ConfigSpace

Digits = np.ndarray[Any, np.dtype[np.int64]]


class DigitTable:
    """Numbers of configurations of a space to digits and back, many at once."""

    __slots__ = ("_narrow", "dims", "space", "weights")

    def __init__(self, space: ConfigSpace) -> None:
        self.space = space
        self.dims: Digits = np.array(space.dims, dtype=np.int64)
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
        """Each row with one of its digits changed: to any other value, or half of the time to one
        close by, since the choices of a knob stand in order."""
        moved = digits.copy()
        free = np.flatnonzero(self.dims > 1)
        if not len(free):
            return moved
        rows = np.arange(len(digits))
        columns = free[rng.integers(len(free), size=len(digits))]
        moved[rows, columns] = self.change(moved[rows, columns], self.dims[columns], rng)
        return moved

    @staticmethod
    def change(values: Digits, sizes: Digits, rng: np.random.Generator) -> Digits:
        """Another digit for each of `values` (below `sizes`, all of which are above 1)."""
        anywhere = (values + 1 + (rng.random(len(values)) * (sizes - 1)).astype(np.int64)) % sizes
        step = rng.choice(np.array([-2, -1, 1, 2]), size=len(values))
        near = np.clip(values + step, 0, sizes - 1)
        use_near = (rng.random(len(values)) < 0.5) & (near != values)
        return np.where(use_near, near, anywhere)
