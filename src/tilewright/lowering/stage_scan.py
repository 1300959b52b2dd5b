"""Initial values of scans that run on threads of their own (`env_threads`)."""

from __future__ import annotations

from typing import Any

from ..loopir.expr import PrimExpr, Var
from ..loopir.iter import IterVar
from ..loopir.subst import substitute
from ..schedule.placement import attach_point, is_virtual, same_thread
from ..schedule.stage_bounds import Bounds, root_offsets
from ..schedule.state import StageState
from ..tensor.op import ComputeOp, ScanOp


def shared_launches(sch: Any, bounds: Bounds) -> dict[int, StageState]:
    """The scan in whose launch the initial values are computed, by the number of their stage.

    The scan's `env_threads` are launched once for the initial values and all steps, if every
    thread writes in both the same columns: it then reads in the first step what it wrote itself.
    Where that does not hold the initial values stay a kernel of their own.
    """
    found: dict[int, StageState] = {}
    for scan in sch.stages:
        if not isinstance(scan.op, ScanOp) or not scan.threads:
            continue
        for init, update in zip(scan.op.init, scan.op.update):
            first, step = sch.stage_of.get(init.op), sch.stage_of.get(update.op)
            if first is None or step is None or attach_point(first) is not None:
                continue
            if _on_all(scan, first) and _same_columns(bounds, first, step):
                found[first.id] = scan
    return found


def _on_all(scan: StageState, stage: StageState) -> bool:
    """Whether a stage is bound to just the threads of a scan."""
    bound = [t for leaf in stage.leaf_iter_vars if (t := stage.attr(leaf).bind_thread) is not None]
    real = [t for t in bound if not is_virtual(t)]
    covered = all(any(same_thread(t, own) for t in real) for own in scan.threads)
    return covered and len(real) == len(scan.threads)


def _same_columns(bounds: Bounds, first: StageState, step: StageState) -> bool:
    """Whether both stages compute the same columns in the same threads."""
    if not all(isinstance(s.op, ComputeOp) and not s.op.reduce_axis for s in (first, step)):
        return False
    ours, theirs = _serial(bounds, first), _serial(bounds, step)
    if len(ours) != len(theirs):
        return False
    names: dict[Var, PrimExpr] = dict(zip(ours, theirs))
    here, there = _columns(bounds, first), _columns(bounds, step)
    prove = bounds.analyzer.can_prove_equal
    return len(here) == len(there) and all(
        prove(substitute(a, names), b) for a, b in zip(here, there)
    )


def _serial(bounds: Bounds, stage: StageState) -> list[Var]:
    """Variables of the loops over columns that are not threads."""
    rows: set[IterVar] = {stage.op.axis[0]}
    for relation in stage.relations:
        if any(p in rows for p in relation.parents):
            rows.update(relation.children)
    leaves = (a for a in stage.leaf_iter_vars if a not in rows)
    return [bounds[stage].var[a] for a in leaves if stage.attr(a).bind_thread is None]


def _columns(bounds: Bounds, stage: StageState) -> list[PrimExpr]:
    offsets = root_offsets(bounds, stage)
    return [bounds[stage].min[a] + offsets[a] for a in stage.op.axis[1:]]
