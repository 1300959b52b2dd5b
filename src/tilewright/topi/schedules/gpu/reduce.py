"""Pooling and reductions on a GPU."""

from __future__ import annotations

from ....schedule.api import Schedule
from ....tensor.tensor import Tensor
from ..machine import extent_of
from .injective import arrange
from .machine import GpuMachine, bind, fused

MANY_ROWS = 4096  # outputs that fill a GPU with a thread each


def schedule_pool(s: Schedule, pool: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """A window, or a vector of channels of one, a thread."""
    stage = s[out]
    axes = list(stage.op.axis)
    lanes = machine.lanes(pool.dtype)
    last = extent_of(axes[-1])
    vectors = len(axes) == 5 and last % lanes == 0
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


def schedule_reduce(s: Schedule, red: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """A thread for each result where there are many, else a block for each: its threads reduce
    interleaved parts, which they then put together."""
    stage = s[red]
    rows, steps = 1, 1
    for axis in stage.op.axis:
        rows *= extent_of(axis)
    for axis in stage.op.reduce_axis:
        steps *= extent_of(axis)
    serial = rows >= MANY_ROWS or 0 < steps <= 4 * max(machine.warp, 1) or stage.op.num_outputs > 1
    if serial:
        if red.op is not out.op:
            arrange(s[out], list(s[out].op.axis), machine)
            stage.compute_at(s[out], s[out].leaf_iter_vars[1])
            if len(s[out].leaf_iter_vars) > 2:  # a vector of results a thread
                machine.unroll(s[red], s[red].op.axis[-1])
        else:
            block, thread = stage.split(fused(stage, list(stage.op.axis)), factor=machine.threads)
            bind(stage, block, "blockIdx.x")
            bind(stage, thread, "threadIdx.x")
        return
    ends = red.op is out.op
    threads = _threads(steps, machine)
    whole = fused(stage, list(stage.op.reduce_axis))
    _, inner = stage.split(whole, factor=threads)
    part = s.rfactor(red, inner)
    stage = s[red]
    (lane,) = stage.op.reduce_axis
    if ends:
        bind(stage, fused(stage, list(stage.op.axis)), "blockIdx.x")
        at = stage
    else:
        at = s[out]
        bind(at, fused(at, list(at.op.axis)), "blockIdx.x")
        stage.compute_at(at, at.leaf_iter_vars[0])
    bind(stage, lane, "threadIdx.x")
    s[part].compute_at(stage, lane)


def _threads(steps: int, machine: GpuMachine) -> int:
    """A power of two that leaves each thread some steps."""
    threads = 1
    while threads * 2 <= machine.threads and threads * 4 <= max(steps, 4):
        threads *= 2
    return threads
