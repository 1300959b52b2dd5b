"""Reductions down columns on a GPU, and products of a few rows with a matrix.

Threads side by side have vectors of neighbouring columns, so that they read lines of memory
together; what is read for each column is the same for a few rows of a product, whose sums a thread
holds together. Where columns are too few for a GPU, threads of a block have interleaved steps of
the same columns, whose sums they add through shared memory, and blocks have parts of the steps
(reduce_parts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....base.dtype import parse
from ....loopir.expr import const_int
from ....loopir.iter import IterVar
from ....loopir.visit import free_vars
from ....schedule.api import Schedule, Stage
from ....tensor.op import domain
from ....tensor.tensor import Tensor
from ..machine import extent_of, known_extent, largest_divisor, size_of_axes, whole_vectors
from ..reduce import reads_of
from .machine import GpuMachine, bind, bind_rows, fused, planned_size, steps_of
from .reduce_parts import AT_ONCE, LEAST_LOADS, first, in_parts, parts_of

MOST_HELD = 4  # rows of a product, of which a thread has a vector each in registers
MOST_HIGH = 32  # threads whose sums another adds one after another
UNROLLED = 4  # steps of a few rows, whose loads are under way together
MOST_SHARED = 32 << 10  # bytes of those sums


def held_rows(red: Tensor) -> list[int] | None:
    """The data axes (their numbers) that columns are the same for, of which there are a few places
    together; None where a reduction does not run down columns."""
    if not red.op.axis:
        return None
    *axes, last = (a.var for a in red.op.axis)
    used: set[Any] = set()
    for e in reads_of(red):
        variables = [{*free_vars(x)} for x in e.indices]
        if any(last in found for found in variables):
            if e.indices[-1] is not last or any(last in found for found in variables[:-1]):
                return None
            used.update(*variables)
    held = [n for n, v in enumerate(axes) if v not in used]
    few = 0 < prod(const_int(domain(red.op.axis[n]).extent) or 0 for n in held) <= MOST_HELD
    return held if used and few else None


@dataclass(frozen=True)
class Columns:
    """How columns are reduced: by `across` threads side by side that have vectors of so many
    `lanes`, of all rows that are `held`, each `high` times, of interleaved steps. All that are
    read lie in so many `blocks`, where a thread has some `loads`."""

    held: list[int]
    lanes: int
    across: int
    high: int
    blocks: int
    loads: int

    @staticmethod
    def of(red: Tensor, held: list[int], machine: GpuMachine) -> Columns:
        """For what `held_rows` says of a reduction."""
        axes, lanes = red.op.axis, _lanes_across(red, machine)
        vectors, steps = extent_of(axes[-1]) // lanes, planned_size(red.op.reduce_axis)
        others = size_of_axes([a for n, a in enumerate(axes[:-1]) if n not in held])
        across = machine.warp
        while vectors and across >= 2 * vectors:
            across //= 2
        bytes_each = sum(parse(t.dtype).nbytes for t in red.op.outputs)
        row = across * lanes * size_of_axes([axes[n] for n in held]) * bytes_each
        most = min(machine.threads // across, MOST_HIGH, max(1, MOST_SHARED // row))
        enough, high = AT_ONCE * machine.filling * machine.threads, 1
        while 2 * high <= most and vectors * others * high < enough:
            if steps and steps < 2 * high * LEAST_LOADS:
                break
            high *= 2
        return Columns(held, lanes, across, high, others * -(-vectors // across), -(-steps // high))


def _lanes_across(red: Tensor, machine: GpuMachine) -> int:
    """Elements of the widest access to neighbouring columns."""
    j = red.op.axis[-1]
    reads = [e for e in reads_of(red) if e.indices and e.indices[-1] is j.var]
    lanes = min(machine.lanes(e.dtype) for e in reads)
    return whole_vectors(known_extent(j) or 1, lanes)


def schedule_columns(
    s: Schedule, red: Tensor, out: Tensor, held: list[int], machine: GpuMachine
) -> None:
    """A reduction down columns, of `held` rows each, in parts where those are few."""
    how = Columns.of(red, held, machine)
    parts = parts_of(red.op.name, how.blocks, how.loads, machine) if how.high > 1 else 1
    if parts > 1:
        partial = in_parts(s, red, parts, 0, 1, how.high)
        how = Columns.of(partial, [n + 1 for n in held], machine)
        _columns(s, partial, partial, how, machine)
        how = Columns.of(s[red].op.output(0), [], machine)
    _columns(s, red, out, how, machine)


def _columns(s: Schedule, red: Tensor, out: Tensor, how: Columns, machine: GpuMachine) -> None:
    """Sums of a thread alone, or of several, which wait in shared memory: whoever adds them has
    what follows."""
    if red.op is out.op:
        red = first(s.cache_write(list(s[out].op.outputs), "local"))
    at = s[out]
    if how.high == 1:
        *_, j = axes = list(at.op.axis)
        held = [axes[n] for n in how.held]
        j, lane = at.split(j, factor=how.lanes)
        whole = [a for a in (*axes[:-1], j) if a not in held]
        at.reorder(*whole, *held, lane)
        thread = bind_rows(at, fused(at, whole), machine.threads)
        _in_vectors(at, held, lane)
        s[red].compute_at(at, thread)
        _sums(s[red], how.held, machine)
        return
    k = fused(s[red], list(s[red].op.reduce_axis))
    _, inner = s[red].split(k, factor=how.high)
    part = first(s.rfactor(red, inner))
    block, thread, lanes = _added(at, s[red], how, machine)
    total = s[red]
    total.compute_at(at, thread)
    *_, j = total.op.axis
    total.reorder(*total.op.axis[:-1], *total.op.reduce_axis, j)
    if total.op.num_outputs == 1:  # of several, what is combined is long as it is
        machine.unroll(total, total.op.reduce_axis[0])
    if lanes > 1:
        total.vectorize(j)
    sums = first(s.cache_write(list(s[part].op.outputs), "local"))
    kept, places = s[part], [n + 1 for n in how.held]
    kept.set_scope("shared")
    kept.compute_at(at, block)
    inner, *axes, j = kept.op.axis
    j, lane = kept.split(j, factor=how.lanes)
    kept.reorder(inner, j, *axes, lane)
    thread = _threads(kept, kept.fuse(inner, j), how.across * how.high)
    _in_vectors(kept, axes, lane)
    s[sums].compute_at(kept, thread)
    _sums(s[sums], places, machine)


def _added(
    at: Stage, total: Stage, how: Columns, machine: GpuMachine
) -> tuple[IterVar, IterVar, int]:
    """The loops over blocks and threads of what all sums of a block are added by, and the lanes of
    its vectors."""
    *_, j = axes = list(at.op.axis)
    types = [at.op.output_dtype(0), *(t.dtype for t in total.op.outputs)]
    lanes = whole_vectors(how.lanes, min(map(machine.lanes, types)))
    held = [axes[n] for n in how.held]
    j, near = at.split(j, factor=how.across * how.lanes)
    whole = [a for a in (*axes[:-1], j) if a not in held]
    at.reorder(*whole, *held, near)
    block = fused(at, whole)
    bind(at, block, "blockIdx.x")
    flat = fused(at, [*held, near])
    if lanes > 1:
        flat, lane = at.split(flat, factor=lanes)
        at.vectorize(lane)
    # evenly: what others would read beside the block's columns would have to be there, too
    threads = largest_divisor(steps_of(at, flat), how.across * how.high)
    return block, _threads(at, flat, threads), lanes


def _threads(stage: Stage, flat: IterVar, threads: int) -> IterVar:
    """Share what is left of a stage out among so many threads of a block."""
    rest, thread = stage.split(flat, factor=threads)
    bind(stage, thread, "threadIdx.x")
    stage.unroll(rest)
    return thread


def _sums(stage: Stage, held: list[int], machine: GpuMachine) -> None:
    """The sums of a thread: a vector of columns of each row that is held."""
    *axes, j = stage.op.axis
    rows = [axes[n] for n in held]
    *steps, k = stage.op.reduce_axis
    if size_of_axes(rows) > 1:  # of shorter bodies CUDA's compilers write out some by themselves
        k, near = stage.split(k, factor=UNROLLED)
        machine.unroll(stage, near)
        steps, k = [*steps, k], near
    stage.reorder(*(a for a in axes if a not in rows), *steps, k, *rows, j)
    _in_vectors(stage, rows, j)


def _in_vectors(stage: Stage, held: Sequence[IterVar], lane: IterVar) -> None:
    for axis in held:
        stage.unroll(axis)
    stage.vectorize(lane)
