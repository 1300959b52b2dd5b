"""Softmax, alone or of a product (the scores of an attention)."""

from __future__ import annotations

from math import prod

from ...base.dtype import parse
from ...loopir.expr import Call, Div
from ...loopir.iter import IterVar
from ...loopir.visit import walk
from ...schedule.api import Schedule, Stage
from ...schedule.auto_inline import is_injective, loads_of
from ...schedule.state import INLINE
from ...tensor.tensor import Tensor
from .contraction import contraction_of, kept_inputs
from .cuts import COPY_ROWS, unevenness
from .injective import arrange
from .machine import PIECES, UNEVEN, Machine, bytes_of, extent_of, nearby, parallel_if, work_of
from .matmul import schedule_contraction
from .parts import GAIN
from .reduce import in_lanes, row_run, schedule_reduce
from .tiles import vectors

PARALLEL_EXPONENTIALS = 1 << 13
MOST_VECTORS = 4  # of columns, that are computed together
LEAST_PACKED = 4  # rows of a product that are computed together
LEAST_ROWS = 16  # of a product, that pay for packing its other side
MORE_LOOPS = 3  # on threads, where each stage has its own
MORE_PIECES = 4  # times as many, where threads would wait for each other


def schedule_softmax(s: Schedule, out: Tensor, machine: Machine) -> None:
    """All stages of a row are computed together, rows in parallel. Of a product, as many rows as
    the second-level cache has room for are computed at once."""
    axes = list(s[out].op.axis)
    along = dimension_of(s, out)
    if along < len(axes) - 1:
        _down_columns(s, out, along, machine)
        return
    work = work_of(out)
    products = [x for x in s.stages if not x.is_output and contraction_of(x.op) is not None]
    if not products:
        _inline_cheap(s)
    if not products and _uneven(prod(map(extent_of, axes[:-1])), out, machine):
        _in_parts(s, machine)
        return
    product = products[0] if len(products) == 1 and len(products[0].op.axis) == len(axes) else None
    if extent_of(axes[-2]) < LEAST_PACKED:
        product = None
    before = _ancestors(s, product) if product is not None else []
    *outer, rows = axes[:-1]
    piece: IterVar | None = None
    if product is not None:
        *batch, n, last = map(extent_of, axes)
        at_once = rows_at_once(prod(batch), n, last * parse(out.dtype).nbytes, machine)
        options = nearby(at_once, at_once // 2, 2 * at_once, at_once // 4)
        (at_once,) = machine.choose(out.op.name, "at_once", options)
        piece, rows = s[out].split(rows, factor=at_once)
        outer = [*outer, piece]
        piece = s[out].fuse(*outer) if len(outer) > 1 else piece
        parallel_if(s[out], piece, work, PARALLEL_EXPONENTIALS, machine)
    else:
        rows = s[out].fuse(*outer, rows) if outer else rows
        parallel_if(s[out], rows, work, PARALLEL_EXPONENTIALS, machine)
    vectors(s[out], machine)
    for stage in list(s.stages):
        if stage.op is s[out].op or not hasattr(stage.op, "body"):
            continue
        if stage is product or stage in before or stage.attach_type == INLINE:
            continue
        if stage.op.reduce_axis and row_run(stage.op.output(0), s) == 1:
            k = stage.op.reduce_axis[-1]
            for lanes in in_lanes(s, stage.op.output(0), k, extent_of(k), machine, stage.op.name):
                lanes.compute_at(s[out], rows)
        stage.compute_at(s[out], rows)
        if not stage.op.reduce_axis:
            vectors(stage, machine)
    if product is not None and piece is not None:
        kept = kept_inputs(s, product.op)
        for stage in before:
            if is_injective(stage.op) and stage not in kept:
                stage.compute_inline()
        result = product.op.output(0)
        schedule_contraction(s, result, result, machine, alone=False)
        product.compute_at(s[out], piece)


def _inline_cheap(s: Schedule) -> None:
    """Compute again, where they are read, elements that take no longer than it takes to keep them:
    those without calls of functions or divisions, and those that one element-wise stage reads."""
    readers = s.consumers()
    for stage in s.stages:
        if not stage.is_output and is_injective(stage.op):
            dear = any(isinstance(e, (Call, Div)) for e in walk(stage.op.body[0]))
            single = [not x.op.reduce_axis for x in readers[stage.op.output(0)]] == [True]
            if extent_of(stage.op.axis[-1]) > 1 and (single or not dear):
                stage.compute_inline()


def _uneven(pieces: int, out: Tensor, machine: Machine) -> bool:
    """Whether threads would wait for the last of some pieces for longer than it takes to go through
    all stages one after another, which have to stay near the cores."""
    work, waits = work_of(out), machine.longest(pieces) - 1
    if pieces < machine.cores:
        return pieces > 0 and waits > 0 and work >= 2 * PARALLEL_EXPONENTIALS
    near = bytes_of(out) <= machine.cores * machine.l2_bytes // 2
    share = waits * work / machine.cores
    return near and waits > UNEVEN - 1 and share >= MORE_LOOPS * PARALLEL_EXPONENTIALS


def _in_parts(s: Schedule, machine: Machine) -> None:
    """Rows that cores do not share evenly: one stage after another, each by all threads."""
    for stage in list(s.stages):
        if not hasattr(stage.op, "body") or stage.attach_type == INLINE:
            continue
        if stage.op.reduce_axis:
            result = stage.op.output(0)
            schedule_reduce(s, result, result, machine)
        else:
            arrange(stage, list(stage.op.axis), machine)


def dimension_of(s: Schedule, out: Tensor) -> int:
    """Which dimension of the output the sums in front of it run along; the last, where none does
    alone."""
    axes = s[out].op.axis
    for stage in s.stages:
        if len(getattr(stage.op, "reduce_axis", ())) != 1 or len(stage.op.axis) != len(axes) - 1:
            continue
        k = stage.op.reduce_axis[0].var
        for load in loads_of(stage.op):
            if len(load.indices) == len(axes) and k in load.indices:
                return int(load.indices.index(k))
    return len(axes) - 1


def _down_columns(s: Schedule, out: Tensor, along: int, machine: Machine) -> None:
    """Columns side by side in vectors: all stages of a few vectors of them are computed together,
    down the columns, in parallel. What is a product or has other shapes is computed before."""
    work, shape = work_of(out), [extent_of(a) for a in out.op.axis]
    lanes = machine.lanes(out.dtype)
    stage = s[out]
    *others, last = stage.op.axis
    down = others.pop(along)
    column = max(1, shape[along]) * parse(out.dtype).nbytes * lanes
    wide = lanes * max(1, min(MOST_VECTORS, machine.l1_bytes // 2 // column))
    wide = min(wide, max(1, shape[-1]))
    pieces = prod(map(extent_of, others)) * -(-shape[-1] // wide)
    products = any(contraction_of(x.op) is not None for x in s.stages)
    if not products and _uneven(pieces, out, machine):
        _in_parts(s, machine)
        return
    chunk, last = stage.split(last, factor=wide)
    stage.reorder(*others, chunk, down, last)
    piece = stage.fuse(*others, chunk) if others else chunk
    parallel_if(stage, piece, work, PARALLEL_EXPONENTIALS, machine)
    _in_vectors(stage, last, wide, lanes)
    rest = [*shape[:along], *shape[along + 1 :]]
    for x in list(s.stages):
        if x.op is stage.op or not hasattr(x.op, "body"):
            continue
        sizes = [extent_of(a) for a in x.op.axis]
        if contraction_of(x.op) is not None or sizes not in (shape, rest):
            continue
        x.compute_at(stage, piece)
        if x.op.reduce_axis:
            x.reorder(*x.op.axis[:-1], *x.op.reduce_axis, x.op.axis[-1])
        _in_vectors(x, x.op.axis[-1], wide, lanes)


def _in_vectors(stage: Stage, last: IterVar, extent: int, lanes: int) -> None:
    if extent > lanes:
        _, last = stage.split(last, factor=lanes)
    if extent > 1:
        stage.vectorize(last)


def _ancestors(s: Schedule, stage: Stage) -> list[Stage]:
    found: list[Stage] = []
    for t in stage.op.input_tensors:
        if s[t] not in found and hasattr(s[t].op, "body"):
            found += [*(x for x in _ancestors(s, s[t]) if x not in found), s[t]]
    return found


def rows_at_once(batch: int, rows: int, nbytes: int, machine: Machine) -> int:
    """Rows of `nbytes` each, of which a quarter of the second-level cache holds the scores, fewer
    where there would not be enough pieces for the cores."""
    most = machine.l2_bytes // 4 // max(1, nbytes)
    least = -(-PIECES * machine.cores // max(batch, 1))
    size = min(max(most, LEAST_ROWS), max(LEAST_ROWS, -(-rows // least)), max(rows, 1))
    if not rows:
        return size

    def cost(count: int) -> float:
        waits = unevenness([1], max(batch, 1) * count, machine.cores)
        return waits * (1 + COPY_ROWS * count / rows)

    first = -(-rows // size)
    counts = range(first, min(MORE_PIECES * first, max(first, rows // LEAST_PACKED)) + 1)
    best = min(counts, key=cost)
    return -(-rows // (best if cost(best) * GAIN < cost(first) else first))
