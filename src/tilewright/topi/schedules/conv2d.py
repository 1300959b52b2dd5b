"""Convolution: a tile of the output stays in registers over the whole reduction.

Blocked channels (conv_nchwc): the tile is `columns` output columns times `chunks` vectors of
filters. Each step of the reduction loads `chunks` vectors of weights, broadcasts `columns` values
of data, and does columns * chunks FMAs; both are limited by the number of registers, and there
must be enough chains to cover the latency of an FMA. What follows the convolution (bias, residual,
activation) is computed on the tile before it is stored. Where the weights of a tile are too many to
stay near the core from one tile to the next, the reduction is cut into parts, and each serves some
rows of tiles, whose sums are kept in memory in between.

Georganas et al.: Anatomy of high-performance deep learning convolutions on SIMD architectures,
SC18.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.iter import IterVar
from ...schedule.api import Schedule, Stage
from ...tensor.op import PlaceholderOp
from ...tensor.tensor import Tensor
from .decisions import Value
from .dots import Groups, conv_intrinsic, groups_of_conv
from .few_columns import most_columns
from .injective import arrange
from .machine import (
    FMA_CHAINS,
    PARALLEL_PRODUCTS,
    PIECES,
    UNEVEN,
    Machine,
    ask_ahead,
    extent_of,
    largest_divisor,
    nearby,
    parallel_if,
    size_of,
    work_of,
)
from .matmul import schedule_contraction
from .shares import data_outweighs, share_rows

PART_OF_L1 = 0.75  # of the first cache, for the weights that a part of the reduction reads
MOST_CHUNKS = 8  # of a register tile
LEAST_PIECES = 8  # of the output, for threads to share evenly
GUARDED = 1.15  # times as long, where the last columns are under a guard
COLUMNS_A_RUN = 2  # of a depthwise convolution, that take as long as to begin and end a run


def blocked_tiles(width: int, chunks: int, vectors: int, registers: int) -> list[Value]:
    """(columns, chunks) of register tiles, best first; `vectors` registers hold one chunk.

    Prefers tiles that divide the width; the cost of a tile is its loads an FMA, where a broadcast
    serves all chunks and a load of weights all columns; too few chains stall. Beside the sums, the
    weights of a column and one broadcast have to fit.
    """
    found: list[tuple[float, Value]] = []
    for c in range(1, MOST_CHUNKS + 1):
        if chunks % c:
            continue
        for w in range(1, min(width, (registers - 1) // (c * vectors) - 1) + 1):
            chains = w * c * vectors
            waste = (-width % w) / width
            loads = (w + c * vectors) / chains
            cost = (1 + waste) * max(1.0, FMA_CHAINS / chains) * (1 + loads)
            if width % w:
                cost *= GUARDED
            found.append((cost, (w, c)))
    found.sort(key=lambda item: item[0])
    return [tile for _, tile in found] or [(1, 1)]


def schedule_conv_nchwc(s: Schedule, conv: Tensor, out: Tensor, machine: Machine) -> None:
    """Schedule a blocked convolution and the element-wise stage `out` that ends its group; one of
    few filters as any sum of products (few_columns.py)."""
    if extent_of(s[conv].op.axis[-1]) <= most_columns(machine.lanes(conv.dtype)):
        schedule_contraction(s, conv, out, machine)
        return
    vectors = max(1, extent_of(s[conv].op.axis[-1]) // machine.lanes(conv.dtype))
    work, name = work_of(conv), s[conv].op.name
    if conv.op is out.op:
        conv = s.cache_write(out, "local")
    _, chunks, *size, _ = (extent_of(a) for a in s[out].op.axis)
    # the blocks of filters of a tile read the same data
    alone = chunks // _groups_of_blocks(s[conv].op)
    tiles = blocked_tiles(size[-1] or 1, alone or 1, vectors, machine.working)
    columns, group = machine.choose(name, "tile", tiles)

    n, fo, *outer, ow, fi = s[out].op.axis
    fo_outer, fo_inner = s[out].split(fo, factor=group)
    ow_outer, ow_inner = s[out].split(ow, factor=columns)
    s[out].reorder(n, fo_outer, *outer, ow_outer, fo_inner, ow_inner, fi)
    s[out].vectorize(fi)
    s[out].unroll(fo_inner)
    s[out].unroll(ow_inner)
    part, alike = 0, prod(size[:-1])
    if outer:
        (part,) = machine.choose(name, "parts", _parts_of_reduction(s[conv].op, group, machine))
    if part:
        others = [extent_of(n), chunks // group, *size[:-2]]
        rows = _rows_of_pieces(size[-2], prod(others), machine)
        outer[-1], inner = s[out].split(outer[-1], factor=rows)
        s[out].reorder(outer[-1], inner)
        alike //= rows
    loops = [extent_of(n), chunks // group, *size[:-1]]
    if part:
        loops[-1] //= rows
    run, count = _cut_columns(s[out], ow_outer, loops, -(-size[-1] // columns), machine)
    alike *= count
    pieces = s[out].fuse(n, fo_outer, *outer, *run)
    shared = parallel_if(s[out], pieces, work, PARALLEL_PRODUCTS, machine)
    if shared and data_outweighs(s[conv].op, machine):
        share_rows(s[out], pieces, loops, machine)
    if alike:
        ask_ahead(s[out], pieces, s[conv].op.input_tensors[1], alike, machine)
    s[conv].compute_at(s[out], pieces if part else ow_outer)
    groups = groups_of_conv(s[conv].op, machine)
    _schedule_sums(s[conv], part, columns, groups)
    tap = s[conv].op.reduce_axis[-2] if groups is None else None
    _read_padding(s, s[conv], machine, tap, size[-1] == columns)


def _groups_of_blocks(conv: Any) -> int:
    """Groups of blocks of channels, each of which has filters of its own."""
    data = next(t for t in conv.input_tensors if t.ndim == len(conv.axis))
    return max(1, size_of(data.shape[1]) // max(1, extent_of(conv.reduce_axis[0])))


def _schedule_sums(stage: Any, part: int, columns: int, groups: Groups | None) -> None:
    """The loops of a blocked convolution within those of its output."""
    n, fo, *outer, ow, fi = stage.op.axis
    rco, *taps, rci = stage.op.reduce_axis
    steps, inner = extent_of(rci), [fi]
    if groups is not None:
        steps //= groups.terms
        rci, terms = stage.split(rci, factor=groups.terms)
        fo_vector, fi = stage.split(fi, factor=groups.dot.lanes)
        stage.unroll(fo_vector)
        inner = [fo_vector, fi, terms]
    if part:
        rco_outer, rco = stage.split(rco, factor=part)
        ow_outer, ow = stage.split(ow, factor=columns)
        order: tuple[Any, ...] = (n, rco_outer, *outer, ow_outer, rco, *taps, rci)
    else:
        order = (n, *outer, rco, *taps, rci)
    # chunks innermost: a broadcast value serves all and is gone; columns innermost, all broadcasts
    # stay in registers from one chunk to the next, and sums are spilled
    stage.reorder(*order, ow, fo, *inner)
    if groups is None:
        stage.vectorize(fi)
    else:
        stage.tensorize(fi, conv_intrinsic(stage.op, groups))
    stage.unroll(fo)
    stage.unroll(ow)
    if steps <= 4:
        stage.unroll(rci)


def _parts_of_reduction(conv: Any, group: int, machine: Machine) -> list[Value]:
    """Blocks of channels in a part of the reduction (0: it stays whole), what should be best
    first. It is cut where the weights of a tile would not stay near the core until the next tile
    reads them again; from the second cache they stream as fast as they are used."""
    blocks, *others = (extent_of(a) for a in conv.reduce_axis)
    nbytes = min(parse(t.dtype).nbytes for t in conv.input_tensors)
    block = prod(others) * group * extent_of(conv.axis[-1]) * nbytes
    if not blocks * block:
        return [(0,)]
    kept = int(PART_OF_L1 * machine.l1_bytes)
    parts = [largest_divisor(blocks, max(1, size // block)) for size in (kept, kept // 2)]
    short = [p for p in parts if p < blocks]
    whole = blocks * block <= machine.l2_bytes // 2
    return nearby(*([0, *short] if whole else [*parts, 0]), least=0)


def _rows_of_pieces(rows: int, others: int, machine: Machine) -> int:
    """How many rows a piece has, where there are so `others` for each row: as many as leave enough
    for threads to share evenly."""
    able = [d for d in range(rows, 0, -1) if rows % d == 0]
    enough = [d for d in able if others * (rows // d) >= LEAST_PIECES] or [1]
    even = [d for d in enough if machine.longest(others * (rows // d)) <= UNEVEN]
    return even[0] if even else min(enough, key=lambda d: machine.longest(others * (rows // d)))


def _cut_columns(
    stage: Stage, outer: IterVar, loops: list[int], runs: int, machine: Machine
) -> tuple[list[IterVar], int]:
    """Where the `loops` that threads share are few, as of an image of one row, a further one, over
    parts of the runs of columns that `outer` goes through: it, and its extent, which is added."""
    around = prod(loops)
    wanted = min(runs, -(-PIECES * machine.cores // max(1, around)))
    if runs < 2 or not around:
        return [], 1
    counts = range(wanted, min(runs, 2 * wanted) + 1)
    wanted = next((n for n in counts if machine.longest(around * n) <= UNEVEN), wanted)
    if wanted < 2:
        return [], 1
    each = -(-runs // wanted)
    part, _ = stage.split(outer, factor=each)
    loops.append(-(-runs // each))
    return [part], loops[-1]


def _runs_of_columns(width: int, most: int) -> list[int]:
    """Lengths of runs, best first: such that divide the width, unless these are short."""
    even = [largest_divisor(width, n) for n in (most, most // 2, most * 3 // 2)]
    if 2 * even[0] >= most or even[0] == width:
        return even

    def cost(n: int) -> float:
        """Of an element: weights are loaded, and ends seen to, once a run; what lies beyond the
        image is computed for nothing, under a guard."""
        beyond = -(-width // n) * n / width
        return beyond * (1 + COLUMNS_A_RUN / n) * (GUARDED if width % n else 1.0)

    return [*sorted(range(1, most + 1), key=cost)[:3], even[0]]


def schedule_depthwise_nchwc(s: Schedule, conv: Tensor, out: Tensor, machine: Machine) -> None:
    """Channels by themselves, in vectors: a run of columns of one block at a time."""
    work, name = work_of(conv), s[conv].op.name
    if conv.op is out.op:
        conv = s.cache_write(out, "local")
    n, co, *outer, ow, ci = s[out].op.axis
    vectors = max(1, extent_of(ci) // machine.lanes(conv.dtype))
    most = max(1, machine.working // 2 // vectors)
    width = extent_of(ow)
    (columns,) = machine.choose(name, "columns", nearby(*_runs_of_columns(width, most)))
    ow_outer, ow_inner = s[out].split(ow, factor=columns)
    s[out].vectorize(ci)
    s[out].unroll(ow_inner)
    loops = [extent_of(a) for a in (n, co, *outer)]
    s[out].reorder(n, co, *outer, ow_outer, ow_inner, ci)
    run, _ = _cut_columns(s[out], ow_outer, loops, -(-width // columns), machine)
    pieces = s[out].fuse(n, co, *outer, *run)
    if parallel_if(s[out], pieces, work, PARALLEL_PRODUCTS, machine):
        share_rows(s[out], pieces, loops, machine)
    stage = s[conv]
    stage.compute_at(s[out], ow_outer)
    n, co, *outer, ow, ci = stage.op.axis
    taps = stage.op.reduce_axis
    stage.reorder(n, co, *outer, *taps, ow, ci)
    stage.vectorize(ci)
    stage.unroll(ow)
    _read_padding(s, stage, machine, taps[-1], True)


def _read_padding(
    s: Schedule, stage: Any, machine: Machine, tap: Any = None, known: bool = False
) -> None:
    """Data that lies in memory is read where it is, and padding is not: taps of whole rows of it
    are left out; of the columns of a tile those at its ends ask, or, `known`, have steps of their
    own for each `tap`. Data that is computed first is copied together with its padding, in
    parallel, and so is all without a tap."""
    for t in stage.op.input_tensors:
        if not t.op.tag.endswith("pad"):
            continue
        if tap is None or not all(isinstance(x.op, PlaceholderOp) for x in t.op.input_tensors):
            arrange(s[t], list(s[t].op.axis), machine)
            continue
        s[t].compute_inline()
        stage.pragma(tap, "skip_zeros")
        if known:
            stage.unroll(tap)


def schedule_conv2d_nchw(s: Schedule, conv: Tensor, out: Tensor, machine: Machine) -> None:
    """Convolution on plain NCHW data: vectors along the width, a few filters at a time."""
    lanes = machine.lanes(conv.dtype)
    work = work_of(conv)
    if conv.op is out.op:
        conv = s.cache_write(out, "local")
    n, f, oh, ow = s[out].op.axis
    filters = largest_divisor(extent_of(f), 8)
    ow_outer, ow_inner = s[out].split(ow, factor=_columns(extent_of(ow), lanes))
    f_outer, f_inner = s[out].split(f, factor=filters)
    s[out].reorder(n, f_outer, oh, ow_outer, f_inner, ow_inner)
    s[out].vectorize(ow_inner)
    s[out].unroll(f_inner)
    parallel_if(s[out], s[out].fuse(n, f_outer, oh), work, PARALLEL_PRODUCTS, machine)
    stage = s[conv]
    stage.compute_at(s[out], ow_outer)
    n, f, oh, ow = stage.op.axis
    rc, ry, rx = stage.op.reduce_axis
    stage.reorder(n, oh, rc, ry, rx, f, ow)
    stage.vectorize(ow)
    stage.unroll(f)
    _read_padding(s, stage, machine)


def _columns(width: int, lanes: int) -> int:
    """Lanes along the width: a full vector where there is room, else all of it."""
    return min(width, lanes) if width else lanes
