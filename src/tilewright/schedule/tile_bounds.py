"""Tiles of CPUs, which may be computed beyond what is needed: so that vectors are whole.

What a tile holds beyond the edge of its tensor nobody reads for a result; lowering/stage_overrun.py
says where it is computed, and where zeros are put.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith import IntervalSet, union
from ..loopir.expr import IntImm, const
from ..loopir.iter import IterVar, Range
from ..tensor.regions import finite
from .placement import attach_point, in_scan, is_tile
from .relations import Split, Values
from .state import StageState


def may_overrun(b: Any, stage: StageState) -> bool:
    """Whether a stage may compute more than is needed: a tile of its own, and no threads' part."""
    return not (b.threads or b.virtual) and is_tile(stage)


def whole_vectors(stage: StageState, roots: Values) -> Values:
    """Extents of data axes that are cut into vectors that do not divide them, rounded up: the last
    vector costs as much as the others, but for its mask."""
    found: Values = {}
    for relation in stage.relations:
        if not isinstance(relation, Split) or relation.parent not in stage.op.axis:
            continue
        extent = roots[relation.parent]
        if not isinstance(extent, IntImm) or not isinstance(relation.factor, IntImm):
            continue
        size = relation.factor.value
        vector = stage.kind_of(relation.inner) == IterVar.Vectorized
        if vector and 0 < size < extent.value:
            found[relation.parent] = const(-(-extent.value // size) * size, extent.dtype)
    return found


def stored_in_part(stage: StageState, roots: Values) -> bool:
    """Whether a stage of another layout holds only what a loop of its reader needs: where that has
    one size, since a layout is one of constant extents."""
    if attach_point(stage) is None or in_scan(stage) or stage.rolling:
        return False
    return all(isinstance(roots[a], IntImm) for a in stage.op.axis)


def reaches_over(b: Any, stage: StageState, sets: Sequence[IntervalSet], dom: Range) -> bool:
    """Whether readers with whole vectors go on behind the end of a tile, from its start."""
    if not may_overrun(b, stage):
        return False
    whole = union(sets, b.analyzer)
    if not (finite(whole.min_value) and finite(whole.max_value)):
        return False
    low, high = (b.analyzer.simplify(e) for e in (whole.min_value, whole.max_value))
    end = dom.min + dom.extent
    prove = b.analyzer.can_prove
    return isinstance(high, IntImm) and prove(low >= dom.min) and prove(high >= end)
