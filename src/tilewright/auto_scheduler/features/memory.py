"""The columns of buffers: how much is touched, how it is spread over cache lines, how it is reused.

Definitions (levels as in touch.py; `touched` counts elements of the box around an access):

- a box has at most the extents of its buffer: conditions guard what an index reaches beyond;
- a loop *moves* an access if it makes the box larger;
- bytes: over all iterations; unique_bytes: of the box of the whole nest;
- stride: how far the end of the box moves in memory for each iteration of the innermost loop that
  moves it; the column is 0 where a loop further inside does not move it;
- lines: iterations, without those of loops inside the innermost that moves, by the part of a cache
  line that a stride covers; unique_lines: unique bytes by the length of contiguous runs;
- reuse: at the innermost loop that either does not move the access ("loop": the distance is what
  its body touches, the count its extent), or in which statements before this one touch the same
  buffer ("serial": the distance is what all of them touch, shared out over the iterations, the
  count that of those statements).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .columns import ACCESS_KINDS, BUFFER_COLUMNS, BUFFERS, CACHE_LINE, NO_REUSE, PLACE
from .program import Array, Index
from .tables import Tables
from .touch import Levels

At = {name: k for k, name in enumerate(BUFFER_COLUMNS)}


class Sharing:
    """Which statements run inside the same loops, and which of their accesses meet."""

    def __init__(self, tables: Tables) -> None:
        statements, columns = tables.statements, tables.columns
        self.common = [
            (s, e, shared)
            for s, later in enumerate(statements)
            for e, earlier in enumerate(statements[:s])
            if (shared := _common(later.path, earlier.path))
        ]
        depth = {(s, e): shared for s, e, shared in self.common}
        self.meetings: list[tuple[int, int, int]] = []
        self.counts: npt.NDArray[np.int64] = np.zeros((len(tables.accesses), columns), np.int64)
        for a, (s, access) in enumerate(tables.accesses):
            for b, (e, other) in enumerate(tables.accesses[:a]):
                shared = depth.get((s, e), 0)
                if shared and other.buffer is access.buffer:
                    self.meetings.append((a, b, shared))
                    self.counts[a, :shared] += 1
        self.joint = sorted({s for s, _, _ in self.common})
        self.element: Array = np.array([x.buffer.element for _, x in tables.accesses], float)
        self.packed: Index = np.array(
            [a for a, (_, x) in enumerate(tables.accesses) if x.buffer.packed], np.intp
        )
        self.kinds: Index = np.array([x.kind for _, x in tables.accesses], np.intp)
        of = tables.access_statement
        self.slices = [
            slice(*np.searchsorted(of, [s, s + 1]).tolist()) for s in range(len(statements))
        ]
        self.firsts: Index = np.array([x.start for x in self.slices], np.intp)


def _common(a: Sequence[object], b: Sequence[object]) -> int:
    """How many outer loops two statements share."""
    k = 0
    for x, y in zip(a, b):
        if x is not y:
            break
        k += 1
    return k


class Memory:
    """own_bytes (S, K + 1, N): what each statement touches at each level; `rows` (A, 18, N): the
    columns of each access."""

    def __init__(self, levels: Levels, sharing: Sharing) -> None:
        self.levels, self.sharing = levels, sharing
        self.statement = levels.tables.access_statement
        self.candidates = np.arange(levels.extent.shape[2])
        self.element = sharing.element[:, None]
        touched = levels.touched
        sizes = touched * sharing.element[:, None, None]
        self.own_bytes: Array = np.add.reduceat(sizes, sharing.firsts, axis=0)
        self.grows = touched[:, :-1] > touched[:, 1:]
        shape = (len(touched), len(BUFFER_COLUMNS), touched.shape[2])
        self.rows: Array = np.zeros(shape)
        for a, kind in enumerate(sharing.kinds):
            self.rows[a, kind] = 1.0
        self._bytes_and_lines()
        self._reuse()

    def _bytes_and_lines(self) -> None:
        rows, levels = self.rows, self.levels
        total = levels.trips[self.statement, 0]
        rows[:, At["bytes"]] = total * self.element
        unique = levels.touched[:, 0] * self.element
        rows[:, At["unique_bytes"]] = unique
        stride, inner = self._stride()
        covered = np.minimum(1.0, stride * self.element / CACHE_LINE)
        rows[:, At["lines"]] = np.maximum(1.0, total / inner * covered)
        run = np.minimum(self._run() * self.element, CACHE_LINE)
        rows[:, At["unique_lines"]] = np.maximum(1.0, unique / run)
        rows[:, At["stride"]] = np.where(inner == 1.0, stride, 0.0)

    def _stride(self) -> tuple[Array, Array]:
        """Stride of the innermost loop that moves, and the iterations of the loops inside it."""
        levels = self.levels
        at, moves = _innermost(self.grows)
        rows, n = np.arange(len(at))[:, None], self.candidates
        dims, widths = levels.tables.dims, levels.widths
        shape = levels.slots[levels.tables.shapes]
        pace: Array = np.zeros(at.shape)
        ahead: Array = np.ones(at.shape)
        for d in range(dims.shape[1] - 1, -1, -1):
            row = dims[:, d, None]
            pace += (widths[row, at, n] - widths[row, at + 1, n]) * ahead
            ahead *= shape[:, d]
        packed = self.sharing.packed
        if len(packed):
            box = levels.touched
            more = box[rows, at, n] - box[rows, at + 1, n]
            pace[packed] = more[packed]
        statement = self.statement[:, None]
        steps = np.maximum(levels.extent[statement, at, n] - 1.0, 1.0)
        stride = np.where(moves, pace / steps, 0.0)
        inner = np.where(moves, levels.trips[statement, at + 1, n], 1.0)
        return stride, inner

    def _run(self) -> Array:
        """How many elements lie side by side in the box of the whole nest."""
        levels = self.levels
        dims, shapes = levels.tables.dims, levels.slots[levels.tables.shapes]
        whole = levels.widths[:, 0] + 1.0
        run: Array = np.ones((len(dims), len(self.candidates)))
        full = np.ones(run.shape, bool)
        for d in range(dims.shape[1] - 1, -1, -1):
            size = whole[dims[:, d]]
            run *= np.where(full, size, 1.0)
            full &= size >= shapes[:, d]
        packed = self.sharing.packed
        run[packed] = levels.touched[packed, 0]
        return run

    def _reuse(self) -> None:
        rows, levels, sharing = self.rows, self.levels, self.sharing
        total = self._bytes_at()
        alone = sharing.counts == 0
        event = ~(self.grows & alone[:, :, None])
        event &= (levels.extent > 1.0)[self.statement]
        at, found = _innermost(event)
        line, statement, n = np.arange(len(at))[:, None], self.statement[:, None], self.candidates
        serial = found & self.grows[line, at, n]
        loop = found & ~serial
        extent = levels.extent[statement, at, n]
        least = levels.touched[line, at, n]
        for a, b, shared in sharing.meetings:
            inside = at[a] < shared
            other = levels.touched[b, at[a], n]
            least[a] = np.where(inside, np.minimum(least[a], other), least[a])
        count = np.where(loop, extent, np.where(serial, sharing.counts[line, at], 0.0))
        distance = np.where(serial, least / extent, levels.trips[statement, at + 1, n])
        spread = np.where(serial, total[statement, at, n] / extent, total[statement, at + 1, n])
        rows[:, At["reuse_loop"]] = loop
        rows[:, At["reuse_serial"]] = serial
        rows[:, At["reuse_none"]] = ~found
        rows[:, At["reuse_dis_iter"]] = np.where(found, distance, 0.0)
        rows[:, At["reuse_dis_bytes"]] = np.where(found, spread, 0.0)
        rows[:, At["reuse_ct"]] = count
        by = np.where(count > 0.5, 1.0 / np.maximum(count, 1.0), NO_REUSE)
        for name in ("bytes", "unique_bytes", "lines", "unique_lines"):
            np.multiply(rows[:, At[name]], by, out=rows[:, At[f"{name}_per_reuse"]])

    def _bytes_at(self) -> Array:
        """Bytes that a statement and those before it touch at each level that has a loop; at others
        those of the next level inside."""
        sharing = self.sharing
        if not sharing.joint:
            return self.own_bytes
        total = self.own_bytes.copy()
        for s, earlier, shared in sharing.common:
            total[s, :shared] += self.own_bytes[earlier, :shared]
        idle = self.levels.extent <= 1.0
        for s in sharing.joint:
            for k in range(idle.shape[1] - 1, -1, -1):
                np.copyto(total[s, k], total[s, k + 1], where=idle[s, k])
        return total

    def write(self, out: npt.NDArray[np.float32]) -> None:
        """Put the accesses with the most lines into the columns of `out` (S, 164, N)."""
        first = PLACE["B0.acc_read"]
        for s, part in enumerate(self.sharing.slices):
            rows = self.rows[part]
            order = np.lexsort((-rows[:, At["bytes"]], -rows[:, At["lines"]]), axis=0)[:BUFFERS]
            chosen = np.take_along_axis(rows, order[:, None, :], axis=0)
            size = len(order) * len(BUFFER_COLUMNS)
            out[s, first : first + size] = chosen.reshape(size, -1)


def _innermost(marks: npt.NDArray[np.bool_]) -> tuple[Index, npt.NDArray[np.bool_]]:
    """The last column that is marked (A, K, N), and whether there is one (A, N)."""
    if marks.shape[1] == 0:
        raise ValueError("no columns")
    at = marks.shape[1] - 1 - np.argmax(marks[:, ::-1], axis=1)
    return at, np.take_along_axis(marks, at[:, None], axis=1)[:, 0]


assert len(ACCESS_KINDS) == At["bytes"]
