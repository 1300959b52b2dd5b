"""restate: a tensor by other operations that give the same values.

    for i in range(n):                 for i in range(n):
        B[i] = f(A[i])         ->          P[i] = g(A[i])
                                       for i in range(n):
                                           B[i] = h(P[i])

What rules for operators do where loops alone do not lead to good code: a convolution as the product
of a matrix of filters and one of windows, an operand turned before it is multiplied. That the
values are the same nobody checks, so it is no primitive for users.
"""

from __future__ import annotations

from ...loopir.equal import structural_equal
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor
from ..state import Illegal, ScheduleState, StageState, post_order


def restate(sch: ScheduleState, tensor: Tensor, by: Tensor) -> list[Tensor]:
    """Let the stage of `tensor` compute `by`, a new tensor of the same shape and type, from what it
    reads; returns the new tensors in between, producers first, each a stage of its own."""
    stage = sch.find(tensor)
    _check(stage, by)
    position = sch.stages.index(stage)
    new = [op for op in post_order([by.op]) if op not in sch.stage_of and op is not by.op]
    for offset, op in enumerate(new):
        sch.new_stage(op, op.name, position + offset).group = stage.group
    old, now = stage.op, by.op
    assert isinstance(now, ComputeOp)
    present = ComputeOp(old.name, old.tag, old.attrs, now.axis, now.body)
    sch.inherited.update(zip(present.axis, old.axis))
    sch.set_op(stage, present)
    stage.set_root_axes(present.root_iter_vars())
    others = [s for s in sch.stages if s is not stage]
    sch.replace_dataflow({old.output(0): present.output(0)}, only=others)
    return [op.output(0) for op in new]


def _check(stage: StageState, by: Tensor) -> None:
    op = stage.op
    if not isinstance(op, ComputeOp) or op.num_outputs != 1 or not isinstance(by.op, ComputeOp):
        raise Illegal(f"restate needs operations of one output, got {op} and {by.op}")
    if stage.relations or stage.attrs:
        raise Illegal(f"restate needs a stage whose loops are as they were made, not {stage.name}")
    shapes = [t.shape for t in (op.output(0), by)]
    same = len(shapes[0]) == len(shapes[1]) and all(map(structural_equal, *shapes))
    if not same or op.output_dtype(0) != by.dtype:
        raise Illegal(f"restate: {by!r} is not like {op.output(0)!r}")
