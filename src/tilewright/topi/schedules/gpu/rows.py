"""Softmax and normalisation on a GPU: all stages of a row in one kernel.

A warp has a row where rows are short or many, else a block; of a few very long ones each stage has
all blocks, in a kernel of its own. What is summed along a row its threads
put together, each of some interleaved vectors; what is an element of the row comes from memory
again, the first-level cache by then, and is computed again, but for powers of a block's row, which
wait in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....base.dtype import parse
from ....schedule.api import Schedule, Stage
from ....schedule.auto_inline import loads_of
from ....tensor.op import ComputeOp
from ....tensor.tensor import Tensor
from ..machine import known_extent, size_of_axes, whole_vectors
from ..reduce import row_run
from ..softmax import dimension_of
from .machine import GpuMachine, bind, fused, planned, same_extents
from .reduce import (
    SHORT_ROW,
    lanes_along,
    part_row,
    rows_by_warps,
    rows_of_block,
    threads_for,
    together,
)

LONG_ROW = 96  # loads of a thread, a few times over, in which kernels for all stages could start
MOST_SHARED = 32 << 10  # bytes of a row that wait: half of what blocks have where two share


def schedule_rows(s: Schedule, out: Tensor, machine: GpuMachine) -> bool:
    """Whether all stages are of rows of the output, whose last dimension is what they run along;
    they are scheduled then."""
    stage = s[out]
    *others, last = stage.op.axis
    length = planned(last)
    along = dimension_of(s, out)
    if not machine.shared or along != len(others) or length <= SHORT_ROW:
        return False
    sums, small, large = [], [], []
    shape = list(stage.op.axis)
    for x in list(s.stages):
        if x is stage or not hasattr(x.op, "body"):
            continue
        axes, steps = list(x.op.axis), list(x.op.reduce_axis)
        if steps:
            one = x.op.num_outputs == 1 and same_extents([*axes, *steps], shape)
            if not one or row_run(x.op.output(0)) != 1:
                return False
            sums.append(x)
        elif same_extents(axes, shape[:-1]):
            small.append(x)
        elif same_extents(axes, shape):
            large.append(x)
        else:
            return False
    rows = size_of_axes(shape[:-1])
    lanes = _lanes([stage, *sums], large, machine)
    by_warps = rows_by_warps(rows, length, lanes, machine)
    if not by_warps and _apart(out.op.name, rows, length // lanes // machine.threads, machine):
        return False
    kept = [] if by_warps else [x for x in large if _waits(s, x, known_extent(last))]
    if kept:
        lanes = _lanes([stage, *sums, *kept], [x for x in large if x not in kept], machine)
    threads = machine.warp if by_warps else threads_for(length // lanes, machine)
    for x in (*small, *large):
        if x not in kept:
            x.compute_inline()
    place = fused(stage, others)
    made = [t for x in sums for t in x.op.outputs]
    at_once = rows_of_block(rows, threads, made, machine) if by_warps else 1
    block, row = stage.split(place, factor=at_once)
    bind(stage, block, "blockIdx.x")
    bind(stage, row, "threadIdx.y")
    _share(stage, threads, lanes)
    for x in kept:
        x.set_scope("shared")
        x.compute_at(stage, row)
        _share(x, threads, lanes)
    for x in sums:
        red = x.op.output(0)
        part, vector = part_row(s, red, 1, lanes, threads)
        s[red].compute_at(stage, row)
        together(s, red, part, vector, threads)
    return True


def _apart(operation: str, rows: int, loads: int, machine: GpuMachine) -> bool:
    """Whether rows are so few, and threads have so many loads of each, that a kernel for each
    stage, all of whose blocks have a part of a row, takes less time, unless that is decided
    otherwise."""
    if not 0 < rows < machine.filling or loads < LONG_ROW // 4:
        return False
    best = int(loads >= LONG_ROW)
    return bool(machine.choose(operation, "apart", [(best,), (1 - best,)])[0])


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


def _waits(s: Schedule, stage: Stage, length: int | None) -> bool:
    """Whether what a stage computes is worth shared memory: several read it, it is more than what
    it reads, and it is known to have room."""
    assert isinstance(stage.op, ComputeOp)
    tensor = stage.op.output(0)
    readers = [x for x in s.stages if any(t is tensor for t in x.op.input_tensors)]
    fits = length is not None and length * parse(tensor.dtype).nbytes <= MOST_SHARED
    return fits and len(readers) > 1 and len({e.producer for e in loads_of(stage.op)}) > 1


def _share(stage: Stage, threads: int, lanes: int) -> None:
    """The last axis in vectors, interleaved among threads."""
    last = stage.leaf_iter_vars[-1]
    if lanes > 1:
        last, vector = stage.split(last, factor=lanes)
        stage.vectorize(vector)
    _, thread = stage.split(last, factor=threads)
    bind(stage, thread, "threadIdx.x")
