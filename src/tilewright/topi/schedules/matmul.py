"""Matrix products: a register tile of rows, the right side packed into panels of columns.

The register tile is `rows` times `panels` vectors. A panel is copied together once for the rows
that it serves: in memory its pieces may lie a multiple of the cache's ways apart, and at the edge
the copy has zeros, so that the innermost loops are the same there. Goto and van de Geijn: Anatomy
of high-performance matrix multiplication, TOMS 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir.expr import Add, Cast, Mul, const_int, is_const
from ...loopir.iter import ProducerLoad, Reduce
from ...loopir.visit import free_vars, walk
from ...schedule.api import Schedule, Stage
from ...tensor.op import ComputeOp, domain
from ...tensor.reduce import builtin_kind
from ...tensor.tensor import Tensor
from .machine import FMA_CHAINS, PARALLEL_PRODUCTS, Machine, extent_of, parallel_if, work_of

SMALL_ROWS = 4
NARROW = 4  # lanes of the shortest vectors
FEW_ROWS = 20  # that many uses of each element of the right side pay for a copy of it
SHORT_STEPS = 4  # vectors along the reduction that pay for adding the lanes of one
PIECES = 2  # for each core, that threads share evenly
WIDEST = 512  # elements of a row of output at work at once
ROWS_AT_ONCE = 8  # of the right side, added while an element of the output is in a register


@dataclass(frozen=True)
class _Right:
    """The right side of a product: the tensor, and the dimensions that columns and steps of the
    reduction run along (`by_rows`: columns are neighbours in memory)."""

    tensor: Tensor
    column: int
    step: int

    @property
    def by_rows(self) -> bool:
        return self.column > self.step

    @staticmethod
    def of(product: Tensor) -> _Right | None:
        """Of the only tensor that is read along columns and steps, each an index by itself."""
        *_, i, j = (a.var for a in product.op.axis)
        (k,) = (a.var for a in product.op.reduce_axis)
        loads = [e for e in walk(product.op.body[0]) if type(e) is ProducerLoad]
        found = [e for e in loads if any(x is j for x in e.indices)]
        if len(found) != 1 or len(loads) != 2 or product.op.body[0].init:
            return None
        (load,) = found
        used = [v for index in load.indices for v in free_vars(index)]
        columns = [d for d, x in enumerate(load.indices) if x is j]
        steps = [d for d, x in enumerate(load.indices) if x is k]
        if len(columns) != 1 or len(steps) != 1 or i in used or used.count(j) + used.count(k) != 2:
            return None
        return _Right(load.producer, columns[0], steps[0])


def is_product(op: Any) -> bool:
    """Whether an operation is a sum over k of a[.., i, .., k, ..] * b[.., j, .., k, ..] (casts
    aside), i and j its last two axes: each in one factor alone, k in both."""
    if not isinstance(op, ComputeOp) or op.num_outputs != 1 or len(op.axis) < 2:
        return False
    body = op.body[0]
    if type(body) is not Reduce or len(op.reduce_axis) != 1 or body.init:
        return False
    if builtin_kind(body.combiner) is not Add or not is_const(body.condition, 1):
        return False
    product = _uncast(body.source[0])
    if type(product) is not Mul:
        return False
    factors = [_uncast(e) for e in (product.a, product.b)]
    if any(type(e) is not ProducerLoad for e in factors):
        return False
    used = [{v for index in e.indices for v in free_vars(index)} for e in factors]
    i, j, k = (a.var for a in (*op.axis[-2:], *op.reduce_axis))
    return all(k in u for u in used) and any(
        i in a and j not in a and j in b and i not in b for a, b in (used, used[::-1])
    )


def _uncast(e: Any) -> Any:
    while type(e) is Cast:
        e = e.value
    return e


def schedule_matmul(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Schedule a (M, N) product, plain or batched, and the element-wise stage that ends its
    group.

    With few rows nothing of the right side is used often enough to be copied: where its columns
    lie in memory, vectors run along the reduction; where its rows do, and they come from far away,
    they are added up into a wide piece of the output. Otherwise panels of it are packed.
    """
    m = extent_of(s[out].op.axis[-2])
    steps = extent_of(product.op.reduce_axis[-1])
    right = _Right.of(product)
    if right is None or not m:
        _tiles(s, product, out, machine, None)
    elif m > FEW_ROWS:
        _tiles(s, product, out, machine, right if steps or right.by_rows else None)
    elif right.by_rows and _bytes_of(right.tensor) > machine.l2_bytes // 2:
        _sums_of_rows(s, product, out, machine)
    elif not right.by_rows and steps >= SHORT_STEPS * machine.lanes(product.dtype):
        _dot_products(s, product, out, machine)
    else:
        _tiles(s, product, out, machine, None)


def _bytes_of(t: Tensor) -> int:
    """The bytes of a matrix, or of each in a batch; 0 where a size is not known."""
    return prod(const_int(d) or 0 for d in t.shape[-2:]) * parse(t.dtype).nbytes


def _tiles(
    s: Schedule, product: Tensor, out: Tensor, machine: Machine, right: _Right | None
) -> None:
    """Panels of columns, a register tile of rows at a time; with `right`, packed beforehand."""
    lanes = machine.lanes(product.dtype)
    m, n = (extent_of(a) for a in s[out].op.axis[-2:])
    steps = extent_of(product.op.reduce_axis[-1])
    work = work_of(product)
    if product.op is out.op:
        product = s.cache_write(out, "local")
    *batch, i, j = s[out].op.axis
    while n and lanes > max(n, NARROW):  # what is left beside a vector is at the edge, and whole
        lanes //= 2
    rows, panels = register_tile(m, n, lanes, machine.registers)
    jo, ji = s[out].split(j, factor=panels * lanes)
    outer = [*batch, jo]
    if right is not None:
        nbytes = parse(product.dtype).nbytes
        pieces = prod(map(extent_of, batch)) * -(-n // (panels * lanes)) if n else 0
        ic, i = s[out].split(i, factor=_rows_of_piece(m, rows, steps * nbytes, pieces, machine))
        outer.append(ic)
    io, ii = s[out].split(i, factor=rows)
    jp, jv = s[out].split(ji, factor=lanes)
    s[out].reorder(*outer, io, ii, jp, jv)
    s[out].vectorize(jv)
    s[out].unroll(jp)
    s[out].unroll(ii)
    piece = s[out].fuse(*outer) if len(outer) > 1 else jo
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS)
    stage = s[product]
    stage.compute_at(s[out], io)
    *batch, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    jp, jv = stage.split(j, factor=lanes)
    stage.reorder(*batch, k, i, jp, jv)
    stage.vectorize(jv)
    stage.unroll(jp)
    stage.unroll(i)
    if right is not None:
        _pack(s, right, product, lanes).compute_at(s[out], piece)


def _rows_of_piece(m: int, rows: int, row_bytes: int, pieces: int, machine: Machine) -> int:
    """How many rows one panel is packed for: what the second-level cache holds of the left side,
    fewer where there would not be enough pieces (`pieces` for all rows) for the cores."""
    least = PIECES * machine.cores
    count = max(1, -(-m * row_bytes // max(1, machine.l2_bytes // 2)))
    if pieces and pieces * count < least:
        count = max(count, -(-least // pieces))
    count = max(1, min(count, m // (2 * FEW_ROWS)))
    whole = -(-m // count)
    return -(-whole // rows) * rows


def _pack(s: Schedule, right: _Right, product: Tensor, lanes: int) -> Stage:
    """A copy of a panel, one step of the reduction after the other."""
    copy = s[s.cache_read(right.tensor, "global", [product])]
    if right.by_rows:
        *_, j = copy.op.axis
        jp, jv = copy.split(j, factor=lanes)
        copy.vectorize(jv)
        copy.unroll(jp)
        return copy

    def panel(*indices: Any) -> list[Any]:
        ends = (right.column, right.step)
        others = [x for d, x in enumerate(indices) if d not in ends]
        return [*others, indices[right.step], indices[right.column]]

    *others, k, j = copy.transform_layout(panel)
    # a vector of each column at a time: its line of memory is read once
    ko, ki = copy.split(k, factor=lanes)
    copy.reorder(*others, ko, j, ki)
    copy.unroll(ki)
    return copy


def _sums_of_rows(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """A wide piece of a few rows of the output, to which some rows of the right side are added at
    once."""
    lanes = machine.lanes(product.dtype)
    work = work_of(product)
    m, n = (extent_of(a) for a in s[out].op.axis[-2:])
    if product.op is out.op:
        product = s.cache_write(out, "local")
    *batch, i, j = s[out].op.axis
    nbytes = parse(product.dtype).nbytes
    width = min(WIDEST, machine.l1_bytes // 2 // nbytes // m)
    if n:
        width = min(width, -(-n // (PIECES * machine.cores)))
    width = max(4, width // lanes) * lanes
    jo, ji = s[out].split(j, factor=width)
    jp, jv = s[out].split(ji, factor=lanes)
    s[out].reorder(*batch, jo, i, jp, jv)
    s[out].vectorize(jv)
    piece = s[out].fuse(*batch, jo) if batch else jo
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS)
    stage = s[product]
    stage.compute_at(s[out], piece)
    *batch, i, j = stage.op.axis
    (k,) = stage.op.reduce_axis
    io, ii = stage.split(i, factor=_even(m, 4))
    jp, jv = stage.split(j, factor=lanes)
    ko, ki = stage.split(k, factor=ROWS_AT_ONCE)
    stage.reorder(*batch, ko, io, jp, ii, ki, jv)
    stage.vectorize(jv)
    stage.unroll(ki)
    stage.unroll(ii)


def _dot_products(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Tiles of dot products, each in the lanes of a vector that are added at the end."""
    lanes = machine.lanes(product.dtype)
    work = work_of(product)
    m = extent_of(s[out].op.axis[-2])
    _, lane = s[product].split(s[product].op.reduce_axis[0], factor=lanes)
    parts = s.rfactor(product, lane, len(product.op.axis))
    *batch, i, j = s[out].op.axis
    rows = _even(m, 4)
    columns = max(1, min(8, (machine.registers - 1) // (rows + 1)))
    jo, ji = s[out].split(j, factor=columns)
    io, ii = s[out].split(i, factor=rows)
    s[out].reorder(*batch, jo, io, ii, ji)
    s[out].unroll(ii)
    s[out].unroll(ji)
    piece = s[out].fuse(*batch, jo) if batch else jo
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS)
    total = s[product]
    if product.op is not out.op:
        total.compute_at(s[out], io)
        for axis in total.op.axis[-2:]:
            total.unroll(axis)
    total.unroll(total.op.reduce_axis[0])
    stage = s[parts]
    stage.compute_at(s[out], io)
    *batch, i, j, lane = stage.op.axis
    (k,) = stage.op.reduce_axis
    stage.reorder(*batch, k, i, j, lane)
    stage.vectorize(lane)
    stage.unroll(i)
    stage.unroll(j)


def _even(n: int, most: int) -> int:
    """The size of equal parts (but for the last) of n, at most `most`."""
    return -(-n // -(-n // most))


def register_tile(m: int, n: int, lanes: int, registers: int) -> tuple[int, int]:
    """(rows, vectors a row) of accumulators that fit the registers beside their operands.

    The cost of a tile is its loads an FMA, times the share of it that lies outside; with too few
    chains FMAs wait for each other.
    """
    best, least = (1, 1), float("inf")
    for panels in range(1, 9):
        most = (registers - panels - 1) // panels
        if most < 1 or (panels > 1 and 0 < n < panels * lanes):
            continue
        rows = _even(m, most) if m else most
        waste = 1.0
        if m:
            waste *= -(-m // rows) * rows / m
        if n:
            waste *= -(-n // (panels * lanes)) * panels * lanes / n
        loads = 1 / rows + 1 / panels
        cost = waste * max(1.0, FMA_CHAINS / (rows * panels)) * (1 + loads / 4)
        if cost < least:
            best, least = (rows, panels), cost
    return best


def schedule_dense_packed(s: Schedule, product: Tensor, out: Tensor, machine: Machine) -> None:
    """Blocks of columns in parallel; for each, a few rows of accumulators over the reduction."""
    work = work_of(product)
    if product.op is out.op:
        product = s.cache_write(out, "local")
    i, j, v = s[out].op.axis
    rows = max(1, min(extent_of(i) or 1, machine.registers - 4))
    io, ii = s[out].split(i, factor=rows)
    s[out].reorder(j, io, ii, v)
    s[out].vectorize(v)
    s[out].unroll(ii)
    parallel_if(s[out], j, work, PARALLEL_PRODUCTS)
    stage = s[product]
    stage.compute_at(s[out], io)
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
