"""Tiles that are filled up to whole vectors.

A tile that holds all of a dimension ends where the tensor does: of 67 columns in vectors of 16 the
last one has three lanes, whose loop is another one, under a condition, and whose sums leave the
registers for it. A tile that ends elsewhere computes whole vectors, since what lies beyond the edge
nobody reads (lowering/stage_overrun). So the former reaches as far, too, where all that it reads
there is memory: of other tiles, which are made to reach as far, and of arguments that were packed
ahead of time. Copies at the end of that chain read what exists, under a condition of their own.

Of what is no sum the instructions are many for each element, and those of lanes that nobody needs
cost more than a rest. Kernels of devices keep the sizes that their threads share out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..arith import IntervalSet, eval_set
from ..loopir.expr import Cast, IntImm, PrimExpr, Var, const
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.visit import free_vars, walk
from ..tensor.op import PlaceholderOp
from ..tensor.regions import finite
from .placement import is_tile
from .relations import Split
from .state import StageState


def whole_vectors(
    b: Any, stage: StageState, axis: IterVar, low: PrimExpr, extent: IntImm
) -> PrimExpr:
    """The extent of an axis of a stage, which starts at `low`: of a tile that may be filled up, or
    whose readers are, that of whole vectors. Readers have to be asked first."""
    if b.threads or b.virtual or not is_tile(stage) or axis not in stage.op.axis:
        return extent
    told = b.filled.get(axis, 0)
    lanes = _lanes(stage, axis)
    size = -(-max(extent.value, told) // lanes) * lanes
    empty = 2 * extent.value <= lanes  # more than half of the vector would be for nothing
    own = not empty and bool(stage.op.reduce_axis)
    if size == extent.value or not (told or (own and _may(b, stage, axis, low, size))):
        return extent
    for _, along in _tiles_read(b, stage, axis):
        if along is not None:
            b.filled[along] = max(b.filled.get(along, 0), size)
    return const(size, extent.dtype)


def _lanes(stage: StageState, axis: IterVar) -> int:
    """The steps of the vectors into which an axis is cut; 1 where it is not."""
    for r in stage.relations:
        if not isinstance(r, Split) or r.parent is not axis or not isinstance(r.factor, IntImm):
            continue
        if r.inner in stage.leaf_iter_vars and stage.kind_of(r.inner) == IterVar.Vectorized:
            return int(r.factor.value)
    return 1


def _may(b: Any, stage: StageState, axis: IterVar, low: PrimExpr, size: int) -> bool:
    """Whether all that a stage reads along an axis, in `size` steps from `low` on, is memory, or is
    once tiles are filled up, too."""
    steps = {axis.var: IntervalSet(low, low + (size - 1))}
    for load in _loads(stage, axis.var):
        producer = b.schedule.stage_of[load.producer.op]
        if isinstance(producer.op, PlaceholderOp):
            if not all(_inside(b, i, n, steps) for i, n in zip(load.indices, load.producer.shape)):
                return False
        elif not is_tile(producer):
            return False
    for producer, along in _tiles_read(b, stage, axis):
        if along is None or not (_is_copy(producer) or _may_tile(b, producer, along, size)):
            return False
    return True


def _may_tile(b: Any, stage: StageState, axis: IterVar, size: int) -> bool:
    """The same of a tile whose bounds are not known yet: no argument is read along the axis."""
    loads = _loads(stage, axis.var)
    if any(not is_tile(b.schedule.stage_of[load.producer.op]) for load in loads):
        return False
    return all(
        along is not None and (_is_copy(producer) or _may_tile(b, producer, along, size))
        for producer, along in _tiles_read(b, stage, axis)
    )


def _inside(b: Any, index: Any, extent: Any, steps: dict[Var, IntervalSet]) -> bool:
    """Whether an index lies within a dimension in all steps; those that do not change, do."""
    if not any(v in steps for v in free_vars(index)):
        return True
    taken, prove = eval_set(index, steps, b.analyzer), b.analyzer.can_prove
    low, high = taken.min_value, taken.max_value
    return bool(finite(low) and finite(high) and prove(low >= 0) and prove(high < extent))


def _loads(stage: StageState, var: Var) -> list[ProducerLoad]:
    """What a stage reads at indices that a variable changes."""
    return [
        e
        for body in stage.op.body
        for e in walk(body)
        if type(e) is ProducerLoad and any(var in free_vars(i) for i in e.indices)
    ]


def _tiles_read(
    b: Any, stage: StageState, axis: IterVar
) -> Iterator[tuple[StageState, IterVar | None]]:
    """The tiles that a stage reads along an axis, and the axis of each that this one is an index
    of (None: it is part of one)."""
    for load in _loads(stage, axis.var):
        producer = b.schedule.stage_of[load.producer.op]
        if not is_tile(producer):
            continue
        for d, index in enumerate(load.indices):
            if index is axis.var:
                yield producer, producer.op.axis[d]
            elif axis.var in free_vars(index):
                yield producer, None


def _is_copy(stage: StageState) -> bool:
    body = stage.op.body[0]
    while type(body) is Cast:
        body = body.value
    return type(body) is ProducerLoad
