"""Pooling and reductions on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....loopir.iter import IterVar
from ....loopir.visit import free_vars
from ....schedule.api import Schedule, Stage
from ....target.capability import shuffled
from ....tensor.axes import thread_axis
from ....tensor.tensor import Tensor
from ..machine import extent_of, known_extent, largest_divisor, size_of_axes, whole_vectors
from ..memory_order import uses_of
from ..reduce import reads_of, row_run
from .columns import MOST_HELD, held_rows, schedule_columns
from .injective import arrange
from .machine import GpuMachine, bind, bind_rows, fused, planned_size
from .planes import schedule_planes
from .reduce_parts import first, in_parts, parts_of

MANY_ROWS = 4096  # outputs that fill a GPU with a thread each
MANY_WARPS = 1024  # rows that fill it with a warp each
FEW_VECTORS = 4  # of a lane, that are no work for more than a warp
SHORT_ROW = 32  # elements that are no work for a warp


def inline_padding(s: Schedule, windows: Tensor) -> None:
    """Let windows compute what they read of padding."""
    for t in s[windows].op.input_tensors:
        if t.op.tag.endswith("pad"):
            s[t].compute_inline()


def schedule_pool(s: Schedule, pool: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """A vector of neighbours in some rows a thread; of other layouts a window, or a vector of
    channels of one."""
    if schedule_planes(s, pool, out, machine):
        return
    inline_padding(s, pool)
    stage = s[out]
    axes = list(stage.op.axis)
    lanes = min(machine.lanes(e.dtype) for e in reads_of(pool))
    last = extent_of(axes[-1])
    vectors = last > 0 and last % lanes == 0 and _moves_aside(pool)
    if pool.op is out.op:
        pool = s.cache_write(out, "local")
        stage, axes = s[out], list(s[out].op.axis)
    if vectors:
        chunk, vector = stage.split(axes[-1], factor=lanes)
        stage.vectorize(vector)
        axes = [*axes[:-1], chunk]
    block, thread = stage.split(fused(stage, axes), factor=machine.threads)
    bind(stage, block, "blockIdx.x")
    bind(stage, thread, "threadIdx.x")
    inner = s[pool]
    inner.compute_at(stage, thread)
    if vectors:
        lane = inner.op.axis[-1]
        inner.reorder(*inner.op.axis[:-1], *inner.op.reduce_axis, lane)
        inner.vectorize(lane)


def _moves_aside(windows: Tensor) -> bool:
    """Whether neighbours in the result are those in memory, which windows do not move over."""
    last = windows.op.axis[-1].var
    return all(e.indices[-1] is last for e in reads_of(windows))


def schedule_reduce(s: Schedule, red: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """Rows by warps, or blocks where there are few rows, and columns by some threads each, all in
    vectors; of other reductions a thread for each result where there are many, else a block for
    each. What leaves most of a GPU without work so is cut in parts (reduce_parts.py)."""
    op = s[red].op
    run = row_run(red) if machine.shared else 0
    held = held_rows(red) if machine.shared and not run else None
    if held is not None:
        schedule_columns(s, red, out, held, machine)
        return
    rows, steps = size_of_axes(op.axis), planned_size(op.reduce_axis)
    is_short = not run or planned_size(op.reduce_axis[-run:]) <= SHORT_ROW
    few = 0 < steps <= 4 * max(machine.warp, 1)
    if is_short and (rows >= MANY_ROWS or few):
        _threads(s, red, out, run, machine)
        return
    lanes = lanes_along(s[red], op.reduce_axis[-run:], machine) if run else 1
    row = Row.of(op, run, lanes, machine)
    parts = parts_of(op.name, row.blocks, row.loads, machine)
    if parts == 1:
        _rows(s, red, out, row, machine)
        return
    partial = in_parts(s, red, parts, len(op.axis), lanes, row.threads)
    _rows(s, partial, partial, Row.of(partial.op, 0, lanes, machine), machine)
    op = s[red].op
    lanes = lanes_along(s[red], op.reduce_axis, machine)
    _rows(s, red, out, Row.of(op, 1, lanes, machine), machine)


def _threads(s: Schedule, red: Tensor, out: Tensor, run: int, machine: GpuMachine) -> None:
    """A thread for each result, or for some neighbours; the last axes, a `run` in memory, in
    vectors."""
    if red.op is out.op:
        red = first(s.cache_write(list(s[out].op.outputs), "local"))
        _row_in_vectors(s, red, run, machine)
        at = s[out]
        s[red].compute_at(at, bind_rows(at, fused(at, list(at.op.axis)), machine.threads))
        return
    _row_in_vectors(s, red, run, machine)
    stage = s[red]
    arrange(s[out], list(s[out].op.axis), machine)
    stage.compute_at(s[out], s[out].leaf_iter_vars[1])
    if len(s[out].leaf_iter_vars) > 2:  # a vector of results a thread
        machine.unroll(s[red], s[red].op.axis[-1])


def _row_in_vectors(s: Schedule, red: Tensor, run: int, machine: GpuMachine) -> None:
    """What a thread sums of a row, lane by lane of the vectors that it reads."""
    stage = s[red]
    axes = list(stage.op.reduce_axis[-run:]) if run and stage.op.axis else []
    lanes = lanes_along(stage, axes, machine)
    if axes and lanes > 1:
        _, lane = stage.split(fused(stage, axes), factor=lanes)
        vector = first(s.rfactor(red, lane, len(stage.op.axis)))
        _in_vectors(s[vector])
        s[vector].compute_at(s[red], s[red].op.axis[-1])
        s[red].unroll(s[red].op.reduce_axis[0])


@dataclass(frozen=True)
class Row:
    """How rows are reduced: `run` of the last reduction axes among `threads`, which have vectors of
    so many `lanes`; those of several rows in a block (`at_once`) where a warp has one."""

    run: int
    lanes: int
    threads: int
    at_once: int
    blocks: int
    loads: int  # of a thread, for a row

    @staticmethod
    def of(op: Any, run: int, lanes: int, machine: GpuMachine) -> Row:
        """Of a reduction whose last axes are a run in memory, if any are. All axes are shared out
        where the run has too few steps for the threads that all have work for."""
        rows, every = size_of_axes(op.axis), len(op.reduce_axis)
        all_steps = planned_size(op.reduce_axis)
        steps = planned_size(op.reduce_axis[-run:]) if run else all_steps
        if threads_for(steps // lanes, machine) < threads_for(all_steps // lanes, machine):
            run, steps = every, all_steps
        many = machine.shared and rows_by_warps(rows, steps, lanes, machine)
        threads = machine.warp if many else threads_for(steps // lanes, machine)
        at_once = rows_of_block(rows, threads, op.outputs, machine) if many else 1
        loads = -(-all_steps // (lanes * threads))
        return Row(run or every, lanes, threads, at_once, -(-rows // at_once), loads)


def lanes_along(
    stage: Stage, along: Sequence[IterVar], machine: GpuMachine, inlined: Sequence[Stage] = ()
) -> int:
    """Elements of the widest access of all that a stage reads along some axes, a run in memory,
    itself or by what is inlined into it, or is to be (`inlined`). What is the same for a whole row
    does not count, nor does what all rows share, beside what each has of its own: it is little, and
    comes in as many accesses as it takes."""
    variables = {a.var for a in along}
    rows = {a.var for a in stage.op.axis} - variables
    own: list[int] = []
    shared: list[int] = []
    for t, indices in uses_of(stage, inlined).reads:
        used = set().union(*map(free_vars, indices))
        if used & variables:
            (own if used & rows else shared).append(machine.lanes(t.dtype))
    if not (along and known_extent(along[-1])):
        return 1
    whole = prod(known_extent(a) or 1 for a in along)  # as those that are not known have each
    return whole_vectors(whole, min(own or shared, default=machine.lanes("float32")))


def _rows(s: Schedule, red: Tensor, out: Tensor, row: Row, machine: GpuMachine) -> None:
    """A warp for each row where there are many, else a block: each thread has some vectors."""
    part, vector = part_row(s, red, row.run, row.lanes, row.threads)
    stage = s[red]
    at = stage if red.op is out.op else s[out]
    axes = _by_reads(red, list(at.op.axis))
    at.reorder(*axes)
    block, which = at.split(fused(at, axes), factor=row.at_once)
    bind(at, block, "blockIdx.x")
    bind(at, which, "threadIdx.y")
    if at is not stage:
        stage.compute_at(at, which)
    lane = together(s, red, part, vector, row.threads)
    if at is stage:
        stage.set_store_predicate(lane.var.equal(0))


def _by_reads(red: Tensor, axes: list[IterVar]) -> list[IterVar]:
    """The axes of the results in an order in which a few that read the same of an operand follow
    each other: it comes from memory once."""
    reads = [set().union(*map(free_vars, e.indices)) for e in reads_of(red)]
    alike = [
        1 < extent_of(a) <= MOST_HELD and not all(a.var in found for found in reads)
        for a in red.op.axis
    ]
    return [a for late in (False, True) for a, found in zip(axes, alike) if found is late]


def rows_by_warps(rows: int, steps: int, lanes: int, machine: GpuMachine) -> bool:
    """Whether a warp has a row, rather than a block: there are many, or they are short."""
    return rows >= MANY_WARPS or 0 < steps <= machine.warp * lanes * FEW_VECTORS


def rows_of_block(rows: int, threads: int, sums: Sequence[Tensor], machine: GpuMachine) -> int:
    """Rows of a block (of 0, not known), by so many threads each that make these sums of them: a
    divisor of all where threads that put parts together have to wait for others, since none may be
    left out then; lanes of a warp do not."""
    most = machine.threads // threads
    even = largest_divisor(rows, most) if rows else 1
    alone = threads <= machine.warp and all(shuffled(t.dtype) for t in sums)
    return min(most, rows or most) if alone and 2 * even <= most else even


def part_row(
    s: Schedule, red: Tensor, run: int, lanes: int, threads: int
) -> tuple[Tensor, Tensor | None]:
    """What each of so many threads sums of a row, in interleaved vectors, and the lanes of those
    (None where they have one)."""
    stage = s[red]
    k = fused(stage, list(stage.op.reduce_axis[-run:]))
    rest, _ = stage.split(k, factor=lanes)
    _, inner = stage.split(rest, factor=threads)
    part = first(s.rfactor(red, inner))
    if lanes == 1:
        return part, None
    vector = first(s.rfactor(part, s[part].op.reduce_axis[-1], len(s[part].op.axis)))
    _in_vectors(s[vector])
    return part, vector


def together(
    s: Schedule, red: Tensor, part: Tensor, vector: Tensor | None, threads: int
) -> IterVar:
    """Have threads put the parts of a row (`part_row`) together; the threads."""
    stage = s[red]
    lane = thread_axis((0, threads), "threadIdx.x")
    stage.bind(stage.op.reduce_axis[0], lane)
    s[part].compute_at(stage, stage.op.reduce_axis[0])
    if vector is not None:
        s[vector].compute_at(s[part], s[part].op.axis[-1])
        s[part].unroll(s[part].op.reduce_axis[0])
    return lane


def share_row(stage: Stage, threads: int, lanes: int) -> None:
    """The last axis in vectors, interleaved among threads."""
    last = stage.leaf_iter_vars[-1]
    if lanes > 1:
        last, vector = stage.split(last, factor=lanes)
        stage.vectorize(vector)
    _, thread = stage.split(last, factor=threads)
    bind(stage, thread, "threadIdx.x")


def _in_vectors(stage: Stage) -> None:
    """Sums of each lane of vectors."""
    *axes, lane = stage.op.axis
    stage.reorder(*axes, *stage.op.reduce_axis, lane)
    stage.vectorize(lane)


def threads_for(steps: int, machine: GpuMachine) -> int:
    """A power of two that leaves each thread some steps; all where those are not known."""
    threads = 1 if steps else machine.threads
    while threads * 2 <= machine.threads and threads * 4 <= max(steps, 4):
        threads *= 2
    return threads
