"""Rule: loops over the indices of constant tensors (Winograd's matrices) are unrolled whole."""

from __future__ import annotations

from typing import Any

from ...loopir.iter import IterVar
from ..state import State
from .rule import Condition, Results, SketchRule, choose

ATTR = "auto_scheduler_simplify_const_tensor_indices"


class SimplifyComputeWithConstTensor(SketchRule):
    """Where the attribute names loops: they are unrolled, the other data loops tiled in two levels.

    With the loops unrolled the constants' elements are known, and products with 0 and 1 vanish.
    """

    name = "SimplifyComputeWithConstTensor"

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        attrs = getattr(state.stage_at(stage_id).op, "attrs", None) or {}
        return choose(ATTR in attrs)

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        new = state.copy()
        names = {str(n) for n in new.stage_at(stage_id).op.attrs[ATTR]}
        unrolled, outer, inner = [], [], []
        for it in new[stage_id].iters:
            if it.name in names or it.axis.iter_type == IterVar.CommReduce:
                unrolled.append(it)
            else:
                parts = new.split(stage_id, it, [None])
                outer.append(parts[0])
                inner.append(parts[1])
        for it in unrolled:
            new.unroll(stage_id, it)
        new.reorder(stage_id, [*outer, *inner, *unrolled])
        return [(new, stage_id - 1)]
