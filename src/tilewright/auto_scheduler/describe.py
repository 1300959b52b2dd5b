"""States as text: the loops of every stage, each where it is computed.

Open lengths print as None. `State.name_of` says what loops are called.
"""

from __future__ import annotations

from typing import Any

from ..arith import Analyzer
from ..loopir.expr import IntImm
from ..loopir.iter import IterVar
from ..schedule.bounds import infer_bounds
from ..schedule.relations import pass_down_extents
from ..schedule.state import INLINE, INLINED_ALREADY, SCOPE
from ..tensor.op import PlaceholderOp

KINDS = {
    IterVar.Parallelized: "parallel", IterVar.Vectorized: "vectorize", IterVar.Unrolled: "unroll",
}  # fmt: skip


def inferred_extents(state: Any) -> dict[int, dict[Any, Any]]:
    """Extents of leaf loops by stage: as bounds find them; of a sketch, those of whole stages."""
    if not state.open:
        sch = state.schedule.normalize()
        bounds = infer_bounds(sch)
        return {s.id: bounds[s].extent for s in sch.stages if s.id in bounds.of}
    found = {}
    for stage in state.live_stages:
        roots = {a: a.dom.extent for a in stage.op.root_iter_vars() if a.dom is not None}
        found[stage.id] = dict(pass_down_extents(stage.relations, roots, Analyzer()))
    return found


def describe_state(state: Any) -> str:
    """The state as indented text."""
    extents = inferred_extents(state)
    normal = state.schedule.normalize()
    stages = [normal.by_id[i] for i in state.order]
    inputs = [s.op.name for s in stages if isinstance(s.op, PlaceholderOp)]
    lines = ["Placeholder: " + ", ".join(inputs)]
    for stage in stages:
        placed = stage.attach_type in (INLINE, INLINED_ALREADY, SCOPE)
        if not placed and not isinstance(stage.op, PlaceholderOp):
            _stage(state, stages, stage, extents, 0, lines)
    inlined = [s.op.name for s in stages if s.attach_type == INLINED_ALREADY]
    if inlined:
        lines.append("Inlined: " + ", ".join(inlined))
    return "\n".join(lines) + "\n"


def _stage(state: Any, stages: Any, stage: Any, extents: Any, depth: int, lines: list[str]) -> None:
    found = extents.get(stage.id, {})
    for axis in stage.leaf_iter_vars:
        attr = stage.attr(axis)
        kind = KINDS.get(stage.kind_of(axis), "for")
        if attr.bind_thread is not None:
            kind = attr.bind_thread.thread_tag
        extent = found.get(axis)
        size = f"(0,{extent.value})" if isinstance(extent, IntImm) else "(None)"
        pragma = "".join(f" {k}:{v}" for k, v in attr.pragmas if k != "unroll_explicit")
        if pragma:
            lines.append("  " * depth + "pragma" + pragma)
        lines.append("  " * depth + f"{kind} {state.name_of(axis)} {size}")
        depth += 1
        for other in stages:
            here = other.attach_stage is stage and other.attach_ivar is axis
            if other.attach_type == SCOPE and here:
                _stage(state, stages, other, extents, depth, lines)
    sign = "+=" if getattr(stage.op, "reduce_axis", ()) else "="
    lines.append("  " * depth + f"{stage.op.name} {sign} ...")
