"""How the rows of a sum of products are shared out among threads: the pieces that cost least."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from math import prod

from .contraction import Contraction
from .machine import PARALLEL_PRODUCTS, PIECES, Machine, bytes_of
from .window_tile import Tile

# Rows that cost as much as the copy of a panel for them; of one whose columns lie in memory.
COPY_ROWS, TURNED_ROWS = 8, 16
# The same of a panel that does not stay near; of one of many, from memory.
FARTHER_ROWS, FAR_ROWS = 24, 32
FAR_BYTES = 16  # a cycle, that a core gets from beyond its second-level cache
START = 8 * PARALLEL_PRODUCTS  # multiplications that take as long as to start the threads once more
BETTER = 1.035  # by how much another copy has to be, by these numbers
FAR_L2 = 4  # times the second-level cache: what is larger goes through memory
LATE = 0.1  # of its share, that a thread may miss
PANELS_APART = 1.1  # threads at different columns write to the same lines, and each reads all rows
MANY_PIECES = 8  # for each core: they are shared evenly
SPREAD = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # of sizes that are not known, around a likely one
MOST_TRIED = 16  # numbers of pieces, all of them
STEPS = 8  # between one of more and twice as many
PANELS_FIRST, ROWS_FIRST, AHEAD = 0, 1, 2


@dataclass(frozen=True)
class Cut:
    """How the rows are shared out: `size` steps of row axis number `axis` at a time (0: all), of
    each of the steps of those before it. `order`: PANELS_FIRST, threads share the pieces of each
    panel; ROWS_FIRST, they share those of the rows, and each does all columns of its own; AHEAD,
    so too, of panels that were packed beforehand, once for all."""

    axis: int = 0
    size: int = 0
    order: int = PANELS_FIRST


@dataclass(frozen=True)
class Rows:
    """What is shared out: row axes of `sizes` (0: not known), a `tile` of them at a time; where
    `likely`, that is what a size may be, and a cut has to do for others, too. `batches`, `panels`:
    pieces for all rows (0: not known), of which the latter share rows. `packed`: each piece copies
    its panels. `products`: all of them, if panels may be packed beforehand, too, else 0."""

    form: Contraction
    sizes: Sequence[int]
    likely: Sequence[bool]
    tile: Tile
    batches: int
    panels: int
    packed: bool
    products: int

    def axes(self, pieces: int) -> list[int]:
        """The row axes that may be cut: the first one, and where it does not give so many pieces,
        the first with which those before it do, as rows of a few images."""
        first = next((i for i, size in enumerate(self.sizes) if size > 1), 0)
        able = self.sizes[:-1] if self.tile.lines > 1 else self.sizes  # a tile has the last whole
        steps = [-(-size // self.step(i)) for i, size in enumerate(able)]
        counts = [prod(self.sizes[:i]) * n for i, n in enumerate(steps)]
        enough = next((i for i, n in enumerate(counts) if n >= pieces), counts.index(max(counts)))
        return [first] if enough <= first else [first, enough]

    def step(self, axis: int) -> int:
        """How much of an axis a tile takes."""
        last = len(self.sizes) - 1
        return {last: self.tile.rows, last - 1: self.tile.lines}.get(axis, 1)


def cuts(rows: Rows, machine: Machine) -> list[Cut]:
    """Ways to cut rows into pieces, those that cost least first: threads that wait for the last
    one, and each piece's copies of panels, which are worth so many rows."""
    if not rows.form.rows or not all(rows.sizes):
        return [Cut()]
    return [cut for _, cut in _ranked(rows, machine)]


def least_cost(rows: Rows, machine: Machine) -> float:
    """How many times as long as without any waiting or copying the best of these ways takes."""
    if not rows.form.rows or not all(rows.sizes):
        return unevenness([1], rows.batches * rows.panels, machine.cores)
    return _ranked(rows, machine)[0][0]


def _ranked(rows: Rows, machine: Machine) -> list[tuple[float, Cut]]:
    """All cuts that are worth a look, and what they cost, the best one first."""
    found = [
        (_cost(rows, axis, whole, order, machine), Cut(axis, whole, order))
        for axis in rows.axes(PIECES * machine.cores)
        for whole, orders in _pieces(rows, axis, machine)
        for order in orders
    ]
    return sorted(found, key=lambda item: item[0])


def _pieces(rows: Rows, axis: int, machine: Machine) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Sizes of pieces, whole tiles each, from all rows on; and the orders that are worth a look."""
    size, step = rows.sizes[axis], rows.step(axis)
    most = min(2 * PIECES * machine.cores + 1, -(-size // step))
    for count in _counts(most):
        beforehand = (AHEAD,) if rows.products and count > 1 else ()
        each = -(-size // count)
        yield -(-each // step) * step, (ROWS_FIRST, PANELS_FIRST, *beforehand)


def _counts(most: int) -> list[int]:
    """Numbers of pieces that are worth a look: few ones all, of many a step the larger they are."""
    found = list(range(1, min(most, MOST_TRIED) + 1))
    while found[-1] < most:
        found.append(min(most, found[-1] + max(1, found[-1] // STEPS)))
    return found


def _cost(rows: Rows, axis: int, whole: int, order: int, machine: Machine) -> float:
    """How many times as long as without any waiting or copying all takes."""
    beside = rows.form.vector_side
    nbytes = bytes_of(beside.producer) if beside is not None else 0
    size, m = rows.sizes[axis], prod(rows.sizes[axis:])
    batches = rows.batches * prod(rows.sizes[:axis])
    cost = 1.0
    if order == PANELS_FIRST and (rows.packed or 2 * nbytes <= machine.l2_bytes):
        cost = PANELS_APART
    elif order == AHEAD:
        cost = BETTER * (1 + START / rows.products)
    times = batches * rows.panels if order == PANELS_FIRST else batches
    for n in [max(1, int(size * x)) for x in SPREAD] if rows.likely[axis] else [size]:
        chunks = -(-n // whole)
        pieces = [whole] * (chunks - 1) + [n - (chunks - 1) * whole]
        copies = _copies(rows, order, chunks, nbytes, machine)
        cost *= unevenness(pieces, times, machine.cores) * (1 + copies / (m // size * n))
    return cost


def _copies(rows: Rows, order: int, chunks: int, nbytes: int, machine: Machine) -> float:
    """How many rows take as long as what `chunks` pieces of rows copy and read of a vector side of
    so many bytes: where it comes from beyond the second-level cache, rows have to be many, too,
    for a panel that is only read."""
    far = 2 * nbytes > machine.l2_bytes
    copy = COPY_ROWS if rows.form.in_order else TURNED_ROWS
    if far:
        copy = max(copy, FAR_ROWS if nbytes > FAR_L2 * machine.l2_bytes else FARTHER_ROWS)
    again = 2 * machine.vector_bytes / FAR_BYTES if far and order != PANELS_FIRST else 1
    if order == AHEAD:
        return copy + again * chunks
    return (copy if rows.packed else again) * chunks


def unevenness(sizes: Sequence[int], times: int, cores: int) -> float:
    """How much longer the busiest thread works than all on average, on pieces of these sizes that
    come so many times each (0: not known). What a thread that comes late leaves to do is less the
    more pieces there are."""
    total = len(sizes) * times
    if not total or total > MANY_PIECES * cores:
        return 1.0
    busy = [0] * cores
    for size in sorted([*sizes] * times, reverse=True):
        heapreplace(busy, busy[0] + size)  # the one that has least to do
    return max(busy) * cores / sum(busy) * (1 + LATE * cores / total)
