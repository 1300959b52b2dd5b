"""Reductions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...loopir.expr import PrimExpr, const_int
from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.visit import free_vars, walk
from ...schedule.api import Schedule, Stage
from ...schedule.state import INLINE
from ...tensor.tensor import Tensor
from .cuts import unevenness
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
from .memory_order import steps_of, uses_of
from .parts import STEPS, parts_of, step_of_parts, sum_of_parts
from .shares import share_rows

CHAINS = 4  # vectors that are added to in turns
LEAST_LANES = 4  # of vectors along a short run
SHORT_SUM = 4  # vectors along the reduction of a product that pay for adding the lanes of one


def schedule_global_pool(s: Schedule, pool: Tensor, out: Tensor, machine: Machine) -> None:
    """Images that lie behind one another are rows of a reduction, those in blocks of channels are
    columns, in parts where there are few."""
    whole = row_run(pool) == len(pool.op.reduce_axis)
    few = prod(map(extent_of, pool.op.axis[:-1])) < PIECES * machine.cores
    alike = whole or (few and runs_down_columns(pool))
    (schedule_reduce if alike else schedule_pool)(s, pool, out, machine)


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
    vectors of columns. Where there are too few of either for the cores, each of them reduces a part
    first."""
    op, name = red.op, red.op.name
    if not op.reduce_axis:
        _plain(s, red, out, machine)
        return
    run = row_run(red, s)
    columns = not run and runs_down_columns(red, s)
    work, results = work_of(red), prod(map(extent_of, op.axis))
    sizes, times = [1], results
    if columns:
        n = extent_of(op.axis[-1])
        width = _width_of_columns(n, red, machine)
        sizes, times = [min(width, n - at) for at in range(0, n, width)], results // max(1, n)

    def waits(parts: int) -> float:
        return unevenness(sizes, parts * times, machine.cores)

    along = list(op.reduce_axis[-run:]) if run else []
    others = [a for a in op.reduce_axis if a not in along]
    cut = max(others, key=extent_of) if others else None
    length = extent_of(cut) if cut is not None else prod(map(extent_of, along))
    if cut is not None and run and length < PIECES * machine.cores:
        cut, length = None, prod(map(extent_of, along))
    parts = parts_of(len(sizes) * times, length, work, results, STEPS, machine, waits)
    first, end = red, out
    if parts > 1:
        first = end = _in_parts(s, red, cut, along, parts, machine)
        along = list(first.op.reduce_axis[-1:]) if cut is None else along
    if run:
        k = s[first].fuse(*along) if len(along) > 1 else along[0]
        _rows(s, first, k, prod(map(extent_of, along)), end, machine, work, name)
    elif not columns:
        _plain(s, first, end, machine)
    elif op.num_outputs > 1:
        _columns_of_several(s, first, machine)
    else:
        _columns(s, first, end, machine, work, name)
    if parts > 1:
        sum_of_parts(s, red, out, machine)


def _in_parts(
    s: Schedule,
    red: Tensor,
    cut: IterVar | None,
    along: list[IterVar],
    parts: int,
    machine: Machine,
) -> Tensor:
    """The reduction of parts of an axis, or, where there is none to `cut`, of the run `along` some;
    of several outputs the first one."""
    whole = 1
    if cut is None:
        cut = s[red].fuse(*along) if len(along) > 1 else along[0]
        whole = CHAINS * _lanes(red, machine)  # only the last part has a rest
    length = prod(map(extent_of, along)) if whole > 1 else extent_of(cut)
    part, _ = s[red].split(cut, factor=step_of_parts(length, parts, whole))
    found = s.rfactor(red, part)
    first: Tensor = found[0] if isinstance(found, list) else found
    return first


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


def _width_of_columns(n: int, red: Tensor, machine: Machine) -> int:
    """How many of n neighbouring columns (0: not known) are added up together."""
    lanes = _lanes(red, machine)
    return lanes if red.op.num_outputs > 1 or 0 < n < CHAINS * lanes else CHAINS * lanes


def _columns(s: Schedule, red: Tensor, out: Tensor, machine: Machine, work: int, name: str) -> None:
    """Some vectors of neighbouring columns at a time, over all of the reduction."""
    lanes = machine.lanes(red.dtype)
    if red.op is out.op:
        red = s.cache_write(out, "local")
    *outer, j = s[out].op.axis
    chains = nearby(_width_of_columns(extent_of(j), red, machine) // lanes, 1, 2, 4, 8, 16)
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


def _read_by(red: Tensor, s: Schedule | None) -> list[tuple[Tensor, Sequence[PrimExpr]]]:
    """What a reduction reads, and where; behind the stages that a schedule inlines into it."""
    if s is not None:
        return uses_of(s[red]).reads
    return [(e.producer, e.indices) for e in reads_of(red)]


def row_run(red: Tensor, s: Schedule | None = None) -> int:
    """How many of the last reduction axes are together a run in the memory of all that is read
    along them; 0 where the last is none."""
    axes = red.op.reduce_axis
    variables = {a.var for a in axes}
    found = 0
    for t, indices in _read_by(red, s):
        if not variables.intersection(v for x in indices for v in free_vars(x)):
            continue
        steps = steps_of(t, indices, axes)
        run = _run_by_index(axes, t, indices) if steps is None else _run_by_steps(axes, steps)
        found = min(found or run, run)
        if not run:
            return 0
    return found


def _run_by_steps(axes: Sequence[IterVar], steps: Sequence[int]) -> int:
    """How many of the last axes go on where the one behind them ends."""
    run, wanted = 0, 1
    for a, step in zip(axes[::-1], steps[::-1]):
        if extent_of(a) != 1:
            if step != wanted:
                break
            wanted = step * extent_of(a)
        run += 1
    return run


def _run_by_index(axes: Sequence[IterVar], t: Tensor, indices: Sequence[PrimExpr]) -> int:
    """The same where the extents of a tensor are not all known."""
    variables = {a.var for a in axes}
    run = 0
    places = [
        (x, d)
        for x, d in zip(indices, t.shape)
        if const_int(d) != 1 or any(x is v for v in variables)
    ]
    for a, (x, d) in zip(axes[::-1], places[::-1]):
        if x is not a.var:
            break
        run += 1
        if extent_of(a) != (const_int(d) or -1):
            break
    return run


def in_rows(red: Tensor, machine: Machine, s: Schedule | None = None) -> bool:
    """Whether vectors of a product run along its reduction, together in memory, since a vector of
    its few columns would be empty for the most part."""
    lanes = machine.lanes(red.dtype)
    if lanes < 2 or not 0 < extent_of(red.op.axis[-1]) <= max(1, lanes // 4):
        return False
    run = row_run(red, s)
    return run > 0 and prod(map(extent_of, red.op.reduce_axis[-run:])) >= SHORT_SUM * lanes


def runs_down_columns(red: Tensor, s: Schedule | None = None) -> bool:
    """Whether all that is read has the last data axis as its last index, and only there."""
    reads = _read_by(red, s)
    last = red.op.axis[-1].var if red.op.axis else None
    return bool(reads) and all(
        indices and indices[-1] is last and not any(last in free_vars(x) for x in indices[:-1])
        for _, indices in reads
    )
