"""Sums of products of two tensors, whatever their form: matrix products, convolutions of any rank,
dilated, grouped, transposed and depthwise ones, and what users write themselves.

Vectors run along the last axis of the output, which one of the tensors, the *vector side*, is read
along. Axes that only the other one, the *row side*, has make the rows of a register tile: each
vector serves all of them, each element of the row side all vectors of a row. In a depthwise
convolution both sides are read in vectors. The vector side is packed, panel by panel, for the rows
that a panel serves: in memory its pieces may lie a multiple of the cache's ways apart, and at the
edge the copy has zeros, so that the innermost loops are the same there. Goto and van de Geijn:
Anatomy of high-performance matrix multiplication, TOMS 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.expr import Add, Cast, FloorDiv, Mul, const_int, is_const
from ...loopir.iter import IterVar, ProducerLoad, Reduce
from ...loopir.visit import free_vars, walk
from ...schedule.api import Schedule, Stage
from ...schedule.auto_inline import is_injective
from ...tensor.op import ComputeOp, domain
from ...tensor.reduce import builtin_kind
from ...tensor.tensor import Tensor
from .injective import arrange
from .machine import FMA_CHAINS, PARALLEL_PRODUCTS, PIECES, Machine, extent_of, parallel_if, work_of
from .reduce import schedule_reduce

NARROW = 4  # lanes of the shortest vectors
MOST_GROUP = 64  # lanes of one that is a group
FEW_ROWS = 20  # that many uses of each element of the vector side pay for a copy of it
MOST_PANELS = 8
FEW_STEPS = 4  # of the innermost loop of a reduction: written out
WRITTEN_OUT = 16  # steps of a reduction that are, where both sides are read in vectors


@dataclass(frozen=True)
class Contraction:
    """The sides of a sum of products, and the positions of the output's axes, the last aside:
    `rows` are those of the row side alone, `columns` those of the vector side alone, `batch` the
    others. `group`: so many neighbours on the last axis read the same elements of the row side
    (0: all do). `column`: the dimension of the vector side of which the last axis is the index,
    -1 where it is a part of one. `both`: both sides are read along the last axis. A side that is
    no read but computed from some is None."""

    row_side: ProducerLoad | None
    vector_side: ProducerLoad | None
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    column: int
    group: int = 0
    both: bool = False

    @property
    def in_order(self) -> bool:
        """Whether neighbours on the last axis are neighbours in the memory of the vector side."""
        side = self.vector_side
        return side is not None and self.column == len(side.indices) - 1


def contraction_of(op: Any, plain: bool = True) -> Contraction | None:
    """The form of a sum of a[..] * b[..] (casts aside) over one axis or more; unless `plain`, the
    factors may be computed from what is read."""
    factors = _factors(op, plain)
    if factors is None:
        return None
    *others, j = (a.var for a in op.axis)
    used = [_variables(e) for e in factors]
    loads = [e if type(e) is ProducerLoad else None for e in factors]
    group, both = 0, False
    if all(j in u for u in used):
        if loads[0] is None or loads[1] is None:
            return None
        groups = [_group_size(e, j) for e in (loads[0], loads[1])]
        if groups.count(0) == 1 and max(groups) >= NARROW:
            at, group = groups.index(0), max(groups)
        elif loads[0].indices[-1] is j and loads[1].indices[-1] is j:
            at, both = (0 if len(used[0]) < len(used[1]) else 1), True
        else:
            return None
    elif j in used[0] or j in used[1]:
        at = 0 if j in used[0] else 1
    else:
        return None
    vector, row = loads[at], loads[1 - at]
    mine, theirs = used[at], used[1 - at]
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for place, v in enumerate(others):
        kinds.setdefault((v in mine, v in theirs), []).append(place)
    return Contraction(
        row,
        vector,
        (*kinds.get((True, True), ()), *kinds.get((False, False), ())),
        tuple(kinds.get((False, True), ())),
        tuple(kinds.get((True, False), ())),
        -1 if vector is None else _own_dimension(vector, j),
        group,
        both,
    )


def _factors(op: Any, plain: bool) -> list[Any] | None:
    if not isinstance(op, ComputeOp) or op.num_outputs != 1 or not op.axis or not op.reduce_axis:
        return None
    body = op.body[0]
    if type(body) is not Reduce or (plain and body.init):
        return None
    if builtin_kind(body.combiner) is not Add or not is_const(body.condition, 1):
        return None
    product = _uncast(body.source[0])
    if type(product) is not Mul:
        return None
    factors = [_uncast(e) for e in (product.a, product.b)]
    return None if plain and any(type(e) is not ProducerLoad for e in factors) else factors


def _uncast(e: Any) -> Any:
    while type(e) is Cast:
        e = e.value
    return e


def _variables(e: Any) -> set[Any]:
    return {v for x in walk(e) if type(x) is ProducerLoad for i in x.indices for v in free_vars(i)}


def _group_size(load: ProducerLoad, j: Any) -> int:
    """c where the last axis is in the indices as j // c only; 0 where it is there by itself."""
    sizes = set()
    for index in load.indices:
        divided = [e for e in walk(index) if type(e) is FloorDiv and e.a is j]
        if sum(e is j for e in walk(index)) != len(divided):
            return 0
        sizes |= {const_int(e.b) or 0 for e in divided}
    return sizes.pop() if len(sizes) == 1 else 0


def _own_dimension(load: ProducerLoad, j: Any) -> int:
    places = [d for d, x in enumerate(load.indices) if j in free_vars(x)]
    return places[0] if len(places) == 1 and load.indices[places[0]] is j else -1


def bytes_of(t: Tensor) -> int:
    """The bytes of a tensor; 0 where a size is not known."""
    return prod(const_int(d) or 0 for d in t.shape) * parse(t.dtype).nbytes


def kept_inputs(s: Schedule, op: Any) -> list[Stage]:
    """The inputs of a sum of products that are worth a memory of their own: those computed from
    others, not just moved."""
    form = contraction_of(op)
    found = []
    for side in (form.row_side, form.vector_side) if form else ():
        if side is not None and is_injective(s[side.producer].op):
            stage = s[side.producer]
            if type(_uncast(stage.op.body[0])) is not ProducerLoad and not stage.is_output:
                found.append(stage)
    return found


def schedule_contraction(
    s: Schedule, product: Tensor, out: Tensor, machine: Machine, alone: bool = True
) -> None:
    """Schedule a sum of products and the element-wise stage `out` that ends its group, on threads
    where it runs `alone`.

    Where nothing of the vector side is used often enough to be copied and its neighbours do not lie
    in order, it is a reduction like any other.
    """
    form = contraction_of(s[product].op)
    if form is None:
        schedule_reduce(s, product, out, machine)
        return
    m = prod(extent_of(s[product].op.axis[i]) for i in form.rows)
    packed = form.column >= 0 and m > FEW_ROWS
    if not packed and not _along_last(form.vector_side, s[product].op.axis[-1].var):
        schedule_reduce(s, product, out, machine)
        return
    tiles(s, product, out, machine, form, packed, alone)


def _along_last(side: ProducerLoad | None, j: Any) -> bool:
    """Whether the last axis is in a side's last index only."""
    return side is not None and all(
        (j in free_vars(x)) == (d == len(side.indices) - 1) for d, x in enumerate(side.indices)
    )


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
    work = work_of(product)
    pads = kept_inputs(s, s[product].op)
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
    lanes = machine.lanes(product.dtype)
    while n and lanes > max(n, NARROW):  # what is left beside a vector is at the edge, and whole
        lanes //= 2
    registers = machine.registers
    if form.group % lanes:  # a vector would reach into the next group
        lanes, registers = form.group, max(4, registers // -(-form.group // lanes))
    sizes = [extents[i] for i in form.rows]
    tile = register_tile(sizes, n, lanes, registers)
    width = tile.panels * lanes
    jo, ji = s[out].split(j, factor=width)
    jp, jv = s[out].split(ji, factor=lanes)
    pieces = prod(extents[i] for i in (*form.batch, *form.columns)) * -(-n // width)
    cut = _cut(form, sizes, tile, pieces, machine)
    rows = [axes[i] for i in form.rows]
    inner: list[IterVar] = []
    chunk: list[IterVar] = []
    if cut.size:
        piece_of, rows[cut.axis] = s[out].split(rows[cut.axis], factor=cut.size)
        chunk = [piece_of]
    for at, size in zip(range(len(rows) - 1, -1, -1), (tile.rows, tile.lines)):
        if size > 1 or at == len(rows) - 1:
            rows[at], ii = s[out].split(rows[at], factor=size)
            inner.insert(0, ii)
    across = [*columns, jo]
    outer = [*batch, *chunk, *across] if cut.rows_first else [*batch, *across, *chunk]
    s[out].reorder(*outer, *rows, *inner, jp, jv)
    s[out].vectorize(jv)
    for axis in (jp, *inner):
        s[out].unroll(axis)
    head = outer[: len(batch) + len(chunk)] if cut.rows_first else outer
    piece = s[out].fuse(*head) if len(head) > 1 else head[0]
    if on_threads:
        parallel_if(s[out], piece, work, PARALLEL_PRODUCTS)
    _accumulate(s, product, out, rows[-1] if rows else piece, lanes, form)
    own = form.both or cut.rows_first or pieces == prod(extents[i] for i in form.batch)
    for pad in pads:
        if own and chunk and form.row_side is not None and pad is s[form.row_side.producer]:
            pad.compute_at(s[out], piece)
            vectors(pad, machine)
        else:
            arrange(pad, list(pad.op.axis), machine)
    if packed:
        copy = _pack(s, form, product, lanes)
        copy.compute_at(s[out], jo if cut.rows_first else piece)


def _accumulate(
    s: Schedule, product: Tensor, out: Tensor, at: IterVar, lanes: int, form: Contraction
) -> None:
    """A register tile: all steps of the reduction, the tile's elements innermost."""
    stage = s[product]
    stage.compute_at(s[out], at)
    axes = list(stage.op.axis)
    steps = list(stage.op.reduce_axis)
    jp, jv = stage.split(axes[-1], factor=lanes)
    rows = [axes[i] for i in form.rows]
    others = [axes[i] for i in (*form.batch, *form.columns)]
    stage.reorder(*others, *rows[:-2], *steps, *rows[-2:], jp, jv)
    stage.vectorize(jv)
    for axis in (jp, *rows[-2:]):
        stage.unroll(axis)
    most = WRITTEN_OUT if form.both else FEW_STEPS
    for k in reversed(steps):
        size = const_int(domain(k).extent) or most + 1
        if size > most:
            break
        stage.unroll(k)
        most //= max(size, 1)


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
    `rows_first`: threads share these pieces, and each does all columns of its own."""

    axis: int = 0
    size: int = 0
    rows_first: bool = False


def _cut(
    form: Contraction, sizes: Sequence[int], tile: Tile, pieces: int, machine: Machine
) -> _Cut:
    """Pieces of which the second-level cache holds the row side, enough of them for the cores
    (`pieces`: for all rows), but none so small that copies of the vector side do not pay."""
    if not form.rows or not all(sizes):
        return _Cut()
    axis = next((i for i, size in enumerate(sizes) if size > 1), 0)
    step = {len(sizes) - 1: tile.rows, len(sizes) - 2: tile.lines}.get(axis, 1)
    m, least = prod(sizes), PIECES * machine.cores
    nbytes = bytes_of(form.row_side.producer) if form.row_side is not None else 0
    count = max(1, -(-nbytes // max(1, machine.l2_bytes // 2)))
    few = 1 if form.both else 2 * FEW_ROWS
    rows_first = not form.both and m // least >= 5 * FEW_ROWS
    if rows_first:
        count = max(count, least)
    elif pieces and pieces * count < least:
        count = max(count, -(-least // pieces))
    count = max(1, min(count, m // few, -(-sizes[axis] // step)))
    whole = -(-sizes[axis] // count)
    return _Cut(axis, -(-whole // step) * step, rows_first and count >= least)


def _pack(s: Schedule, form: Contraction, product: Tensor, lanes: int) -> Stage:
    """A copy of a panel, one step of the reduction after the other."""
    side, column = form.vector_side, form.column
    assert side is not None, "what is packed is read"
    copy = s[s.cache_read(side.producer, "global", [product])]
    if form.in_order:
        *_, j = copy.op.axis
        jp, jv = copy.split(j, factor=lanes)
        copy.vectorize(jv)
        copy.unroll(jp)
        return copy
    steps = {a.var for a in product.op.reduce_axis}
    along = [d for d, x in enumerate(side.indices) if steps.intersection(free_vars(x))]
    others = [d for d in range(len(side.indices)) if d != column and d not in along]

    def panel(*indices: Any) -> list[Any]:
        return [indices[d] for d in (*others, *along, column)]

    *outer, k, j = copy.transform_layout(panel)
    # a vector of each column at a time: its line of memory is read once
    ko, ki = copy.split(k, factor=lanes)
    copy.reorder(*outer, ko, j, ki)
    copy.unroll(ki)
    return copy


@dataclass(frozen=True)
class Tile:
    """Vectors that accumulate: `rows` of the last row axis times `lines` of the one before it,
    `panels` in each row."""

    rows: int
    lines: int
    panels: int


def even(n: int, most: int) -> int:
    """The size of equal parts (but for the last) of n, at most `most`."""
    return -(-n // -(-n // most))


def register_tile(sizes: Sequence[int], n: int, lanes: int, registers: int) -> Tile:
    """The tile for rows of `sizes` (0: not known) and n columns whose accumulators fit the
    registers beside their operands.

    The cost of a tile is its loads an FMA, times the share of it that lies outside; with too few
    chains FMAs wait for each other.
    """
    *_, before, last = (1, 1, *sizes)
    best, least = Tile(1, 1, 1), float("inf")
    for panels in range(1, MOST_PANELS + 1):
        most = (registers - panels - 1) // panels
        if most < 1 or (panels > 1 and 0 < n < panels * lanes):
            continue
        for rows in range(1, (min(most, last) if last else most) + 1):
            lines = 1
            if rows == last and before > 1:
                lines = even(before, max(1, most // rows))
            waste = _waste(last, rows) * _waste(before, lines) * _waste(n, panels * lanes)
            height = rows * lines
            loads = 1 / height + 1 / panels
            cost = waste * max(1.0, FMA_CHAINS / (height * panels)) * (1 + loads / 4)
            if cost < least:
                best, least = Tile(rows, lines, panels), cost
    return best


def _waste(n: int, step: int) -> float:
    return -(-n // step) * step / n if n else 1.0
