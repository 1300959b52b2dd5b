"""`tvm.topi.cuda`: default schedules by TVM's names, for the target in scope, else for CUDA."""

from __future__ import annotations

from collections.abc import Sequence

from ...schedule.api import Schedule
from ...target.target import Target
from ...tensor.tensor import Tensor
from ..schedules.default import default_schedule
from . import tensor_intrin as tensor_intrin


def schedule_injective(outs: Tensor | Sequence[Tensor]) -> Schedule:
    """A schedule for any operations of this library, with their axes bound to threads."""
    return default_schedule(outs, Target.current(allow_none=True) or Target("cuda"))


schedule_reduce = schedule_softmax = schedule_dense = schedule_pool = schedule_injective
schedule_conv2d_nchw = schedule_batch_matmul = schedule_injective
