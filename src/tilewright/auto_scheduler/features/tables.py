"""Index tables of a skeleton: which slots hold the extents, strides and shapes of its statements.

The loops around a statement are the columns of a table, padded to the longest path. A fused loop
counts as its first part, whose extent is then that of all parts, while the others have extent 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .nest import Nest
from .program import ONE, ZERO, Compiled, Index, Slot
from .statements import Access, Statement
from .uneven import Uneven
from .value import Loop, Value

NEVER = 1 << 30  # the place of a loop that is never one of the outermost of its nest


class Tables:
    """Everything about the statements of a nest that does not change from batch to batch.

    columns: K. rows: dimensions of accesses, those first that move evenly with their loops.
    accesses: A, those of a statement side by side.
    """

    def __init__(self, nest: Nest, statements: list[Statement]) -> None:
        self.nest, self.statements = nest, statements
        self.columns = max([len(s.path) for s in statements], default=0)
        self._strides: list[list[Slot]] = [[ZERO] * self.columns]
        self._spreads: list[Slot] = [ZERO]
        self._sizes: list[Slot] = [ONE]
        self._row_of: dict[Any, int] = {}
        self._row_statement = [0]
        self._opaque: list[Slot] = []
        self.uneven = [Uneven(x.path, self.columns) for x in statements]
        self._find_rows()
        self.program = Compiled(nest.program)
        self._make_arrays()
        self._place_rows()

    # -- rows

    def _find_rows(self) -> None:
        """The kind of each dimension of each access, and its number among those of its kind."""
        self.accesses: list[tuple[int, Access]] = []
        places: list[list[tuple[str, int]]] = []
        for s, statement in enumerate(self.statements):
            for access in statement.accesses:
                self.accesses.append((s, access))
                places.append([self._row(s, access, d) for d in range(len(access.buffer.shape))])
        self._places = places

    def _place_rows(self) -> None:
        """Number the rows: even ones, then uneven ones by statement, then opaque ones."""
        ends = np.cumsum([len(self._strides), *(len(u.values) for u in self.uneven)]).tolist()
        self.uneven_rows = [slice(a, b) for a, b in pairwise(ends)]
        self.rows: int = ends[-1] + len(self._opaque)
        self.opaque = len(self._opaque)
        rank = max([len(p) for p in self._places], default=0)
        self.dims: Index = np.zeros((len(self._places), rank), np.intp)
        for a, kinds in enumerate(self._places):
            start = {"even": 0, "uneven": ends[self.accesses[a][0]], "opaque": ends[-1]}
            for d, (kind, k) in enumerate(kinds):
                self.dims[a, d] = start[kind] + k
        uneven = [shape for u in self.uneven for shape in u.shapes]
        self.sizes: Index = self.program.place[[*self._sizes, *uneven, *self._opaque]]
        one = int(self.program.place[ONE])
        self.shapes: Index = np.full((len(self.accesses), rank), one, np.intp)
        for a, (_, access) in enumerate(self.accesses):
            shape = access.buffer.shape
            self.shapes[a, : len(shape)] = self.program.place[shape]

    def _row(self, s: int, access: Access, d: int) -> tuple[str, int]:
        nest, p = self.nest, self.nest.program
        indices, shape = [place[d] for place in access.indices], access.buffer.shape[d]
        if any(i is None for i in indices):
            self._opaque.append(shape)
            return "opaque", len(self._opaque) - 1
        statement = self.statements[s]
        moving = nest.moving(access.buffer.stage, statement.nest)
        values = [
            nest.values.keep(nest.sum_value(statement.nest, i), moving)
            for i in indices
            if i is not None
        ]
        if not self._even(values):
            return "uneven", self.uneven[s].add(values, shape)
        starts = [v.start for v in values]
        low = high = starts[0]
        for start in starts[1:]:
            low, high = p.min(low, start), p.max(high, start)
        return "even", self._even_row(s, values[0], p.sub(high, low), shape)

    def _even(self, values: list[Value]) -> bool:
        """Whether all values move alike, and upwards only."""
        first = values[0]
        return not any(v.quotients or v.strides != first.strides for v in values) and not any(
            self.nest.values.is_negative(stride) for stride in first.strides.values()
        )

    def _even_row(self, s: int, value: Value, spread: Slot, shape: Slot) -> int:
        strides = self._by_column(self.statements[s].path, value)
        key = (s, tuple(strides), spread, shape)
        row = self._row_of.get(key)
        if row is None:
            row = self._row_of[key] = len(self._strides)
            self._strides.append(strides)
            self._spreads.append(spread)
            self._sizes.append(shape)
            self._row_statement.append(s)
        return row

    def _by_column(self, path: list[Loop], value: Value) -> list[Slot]:
        strides = [value.strides.get(loop, ZERO) for loop in path]
        return strides + [ZERO] * (self.columns - len(path))

    # -- arrays

    def _make_arrays(self) -> None:
        place = self.program.place
        statements, columns = self.statements, self.columns
        pad = [(ONE, True, NEVER, ONE)] * columns
        found = []
        for statement in statements:
            root = statement.path[0].stage if statement.path else None
            loops = [
                (
                    x.extent,
                    x.first,
                    x.place if x.stage is root else NEVER,
                    statement.nest.limits.get(x, x.extent),
                )
                for x in statement.path
            ]
            found.append((loops + pad)[:columns])
        count = len(statements)
        self.extents: Index = place[_table([[x[0] for x in f] for f in found], count, columns)]
        self.limits: Index = place[_table([[x[3] for x in f] for f in found], count, columns)]
        first = np.array([[x[1] for x in f] for f in found], bool).reshape(count, columns)
        self.root_places: Index = _table([[x[2] for x in f] for f in found], count, columns)
        self.groups = _groups(first)
        packed = self.nest.packed
        self.skips_single = [bool(x.path) and x.path[0].stage.id in packed for x in statements]
        self.strides: Index = place[_table(self._strides, len(self._strides), columns)]
        self.spreads: Index = place[self._spreads]
        self.row_statement: Index = np.array(self._row_statement, np.intp)
        ends = np.searchsorted(self.row_statement[1:], np.arange(count + 1)) + 1
        self.row_slices = [slice(a, b) for a, b in pairwise(ends)]
        self.spread_rows: Index = np.flatnonzero(np.array(self._spreads) != ZERO)
        for uneven in self.uneven:
            if uneven.values:
                uneven.make(place)
        self.access_statement: Index = np.array([s for s, _ in self.accesses], np.intp)


def _table(rows: list[list[int]], count: int, columns: int) -> Index:
    return np.array(rows, np.intp).reshape(count, columns)


def _groups(first: Any) -> list[tuple[int, int, int]]:
    """(statement, first column, end) of each fused loop of several parts."""
    found = []
    for s, marks in enumerate(first):
        starts = [*np.flatnonzero(marks).tolist(), len(marks)]
        found += [(s, a, b) for a, b in pairwise(starts) if b > a + 1]
    return found
