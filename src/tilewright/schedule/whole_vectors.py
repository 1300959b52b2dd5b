"""Tiles that are filled up to whole vectors.

A tile that holds all of a dimension ends where the tensor does: of 67 columns in vectors of 16 the
last one has three lanes, whose loop is another one, under a condition, and whose sums leave the
registers for it. A tile that ends elsewhere computes whole vectors, since what lies beyond the edge
nobody reads (lowering/stage_overrun). So the former reaches as far, too, where all that it reads
there is memory: of other tiles, which are made to reach as far, and of arguments that were packed
ahead of time. Copies at the end of that chain read what exists, under a condition of their own.

Of what is no sum the instructions are many for each element, and those of lanes that nobody needs
cost more than a rest. Kernels of devices keep the sizes that their threads share out.

There a copy of what a window reads, which a loop around it makes for one place at a time, may begin
between two vectors of memory, and would then be made of single elements. It begins and ends with
whole vectors instead, where the tensor has them: few instructions, of which lanes are left over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..arith import IntervalSet, eval_set
from ..loopir.copies import is_likely
from ..loopir.expr import Call, Cast, IntImm, PrimExpr, Var, const, is_const
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.op import floormod
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
    inside = [r.inner for r in stage.relations if isinstance(r, Split) and r.parent is axis]
    every = any(_by_intrinsic(stage, leaf) for leaf in inside if leaf in stage.leaf_iter_vars)
    # more than half of the vector would be for nothing
    empty = 2 * extent.value <= lanes and not every
    own = not empty and bool(stage.op.reduce_axis)
    if size == extent.value or not (told or (own and _may(b, stage, axis, low, size))):
        return extent
    for _, along in _tiles_read(b, stage, axis):
        if along is not None:
            b.filled[along] = max(b.filled.get(along, 0), size)
    return const(size, extent.dtype)


def from_whole_vectors(
    b: Any, stage: StageState, axis: IterVar, low: PrimExpr, extent: PrimExpr
) -> tuple[PrimExpr, PrimExpr]:
    """The (min, extent) of an axis of a stage: of a copy in vectors of a kernel, from the beginning
    of a vector to the end of one."""
    if not b.threads or not isinstance(extent, IntImm) or not is_tile(stage):
        return low, extent
    lanes = _lanes(stage, axis)
    if lanes == 1 or axis is not stage.op.axis[-1] or not _moves(stage.op.body[0]):
        return low, extent
    before = b.analyzer.simplify(floormod(low, const(lanes, low.dtype)))
    if not isinstance(before, IntImm):
        return low, extent
    size = -(-(before.value + extent.value) // lanes) * lanes
    first = b.analyzer.simplify(low - before)
    dom, prove = b.schedule.domain(axis), b.analyzer.can_prove
    if not (prove(first >= dom.min) and prove(first + size <= dom.min + dom.extent)):
        return low, extent
    return first, const(size, extent.dtype)


def _moves(e: Any) -> bool:
    """Whether an element is one of another tensor, or that or a number."""
    e = uncast(e)
    if type(e) is Call and e.op.name == "tir.if_then_else" and is_const(uncast(e.args[2])):
        e = uncast(e.args[1])
    return type(e) is ProducerLoad


def uncast(e: Any) -> Any:
    """What is cast."""
    while type(e) is Cast:
        e = e.value
    return e


def _lanes(stage: StageState, axis: IterVar) -> int:
    """The steps of the vectors into which an axis is cut; 1 where it is not."""
    for r in stage.relations:
        if not isinstance(r, Split) or r.parent is not axis or not isinstance(r.factor, IntImm):
            continue
        if r.inner in stage.leaf_iter_vars and (
            stage.kind_of(r.inner) == IterVar.Vectorized or _by_intrinsic(stage, r.inner)
        ):
            return int(r.factor.value)
    return 1


def _by_intrinsic(stage: StageState, leaf: IterVar) -> bool:
    """Whether an intrinsic takes the steps of a loop, always all of them."""
    return stage.attr(leaf).tensor_intrin is not None


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
    """Whether an element is one of another tensor, or mostly: at the end there may be zeros."""
    e = uncast(stage.op.body[0])
    filled = type(e) is Call and e.op.name == "tir.if_then_else" and is_likely(e.args[0])
    return type(e) is ProducerLoad or (filled and _moves(e))
