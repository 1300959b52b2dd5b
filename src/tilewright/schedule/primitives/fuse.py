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
from .arguments import require_own_domains
from .split import check_plain, keep_code


def fuse(stage: StageState, *axes: IterVar) -> IterVar:
    """Fuse neighbouring leaf axes, from the left; without any, make a new axis of extent 1.

    The axis that stands further out is the outer one, in whichever order they are given. Of data
    and reduction axes comes a loop of the reduction, which starts before that loop. Raises
    ScheduleError where the axes are not loops next to each other in this order, or one was
    annotated or bound.
    """
    if not axes:
        single = IterVar(None, "singleton", IterVar.DataPar)
        stage.relations.append(Singleton(single))
        stage.leaf_iter_vars.insert(0, single)
        return stage.add_axis(single)
    positions = [stage.leaf_position(a) for a in axes]
    for axis in axes:
        check_plain(stage, axis, "fuse")
    for n, position in enumerate(positions[1:], 1):
        before = positions[:n]
        if position not in (min(before) - 1, max(before) + 1):
            raise Illegal(
                "Can only fuse iterations that are consecutive between each other",
                axes[n],
                "reorder the axes so that they stand next to each other",
            )
    if len({a.iter_type for a in axes}) > 1:
        require_own_domains(stage.op, "fuse of data and reduction axes")
    fused, place = axes[0], positions[0]
    for axis, position in zip(axes[1:], positions[1:]):
        outer, inner = (axis, fused) if position < place else (fused, axis)
        place = min(place, position)
        kind = max(outer.iter_type, inner.iter_type)
        dtype = (outer.var + inner.var).dtype
        fused = IterVar(None, Var(f"{outer.var.name}.{inner.var.name}.fused", dtype), kind)
        stage.relations.append(Fuse(outer, inner, fused))
        stage.add_axis(fused)
    stage.leaf_iter_vars[place : place + len(axes)] = [fused]
    if len(axes) > 1:
        keep_code(stage, fused, *axes)
    return fused
