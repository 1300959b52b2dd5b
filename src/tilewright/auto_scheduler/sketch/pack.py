"""Rule (ours): beside each tiling, one in which an operand is copied into the order of the tiles.

The paper's CPU rules leave operands where they are; a library's matrix product copies at least one
into panels (Goto and van de Geijn, TOMS 2008), so that the innermost loops read memory in a row.
The copy costs one pass over the operand, which pays where each element is used often. Operands
whose layout is free need none: they come in that order.
"""

from __future__ import annotations

from typing import Any

from ...loopir.expr import const_int
from ...tensor.op import domain
from ..layout import pack_order
from ..state import State
from .multi_level_tiling import MultiLevelTiling, MultiLevelTilingWithFusion
from .rule import Condition, Results, SketchRule

MIN_USES = 8


class PackOperands(SketchRule):
    """The tilings of the other rules, with the operand along the innermost data loop packed."""

    name = "PackOperands"

    def __init__(self) -> None:
        self.tilings: tuple[SketchRule, ...] = (MultiLevelTilingWithFusion(), MultiLevelTiling())

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        op = state.stage_at(stage_id).op
        if policy.is_gpu or not policy.packs or not state.access.needs_multi_level_tiling(op):
            return Condition.PASS
        return Condition.APPLY if packable(state, stage_id) else Condition.PASS

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        operands = [state.stage_at(p).id for p in packable(state, stage_id)]
        ident = state.stage_at(stage_id).id
        results: Results = []
        for rule in self.tilings:
            condition = rule.meet(policy, state, stage_id)
            if condition == Condition.PASS:
                continue
            for new, _ in rule.apply(policy, state, stage_id):
                for operand in operands:
                    new.pack(new.order.index(operand), new.order.index(ident))
                results.append((new, new.order.index(ident) - 1))
            if condition == Condition.APPLY_AND_SKIP_REST:
                break
        return results


def packable(state: State, stage_id: int) -> list[int]:
    """Places of the inputs that the stage reads along its innermost data loop, each often."""
    stage = state.stage_at(stage_id)
    free = set(state.dag.layout_free)
    found = []
    extents = {a.var: const_int(domain(a).extent) or 0 for a in stage.op.axis}
    innermost = stage.op.axis[-1].var
    total = 1
    for e in extents.values():
        total *= e
    for tensor in stage.op.input_tensors:
        live = state.schedule.find(tensor)
        if tensor.op in free or not state.access.is_placeholder(tensor.op):
            continue
        order = pack_order(stage, tensor)
        if order is None:
            continue
        own = {d.axis.var for d in order.digits if d.axis is not None}
        uses = total
        for var, extent in extents.items():
            if var in own and extent:
                uses //= extent
        if innermost in own and uses >= MIN_USES:
            found.append(state.order.index(live.id))
    return found
