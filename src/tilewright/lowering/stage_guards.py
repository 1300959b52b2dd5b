"""Which conditions a stage's body must be guarded by."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..loopir import op as ops
from ..loopir.expr import PrimExpr
from ..loopir.iter import IterVar
from ..schedule.bounds import Bounds, root_offsets
from ..schedule.relations import Split
from ..schedule.state import StageState


def stage_guards(
    bounds: Bounds,
    stage: StageState,
    values: Mapping[IterVar, PrimExpr],
    skip: frozenset[IterVar],
) -> list[PrimExpr]:
    """`likely(...)` conditions on the values of the root axes that are not proved.

    First that a value lies in the region that is computed (a tile that does not divide runs over
    its end), then that it lies in the tensor at all (a region may reach over the edge).
    """
    mine, analyzer = bounds[stage], bounds.analyzer
    trusted = _unpredicated(stage)
    result: list[PrimExpr] = []

    def need(condition: PrimExpr) -> None:
        if not analyzer.can_prove(condition):
            result.append(ops.likely(analyzer.simplify(condition)))

    for axis in stage.op.root_iter_vars():
        if axis not in values or axis in skip or axis in trusted:
            continue
        value = values[axis]
        low, extent, dom = mine.min[axis], mine.extent[axis], axis.dom
        assert dom is not None
        need(value - low < extent)
        if low is dom.min and extent is dom.extent:
            continue
        if not analyzer.can_prove(low >= dom.min):
            need(value >= dom.min)
        if not analyzer.can_prove(low + extent <= dom.min + dom.extent):
            need(value < dom.min + dom.extent)
    if not skip and getattr(stage.op, "reduce_axis", None):
        _need_no_overlap(bounds, stage, need)
    return result


def _need_no_overlap(bounds: Bounds, stage: StageState, need: Callable[[PrimExpr], None]) -> None:
    """The inner part of a split, split again, must not run into the next step of the outer part.

    An element that is visited twice is harmless where a value is stored, but is counted twice by a
    reduction. (Overruns of outer parts end beyond the root axis.)
    """
    extent, offsets = bounds[stage].extent, root_offsets(bounds, stage)
    leaves = set(stage.leaf_iter_vars)
    for relation in stage.relations:
        if not isinstance(relation, Split) or relation.disable_predication:
            continue
        inner = relation.inner
        if inner in offsets and inner not in leaves:
            need(offsets[inner] < extent[inner])


def _unpredicated(stage: StageState) -> set[IterVar]:
    """Root axes split with disable_predication: the user answers for the overrun."""
    found: set[IterVar] = set()
    for relation in reversed(stage.relations):
        if (isinstance(relation, Split) and relation.disable_predication) or any(
            c in found for c in relation.children
        ):
            found.update(relation.parents)
    return found
