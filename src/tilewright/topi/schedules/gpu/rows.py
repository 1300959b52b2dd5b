"""Softmax and normalisation on a GPU: all stages of a row in one kernel.

A thread has a row of few elements, a warp one where rows are short or many, else a block; a few
long ones are cut in parts (row_parts.py). What is summed along a row its
threads put together, each of some interleaved vectors; what is an element of the row comes from
memory again, the first-level cache by then, and is computed again, but for powers of a block's row
of as wide elements, which wait in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....base.dtype import parse
from ....loopir.equal import structural_equal
from ....loopir.iter import IterVar
from ....schedule.api import Schedule, Stage
from ....schedule.auto_inline import loads_of
from ....tensor.op import ComputeOp, domain
from ....tensor.tensor import Tensor
from ..machine import extent_of, known_extent, size_of_axes, whole_vectors
from ..reduce import row_run
from ..softmax import dimension_of
from .machine import GpuMachine, bind, bind_rows, fused, planned, same_extents
from .reduce import (
    SHORT_ROW,
    lanes_along,
    part_row,
    rows_by_warps,
    rows_of_block,
    share_row,
    threads_for,
    together,
)
from .row_parts import parts_of_rows, schedule_in_parts

MOST_SHARED = 32 << 10  # bytes of a row that wait: half of what blocks have where two share


@dataclass(frozen=True)
class _Stages:
    """The stages before an output of `rows` rows: `sums` along them, of `length` elements each, and
    others with such rows (`large`), or with a number for each row or less (`small`). `whole`: the
    output has such rows."""

    rows: int
    length: int
    whole: bool
    sums: list[Stage]
    small: list[Stage]
    large: list[Stage]

    @property
    def along(self) -> IterVar:
        """What rows run along."""
        step: IterVar = self.sums[0].op.reduce_axis[0]
        return step


def _stages_of(s: Schedule, out: Tensor) -> _Stages | None:
    """The stages before an output; None where they are no rows of its last dimension."""
    stage = s[out]
    before = [x for x in s.stages if x is not stage and hasattr(x.op, "body")]
    sums = [x for x in before if x.op.reduce_axis]
    if not sums or dimension_of(s, out) != len(stage.op.axis) - 1:
        return None
    along = sums[0].op.reduce_axis[0]
    *lead, last = stage.op.axis
    whole = same_extents([last], [along])
    if not whole and known_extent(last) != 1:
        return None
    small, large = [], []
    for x in before:
        axes, steps = list(x.op.axis), list(x.op.reduce_axis)
        if steps:
            data = axes[:-1] if len(axes) > len(lead) and known_extent(axes[-1]) == 1 else axes
            one = x.op.num_outputs == 1 and same_extents([*data, *steps], [*lead, along])
            if not one or row_run(x.op.output(0)) != 1:
                return None
        elif same_extents(axes, [*lead, along]):
            large.append(x)
        elif same_extents(axes, lead) or _broadcasts(axes, [*lead, along]):
            small.append(x)
        else:
            return None
    return _Stages(size_of_axes(lead), planned(along), whole, sums, small, large)


def _broadcasts(axes: Sequence[IterVar], shape: Sequence[IterVar]) -> bool:
    behind = shape[len(shape) - len(axes) :]
    return len(axes) <= len(shape) and all(
        known_extent(a) == 1 or same_extents([a], [b]) for a, b in zip(axes, behind)
    )


def schedule_rows(s: Schedule, out: Tensor, machine: GpuMachine) -> bool:
    """Whether all stages are of rows of the output, whose last dimension is what they run along;
    they are scheduled then."""
    found = _stages_of(s, out) if machine.shared else None
    if found is None or not found.length:
        return False
    if found.length <= SHORT_ROW:
        _row_a_thread(s, out, found, machine)
        return True
    stage, rows, length, large = s[out], found.rows, found.length, found.large
    ends = [stage, *found.sums] if found.whole else found.sums
    lanes = _lanes(ends, large, machine)
    by_warps = rows_by_warps(rows, length, lanes, machine)
    if not by_warps and _may_be_cut(out, found):
        loads = length // lanes // machine.threads
        parts = parts_of_rows(out.op.name, rows, loads, len(found.sums), machine)
        if parts > 1:
            schedule_in_parts(s, out, found.sums, [*found.small, *large], parts, lanes, machine)
            return True
    along = known_extent(found.along)
    kept = [] if by_warps else [x for x in large if _waits(s, x, along, lanes, machine)]
    threads = machine.warp if by_warps else threads_for(length // lanes, machine)
    for x in (*found.small, *large):
        if x not in kept:
            x.compute_inline()
    place = fused(stage, list(stage.op.axis[:-1]))
    made = [t for x in found.sums for t in x.op.outputs]
    at_once = rows_of_block(rows, threads, made, machine) if by_warps else 1
    block, row = stage.split(place, factor=at_once)
    bind(stage, block, "blockIdx.x")
    bind(stage, row, "threadIdx.y")
    if found.whole:
        share_row(stage, threads, lanes)
    for x in kept:
        x.set_scope("shared")
        x.compute_at(stage, row)
        share_row(x, threads, lanes)
    for x in found.sums:
        red = x.op.output(0)
        part, vector = part_row(s, red, 1, lanes, threads)
        s[red].compute_at(stage, row)
        together(s, red, part, vector, threads)
    return True


def _row_a_thread(s: Schedule, out: Tensor, found: _Stages, machine: GpuMachine) -> None:
    """Short rows: a thread reads one into registers, and computes all of it."""
    stage = s[out]
    arrays = [x.op.output(0) for x in s.stages if not hasattr(x.op, "body")]
    held = []
    rows = [domain(a).extent for a in (*stage.op.axis[:-1], found.along)]
    for t in arrays:
        here = rows[len(rows) - len(t.shape) :]  # what all rows share has fewer dimensions
        if len(here) == len(t.shape) > 0 and all(map(structural_equal, t.shape, here)):
            readers = [x.op for x in s.stages if any(u is t for u in x.op.input_tensors)]
            held.append(s.cache_read(t, "local", readers))
    for x in (*found.small, *found.large):
        x.compute_inline()
    thread = bind_rows(stage, fused(stage, list(stage.op.axis[:-1])), machine.threads)
    for t in held:
        s[t].compute_at(stage, thread)
        _in_registers(s[t], machine)
    for x in found.sums:
        x.compute_at(stage, thread)
        x.unroll(x.op.reduce_axis[0])
    if found.whole:
        _in_registers(stage, machine)


def _in_registers(stage: Stage, machine: GpuMachine) -> None:
    """The last axis in vectors, one statement each."""
    last = stage.op.axis[-1]
    lanes = whole_vectors(extent_of(last), machine.lanes(stage.op.output_dtype(0)))
    if lanes > 1:
        last, vector = stage.split(last, factor=lanes)
        stage.vectorize(vector)
    stage.unroll(last)


def _may_be_cut(out: Tensor, found: _Stages) -> bool:
    """Whether rows may be cut in parts: they are of a known length, and what ends them reads what
    each sum comes to."""
    sums, read, todo = {x.op for x in found.sums}, set(), [out.op]
    while todo:
        op = todo.pop()
        if op not in read:
            read.add(op)
            todo += [] if op in sums else [t.op for t in op.input_tensors]
    known = found.whole and known_extent(found.along) is not None
    return known and sums <= read and not any(x.op.body[0].init for x in found.sums)


def _lanes(stages: Sequence[Stage], inlined: Sequence[Stage], machine: GpuMachine) -> int:
    """Elements of the widest accesses that all of some stages make along rows, of which others are
    `inlined` into them."""
    found = []
    for stage in stages:
        along = (stage.op.reduce_axis or stage.op.axis)[-1:]
        found.append(lanes_along(stage, along, machine, inlined))
        if not stage.op.reduce_axis:
            written = machine.lanes(stage.op.output_dtype(0))
            found.append(whole_vectors(known_extent(along[0]) or 1, written))
    return min(found)


def _waits(s: Schedule, stage: Stage, length: int | None, lanes: int, machine: GpuMachine) -> bool:
    """Whether what a stage computes is worth shared memory: several read it, it is more than what
    it reads, it is known to have room, and is no wider than vectors of so many `lanes`. What is
    wider than all that comes from memory takes more accesses than that to write and to read again,
    which is more time than powers take."""
    assert isinstance(stage.op, ComputeOp)
    tensor = stage.op.output(0)
    readers = [x for x in s.stages if any(t is tensor for t in x.op.input_tensors)]
    fits = length is not None and length * parse(tensor.dtype).nbytes <= MOST_SHARED
    fits = fits and machine.lanes(tensor.dtype) >= lanes
    return fits and len(readers) > 1 and len({e.producer for e in loads_of(stage.op)}) > 1
