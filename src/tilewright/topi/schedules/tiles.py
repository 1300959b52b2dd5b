"""Sums of products with many rows: a register tile of rows, the vector side packed into panels.

A panel is copied together once for the rows that it serves: in memory its pieces may lie a multiple
of the cache's ways apart, and at the edge the copy has zeros, so that the innermost loops are the
same there. Goto and van de Geijn: Anatomy of high-performance matrix multiplication, TOMS 2008.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from math import prod

from ...arith import detect_linear_equation
from ...base.dtype import parse
from ...loopir.expr import const_int
from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.visit import free_vars, walk
from ...schedule.api import Schedule, Stage
from ...tensor.op import Operation, domain
from ...tensor.tensor import Tensor
from .contraction import WRITTEN_OUT, Contraction, contraction_of, kept_inputs
from .cuts import AHEAD, PANELS_FIRST, Cut, Rows, cuts, least_cost
from .dots import Groups, groups_of
from .injective import arrange
from .machine import (
    LIKELY_ROWS,
    PARALLEL_PRODUCTS,
    Machine,
    ask_ahead,
    even,
    extent_of,
    largest_divisor,
    nearby,
    parallel_if,
    work_of,
)
from .packing import pack, pack_ahead, splits_evenly
from .register_tile import tile_of, tiles_of
from .regroup import add_more, inlined_into, regroup
from .window_tile import Tile

LONG_PANEL = 3  # times the first-level cache, where its parts stay there
PARTS = 4  # of the second-level cache: one is for a part of a panel
ROWS_IN_TIME = 1.5  # of a tile: so many times those whose sums take as long as loads from afar
OF_PIECE, BEFORE, INLINE = 2, 1, 0  # where a padded copy is made
MOST_TWICE = 1.5  # rows of a padded copy for each row of a piece that makes its own
MANY_USES = 2048  # of an element: a copy of it is nothing beside them
TALL = 3  # rows of a tile for each step of a window along them
LONG_ROW = 8  # tiles, of which the outer ones read beside the image
FEW_TILES = 2  # of rows, each of which asks for its share of the next panel
FEW_STEPS = 4  # of the innermost loop of a reduction: written out


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
    pads = [x for x in kept_inputs(s, s[product].op) if not has_loops(s, x)]
    lanes, tile = tile_of(s[product].op, form, machine, packed or form.panel > 0)
    width = tile.panels * lanes
    groups = groups_of(s[product].op, form, machine) if packed or form.panel else None
    more = None
    if groups is not None and groups.copied:
        product, out, copy, more = regroup(s, product, out, groups)
        pads = [s[copy], *inlined_into(s, copy, pads)]
        form, groups = _again(s, product, form, groups, machine)
    beforehand = packed and groups is None and splits_evenly(form, s[product].op)
    if 0 < extent_of(s[product].op.axis[-1]) < width:
        beforehand = False  # only a copy within has more than all columns
    if product.op is out.op:
        product = s.cache_write(out, "local")
    shared = _rows(form, out, tile, width, packed, work if beforehand else 0)
    ways = cuts(shared, machine) if on_threads else [Cut()]
    cut = Cut(*machine.choose(name, "cut", map(astuple, ways)))
    nest = _nest(s[out], form, tile, lanes, cut)
    if on_threads:
        parallel_if(s[out], nest.piece, work, PARALLEL_PRODUCTS, machine)
    m = prod(shared.sizes)
    size = prod(shared.sizes[cut.axis + 1 :]) * cut.size if cut.size else m
    near = packed or form.panel > 0
    room = _room(name, product, form, tile, size, width, machine) if near else 0
    few = nearby(WRITTEN_OUT if form.both else FEW_STEPS, 1, 4, 16)
    most = 0 if room else machine.choose(name, "steps", few)[0]
    if packed and cut.order == AHEAD:
        pack_ahead(s, form, product, width, machine)
    elif packed:
        pack(s, form, product, lanes, groups, more).compute_at(s[out], nest.panel)
    if groups is not None:  # copies have made other axes
        form, groups = _again(s, product, form, groups, machine)
    if more is not None and groups is not None:
        add_more(s, more, product, groups, form.panel > 0).compute_at(s[out], nest.panel)
    at = nest.panel if room else nest.row
    part = _accumulate(s, product, out, at, lanes, form, most, tile if room else None, room, groups)
    side, height = form.vector_side, tile.rows * tile.lines
    if form.panel and side is not None and -(-size // height) >= FEW_TILES:
        where = (s[out], nest.panel) if part is None else (s[product], part)
        alike = -(-m // size) if part is None and cut.order == PANELS_FIRST else 1
        ask_ahead(*where, side.producer, alike, machine)
    if pads and groups is None:
        _skip_padding(s[product], tile)
    own = cut.size and (cut.order != PANELS_FIRST or form.both or shared.panels == 1)
    side = form.row_side if own and form.rows and _apart(form, product) else None
    again = False
    if side is not None:
        axis = product.op.axis[form.rows[cut.axis]]
        again = _overlap(s[product].op, side.producer, axis, cut.size) > MOST_TWICE
    for pad in pads:
        piece = nest.piece if side is not None and pad is s[side.producer] else None
        seldom = form.both or _seldom_beside(s[product].op, tile, lanes)
        place_pad(pad, s[out], piece, again, seldom, groups is None, machine)


def cost_in_parts(
    op: Operation, form: Contraction, machine: Machine, packed: bool, work: int, parts: int
) -> float:
    """How many times as long as without any waiting or copying sums of products take, all at once,
    in so many parts of the reduction."""
    lanes, (tile, *_) = tiles_of(op, form, machine, packed or form.panel > 0)
    width = tile.panels * lanes
    beforehand = packed and splits_evenly(form, op) and extent_of(op.axis[-1]) >= width
    rows = _rows(form, op.output(0), tile, width, packed, work if beforehand else 0)
    return least_cost(replace(rows, batches=rows.batches * parts), machine)


def _again(
    s: Schedule, product: Tensor, form: Contraction, groups: Groups, machine: Machine
) -> tuple[Contraction, Groups | None]:
    """The form of a product that was restated, and how the same instruction takes it."""
    form = contraction_of(s[product].op) or form
    return form, groups_of(s[product].op, form, replace(machine, dots=(groups.dot,)))


def _rows(
    form: Contraction, out: Tensor, tile: Tile, width: int, packed: bool, products: int
) -> Rows:
    """What is shared out among threads: the rows of `out`, for panels of `width` columns."""
    axes = out.op.axis
    extents = [extent_of(a) for a in axes]
    n = form.group or extents[-1]
    batches = prod(extents[i] for i in form.batch) * (-(-extents[-1] // n) if form.group else 1)
    panels = prod(extents[i] for i in form.columns) * -(-n // width)
    likely = [const_int(domain(axes[i]).extent) is None for i in form.rows]
    sizes = [extents[i] or LIKELY_ROWS for i in form.rows]
    return Rows(form, sizes, likely, tile, batches, panels, packed, products)


@dataclass(frozen=True)
class _Nest:
    """Loops of the output: around a `piece`, that one thread does, a `panel` of columns in it, and
    a tile of rows."""

    piece: IterVar
    panel: IterVar
    row: IterVar


def _nest(stage: Stage, form: Contraction, tile: Tile, lanes: int, cut: Cut) -> _Nest:
    """Cut the output into pieces, panels and tiles, the vectors of which are written out."""
    axes = list(stage.op.axis)
    batch = [axes[i] for i in form.batch]
    columns = [axes[i] for i in form.columns]
    j = axes[-1]
    if form.group:
        g, j = stage.split(j, factor=form.group)
        batch = [*batch, g]
    jo, ji = stage.split(j, factor=tile.panels * lanes)
    jp, jv = stage.split(ji, factor=lanes)
    rows = [axes[i] for i in form.rows]
    chunk: list[IterVar] = []
    if cut.size:
        piece_of, rows[cut.axis] = stage.split(rows[cut.axis], factor=cut.size)
        before = [axis for axis in rows[: cut.axis] if extent_of(axis) != 1]
        chunk = [*before, piece_of]
        rows = [axis for axis in rows if axis not in before]
    inner = _split_rows(stage, rows, tile)
    across = [*columns, jo]
    panels_first = cut.order == PANELS_FIRST
    outer = [*batch, *across, *chunk] if panels_first else [*batch, *chunk, *across]
    stage.reorder(*outer, *rows, *inner, jp, jv)
    stage.vectorize(jv)
    for axis in (jp, *inner):
        stage.unroll(axis)
    head = outer if panels_first else outer[: len(batch) + len(chunk)]
    piece = stage.fuse(*head) if len(head) > 1 else head[0]
    return _Nest(piece, piece if panels_first else jo, rows[-1] if rows else piece)


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
    name: str,
    product: Tensor,
    form: Contraction,
    tile: Tile,
    rows: int,
    width: int,
    machine: Machine,
) -> int:
    """Steps of a part of the reduction, of which the panel stays near: in the second-level cache,
    which gives a tile of some rows what it reads as it is used, else in the first. 0 where it stays
    whole: it is as short, or the sums of all rows do not stay."""
    side = form.vector_side
    nbytes = width * parse(product.dtype if side is None else side.dtype).nbytes
    steps = prod(extent_of(k) for k in product.op.reduce_axis)
    quick = tile.rows * tile.lines >= ROWS_IN_TIME * machine.afar
    part, long = machine.l1_bytes, LONG_PANEL * machine.l1_bytes
    if quick:
        part = machine.l2_bytes // PARTS
        long = part * 3 // 2
    pays = (
        steps * nbytes > long
        and rows * width * parse(product.dtype).nbytes <= machine.l2_bytes // 4
    )
    parts = [p // nbytes for p in (part, part // 2, 2 * part, machine.l1_bytes)]
    given = [p for p in parts if 0 < p < steps]
    return machine.choose(name, "parts", [(p,) for p in ([*given, 0] if pays else [0, *given])])[0]


def _overlap(op: Operation, side: Tensor, axis: IterVar, size: int) -> float:
    """How many rows of the row side each row of a piece of so many reads, where neighbours read the
    same."""
    for load in (e for x in op.body for e in walk(x) if type(e) is ProducerLoad):
        for extent, index in zip(map(const_int, side.shape), load.indices):
            factors = detect_linear_equation(index, [axis.var]) if load.producer is side else []
            step = const_int(factors[0]) if factors else 0
            if extent and step:
                return 1 + (extent - step * extent_of(axis)) / (step * size)
    return 1.0


def _seldom_beside(op: Operation, tile: Tile, lanes: int) -> bool:
    """Whether a condition at each read of the row side costs less than a padded copy of it.

    Elements of a tile that can lie beside the image are those at its ends, if the window moves
    along one of its axes alone: few where the window is short, or the tile long, as those of one
    vector are, and none that has to be asked for where it is as wide as the image and the steps
    along a row are written out. A copy costs nothing beside very many products with each element,
    and most with few channels, which it takes one by one.
    """
    form = contraction_of(op)
    side = None if form is None else form.row_side
    if form is None or side is None or not form.rows:
        return False
    *lines, last = (op.axis[i] for i in form.rows[-2:])
    moves = {axis: _window(op, side, axis) for axis in (last, *lines)}
    alone = tile.lines > 1 and moves[last] == 1 and tile.rows == extent_of(last)
    if tile.lines > 1 and not alone:
        return False
    axis, length = (lines[0], tile.lines) if alone else (last, tile.rows)
    width, steps = extent_of(axis), moves[axis]
    if steps <= FEW_STEPS and (width == length or _uses(op, side) < MANY_USES):
        return True
    if tile.panels == 1:
        return length >= TALL * steps
    channels = const_int(side.producer.shape[-1]) or lanes
    return channels < lanes and width >= LONG_ROW * length


def _window(op: Operation, side: ProducerLoad, axis: IterVar) -> int:
    """Steps of the longest reduction that moves along an axis of a side as `axis` does."""
    moved = [x for x in side.indices if axis.var in free_vars(x)]
    along = [k for k in op.reduce_axis if any(k.var in free_vars(x) for x in moved)]
    return max(map(extent_of, along), default=1)


def _uses(op: Operation, side: ProducerLoad) -> float:
    """Products with each element of a side, in the mean."""
    products = prod(extent_of(axis) for axis in (*op.axis, *op.reduce_axis))
    return products / max(1, prod(const_int(d) or 1 for d in side.producer.shape))


def has_loops(s: Schedule, stage: Stage) -> bool:
    """Whether a stage is scheduled already: as the end of other sums, which its loops make."""
    cut = list(stage.leaf_iter_vars) != list(stage.op.axis)
    return cut or any(x.attach_stage is stage for x in s.stages)


def place_pad(
    pad: Stage,
    out: Stage,
    piece: IterVar | None,
    again: bool,
    inline_first: bool,
    inline: bool,
    machine: Machine,
) -> None:
    """A padded copy, made by each `piece` for itself or of all beforehand, first where pieces make
    much of it `again`; or none, with its condition at each read, where this may be (`inline`: no
    instruction reads memory), and before the others where it costs less (`inline_first`)."""
    ways = [OF_PIECE, BEFORE] if piece is not None else [BEFORE]
    if again:
        ways.reverse()
    if inline:
        ways = [INLINE, *ways] if inline_first else [*ways, INLINE]
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
) -> IterVar | None:
    """The sums: of one register tile over all steps of the reduction, its elements innermost. With
    `tile`, of all rows at once, parts of `room` steps of the reduction one after the other, the
    sums kept in memory in between: the axis of parts is returned. Up to `most` innermost steps are
    written out. With `groups`, an instruction takes some steps at a time."""
    stage = s[product]
    stage.compute_at(s[out], at)
    axes, steps = list(stage.op.axis), list(stage.op.reduce_axis)
    rows = [axes[i] for i in form.rows]
    others = [axes[i] for i in (*form.batch, *form.columns)]
    jp, jv = stage.split(axes[-1], factor=lanes)
    in_group = 0
    before: list[IterVar] = []
    if tile is None:
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
    return before[-1] if before else None


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
    """Cut the last axis of a stage into vectors, or make it one that is shorter."""
    lanes = machine.lanes(stage.op.output_dtype(0))
    last = stage.op.axis[-1] if stage.op.axis else None
    if last is not None and lanes > 1 and extent_of(last) > 1:
        _, lane = stage.split(last, factor=lanes)
        stage.vectorize(lane)
