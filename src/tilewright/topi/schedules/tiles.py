"""Sums of products with many rows: a register tile of rows, the vector side packed into panels.

A panel is copied together once for the rows that it serves: in memory its pieces may lie a multiple
of the cache's ways apart, and at the edge the copy has zeros, so that the innermost loops are the
same there. Goto and van de Geijn: Anatomy of high-performance matrix multiplication, TOMS 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from heapq import heapreplace
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.expr import const_int
from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.visit import free_vars
from ...schedule.api import Schedule, Stage
from ...tensor.op import domain
from ...tensor.tensor import Tensor
from .contraction import Contraction, contraction_of, kept_inputs
from .dots import Groups, groups_of
from .injective import arrange
from .machine import (
    PARALLEL_PRODUCTS,
    PIECES,
    Machine,
    bytes_of,
    even,
    extent_of,
    largest_divisor,
    nearby,
    parallel_if,
    work_of,
)
from .memory_order import steps_of, uses_of
from .register_tile import Tile, tile_of

FEW_ROWS = 20  # that many uses of each element of the vector side pay for a copy of it
# Rows that cost as much as the copy of a panel for them; of one whose columns lie in memory.
COPY_ROWS, TURNED_ROWS = 8, 16
# The same of a copy beforehand, that all threads read; of a large one, through memory.
AHEAD_ROWS, FAR_ROWS = 24, 32
START = 8 * PARALLEL_PRODUCTS  # multiplications that take as long as to start the threads once more
BETTER = 1.035  # by how much another copy has to be, by these numbers
FAR_L2 = 4  # times the second-level cache: what is larger goes through memory
LATE = 0.1  # of its share, that a thread may miss
PANELS_APART = 1.1  # threads at different columns write to the same lines, and each reads all rows
MANY_PIECES = 8  # for each core: they are shared evenly
SPREAD = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # of sizes that are not known, around a likely one
MOST_TRIED = 16  # numbers of pieces
LONG_PANEL = 3  # times the first-level cache
OF_PIECE, BEFORE, INLINE = 2, 1, 0  # where a padded copy is made
AHEAD = 2  # of a cut: rows first, of panels that are packed beforehand
ROOM = 2  # halves of the first-level cache, that a part of a long panel has
FEW_STEPS = 4  # of the innermost loop of a reduction: written out
WRITTEN_OUT = 16  # steps of a reduction that are, where both sides are read in vectors


def tiles(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    machine: Machine,
    form: Contraction,
    packed: bool,
    on_threads: bool = True,
) -> None:
    """Panels of columns, a register tile of rows at a time; `packed`: copied together first."""
    work, name = work_of(product), s[product].op.name
    pads = kept_inputs(s, s[product].op)
    lanes, tile = tile_of(s[product].op, form, machine, packed or form.panel > 0)
    groups = groups_of(s[product].op, form, machine) if packed or form.panel else None
    beforehand = packed and groups is None and _splits_evenly(form, s[product].op)
    if 0 < extent_of(s[product].op.axis[-1]) < tile.panels * lanes:
        beforehand = False  # only a copy within has more than all columns
    if product.op is out.op:
        product = s.cache_write(out, "local")
    axes = list(s[out].op.axis)
    extents = [extent_of(a) for a in axes]
    batch = [axes[i] for i in form.batch]
    columns = [axes[i] for i in form.columns]
    j, n = axes[-1], extents[-1]
    if form.group:
        g, j = s[out].split(j, factor=form.group)
        batch, n = [*batch, g], form.group
    sizes = [extents[i] for i in form.rows]
    width = tile.panels * lanes
    jo, ji = s[out].split(j, factor=width)
    jp, jv = s[out].split(ji, factor=lanes)
    batches = prod(extents[i] for i in form.batch) * (-(-extents[-1] // n) if form.group else 1)
    panels = prod(extents[i] for i in form.columns) * -(-n // width)
    open_rows = [const_int(domain(axes[i]).extent) is None for i in form.rows]
    cuts = [_Cut()]
    if on_threads:
        starts = BETTER * (1 + START / work) if work and beforehand else 0.0
        cuts = _cuts(form, sizes, tile, batches, panels, packed, machine, open_rows, starts)
    cut = _Cut(*machine.choose(name, "cut", map(astuple, cuts)))
    rows = [axes[i] for i in form.rows]
    chunk: list[IterVar] = []
    if cut.size:
        piece_of, rows[cut.axis] = s[out].split(rows[cut.axis], factor=cut.size)
        chunk = [piece_of]
    inner = _split_rows(s[out], rows, tile)
    across = [*columns, jo]
    outer = [*batch, *chunk, *across] if cut.rows_first else [*batch, *across, *chunk]
    s[out].reorder(*outer, *rows, *inner, jp, jv)
    s[out].vectorize(jv)
    for axis in (jp, *inner):
        s[out].unroll(axis)
    head = outer[: len(batch) + len(chunk)] if cut.rows_first else outer
    piece = s[out].fuse(*head) if len(head) > 1 else head[0]
    if on_threads:
        parallel_if(s[out], piece, work, PARALLEL_PRODUCTS, machine)
    panel = jo if cut.rows_first else piece
    size = prod(sizes) // max(sizes[cut.axis], 1) * cut.size if cut.size else prod(sizes)
    room = _room(name, product, form, size, width, machine) if packed or form.panel else 0
    at = panel if room else rows[-1] if rows else piece
    few = nearby(WRITTEN_OUT if form.both else FEW_STEPS, 1, 4, 16)
    most = 0 if room else machine.choose(name, "steps", few)[0]
    if packed and cut.rows_first == AHEAD:
        _pack_ahead(s, form, product, width, machine)
    elif packed:
        copy = _pack(s, form, product, lanes, groups)
        copy.compute_at(s[out], panel)
    if groups is not None:  # copies have made other axes
        form = contraction_of(s[product].op) or form
        groups = groups_of(s[product].op, form, machine)
    _accumulate(s, product, out, at, lanes, form, most, tile if room else None, room, groups)
    if pads and groups is None:
        _skip_padding(s[product], tile)
    own = chunk and (cut.rows_first or form.both or panels == 1) and _apart(form, product)
    side = s[form.row_side.producer] if own and form.row_side is not None else None
    for pad in pads:
        _place_pad(pad, s[out], piece if pad is side else None, form.both, groups is None, machine)


def _skip_padding(stage: Stage, tile: Tile) -> None:
    """Add no products with zeros of whole rows of padding. Where a tile is as wide as the image,
    steps along a row are written out, each with the columns that it has."""
    stage.pragma(stage.leaf_iter_vars[-1], "skip_zeros")
    form = contraction_of(stage.op)
    if form is None or form.row_side is None or not form.rows:
        return
    last = stage.op.axis[form.rows[-1]]
    if extent_of(last) != tile.rows:
        return
    for axis in stage.op.reduce_axis[:-1]:
        moved = any({last.var, axis.var} <= set(free_vars(x)) for x in form.row_side.indices)
        if moved and axis in stage.leaf_iter_vars and 1 < extent_of(axis) <= FEW_STEPS:
            stage.unroll(axis)


def _apart(form: Contraction, product: Tensor) -> bool:
    """Whether each batch reads elements of the row side that no other does."""
    side = form.row_side
    axes = product.op.axis
    return side is not None and all(
        extent_of(axes[i]) == 1 or any(x is axes[i].var for x in side.indices) for i in form.batch
    )


def _room(
    name: str, product: Tensor, form: Contraction, rows: int, width: int, machine: Machine
) -> int:
    """Steps of a part of the reduction, of which the panel stays in the first-level cache; 0 where
    it stays whole: it is so short that it stays near the core from one tile to the next, or the
    sums of all rows do not."""
    side = form.vector_side
    nbytes = width * parse(product.dtype if side is None else side.dtype).nbytes
    steps = prod(extent_of(k) for k in product.op.reduce_axis)
    pays = steps * nbytes > LONG_PANEL * machine.l1_bytes
    pays = pays and rows * width * parse(product.dtype).nbytes <= machine.l2_bytes // 4
    halves = [h for h in (1, 2, 4) if steps > h * machine.l1_bytes // 2 // nbytes]
    (half,) = machine.choose(name, "parts", nearby(ROOM if pays else 0, 0, *halves, least=0))
    return half * machine.l1_bytes // 2 // nbytes


def _place_pad(
    pad: Stage, out: Stage, piece: IterVar | None, little_work: bool, inline: bool, machine: Machine
) -> None:
    """A padded copy, made by each piece for itself (`piece`) or of all beforehand; or none, with
    its condition at each read, first where there is `little_work` with each element, as in
    depthwise convolutions, and where this may be (`inline`): an instruction reads memory."""
    ways = ([OF_PIECE] if piece is not None else []) + [BEFORE]
    if inline:
        ways = [INLINE, *ways] if little_work else [*ways, INLINE]
    (way,) = machine.choose(pad.op.name, "pad", [(w,) for w in ways])
    if way == INLINE:
        pad.compute_inline()
    elif way == OF_PIECE and piece is not None:
        pad.compute_at(out, piece)
        vectors(pad, machine)
    else:
        arrange(pad, list(pad.op.axis), machine)


def _accumulate(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    at: IterVar,
    lanes: int,
    form: Contraction,
    most: int,
    tile: Tile | None,
    room: int,
    groups: Groups | None,
) -> None:
    """The sums: of one register tile over all steps of the reduction, its elements innermost. With
    `tile`, of all rows at once, parts of `room` steps of the reduction one after the other, the
    sums kept in memory in between. Up to `most` innermost steps are written out. With `groups`,
    an instruction takes some steps at a time."""
    stage = s[product]
    stage.compute_at(s[out], at)
    axes, steps = list(stage.op.axis), list(stage.op.reduce_axis)
    rows = [axes[i] for i in form.rows]
    others = [axes[i] for i in (*form.batch, *form.columns)]
    jp, jv = stage.split(axes[-1], factor=lanes)
    in_group = 0
    if tile is None:
        before: list[IterVar] = []
        rows, inner = rows[:-2], rows[-2:]
    else:
        before, steps = _last_part(stage, steps, room, groups)
        inner = _split_rows(stage, rows, tile)
    if groups is None:
        stage.reorder(*others, *before, *rows, *steps, *inner, jp, jv)
        stage.vectorize(jv)
    else:
        in_group = extent_of(groups.steps) // groups.terms
        steps, kt = _in_groups(stage, steps, groups)
        stage.reorder(*others, *before, *rows, *steps, *inner, jp, jv, kt)
        stage.tensorize(jv, groups.intrinsic(stage.op, form))
    for axis in (jp, *inner):
        stage.unroll(axis)
    for k in reversed(steps if tile is None else ()):
        size = (const_int(domain(k).extent) if k in stage.op.reduce_axis else in_group) or most + 1
        if size > most:
            break
        stage.unroll(k)
        most //= max(size, 1)


def _split_rows(stage: Stage, rows: list[IterVar], tile: Tile) -> list[IterVar]:
    """Cut the last rows into those of a register tile, which are returned, and what is around."""
    inner: list[IterVar] = []
    for at, size in zip(range(len(rows) - 1, -1, -1), (tile.rows, tile.lines)):
        if size > 1 or at == len(rows) - 1:
            rows[at], ii = stage.split(rows[at], factor=size)
            inner.insert(0, ii)
    return inner


def _last_part(
    stage: Stage, steps: list[IterVar], room: int, groups: Groups | None
) -> tuple[list[IterVar], list[IterVar]]:
    """The axes of a reduction, cut into those around and those within a part of `room` steps."""
    before, within = list(steps), list[IterVar]()
    while before and extent_of(before[-1]) <= room:
        room //= max(extent_of(before[-1]), 1)
        within.insert(0, before.pop())
    if before and not within:
        size = even(extent_of(before[-1]), room)
        if groups is not None and before[-1] is groups.steps:  # whole groups, in equal parts
            size = groups.terms * largest_divisor(
                extent_of(before[-1]) // groups.terms, max(1, room // groups.terms)
            )
        before[-1], ki = stage.split(before[-1], factor=size)
        within = [ki]
    return before, within


def _in_groups(stage: Stage, steps: list[IterVar], groups: Groups) -> tuple[list[IterVar], IterVar]:
    """The steps of a reduction in groups that an instruction takes, and those in a group."""
    inside = groups.steps if groups.steps in steps else steps[-1]
    ko, kt = stage.split(inside, factor=groups.terms)
    return [ko if k is inside else k for k in steps], kt


def vectors(stage: Stage, machine: Machine) -> None:
    """Cut the last axis of a stage into vectors, where it is that long."""
    lanes = machine.lanes(stage.op.output_dtype(0))
    last = stage.op.axis[-1] if stage.op.axis else None
    if last is not None and lanes > 1 and extent_of(last) >= lanes:
        _, lane = stage.split(last, factor=lanes)
        stage.vectorize(lane)


@dataclass(frozen=True)
class _Cut:
    """How the rows are shared out: `size` steps of row axis number `axis` at a time (0: all).
    `rows_first`: threads share these pieces, and each does all columns of its own; with AHEAD, of
    panels that were packed beforehand, once for all."""

    axis: int = 0
    size: int = 0
    rows_first: int = 0


def _cuts(
    form: Contraction,
    sizes: Sequence[int],
    tile: Tile,
    batches: int,
    panels: int,
    packed: bool,
    machine: Machine,
    open_rows: Sequence[bool],
    starts: float,
) -> list[_Cut]:
    """Ways to cut rows into pieces, those that cost least first: threads that wait for the last
    one, and each piece's copies of panels, which are worth so many rows. The second-level cache
    holds the row side of a piece.

    `batches`, `panels`: pieces for all rows (0: not known), of which the latter share rows.
    `open_rows`: whose sizes are only likely; then the cut has to do for others, too. `starts`: how
    much longer all takes where the threads start once more, to pack beforehand (0: they may not).
    """
    if not form.rows or not all(sizes):
        return [_Cut()]
    axis = next((i for i, size in enumerate(sizes) if size > 1), 0)
    step = {len(sizes) - 1: tile.rows, len(sizes) - 2: tile.lines}.get(axis, 1)
    size, m, cores = sizes[axis], prod(sizes), machine.cores
    nbytes = bytes_of(form.row_side.producer) if form.row_side is not None else 0
    beside, copy_rows = form.vector_side, 1
    if packed:
        copy_rows = COPY_ROWS if form.in_order else TURNED_ROWS
    beside_bytes = bytes_of(beside.producer) if beside is not None else 0
    far = beside_bytes > FAR_L2 * machine.l2_bytes
    apart = PANELS_APART if packed or 2 * beside_bytes <= machine.l2_bytes else 1.0
    least = min(-(-nbytes // max(1, machine.l2_bytes // 2)), -(-size // step), m // (2 * FEW_ROWS))
    found: list[tuple[float, _Cut]] = []
    first, more = max(1, least), 2 * PIECES * cores
    for count in range(first, first + more + 1, max(1, more // MOST_TRIED)):
        steps = -(-size // count)
        whole = -(-steps // step) * step
        ways = {1: 1.0, 0: apart}
        if starts and count > 1:
            ways[AHEAD] = starts
        for rows_first, cost in ways.items():
            times = batches * (1 if rows_first else panels)
            for n in [size] if not open_rows[axis] else [max(1, int(size * x)) for x in SPREAD]:
                chunks = -(-n // whole)
                pieces = [whole] * (chunks - 1) + [n - (chunks - 1) * whole]
                cost *= _unevenness(pieces, times, cores)
                copies = copy_rows * chunks
                if rows_first == AHEAD:
                    copies = FAR_ROWS if far else AHEAD_ROWS
                cost *= 1 + copies / (m // size * n)
            found.append((cost, _Cut(axis, whole, rows_first)))
    found.sort(key=lambda item: item[0])
    return [cut for _, cut in found]


def _unevenness(sizes: Sequence[int], times: int, cores: int) -> float:
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


def _pack(
    s: Schedule, form: Contraction, product: Tensor, lanes: int, groups: Groups | None
) -> Stage:
    """A copy of a panel, one step of the reduction after the other, or one group of them."""
    side, column = form.vector_side, form.column
    assert side is not None, "what is packed is read"
    copy = s[s.cache_read(side.producer, "global", [product])]
    others, along = _dimensions(side, column, product)
    if form.in_order and groups is None:
        _copy_rows(copy, list(copy.op.axis), column, along, lanes)
        return copy
    if groups is not None:
        return _pack_groups(copy, side, groups, others, along, column, lanes)

    def panel(*indices: Any) -> list[Any]:
        return [indices[d] for d in (*others, *along, column)]

    axes = dict(zip((*others, *along, column), copy.transform_layout(panel)))
    _copy_rows(copy, [axes[d] for d in range(len(axes))], column, along, lanes)
    return copy


def _splits_evenly(form: Contraction, op: Any) -> bool:
    """Whether the columns of a tile are those of a panel of the whole vector side."""
    side, j = form.vector_side, op.axis[-1].var
    return side is not None and not form.group and side.indices[form.column] is j


def _pack_ahead(
    s: Schedule, form: Contraction, product: Tensor, width: int, machine: Machine
) -> None:
    """A copy of all panels, by all threads: pieces of rows would each make their own."""
    side, column = form.vector_side, form.column
    assert side is not None, "what is packed is read"
    copy = s[s.cache_read(side.producer, "global", [product])]
    others, along = _dimensions(side, column, product)

    def panels(*indices: Any) -> list[Any]:
        j = indices[column]
        return [*(indices[d] for d in others), j // width, *(indices[d] for d in along), j % width]

    axes = copy.transform_layout(panels)
    outer, steps, j = axes[: len(others) + 1], axes[len(others) + 1 : -1], axes[-1]
    own = dict(zip((*others, *along, column), (*outer[:-1], *steps, j)))
    lanes = machine.lanes(product.dtype)
    _copy_rows(copy, [own[d] for d in range(len(own))], column, along, lanes)
    parallel_if(copy, copy.fuse(*outer), work_of(product), PARALLEL_PRODUCTS, machine)


def _dimensions(side: ProducerLoad, column: int, product: Tensor) -> tuple[list[int], list[int]]:
    """Of a vector side: the dimensions beside its columns, those of the reduction apart."""
    steps = {a.var for a in product.op.reduce_axis}
    along = [d for d, x in enumerate(side.indices) if steps.intersection(free_vars(x))]
    others = [d for d in range(len(side.indices)) if d != column and d not in along]
    return others, along


def _copy_rows(
    copy: Stage, axes: Sequence[IterVar], column: int, along: Sequence[int], lanes: int
) -> None:
    """Columns in vectors; where the dimension whose neighbours are neighbours in the memory that is
    read is one of the reduction, `along`, in squares of vectors, which lowering turns in registers,
    or, where it is short, a column at a time: its line of memory is read once. `axes`: loops by
    dimension."""
    j, near = axes[column], _near(copy)
    if near is None or near not in along:
        jp, jv = copy.split(j, factor=lanes)
        copy.vectorize(jv)
        copy.unroll(jp)
        return
    ko, ki = copy.split(axes[near], factor=lanes)
    if extent_of(copy.op.axis[near]) >= lanes:
        jp, jv = copy.split(j, factor=lanes)
        copy.reorder(ko, jp, ki, jv)
        copy.vectorize(jv)
    else:
        copy.reorder(ko, j, ki)
    copy.unroll(ki)


def _near(copy: Stage) -> int | None:
    """The dimension of a copy along which it goes from element to element of the memory that it
    reads, behind what is inlined; None where there is none."""
    axes, uses = list(copy.op.axis), uses_of(copy)
    if len(uses.reads) != 1:
        return None
    steps = steps_of(*uses.reads[0], axes) or []
    near = [d for d, n in enumerate(steps) if n == 1 and extent_of(axes[d]) != 1]
    return near[-1] if near else None


def _pack_groups(
    copy: Stage,
    side: ProducerLoad,
    groups: Groups,
    others: list[int],
    along: list[int],
    column: int,
    lanes: int,
) -> Stage:
    """Vectors of columns, in each of which the steps of a group are neighbours."""
    terms = groups.terms
    (grouped,) = [d for d in along if side.indices[d] is groups.steps.var]

    def panel(*indices: Any) -> list[Any]:
        steps = [indices[d] // terms if d == grouped else indices[d] for d in along]
        return [*(indices[d] for d in others), *steps, indices[column], indices[grouped] % terms]

    *_, k = copy.transform_layout(panel)
    copy.unroll(k)
    return copy
