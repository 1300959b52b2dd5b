"""How far statements reach in their buffers while their innermost loops run.

Level k of a statement means: the loops of column k and inwards run, those outside stand at 0; level
K (no loop) is a single run. All arrays have the candidates as their last axis, which is contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .program import Array
from .reach import Mask, Reach, join
from .tables import Tables


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
        single: Array = self.slots[tables.extents]
        self.joins = _joins(tables, fused, single)
        steps: Array = self.slots[tables.limits] - 1.0
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
        widths: Array = np.zeros((tables.rows, columns + 1, steps.shape[2]))
        even = widths[:rows, :columns]
        even[...] = self.slots[tables.strides]
        even *= steps[tables.row_statement]
        for s, first, mask in self.joins:
            join(even[tables.row_slices[s]], first, mask)
        for k in range(columns - 2, -1, -1):
            even[:, k] += even[:, k + 1]
        for row in tables.spread_rows:
            widths[row] += self.slots[tables.spreads[row]]
        for k, uneven in enumerate(tables.uneven):
            if uneven.values:
                joins = [(first, mask) for s, first, mask in self.joins if s == k]
                widths[tables.uneven_rows[k]] = Reach(uneven, self.slots, steps[k], joins).widths()
        last = self.slots[tables.sizes][:, None] - 1.0
        if tables.opaque:
            widths[-tables.opaque :] = last[-tables.opaque :]
        # where indices reach further, conditions keep the statement from running
        return np.minimum(widths, last, out=widths)

    def _touched(self) -> Array:
        dims = self.tables.dims
        size: Array = self.widths + 1.0
        if dims.shape[1] == 0:
            return np.ones((len(dims), *size.shape[1:]))
        touched: Array = size[dims[:, 0]]
        for d in range(1, dims.shape[1]):
            touched *= size[dims[:, d]]
        return touched


def _joins(
    tables: Tables, fused: Mapping[int, npt.NDArray[np.int64]], extent: Array
) -> list[tuple[int, int, Mask]]:
    """(statement, column, which of the columns behind it are fused with it: (columns, N))."""
    found: list[tuple[int, int, Mask]] = [
        (s, first, np.ones((end - first - 1, 1), np.bool_)) for s, first, end in tables.groups
    ]
    for s, counts in fused.items():
        if tables.skips_single[s]:
            found.append((s, 0, (np.cumsum(extent[s] > 1.0, axis=0) - 1 < counts)[1:]))
            continue
        places = tables.root_places[s]
        columns = int(np.count_nonzero(places < counts.max(initial=0)))
        if columns > 1:
            found.append((s, 0, places[1:columns, None] < counts))
    return found
