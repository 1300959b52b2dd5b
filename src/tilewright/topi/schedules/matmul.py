"""Which schedule a sum of products gets; and products with a side that was packed beforehand."""

from __future__ import annotations

from functools import partial
from math import gcd, prod
from typing import Any

from ...base.dtype import parse
from ...loopir.expr import const_int
from ...loopir.iter import ProducerLoad
from ...schedule.api import Schedule
from ...tensor.op import PlaceholderOp, domain
from ...tensor.tensor import Tensor
from .contraction import Contraction, along_last, contraction_of, is_product, step_of
from .dot_lanes import dots_in_lanes, lanes_of, worth_lanes
from .dots import groups_of
from .few_columns import few_columns, steps_in_lanes, tile_rows
from .few_rows import LEAST_WIDTH, dot_products, dot_tiles, sums_of_rows
from .machine import (
    FEW_ROWS,
    LIKELY_ROWS,
    LINE,
    PARALLEL_PRODUCTS,
    PARALLEL_STEPS,
    PIECES,
    UNEVEN,
    Machine,
    bytes_of,
    even,
    extent_of,
    nearby,
    parallel_if,
    size_of,
    work_of,
)
from .parts import PRODUCTS, parts_of, step_of_parts, sum_of_parts
from .reduce import SHORT_SUM, in_rows, schedule_reduce
from .tiles import cost_in_parts, tiles

SMALL_ROWS = 4
NO_COPY_ROWS = 25  # where 64 bytes a cycle come from the first-level cache
L2_WAYS, TILE_LINES = 16, 4
PACKED, STRAIGHT, SUMS, DOTS, PLAIN, LANES = range(6)  # ways to a sum of products


def schedule_matmul(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Schedule a (M, N) product, plain or batched, and the element-wise stage that ends its
    group; where it is not written as a sum of products, as one whose sides are not known."""
    rank = len(product.op.axis)
    form = contraction_of(product.op, plain=False)
    form = form or Contraction(None, None, tuple(range(rank - 2)), (rank - 2,), (), -1)
    if form.vector_side is None or form.row_side is None:
        tiles(s, product, out, machine, form, False)
    else:
        schedule_contraction(s, product, out, machine)


def schedule_contraction(
    s: Schedule, product: Tensor, out: Tensor, machine: Machine, alone: bool = True
) -> None:
    """Schedule a sum of products and the element-wise stage `out` that ends its group, on threads
    where it runs `alone`: then a long one with few results is cut into parts."""
    op = s[product].op
    form = contraction_of(op)
    if form is None or form.vector_side is None:
        schedule_reduce(s, product, out, machine)
        return
    parts = _parts(s, product, form, machine) if alone else 1
    if parts == 1:
        _by_way(s, product, out, machine, form, alone)
        return
    (k,) = op.reduce_axis
    whole = machine.lanes(product.dtype)
    part, _ = s[product].split(k, factor=step_of_parts(extent_of(k), parts, whole))
    first = s.rfactor(product, part)
    form = contraction_of(first.op)
    assert form is not None, "parts are sums of products, too"
    _by_way(s, first, first, machine, form, alone)
    sum_of_parts(s, product, out, machine)


def _parts(s: Schedule, product: Tensor, form: Contraction, machine: Machine) -> int:
    """Into how many parts the reduction of a sum of products is cut."""
    op = s[product].op
    read = sum(prod(map(size_of, t.shape)) for t in op.input_tensors)
    work = max(work_of(product), read * PARALLEL_PRODUCTS // PARALLEL_STEPS)
    sizes, (k, *more) = [extent_of(a) for a in op.axis], op.reduce_axis
    by_dots = groups_of(op, form, machine) or lanes_of(op, form, machine)
    if more or form.both or not all((*sizes, extent_of(k))) or by_dots:
        return 1
    (way, *_), _ = _ways(s, product, form, machine, True)
    if way == PLAIN:
        return 1
    lanes, m = machine.lanes(product.dtype), prod(sizes[i] for i in form.rows)
    count, n = prod(sizes[:-1]) // max(1, m), sizes[-1]
    waits = None
    if way == SUMS:
        count *= -(-n // (LEAST_WIDTH * lanes))
    elif way == DOTS:
        count = prod(sizes[:-2]) * -(-n // dot_tiles(sizes[-2], machine.working)[0][1])
    elif way == LANES:
        count *= -(-m // tile_rows(m, n, machine.working)[0][0])
    else:
        packed = way == PACKED
        waits = partial(cost_in_parts, op, form, machine, packed, work)
    length, results = extent_of(k), prod(sizes)
    parts = parts_of(count, length, work, results, PRODUCTS, machine, waits)
    options = nearby(parts, 1, machine.cores, PIECES * machine.cores, most=length // lanes)
    return machine.choose(op.name, "split", options)[0] if parts > 1 else 1


def _ways(
    s: Schedule, product: Tensor, form: Contraction, machine: Machine, alone: bool
) -> tuple[list[int], int | None]:
    """The ways to a sum of products, the likely one first; the place among the axes of its
    reduction that vectors may run along.

    A vector side that lies in panels is read as it is. Of others, with few rows, nothing is used
    often enough to be copied: where its columns lie in memory, vectors run along the reduction;
    where its rows do, and they come from far away, they are added up into a wide piece of the
    output. With few columns, vectors run along the reduction. Otherwise panels of it are packed.
    """
    op, side = s[product].op, form.vector_side
    assert side is not None, "sums without one are reductions"
    m = prod(extent_of(op.axis[i]) for i in form.rows)
    steps = prod(map(extent_of, op.reduce_axis))
    if form.panel:
        return [STRAIGHT], None
    few = 0 < m <= FEW_ROWS and form.in_order
    slides = form.both and form.column < 0
    straight = slides or along_last(side, op.axis[-1].var)
    unknown = not m and not straight
    m = LIKELY_ROWS if unknown else m
    far = bytes_of(side.producer) > machine.l2_bytes // 2
    long = steps >= SHORT_SUM * machine.lanes(product.dtype)
    able = {
        PACKED: m and form.column >= 0 and (steps or form.in_order),
        SUMS: few,
        STRAIGHT: straight,
        DOTS: alone and m and is_product(op) and long,
        PLAIN: True,
    }
    place = steps_in_lanes(op, form, machine) if alone and m > 1 else None
    likely = [LANES] if place is not None else []
    along, groups = lanes_of(op, form, machine), groups_of(op, form, machine)
    if along is not None and able[DOTS] and worth_lanes(op, along, groups):
        likely += [DOTS]
    elif groups is not None and m > _few_for_groups(side) and able[PACKED]:
        likely += [PACKED]
    likely += [DOTS if able[DOTS] else PLAIN] if in_rows(product, machine, s) else []
    given = straight and isinstance(side.producer.op, PlaceholderOp)  # none that a copy computes
    if given and FEW_ROWS < m <= _worth_no_copy(form, side, op, machine):
        likely += [STRAIGHT] if groups is None else []
    likely += [STRAIGHT] if slides or (few and _in_few_tiles(op, m, machine)) else []
    # no panels: they would take four times as long as a single row, and save a third of many
    likely += [DOTS] if unknown and able[DOTS] else []
    likely += [PACKED] if able[PACKED] and m > FEW_ROWS else [SUMS] if few and far else []
    # plain sums are for threads of their own
    order = (STRAIGHT, DOTS, PLAIN, PACKED, SUMS) if alone else (STRAIGHT, PACKED, PLAIN, SUMS)
    likely += [w for w in order if able[w]]
    return likely, place


def _in_few_tiles(op: Any, m: int, machine: Machine) -> bool:
    """Whether all sums of a few rows of whole vectors are in the registers of one tile or two: each
    vector is loaded once or twice then, and no sum. With 3 rows of 64 that took 0.43 of the time of
    sums in memory, with 2 of 128 0.37, with 4 of 256 0.78; of vectors that are not whole, more."""
    n, lanes = extent_of(op.axis[-1]), machine.lanes(op.output_dtype(0))
    return m > 1 and n > 0 and n % lanes == 0 and m * n <= 2 * machine.working * lanes


def _by_way(
    s: Schedule,
    product: Tensor,
    out: Tensor,
    machine: Machine,
    form: Contraction,
    alone: bool,
) -> None:
    """Schedule a sum of products in one of the ways to it."""
    ways, place = _ways(s, product, form, machine, alone)
    op = s[product].op
    way = ways[0]
    if not form.panel:
        (way,) = machine.choose(op.name, "way", [(w,) for w in ways])
    if way in (PACKED, STRAIGHT):
        tiles(s, product, out, machine, form, way == PACKED, alone)
    elif way == SUMS:
        sums_of_rows(s, product, out, machine, form, alone)
    elif way == DOTS:
        along = lanes_of(op, form, machine)
        if along is None:
            dot_products(s, product, out, machine)
        else:
            dots_in_lanes(s, product, out, machine, along)
    elif way == LANES and place is not None:
        few_columns(s, product, out, machine, form, place)
    else:
        schedule_reduce(s, product, out, machine)


def _few_for_groups(side: ProducerLoad) -> int:
    """The most rows whose groups are not worth a copy: of bytes, what is done without one widens
    each."""
    return FEW_ROWS * parse(side.dtype).nbytes ** 2 // 16


def _worth_no_copy(form: Contraction, side: ProducerLoad, op: Any, machine: Machine) -> int:
    """The most rows that do not pay for a copy of the vector side, if its rows are whole vectors,
    and the part that a tile reads spreads over the sets of the caches and stays in the second one:
    the faster sums are, the more of them a copy costs."""
    apart = step_of(side, op.reduce_axis[-1].var) * parse(side.dtype).nbytes
    steps = prod(map(extent_of, op.reduce_axis))
    own = max(gcd(apart, machine.l2_bytes // L2_WAYS), TILE_LINES * LINE)
    cut = (form.group or extent_of(op.axis[-1])) % machine.lanes(side.dtype)
    if cut or apart % machine.way_bytes == 0 or steps * own > machine.l2_bytes:
        return 0
    return NO_COPY_ROWS * machine.load_rates[0] // LINE


def schedule_dense_packed(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Blocks of columns in parallel; for each, a few rows of accumulators over the reduction."""
    work, name = work_of(product), s[product].op.name
    if product.op is out.op:
        product = s.cache_write(out, "local")
    i, j, v = s[out].op.axis
    most = max(1, min(extent_of(i) or 1, machine.working - 4))
    blocks, all_rows = extent_of(j), extent_of(i) or most
    heights = [even(most, n) for n in (most, 16, 8)] if machine.longest(blocks) > UNEVEN else [most]
    shared = [n for n in heights if machine.longest(blocks * -(-all_rows // n)) <= UNEVEN]
    best = shared[0] if shared else most
    (rows,) = machine.choose(name, "rows", nearby(best, even(most, 8), even(most, 6), 4, 1))
    io, ii = s[out].split(i, factor=rows)
    s[out].reorder(j, io, ii, v)
    s[out].vectorize(v)
    s[out].unroll(ii)
    uneven = machine.longest(blocks) > UNEVEN and all_rows > rows
    piece = s[out].fuse(j, io) if uneven else j
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS, machine)
    stage = s[product]
    stage.compute_at(s[out], piece if uneven else io)
    i, j, v = stage.op.axis
    (k,) = stage.op.reduce_axis
    if rows < SMALL_ROWS and (const_int(domain(k).extent) or 0) % 4 == 0:
        # several chains: partial sums over interleaved parts of the reduction
        ko, ki = stage.split(k, factor=4)
        stage.reorder(i, j, ko, ki, v)
        stage.unroll(ki)
    else:
        stage.reorder(k, i, j, v)
        stage.unroll(i)
    stage.vectorize(v)
