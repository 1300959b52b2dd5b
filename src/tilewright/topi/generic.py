"""TVM's names for default schedules: each takes outputs and returns a schedule for the target in
scope."""

from __future__ import annotations

from collections.abc import Sequence

from ..schedule.api import Schedule, create_schedule
from ..tensor.tensor import Tensor
from .schedules.default import default_schedule


def schedule_default(outs: Tensor | Sequence[Tensor]) -> Schedule:
    """A schedule for any operations of this library."""
    return default_schedule(outs)


schedule_injective = schedule_reduce = schedule_dense = schedule_softmax = schedule_default
schedule_pool = schedule_conv2d_nchw = schedule_batch_matmul = schedule_default


def schedule_extern(outs: Tensor | Sequence[Tensor]) -> Schedule:
    """Default loops: an external function brings its own."""
    tensors = [outs] if isinstance(outs, Tensor) else list(outs)
    return create_schedule([t.op for t in tensors])
