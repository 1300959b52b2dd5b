"""The register tile of a sum of products: rows times vectors of columns, whose sums stay in
registers over all steps of a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from math import prod
from typing import Any

from ...base.dtype import parse
from .contraction import NARROW, Contraction, step_of
from .dots import groups_of
from .machine import LINE, SPARE_WAYS, Machine, even, extent_of
from .window_tile import Tile, waste, window_tiles

MOST_PANELS = 8
MOST_LOADED = 12  # panels of a row, where each product begins with a load
CHAINS = 11  # of FMAs: the 8 that latency asks for ran at 0.6 to 0.7 of the rate of 12
BROADCAST = 1.45  # loads of a vector, that an element for all lanes costs
EMBEDDED = 1.04  # of the time, where elements for all lanes, or a sum, lie in memory
BESIDE_SUMS = 2  # vectors that a tile of one panel needs: one of each operand


def tile_of(op: Any, form: Contraction, machine: Machine, packed: bool) -> tuple[int, Tile]:
    """Lanes of the vectors of a sum of products, and its tile; it may be wider than the columns
    where the vector side is `packed`, and filled up."""
    lanes, tiles = tiles_of(op, form, machine, packed)
    return lanes, Tile(*machine.choose(op.name, "tile", map(astuple, tiles)))


def tiles_of(op: Any, form: Contraction, machine: Machine, packed: bool) -> tuple[int, list[Tile]]:
    """The same lanes, and all tiles to choose from, best first."""
    n = form.group or extent_of(op.axis[-1])
    lanes, registers = _vector_of(n, form.group, op.output_dtype(0), machine, packed)
    groups = groups_of(op, form, machine)
    if groups is not None:
        lanes = groups.dot.lanes
    if form.both:
        return lanes, window_tiles(op, form, lanes, registers, machine)
    sizes = [extent_of(op.axis[i]) for i in form.rows]
    crowded = crowded_rows(form, op, machine)
    alone = lanes <= machine.lanes(op.output_dtype(0))  # a group may take several vectors a row
    tiles = register_tiles(
        sizes, n, lanes, registers, form.panel, crowded, form.group,
        machine.embeds and alone, packed, _from_panel(op, lanes, machine),
        machine.copies and not form.group,
    )  # fmt: skip
    return lanes, tiles


def panel_width(op: Any, form: Contraction, machine: Machine) -> int:
    """How many columns of the vector side a tile has."""
    lanes, tile = tile_of(op, form, machine, True)
    return tile.panels * lanes


def crowded_rows(form: Contraction, op: Any, machine: Machine) -> Callable[[int, int], bool]:
    """Whether a tile of so many rows and lines reads more lines of the row side that share a set of
    the first-level cache than there are ways: rows may lie a multiple of a way apart, as those of
    1024 floats do."""
    side, axes = form.row_side, op.axis
    if side is None:
        return lambda rows, lines: False
    last, before = [*(axes[i].var for i in reversed(form.rows[-2:])), None, None][:2]
    strides = [step_of(side, v) * parse(side.dtype).nbytes for v in (last, before)]

    def crowded(rows: int, lines: int) -> bool:
        starts = {i * strides[0] + j * strides[1] for i in range(rows) for j in range(lines)}
        sets = [line % (machine.way_bytes // LINE) for line in {start // LINE for start in starts}]
        return max(map(sets.count, sets)) > machine.l1_bytes // machine.way_bytes - SPARE_WAYS

    return crowded


def _from_panel(op: Any, lanes: int, machine: Machine) -> Callable[[int], float]:
    """What a load from a panel of so many vectors costs: it streams from the second-level cache
    where all steps exceed the first."""
    steps = prod(extent_of(axis) for axis in op.reduce_axis)
    near = machine.l1_bytes // (max(1, steps) * lanes * parse(op.output_dtype(0)).nbytes)
    return lambda panels: 1.0 if panels <= near else machine.afar


def _vector_of(n: int, group: int, dtype: str, machine: Machine, packed: bool) -> tuple[int, int]:
    """(lanes, registers that hold so many): of n columns, or of those of a group. A `packed` vector
    is filled up; of others, what is left beside one is at the edge, and whole."""
    lanes = machine.lanes(dtype)
    least = max(n * 2 - 1 if packed and not group else n, NARROW)
    while n and lanes > least:
        lanes //= 2
    if group % lanes:  # a vector would reach into the next group
        full = machine.lanes(dtype)
        each = -(-group // full)  # a rest is some lanes of one
        if each == 1:
            return group, machine.working
        # those of the vector side stay for all rows, beside one of the row side and, where it takes
        # a vector, a mask
        others = 1 + (not machine.embeds and (group % full).bit_count() > 1)
        return group, max(1, (machine.working - others) // each - 1) + BESIDE_SUMS
    return lanes, machine.working


def register_tiles(
    sizes: Sequence[int],
    n: int,
    lanes: int,
    registers: int,
    panel: int = 0,
    crowded: Callable[[int, int], bool] = lambda rows, lines: False,
    group: int = 0,
    embeds: bool = False,
    over: bool = True,
    load: Callable[[int], float] = lambda panels: 1.0,
    copies: bool = False,
) -> list[Tile]:
    """The tiles for rows of `sizes` (0: not known) and n columns whose accumulators fit the
    registers beside their operands, best first. They divide a `panel` (0: there are none), and none
    is `crowded` unless it has one row. `embeds`: elements for all lanes need no register; where one
    is used for several vectors, a sum lies in memory meanwhile (1.09 of the rate of the next best
    tiles with 32 registers, 0.80 with 16). `over`: a tile may be wider than all columns. `load`:
    what one of so many vectors of a row costs.

    With few chains FMAs wait for each other, with many loads for these; what of the tile lies
    outside is computed for nothing. Vectors that do not divide a `group` of columns read elements
    of the row side for each, since the last ones are those of the next group. `copies`: where a
    product takes the place of an operand, it begins with a load or a copy however many rows share
    the operand, so that a row of many panels costs least (0.82 of the peak rate with 12, 0.67 with
    two, measured), whose elements for all lanes are few.
    """
    *_, before, last = (1, 1, *sizes)
    widest = -(-n // lanes) * lanes if over else n
    found: list[tuple[float, Tile]] = []
    for panels in range(1, (MOST_LOADED if copies else MOST_PANELS) + 1):
        kept = (registers - panels - (BESIDE_SUMS - 1)) // panels
        if copies and panels + BESIDE_SUMS <= registers:
            kept = max(kept, 1)
        most = (registers - panels) // panels if embeds else kept
        if most < 1 or (panels > 1 and (0 < widest < panels * lanes or panel % (panels * lanes))):
            continue
        for rows in range(1, (min(most, last) if last else most) + 1):
            lines = 1
            if rows == last and before > 1:
                lines = even(before, max(1, most // rows))
            if rows * lines > 1 and crowded(rows, lines):
                continue
            beyond = waste(last, rows) * waste(before, lines) * waste(n, panels * lanes)
            height = rows * lines
            broadcasts = BROADCAST / (1 if group % (panels * lanes) else panels)
            loads = (1.0 if copies else load(panels) / height) + broadcasts
            cost = beyond * (max(1.0, CHAINS / (height * panels), loads) + loads / 8)
            cost *= EMBEDDED if height > kept else 1.0
            found.append((cost, Tile(rows, lines, panels)))
    found.sort(key=lambda item: item[0])
    ranked = [tile for _, tile in found] or [Tile(1, 1, 1)]
    wastes = [waste(n, tile.panels * lanes) for tile in ranked]
    wide = [0 < n < tile.panels * lanes for tile in ranked]
    # one tile over the edge pays by what others compute for nothing, not by its loads
    least = next((w for w, beyond in zip(wastes, wide) if not beyond), wastes[0])
    return [t for t, w, beyond in zip(ranked, wastes, wide) if not beyond or w < least] or ranked
