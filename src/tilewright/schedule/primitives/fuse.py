"""fuse: neighbouring loops become one.

for i in range(4):                 for i_j_fused in range(32):
    for j in range(8):     ->          B[i_j_fused // 8, i_j_fused % 8] = ...
        B[i, j] = ...
"""

from __future__ import annotations

from ...loopir.expr import Var
from ...loopir.iter import IterVar
from ..relations import Fuse, Singleton
from ..state import Illegal, StageState
from .split import check_plain, keep_code


def fuse(stage: StageState, *axes: IterVar) -> IterVar:
    """Fuse leaf axes that follow each other, from the left; without any, a new axis of extent 1."""
    if not axes:
        single = IterVar(None, "singleton", IterVar.DataPar)
        stage.relations.append(Singleton(single))
        stage.leaf_iter_vars.insert(0, single)
        return stage.add_axis(single)
    positions = [stage.leaf_position(a) for a in axes]
    for axis in axes:
        check_plain(stage, axis, "fuse")
    if positions != list(range(positions[0], positions[0] + len(axes))):
        raise Illegal(
            "Can only fuse iterations that are consecutive between each other",
            axes[-1],
            "reorder the axes so that they follow each other, in the order given",
        )
    reduce = {a.iter_type == IterVar.CommReduce for a in axes}
    if len(reduce) > 1:
        raise Illegal(
            "cannot fuse a reduction axis with a data axis", axes[-1], "fuse axes of one kind"
        )
    fused = axes[0]
    for inner in axes[1:]:
        outer = fused
        kind = max(outer.iter_type, inner.iter_type)
        dtype = (outer.var + inner.var).dtype
        fused = IterVar(None, Var(f"{outer.var.name}.{inner.var.name}.fused", dtype), kind)
        stage.relations.append(Fuse(outer, inner, fused))
        stage.add_axis(fused)
    stage.leaf_iter_vars[positions[0] : positions[0] + len(axes)] = [fused]
    if len(axes) > 1:
        keep_code(stage, fused, *axes)
    return fused
