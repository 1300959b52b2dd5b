"""The columns of a sketch for a GPU, and which of its candidates the device can run.

The sketch has its threads bound (bind_threads.py), so there is nothing left to place: the columns
are the open lengths and the limits for unrolling. Numbers of threads that share a reduction and
lanes of vectors are drawn from lists, as they need not divide their loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..schedule.state import SCOPE
from .bind_threads import THREAD_LEVEL, Bound, Tiled, bind_threads
from .features import Skeleton as Nest
from .space import Flags, Group, Matrix, Space, factorizations
from .state import State

REGISTERS = 255 * 4  # bytes of a thread's registers; more goes to slow memory
REGISTER_FILE = 64 * 1024 * 4  # bytes that the threads of a block share
DRAWS = 24
MOST_DRAWN = 1 << 14
ENOUGH = 0.002


class GpuSpace(Space):
    """The columns of one sketch whose threads are bound."""

    def __init__(self, sketch: State, number: int, policy: Any) -> None:
        self.hardware = policy.hardware
        self.bound = bind_threads(sketch, policy.hardware)
        self._begin(self.bound.state, number, policy)
        self.nest = Nest(self.sketch)
        self.column = {(f.row, f.level): n for n, f in enumerate(self.sketch.open)}
        self.groups = _groups(self.bound)
        self._add_unroll(policy)
        self.palette = np.zeros((1, 0), np.int64)
        self.limits = Limits(self)
        self.tables = [self._table(g) for g in self.groups]
        self._relax(np.random.default_rng(policy.seed))

    def _table(self, group: Group) -> Matrix:
        """The lengths that a split may have by itself."""
        if group.options:
            return np.array(group.options, np.int64)[:, None]
        table = factorizations(group.extent, group.stop - group.start, self.max_inner)
        ok = np.ones(len(table), bool)
        for column, most in self.limits.levels(group):
            ok &= table[:, column - group.start] <= most
        fitting: Matrix = table[ok]
        return fitting

    def _relax(self, rng: np.random.Generator) -> None:
        """Allow blocks of less than a warp where hardly a candidate has more."""
        share = self.limits.allowed(self._draw(2048, rng)).mean()
        if share < ENOUGH:
            self.limits.least = 1
            share = self.limits.allowed(self._draw(2048, rng)).mean()
        self.share = max(float(share), ENOUGH)

    def _draw(self, count: int, rng: np.random.Generator) -> Matrix:
        result = np.zeros((count, self.width), np.int64)
        for g, table in zip(self.groups, self.tables):
            result[:, g.start : g.stop] = table[rng.integers(len(table), size=count)]
        for c in self.unroll:
            result[:, c.column] = rng.integers(c.count, size=count)
        return result

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        """Random candidates that the device can run; fewer where there are hardly any."""
        found: list[Matrix] = []
        missing = count
        for _ in range(DRAWS):
            if missing <= 0:
                break
            size = int(np.clip(missing / self.share, 64, MOST_DRAWN))
            rows = self._draw(size, rng)
            rows = rows[self.limits.allowed(rows)][:missing]
            found.append(rows)
            missing -= len(rows)
        return np.concatenate(found) if found else np.zeros((0, self.width), np.int64)


def _groups(bound: Bound) -> list[Group]:
    sketch = bound.state
    groups: list[Group] = []
    for column, f in enumerate(sketch.open):
        if groups and sketch.open[column - 1].row == f.row:
            g = groups[-1]
            groups[-1] = Group(g.start, column + 1, g.extent, g.node, g.reduce, g.options)
            continue
        source = bound.owners[f.row]
        extent = int(sketch.rows[f.row][3] or 0)
        options = bound.options.get(f.row, ())
        groups.append(Group(column, column + 1, extent, source.ident, not source.data, options))
    return groups


class Limits:
    """What a block may use, checked for all candidates at once.

    Threads of a block: from a warp (unless the whole stage is tiny) to the device's limit; virtual
    threads; bytes of shared memory of each kernel, and of a thread's own; vectors that fill whole
    rows of what they fetch. `verify_gpu_code` judges the lowered program.
    """

    def __init__(self, space: GpuSpace) -> None:
        self.space = space
        hw = space.hardware
        self.most_threads = max(1, hw.max_threads_per_block)
        self.most_vthreads = max(1, hw.max_vthread_extent)
        self.least = max(1, hw.warp_size)
        self.shared = hw.max_shared_memory_per_block
        self.local = min(hw.max_local_memory_per_block, REGISTERS)
        self.program = space.nest.tables.program
        self.memory = self._memory()
        self.rows_of = self._fetched()

    def levels(self, group: Group) -> list[tuple[int, int]]:
        """(column, most) of the lengths of a split that are threads."""
        row = self.space.sketch.open[group.start].row
        if not any(row in t.rows for t in self.space.bound.tiled):
            return []
        levels = ((0, self.most_vthreads), (THREAD_LEVEL, self.most_threads))
        known = self.space.column
        return [(known[row, level], most) for level, most in levels if (row, level) in known]

    def allowed(self, rows: Matrix) -> Flags:
        """Which candidates the device can run."""
        factors = rows[:, : len(self.space.sketch.open)]
        ok: Flags = np.ones(len(rows), bool)
        virtual, threads_of = {}, {}
        for t in self.space.bound.tiled:
            threads, vthreads = self.product(t, THREAD_LEVEL, rows), self.product(t, 0, rows)
            virtual[t.ident], threads_of[t.ident] = vthreads, threads
            ok &= (threads <= self.most_threads) & (vthreads <= self.most_vthreads)
            if not t.tiny:
                ok &= threads >= self.least
        values = self.program.run(factors)
        for column, last in self.rows_of:
            ok &= values[last] % factors[:, column] == 0
        shared: dict[int, Any] = {}
        local: dict[int, Any] = {}
        for root, is_shared, size, shape in self.memory:
            used = size * values[shape].prod(axis=0) if len(shape) else size
            totals = shared if is_shared else local
            totals[root] = totals.get(root, 0) + used * (1 if is_shared else virtual.get(root, 1))
        for total in shared.values():
            ok &= total <= self.shared
        for root, total in local.items():
            ok &= (total <= self.local) & (total * threads_of.get(root, 1) <= REGISTER_FILE)
        return ok

    def product(self, tiled: Tiled, level: int, rows: Matrix) -> Matrix:
        """The lengths of one level of a kernel's tiles, multiplied."""
        columns = [
            c for row in tiled.rows if (c := self.space.column.get((row, level))) is not None
        ]
        product: Matrix = rows[:, columns].prod(axis=1)
        return product

    def _memory(self) -> list[tuple[int, bool, float, Any]]:
        """(root stage, whether shared, bytes of an element, places of the shape) of each buffer of
        a block or a thread."""
        found: list[tuple[int, bool, float, Any]] = []
        nest = self.space.nest
        for k, _, size, shape in nest.allocated:
            stage = nest.statements[k].nest.stage
            root = stage
            while root.attach_type == SCOPE and root.attach_stage is not None:
                root = root.attach_stage
            if root is not stage:
                found.append((root.id, stage.scope != "local", size, shape))
        return found

    def _fetched(self) -> list[tuple[int, int]]:
        """(column of lanes, place of the last extent) of each vectorised copy."""
        found = []
        for fetch in self.space.bound.fetches:
            column = self.space.column.get((fetch.row, 0))
            if column is None:
                continue
            stage = self.space.nest.tables.nest.stages[fetch.ident]
            last = stage.stage.op.axis[-1]
            place = int(self.program.place[stage.axes[last.var].extent])
            found.append((column, place))
        return found
