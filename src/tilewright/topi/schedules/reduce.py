"""Reductions, pooling and softmax."""

from __future__ import annotations

from ...loopir.expr import Cast
from ...schedule.api import Schedule
from ...tensor.tensor import Tensor
from .machine import PARALLEL_STEPS, Machine, extent_of, parallel_if, work_of

PARALLEL_EXPONENTIALS = 1 << 13


def schedule_pool(s: Schedule, pool: Tensor, out: Tensor, machine: Machine) -> None:
    """Windows of a block of channels (or of a row) at a time, in vectors along the last
    dimension.
    """
    stage = s[out]
    lanes = machine.lanes(pool.dtype)
    *outer, last = stage.op.axis
    size = extent_of(last)
    inner = last
    if size > lanes:
        chunk, inner = stage.split(last, factor=lanes)
        outer = [*outer, chunk]
    if size > 1:
        stage.vectorize(inner)
    head = stage.fuse(*outer[:3]) if len(outer) >= 3 else stage.fuse(*outer)
    parallel_if(stage, head, work_of(pool), PARALLEL_STEPS)
    if pool.op is not out.op:
        s[pool].compute_at(stage, outer[3] if len(outer) > 3 else head)
        *_, last = s[pool].op.axis
        s[pool].reorder(*s[pool].op.axis[:-1], *s[pool].op.reduce_axis, last)
        if 1 < size <= lanes or size > lanes:
            s[pool].vectorize(last)
    else:
        stage.reorder(*stage.op.reduce_axis, inner)


def schedule_reduce(s: Schedule, red: Tensor, out: Tensor, machine: Machine) -> None:
    """Reductions over trailing dimensions run in lanes of partial results (rfactor), others in
    vectors along the last data dimension."""
    stage = s[red]
    op = stage.op
    lanes = machine.lanes(red.dtype)
    last_k = op.reduce_axis[-1]
    work = work_of(red)
    factored = None
    if _runs_along_rows(red) and extent_of(last_k) >= 4 * lanes and op.num_outputs == 1:
        _, ki = stage.split(last_k, factor=lanes)
        factored = s.rfactor(red, ki)
    axes = list(s[out].op.axis)
    if not axes:
        if factored is not None:
            s[factored].vectorize(s[factored].op.axis[0])
            s[factored].reorder(*s[factored].op.reduce_axis, s[factored].op.axis[0])
        return
    head = s[out].fuse(*axes[:-1]) if len(axes) > 2 else axes[0]
    parallel_if(s[out], head, work, PARALLEL_STEPS)
    at = head
    if red.op is not out.op:
        s[red].compute_at(s[out], at)
    if factored is not None:
        f = s[factored]
        f.compute_at(s[red] if red.op is out.op else s[out], at)
        lane, *data = f.op.axis
        f.reorder(*data, *f.op.reduce_axis, lane)
        f.vectorize(lane)


def _runs_along_rows(red: Tensor) -> bool:
    """Whether the last reduction axis is the last index of what is read: a run in memory."""
    for t in red.op.input_tensors:
        body = red.op.body[0].source[0]
        body = body.value if isinstance(body, Cast) else body
        indices = getattr(body, "indices", ())
        if indices and getattr(body, "producer", None) is t:
            return indices[-1] is red.op.reduce_axis[-1].var
    return False


def schedule_softmax(s: Schedule, out: Tensor, machine: Machine) -> None:
    """All stages of a row are computed together, rows in parallel."""
    axes = list(s[out].op.axis)
    if len(axes) == 1:
        return
    rows = s[out].fuse(*axes[:-1]) if len(axes) > 2 else axes[0]
    parallel_if(s[out], rows, work_of(out), PARALLEL_EXPONENTIALS)
    lanes = machine.lanes(out.dtype)
    if extent_of(axes[-1]) >= lanes:
        _, lane = s[out].split(axes[-1], factor=lanes)
        s[out].vectorize(lane)
    for stage in s.stages:
        if stage.op is s[out].op or not hasattr(stage.op, "body"):
            continue
        stage.compute_at(s[out], rows)
        last = stage.op.axis[-1] if stage.op.axis else None
        if last is not None and not stage.op.reduce_axis and extent_of(last) >= lanes:
            _, lane = stage.split(last, factor=lanes)
            stage.vectorize(lane)
