"""Rule for GPUs: what feeds a stage with unrolled constant tensors is computed beside it."""

from __future__ import annotations

from typing import Any

from ...loopir.iter import IterVar
from ..access import CONST_TENSOR_ATTR
from ..state import State
from .always_inline import should_inline
from .rule import Condition, Results, SketchRule, choose


class SpecialComputeLocationGPU(SketchRule):
    """Where an element-wise stage would be inlined, but its only reader unrolls loops over constant
    tensors: it is computed once, at the last loop around these, not once for each use."""

    name = "SpecialComputeLocationGPU"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        if not should_inline(policy, state, stage_id):
            return Condition.PASS
        if not state.access.get_producers(state.stage_at(stage_id).op):
            return Condition.PASS
        readers = state.readers(stage_id)
        if len(readers) != 1:
            return Condition.PASS
        attrs = getattr(state.stage_at(readers[0]).op, "attrs", None) or {}
        found = CONST_TENSOR_ATTR in attrs and _last_outer(state, readers[0]) is not None
        return choose(found)

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        (reader,) = new.readers(stage_id)
        loop = _last_outer(new, reader)
        assert loop is not None
        new.compute_at(stage_id, reader, loop)
        return [(new, stage_id - 1)]


def _last_outer(state: State, stage_id: int) -> int | None:
    """The place of the loop before the first unrolled one."""
    stage = state.stage_at(stage_id)
    for n, leaf in enumerate(stage.leaf_iter_vars):
        if stage.kind_of(leaf) == IterVar.Unrolled:
            return n - 1 if n > 0 else None
    return None
