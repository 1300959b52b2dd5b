"""Reductions and pooling."""

from __future__ import annotations

from math import prod

from ...loopir.expr import const_int
from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.visit import free_vars, walk
from ...schedule.api import Schedule, Stage
from ...schedule.state import INLINE
from ...tensor.tensor import Tensor
from .machine import (
    PARALLEL_STEPS,
    PIECES,
    Machine,
    extent_of,
    nearby,
    parallel_if,
    size_of,
    work_of,
)
from .shares import share_rows

CHAINS = 4  # vectors that are added to in turns
LEAST_LANES = 4  # of vectors along a short run
SHORT_SUM = 4  # vectors along the reduction of a product that pay for adding the lanes of one


def schedule_global_pool(s: Schedule, pool: Tensor, out: Tensor, machine: Machine) -> None:
    """Images that lie behind one another are rows of a reduction."""
    whole = row_run(pool) == len(pool.op.reduce_axis)
    (schedule_reduce if whole else schedule_pool)(s, pool, out, machine)


def schedule_pool(s: Schedule, pool: Tensor, out: Tensor, machine: Machine) -> None:
    """Windows of a block of channels (or of a row) at a time, in vectors along the last
    dimension. Rows are padded before, so that vectors of them are read without conditions.
    """
    stage = s[out]
    pad = _padding_of(s, pool)
    lanes = machine.lanes(pool.dtype)
    *outer, last = stage.op.axis
    size = extent_of(last)
    inner = last
    if size > lanes:
        chunk, inner = stage.split(last, factor=lanes)
        outer = [*outer, chunk]
    if size > 1:
        stage.vectorize(inner)
    loops = [extent_of(a) for a in stage.op.axis[:3]]
    head = stage.fuse(*outer[:3]) if len(outer) >= 3 else stage.fuse(*outer)
    if parallel_if(stage, head, work_of(pool), PARALLEL_STEPS, machine) and len(loops) > 2:
        share_rows(stage, head, loops, machine)
    if pad is not None:
        _, inner_pad = pad.split(pad.op.axis[-1], factor=lanes)
        pad.vectorize(inner_pad)
        pad.compute_at(stage, head)
    if pool.op is not out.op:
        s[pool].compute_at(stage, outer[3] if len(outer) > 3 else head)
        *_, last = s[pool].op.axis
        s[pool].reorder(*s[pool].op.axis[:-1], *s[pool].op.reduce_axis, last)
        if 1 < size <= lanes or size > lanes:
            s[pool].vectorize(last)
    else:
        stage.reorder(*stage.op.reduce_axis, inner)


def _padding_of(s: Schedule, pool: Tensor) -> Stage | None:
    """The stage that pads rows for a pool, which then is not inlined; None where there is none, or
    only rows of vectors are added, whose conditions are of whole vectors."""
    pads = [s[t] for t in pool.op.input_tensors if s[t].op.tag.endswith("pad")]
    if not pads or pads[0].attach_type == INLINE:
        return None
    (stage,) = pads
    rows = [size_of(t.shape[-1]) for t in (stage.op.output(0), *stage.op.input_tensors)]
    if rows[0] == rows[1] or not extent_of(pool.op.axis[-1]):
        stage.compute_inline()
        return None
    return stage


def schedule_reduce(s: Schedule, red: Tensor, out: Tensor, machine: Machine) -> None:
    """Reductions along rows in memory run in lanes of partial results, those down columns in
    vectors of columns. Where the output has too few elements for the cores, each of them reduces a
    part first."""
    op = red.op
    run = row_run(red)
    if not (run or runs_down_columns(red)):
        _plain(s, red, out, machine)
        return
    if op.num_outputs > 1 and not run:
        _columns_of_several(s, red, machine)
        return
    work, least = work_of(red), PIECES * machine.cores
    axes = op.reduce_axis[-run:] if run else [max(op.reduce_axis, key=extent_of)]
    k = s[red].fuse(*axes) if len(axes) > 1 else axes[0]
    size = prod(map(extent_of, axes))
    tiles = prod(map(extent_of, op.axis))
    if not run:
        tiles = -(-tiles // (CHAINS * machine.lanes(red.dtype)))
    if op.num_outputs > 1:
        _rows(s, red, k, size, out, machine, work, op.name)
    elif work >= 2 * PARALLEL_STEPS and 0 < tiles < least and size > least:
        whole = CHAINS * machine.lanes(red.dtype) if run else 1  # only the last part has a rest
        steps = -(-size // (least * whole)) * whole
        part, _ = s[red].split(k, factor=steps)
        parts = s.rfactor(red, part)
        if run:
            _rows(s, parts, parts.op.reduce_axis[-1], steps, parts, machine, work, op.name)
        else:
            _columns(s, parts, parts, machine, work, op.name)
        if red.op is not out.op and s[out].op.axis:
            s[red].compute_at(s[out], s[out].op.axis[-1])
    elif run:
        _rows(s, red, k, size, out, machine, work, op.name)
    else:
        _columns(s, red, out, machine, work, op.name)


def _plain(s: Schedule, red: Tensor, out: Tensor, machine: Machine) -> None:
    axes = list(s[out].op.axis)
    if not axes:
        return
    head = s[out].fuse(*axes[:-1]) if len(axes) > 2 else axes[0]
    parallel_if(s[out], head, work_of(red), PARALLEL_STEPS, machine)
    if red.op is not out.op:
        s[red].compute_at(s[out], head)


def _rows(
    s: Schedule,
    red: Tensor,
    k: IterVar,
    size: int,
    out: Tensor,
    machine: Machine,
    work: int,
    name: str,
) -> None:
    """Along axis `k` of `size` steps: partial results in the lanes of some vectors, added up as a
    tree. `name`: of the reduction as written."""
    partial = in_lanes(s, red, k, size, machine, name)
    axes = list(s[out].op.axis)
    head = s[out].fuse(*axes) if len(axes) > 1 else axes[0] if axes else None
    if head is None:
        return
    parallel_if(s[out], head, work, PARALLEL_STEPS, machine)
    for stage in (*partial, *([s[red]] if red.op is not out.op else [])):
        stage.compute_at(s[out], head)


def in_lanes(
    s: Schedule, red: Tensor, k: IterVar, size: int, machine: Machine, name: str
) -> list[Stage]:
    """Reduce along `k` of `size` steps, a run in memory, into the lanes of some vectors first,
    of half a run or more, and of several outputs those into fewer; their stages, in order, none
    where the run is too short for that."""
    lanes = _lanes(red, machine)
    least = max(2, min(LEAST_LANES, lanes))  # of 16 bytes, doubles have two
    while size < lanes:
        lanes //= 2
    if lanes < least:
        return []
    most = max(1, size // (4 * lanes))
    chains = nearby(CHAINS if most >= CHAINS else 1, 1, 2, 4, 8, most=most)
    width = lanes * machine.choose(name, "chains", chains)[0]
    if red.op.num_outputs == 1:
        stage = _partial(s, red, k, width, lanes)
        s[red].pragma(s[red].op.reduce_axis[0], "tree_reduce")
        return [stage]
    # several outputs have no tree: vectors become one, and that a shorter one
    stages = [_partial(s, red, k, width, lanes)]
    for fewer in (lanes, least):
        if fewer < width:
            stages.append(_partial(s, red, s[red].op.reduce_axis[0], fewer, fewer))
            width = fewer
    return stages


def _partial(s: Schedule, red: Tensor, k: IterVar, width: int, lanes: int) -> Stage:
    """The stage of `width` results, in vectors of `lanes`, of what is left to be reduced."""
    _, lane = s[red].split(k, factor=width)
    parts = s.rfactor(red, lane, len(red.op.axis))
    stage = s[parts[0] if isinstance(parts, list) else parts]
    *data, lane = stage.op.axis
    several, one = stage.split(lane, factor=lanes)
    stage.reorder(*data, *stage.op.reduce_axis, several, one)
    stage.vectorize(one)
    stage.unroll(several)
    return stage


def _lanes(red: Tensor, machine: Machine) -> int:
    """Elements of a vector of each output of a reduction."""
    return min(machine.lanes(t.dtype) for t in red.op.outputs)


def _columns_of_several(s: Schedule, red: Tensor, machine: Machine) -> None:
    """A vector of neighbouring columns at a time, of all outputs together."""
    stage = s[red]
    *outer, j = stage.op.axis
    jo, jv = stage.split(j, factor=_lanes(red, machine))
    stage.reorder(*outer, jo, *stage.op.reduce_axis, jv)
    stage.vectorize(jv)
    piece = stage.fuse(*outer, jo) if outer else jo
    parallel_if(stage, piece, work_of(red), PARALLEL_STEPS, machine)


def _columns(s: Schedule, red: Tensor, out: Tensor, machine: Machine, work: int, name: str) -> None:
    """Some vectors of neighbouring columns at a time, over all of the reduction."""
    lanes = machine.lanes(red.dtype)
    if red.op is out.op:
        red = s.cache_write(out, "local")
    *outer, j = s[out].op.axis
    n = extent_of(j)
    chains = nearby(CHAINS if not n or n >= CHAINS * lanes else 1, 1, 2, 4, 8, 16)
    width = lanes * machine.choose(name, "chains", chains)[0]
    jo, ji = s[out].split(j, factor=width)
    jp, jv = s[out].split(ji, factor=lanes)
    s[out].vectorize(jv)
    piece = s[out].fuse(*outer, jo) if outer else jo
    parallel_if(s[out], piece, work, PARALLEL_STEPS, machine)
    stage = s[red]
    stage.compute_at(s[out], piece)
    *outer, j = stage.op.axis
    jp, jv = stage.split(j, factor=lanes)
    stage.reorder(*outer, *stage.op.reduce_axis, jp, jv)
    stage.vectorize(jv)
    stage.unroll(jp)


def reads_of(red: Tensor) -> list[ProducerLoad]:
    sources = red.op.body[0].source
    return [e for source in sources for e in walk(source) if isinstance(e, ProducerLoad)]


def row_run(red: Tensor) -> int:
    """How many of the last reduction axes are together a run in the memory of all that is read
    along them; 0 where the last is none."""
    axes = red.op.reduce_axis
    variables = {a.var for a in axes}
    found = 0
    for e in reads_of(red):
        if not variables.intersection(v for x in e.indices for v in free_vars(x)):
            continue
        run = 0
        places = [
            (x, d)
            for x, d in zip(e.indices, e.producer.shape)
            if const_int(d) != 1 or any(x is v for v in variables)
        ]
        for a, (x, d) in zip(axes[::-1], places[::-1]):
            if x is not a.var:
                break
            run += 1
            if extent_of(a) != (const_int(d) or -1):
                break
        found = min(found or run, run)
        if not run:
            return 0
    return found


def in_rows(red: Tensor, machine: Machine) -> bool:
    """Whether vectors of a product run along its reduction, together in memory, since a vector of
    its few columns would be empty for the most part."""
    lanes = machine.lanes(red.dtype)
    if lanes < 2 or not 0 < extent_of(red.op.axis[-1]) <= max(1, lanes // 4):
        return False
    run = row_run(red)
    return run > 0 and prod(map(extent_of, red.op.reduce_axis[-run:])) >= SHORT_SUM * lanes


def runs_down_columns(red: Tensor) -> bool:
    """Whether all that is read has the last data axis as its last index, and only there."""
    reads = reads_of(red)
    last = red.op.axis[-1].var if red.op.axis else None
    return bool(reads) and all(
        e.indices
        and e.indices[-1] is last
        and not any(last in free_vars(x) for x in e.indices[:-1])
        for e in reads
    )
