"""What of a computation needs constants alone: it is computed once, before any call.

The kernel takes the result in the place of the constant. Winograd's transformed filters are such.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..loopir.expr import const_int
from ..tensor.graph import replace_inputs
from ..tensor.op import ComputeOp, Operation, PlaceholderOp
from ..tensor.tensor import Tensor
from ..topi.schedules.default import default_schedule
from .access import Access
from .state import State


class RewrittenDag:
    """What a State needs of a computation whose inputs are laid out anew."""

    __slots__ = ("access", "layout_free", "ops", "outputs", "tensors")

    def __init__(
        self, ops: list[Operation], tensors: list[Tensor], outputs: list[Operation]
    ) -> None:
        self.ops, self.tensors, self.outputs = ops, tensors, outputs
        self.layout_free: list[Operation] = []
        self.access = Access(ops, outputs)


def computed_ahead(state: State) -> tuple[State, dict[Tensor, Tensor]]:
    """The default schedule on a computation that takes what needs inputs of free layout alone in
    the place of these inputs; by the new arguments, the tensors that they are."""
    dag = state.dag
    known = {op.output(0): op for op in dag.layout_free} if state.is_default else {}
    for op in dag.ops:
        if isinstance(op, ComputeOp) and op.num_outputs == 1 and op not in dag.outputs:
            roots = {known.get(t) for t in op.input_tensors}
            root = roots.pop() if len(roots) == 1 else None
            if root is not None:
                known[op.output(0)] = root
    ends: dict[Operation, list[Tensor]] = {}
    for op in dag.ops:
        for t in op.input_tensors if op.output(0) not in known else ():
            if t in known and t not in ends.setdefault(known[t], []):
                ends[known[t]].append(t)
    made: dict[Tensor, Tensor] = {}
    for root, (end, *more) in ends.items():
        if not more and end.op is not root:
            made[PlaceholderOp(end.op.name, end.shape, end.dtype).output(0)] = end
    if not made:
        return state, {}
    table = {end: new for new, end in made.items()}
    inputs = {known[end].output(0): new for new, end in made.items()}
    ops: list[Operation] = [t.op for t in made]
    for op in dag.ops:
        if known.get(op.output(0)) in {t.op for t in inputs}:
            continue
        new = op if isinstance(op, PlaceholderOp) else replace_inputs(op, table)
        table.update((op.output(i), new.output(i)) for i in range(op.num_outputs))
        ops.append(new)
    tensors = [inputs.get(t, table.get(t, t)) for t in dag.tensors]
    fresh = RewrittenDag(ops, tensors, [table[o.output(0)].op for o in dag.outputs])
    fresh.layout_free = [inputs.get(o.output(0), o.output(0)).op for o in dag.layout_free]
    return State.from_rows(fresh, state.steps), made


def evaluated(array: np.ndarray[Any, Any], given: Tensor, wanted: Tensor) -> Any:
    """A tensor that needs one argument, of its array."""
    from ..driver.build_module import build  # only what is computed ahead is run here
    from ..rt.array import array as as_array

    shape = tuple(const_int(e) or 0 for e in given.shape)
    if array.shape != shape:
        raise TilewrightError(f"expected an array of shape {shape}, got {array.shape}")
    function = build(default_schedule([wanted], "llvm"), [given, wanted], "llvm")
    out = as_array(np.empty([const_int(e) or 0 for e in wanted.shape], wanted.dtype))
    function(as_array(np.ascontiguousarray(array)), out)
    return out.numpy()
