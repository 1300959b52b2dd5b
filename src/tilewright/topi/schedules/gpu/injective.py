"""Element-wise work on a GPU: a few neighbouring elements a thread, threads along memory."""

from __future__ import annotations

from ....loopir.iter import IterVar, ProducerLoad
from ....schedule.api import Stage
from ....schedule.auto_inline import is_injective, loads_of
from ....tensor.op import ComputeOp
from ..machine import extent_of
from .machine import GpuMachine, bind, bind_rows, fused

SIDE = 8  # threads side by side that share a line of memory when they turn a tensor


def arrange(stage: Stage, axes: list[IterVar], machine: GpuMachine) -> None:
    """Fuse all axes, split off a vector where it divides the last dimension, bind the rest. A
    tensor that is turned is read and written in vectors, a square of them a thread."""
    lanes = machine.lanes(stage.op.output_dtype(0))
    last = extent_of(axes[-1]) if axes else 0
    whole = lanes > 1 and last and last % lanes == 0
    turned = _turned(stage, lanes) if whole and machine.shared else None
    if turned is not None:
        _turn(stage, *turned, lanes, machine)
        return
    if whole:
        chunk, vector = stage.split(axes[-1], factor=lanes)
        stage.vectorize(vector)
        axes = [*axes[:-1], chunk]
    bind_rows(stage, fused(stage, axes), machine.threads)


def _turned(stage: Stage, lanes: int) -> tuple[ProducerLoad, int] | None:
    """The one read of a stage, where neighbours in it are no neighbours in the result, and the
    number of the axis along which they are; both axes have whole vectors."""
    op = stage.op
    loops = list(stage.leaf_iter_vars)
    if not isinstance(op, ComputeOp) or not is_injective(op) or loops != list(op.axis):
        return None
    reads = loads_of(op)
    if op.num_outputs != 1 or len(reads) != 1 or reads[0].dtype != op.output_dtype(0):
        return None
    variables = [a.var for a in op.axis]
    places = [next((n for n, v in enumerate(variables) if v is i), -1) for i in reads[0].indices]
    if -1 in places or len(set(places)) < len(variables) or places[-1] == len(variables) - 1:
        return None
    at = places[-1]
    return (reads[0], at) if extent_of(op.axis[at]) % lanes == 0 else None


def _turn(stage: Stage, read: ProducerLoad, at: int, lanes: int, machine: GpuMachine) -> None:
    s = stage.schedule
    local = s.cache_read(read.producer, "local", [stage.op])
    axes = list(stage.op.axis)
    across, along = axes[at], axes[-1]
    shape = [extent_of(a) // lanes for a in (across, along)]
    across, column = stage.split(across, factor=lanes)
    along, row = stage.split(along, factor=lanes)
    across, x = stage.split(across, factor=min(SIDE, shape[0]))
    along, y = stage.split(along, factor=min(machine.threads // SIDE, shape[1]))
    others = [a for n, a in enumerate(axes[:-1]) if n != at]
    stage.reorder(*others, along, across, y, x, column, row)
    bind(stage, fused(stage, [*others, along, across]), "blockIdx.x")
    bind(stage, y, "threadIdx.y")
    bind(stage, x, "threadIdx.x")
    stage.unroll(column)
    stage.vectorize(row)
    copy = s[local]
    copy.compute_at(stage, x)
    *rows, vector = copy.op.axis
    for axis in rows:
        copy.unroll(axis)
    copy.vectorize(vector)
