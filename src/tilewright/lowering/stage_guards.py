"""Which conditions a stage's body must be guarded by."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..loopir import op as ops
from ..loopir.expr import PrimExpr
from ..loopir.iter import IterVar
from ..schedule.placement import is_virtual
from ..schedule.relations import (
    Singleton,
    Split,
    Transform,
    derived_from,
    derived_from_both,
    overruns,
)
from ..schedule.stage_bounds import Bounds, root_offsets
from ..schedule.state import StageState
from ..schedule.thread_memory import sees_all


def stage_guards(
    bounds: Bounds,
    stage: StageState,
    values: Mapping[IterVar, PrimExpr],
    skip: frozenset[IterVar],
    leaves: Mapping[IterVar, PrimExpr] | None = None,
) -> list[PrimExpr]:
    """`likely(...)` conditions on the values of the root axes that are not proved.

    First that a value lies in the region that is computed (a tile that does not divide runs over
    its end) and may be computed (in a step of a scan), then that no part of a reduction is done
    twice, last (`edge_guards`) that it lies in the tensor at all. Axes in `skip` do not run.
    `leaves` are the values of the loops, where they are not the stage's own.
    """
    inside = [c for _, c in edge_guards(bounds, stage, values, skip)]
    return region_guards(bounds, stage, values, skip, leaves) + inside


def edge_guards(
    bounds: Bounds,
    stage: StageState,
    values: Mapping[IterVar, PrimExpr],
    skip: frozenset[IterVar],
) -> list[tuple[IterVar, PrimExpr]]:
    """(root axis, condition): what is not proved of values lying in the tensor, which a region may
    reach over."""
    mine, prove = bounds[stage], bounds.analyzer.can_prove
    trusted = _unpredicated(stage)
    found: list[tuple[IterVar, PrimExpr]] = []
    for axis in stage.op.root_iter_vars():
        if axis not in values or axis in skip or (axis in trusted and axis not in mine.needed):
            continue
        value, dom = values[axis], bounds.schedule.domain(axis)
        low, extent = mine.needed.get(axis, (mine.min[axis], mine.extent[axis]))
        if low is dom.min and extent is dom.extent:
            continue
        if not prove(low >= dom.min) and not prove(value >= dom.min):
            found.append((axis, value >= dom.min))
        end = dom.min + dom.extent
        if not prove(low + extent <= end) and not prove(value < end):
            found.append((axis, value < end))
    simplify = bounds.analyzer.simplify
    return [(axis, ops.likely(simplify(c))) for axis, c in found]


def region_guards(
    bounds: Bounds,
    stage: StageState,
    values: Mapping[IterVar, PrimExpr],
    skip: frozenset[IterVar],
    leaves: Mapping[IterVar, PrimExpr] | None = None,
    free: Collection[IterVar] = (),
) -> list[PrimExpr]:
    """The conditions that a value lies in the stage's region, and that nothing is done twice.
    Those of the root axes `free` do not matter."""
    mine, analyzer = bounds[stage], bounds.analyzer
    trusted = _unpredicated(stage)
    result: list[PrimExpr] = []

    def need(condition: PrimExpr) -> None:
        if not analyzer.can_prove(condition):
            result.append(ops.likely(analyzer.simplify(condition)))

    for axis in stage.op.root_iter_vars():
        if axis not in values or axis in skip or axis in free:
            continue
        value = values[axis]
        if axis in mine.needed:
            low, extent = mine.needed[axis]
            need(value >= low)
        elif axis in trusted:
            continue
        else:
            low, extent = mine.min[axis], mine.extent[axis]
        need(value - low < extent)
    for offset, extent in _double_work(bounds, stage, skip, leaves):
        need(offset < extent)
    offsets = root_offsets(bounds, stage, leaves)
    for axis in mine.guarded:
        need(offsets[axis] < mine.extent[axis])
    shared = _shares_memory(stage)
    for relation in stage.relations:
        # axes that no root axis stands for alone: that more threads than they have steps, or tiles
        # that do not divide, lead out of them would go unnoticed
        if isinstance(relation, Transform) or (shared and isinstance(relation, Singleton)):
            for axis in relation.children:
                if axis in offsets:
                    need(offsets[axis] < mine.extent[axis])
        if isinstance(relation, Transform) and all(a in offsets for a in relation.new):
            for condition in relation.holes(offsets, mine.extent):
                need(condition)
    return result


def _shares_memory(stage: StageState) -> bool:
    """Whether threads that do one step twice would write the same memory."""
    bound = [stage.attr(leaf).bind_thread for leaf in stage.leaf_iter_vars]
    return any(t is not None and not is_virtual(t) and sees_all(stage, t) for t in bound)


def _double_work(
    bounds: Bounds,
    stage: StageState,
    skip: frozenset[IterVar],
    leaves: Mapping[IterVar, PrimExpr] | None,
) -> list[tuple[PrimExpr, PrimExpr]]:
    """(offset, extent) of axes that may run over and so count something twice.

    Data done twice is harmless, unless its loop is inside one of the reduction: then the value is
    not initialised anew each time, and must not be initialised again once it has been updated.
    Virtual threads are such loops, wherever they stand: they take turns at each statement. So are
    those fused of data and reduction axes. Nor may two threads add to one value in memory that they
    share.
    """
    reduction = derived_from(stage.relations, getattr(stage.op, "reduce_axis", ()))
    if not stage.relations or not reduction:
        return []
    order = [leaf in reduction for leaf in stage.leaf_iter_vars]
    family = reduction
    threads = [stage.attr(leaf).bind_thread for leaf in stage.leaf_iter_vars]
    turns = any(t is not None and is_virtual(t) for t in threads)
    fused = derived_from_both(stage.relations, stage.op)
    if turns or fused or False in order[order.index(True) :] or _shares_memory(stage):
        family = derived_from(stage.relations, stage.op.root_iter_vars())
    if skip:
        family = family - reduction
    offsets = root_offsets(bounds, stage, leaves)
    mine = {a: e for a, e in offsets.items() if a in family}
    return overruns(stage.relations, mine, bounds[stage].extent)


def _unpredicated(stage: StageState) -> set[IterVar]:
    """Root axes split with disable_predication: the user answers for the overrun."""
    found: set[IterVar] = set()
    for relation in reversed(stage.relations):
        if (isinstance(relation, Split) and relation.disable_predication) or any(
            c in found for c in relation.children
        ):
            found.update(relation.parents)
    return found
