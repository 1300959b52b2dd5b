"""How far statements reach in their buffers while their innermost loops run.

Level k of a statement means: the loops of column k and inwards run, those outside stand at 0; level
K (no loop) is a single run. All arrays have the candidates as their last axis, which is contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .program import Array
from .tables import Sloped, Special, Tables

Mask = npt.NDArray[np.bool_]


class Levels:
    """Extents of the loops of a batch, with fused loops joined, and what each level touches.

    slots (slots, N). extent (S, K, N): iterations of each loop. trips (S, K + 1, N): iterations of
    all loops of a level. widths (rows, K + 1, N): highest minus lowest index of a dimension.
    touched (A, K + 1, N): elements in the box around everything that an access touches.
    """

    def __init__(
        self,
        tables: Tables,
        lengths: npt.NDArray[np.int64],
        fused: Mapping[int, npt.NDArray[np.int64]],
    ) -> None:
        """lengths (N, inputs); fused: by statement, how many outer loops of its nest run as one."""
        self.tables = tables
        self.slots = tables.program.run(lengths)
        self.joins = _joins(tables, fused)
        single: Array = self.slots[tables.extents]
        steps = single - 1.0
        for s, first, mask in self.joins:
            part = single[s, first + 1 : first + 1 + len(mask)]
            single[s, first] *= np.where(mask, part, 1.0).prod(axis=0)
            np.copyto(part, 1.0, where=mask)
        self.extent = single
        count, columns = single.shape[:2]
        self.trips: Array = np.ones((count, columns + 1, len(lengths)))
        for k in range(columns - 1, -1, -1):
            np.multiply(self.trips[:, k + 1], single[:, k], out=self.trips[:, k])
        self.widths = self._widths(steps)
        self.touched = self._touched()

    def _widths(self, steps: Array) -> Array:
        """Widths of all rows: sums, over the loops of a level, of stride times steps."""
        tables = self.tables
        rows, columns = tables.strides.shape
        total = rows + len(tables.specials) + len(tables.opaque)
        widths: Array = np.zeros((total, columns + 1, steps.shape[2]))
        even = widths[:rows, :columns]
        even[...] = self.slots[tables.strides]
        even *= steps[tables.row_statement]
        for s, first, mask in self.joins:
            self._join(even[tables.row_slices[s]], first, mask)
        for k in range(columns - 2, -1, -1):
            even[:, k] += even[:, k + 1]
        for row in tables.spread_rows:
            widths[row] += self.slots[tables.spreads[row]]
        for k, special in enumerate(tables.specials):
            widths[rows + k] = self._special(special, steps)
        if len(tables.opaque):
            widths[rows + len(tables.specials) :] = self.slots[tables.opaque][:, None]
        return widths

    @staticmethod
    def _join(parts: Array, first: int, mask: Mask) -> None:
        """Count what the parts of a fused loop add as its first part's."""
        inner = parts[:, first + 1 : first + 1 + len(mask)]
        moved = inner * mask
        inner -= moved
        parts[:, first] += moved.sum(axis=1)

    def _touched(self) -> Array:
        dims = self.tables.dims
        size: Array = self.widths + 1.0
        if dims.shape[1] == 0:
            return np.ones((len(dims), *size.shape[1:]))
        touched: Array = size[dims[:, 0]]
        for d in range(1, dims.shape[1]):
            touched *= size[dims[:, d]]
        return touched

    # -- dimensions that do not move evenly

    def _special(self, special: Special, steps: Array) -> Array:
        s = special.statement
        low: Any = None
        high: Any = None
        for start, sloped in special.parts:
            down, up = self._reach(s, sloped, steps[s])
            down, up = down + self.slots[start], up + self.slots[start]
            low = down if low is None else np.minimum(low, down)
            high = up if high is None else np.maximum(high, up)
        width: Array = high - low
        return width

    def _reach(
        self, s: int, sloped: Sloped, steps: Array, divisor: Any = None
    ) -> tuple[Array, Array]:
        """The lowest and highest distance from where all loops stand at 0, by level.

        With a divisor, only the distance modulo it counts, so whole multiples are left out.
        """
        strides, quotients = sloped
        slope = self.slots[strides]
        if divisor is not None:
            slope = np.where(np.mod(slope, divisor) == 0.0, 0.0, slope)
        parts = slope * steps
        ends = np.stack((np.minimum(parts, 0.0), np.maximum(parts, 0.0)))
        for owner, first, mask in self.joins:
            if owner == s:
                self._join(ends, first, mask)
        reach = np.zeros((2, len(strides) + 1, steps.shape[1]))
        for k in range(len(strides) - 1, -1, -1):
            np.add(reach[:, k + 1], ends[:, k], out=reach[:, k])
        low, high = reach
        for factor, kind, inner, start, size in quotients:
            less, more = self._quotient(s, kind, inner, start, size, steps)
            scaled = less * self.slots[factor], more * self.slots[factor]
            low = low + np.minimum(*scaled)
            high = high + np.maximum(*scaled)
        return low, high

    def _quotient(
        self, s: int, kind: str, inner: Sloped, start: int, size: int, steps: Array
    ) -> tuple[Array, Array]:
        begin, divisor = self.slots[start], self.slots[size]
        less, more = self._reach(s, inner, steps, divisor if kind == "mod" else None)
        below, above = np.floor((less + begin) / divisor), np.floor((more + begin) / divisor)
        zero = np.floor(begin / divisor)
        if kind == "div":
            return below - zero, above - zero
        same = below == above
        least = np.where(same, less + begin - below * divisor, 0.0)
        most = np.where(same, more + begin - above * divisor, divisor - 1.0)
        at = begin - zero * divisor
        return least - at, most - at


def _joins(
    tables: Tables, fused: Mapping[int, npt.NDArray[np.int64]]
) -> list[tuple[int, int, Mask]]:
    """(statement, column, which of the columns behind it are fused with it: (columns, N))."""
    found: list[tuple[int, int, Mask]] = [
        (s, first, np.ones((end - first - 1, 1), np.bool_)) for s, first, end in tables.groups
    ]
    for s, counts in fused.items():
        places = tables.root_places[s]
        columns = int(np.count_nonzero(places < counts.max(initial=0)))
        if columns > 1:
            found.append((s, 0, places[1:columns, None] < counts))
    return found
