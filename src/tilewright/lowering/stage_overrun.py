"""Tiles at the edge of a tensor, computed whole.

A tile that does not divide reaches over the edge. What an internal stage stores there nobody reads
for a result, so it need not be kept from computing it, as long as what it reads there is memory:
the tiles of its producers, which reach as far, and in which zeros are put for what they do not
have. So the innermost loops of a product at the edge are the same FMAs as elsewhere, on registers,
and masks are needed only where arguments are read and results are stored.

In kernels the same holds of stages in shared memory and in registers: copies to shared memory at
an edge are the same instructions as elsewhere, which put zeros for what is not there. There a sum
of products may run over the end of its reduction, too: products of those zeros add nothing.

Halide and Exo compute such tiles whole too; there the user says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loopir.expr import Add, Call, Mul, PrimExpr, Var, const, is_const
from ..loopir.iter import IterVar, ProducerLoad, Reduce
from ..loopir.subst import substitute
from ..loopir.visit import free_vars, walk
from ..schedule.placement import is_tile, storage_scope
from ..schedule.stage_bounds import Bounds
from ..schedule.state import StageState
from ..schedule.whole_vectors import uncast
from ..tensor.op import PlaceholderOp
from ..tensor.reduce import builtin_kind
from ..tensor.tensor import Tensor
from .stage_guards import edge_guards
from .stage_memory import Memory

NO_AXES: frozenset[IterVar] = frozenset()


class Overrun:
    """Which guards at edges are left out, and which stages put zeros beyond them (`filled`).

    Readers have to be asked before what they read is emitted.
    """

    def __init__(self, sch: Any, bounds: Bounds, memory: Memory) -> None:
        self.bounds, self.memory = bounds, memory
        self.stage_of: Mapping[Any, StageState] = sch.stage_of
        self.filled: set[int] = set()
        self.zeros: set[int] = set()  # of those, where somebody relies on zeros
        self.free: dict[int, set[IterVar]] = {}

    def edges(
        self,
        stage: StageState,
        values: Mapping[IterVar, PrimExpr],
        skip: frozenset[IterVar] = NO_AXES,
    ) -> list[PrimExpr]:
        """The guards that are needed at the edges of a stage's tensor."""
        found = edge_guards(self.bounds, stage, values, skip)
        if not found:
            return []
        if stage.id not in self.free:
            wanted = dict.fromkeys(axis for axis, _ in found)
            self.free[stage.id] = {a for a in wanted if self._harmless(stage, a, values)}
        return [condition for axis, condition in found if axis not in self.free[stage.id]]

    def summed(self, stage: StageState, values: Mapping[IterVar, PrimExpr]) -> frozenset[IterVar]:
        """The reduction axes beyond whose end a stage adds products of zeros."""
        if not self.bounds.threads or not self._is_tile(stage) or not _adds_products(stage.op):
            return NO_AXES
        prove = self.bounds.analyzer.can_prove
        found = []
        for axis in stage.op.reduce_axis:
            if axis not in values or type(values[axis]) is Var:
                continue
            dom = self.bounds.schedule.domain(axis)
            if prove(values[axis] < dom.min + dom.extent):
                continue
            if self._harmless(stage, axis, values):
                found.append(axis)
        return frozenset(found)

    def starts_whole(self, stage: StageState) -> bool:
        """Whether a reduction may be initialised beyond the edge too: in memory of its own, with
        constants. Under a condition, the sums of the last iteration would seem to stay, and take
        the registers that those of this one need."""
        body = stage.op.body[0]
        return self._is_tile(stage) and type(body) is Reduce and not body.init

    def _harmless(
        self, stage: StageState, axis: IterVar, values: Mapping[IterVar, PrimExpr]
    ) -> bool:
        """Whether a stage may run over the edge along an axis: in memory of its own, on tiles that
        reach as far."""
        sums = axis in getattr(stage.op, "reduce_axis", ())
        if not self._is_tile(stage) or not (sums or axis in stage.op.axis):
            return False
        relied = sums or stage.id in self.zeros
        if relied and not sums and not _moves(stage.op.body[0]):
            return False
        if _clips(stage):
            return not relied
        table = {a.var: v for a, v in values.items()}
        filled: set[int] = set()
        for e in stage.op.body:
            for load in walk(e):
                if type(load) is not ProducerLoad:
                    continue
                along = [d for d, i in enumerate(load.indices) if axis.var in free_vars(i)]
                if not along:
                    continue
                if not relied and all(self._there(load, d, table) for d in along):
                    continue
                producer = self.stage_of[load.producer.op]
                if not self._is_tile(producer) or not self._reads_tiles(producer):
                    return False
                if not all(self._held(load.producer, d, load.indices[d], table) for d in along):
                    return False
                if not producer.op.reduce_axis:
                    filled.add(producer.id)
                elif relied or not self.bounds.threads:
                    return False
        self.filled |= filled
        if relied:
            self.zeros |= filled
        return True

    def _is_tile(self, stage: StageState) -> bool:
        """Whether only its readers see a stage's memory: on a CPU, or on chip."""
        if not is_tile(stage):
            return False
        if (self.bounds.threads or self.bounds.virtual) and storage_scope(stage) == "global":
            return False
        owner, known = self.memory.owner, self.memory.arguments
        return all(owner(t) is t and t not in known for t in stage.op.outputs)

    def _reads_tiles(self, stage: StageState) -> bool:
        """Whether a stage whose elements an intrinsic makes, so that it has no zeros to put, reads
        tiles alone, which have them, or takes zeros beyond edges."""
        if _clips(stage) or all(
            stage.attr(leaf).tensor_intrin is None for leaf in stage.leaf_iter_vars
        ):
            return True
        return all(self._is_tile(self.stage_of[t.op]) for t in stage.op.input_tensors)

    def _there(self, load: ProducerLoad, d: int, table: Mapping[Any, PrimExpr]) -> bool:
        """Whether what is read is an argument that has a dimension's index, wherever the reader's
        loops are: operands that were packed ahead of time are filled up to whole tiles."""
        if not isinstance(load.producer.op, PlaceholderOp):
            return False
        place, size = substitute(load.indices[d], table), load.producer.shape[d]
        prove = self.bounds.analyzer.can_prove
        return bool(prove(place >= const(0, place.dtype)) and prove(place < size))

    def _held(self, t: Tensor, d: int, index: PrimExpr, table: Mapping[Any, PrimExpr]) -> bool:
        """Whether a dimension of a tile holds an index, wherever the reader's loops are."""
        mine, axis = self.bounds[self.stage_of[t.op]], self.stage_of[t.op].op.axis[d]
        prove = self.bounds.analyzer.can_prove
        place = substitute(index, table) - mine.min[axis]
        return bool(prove(place >= const(0, place.dtype)) and prove(place < mine.extent[axis]))


def _clips(stage: StageState) -> bool:
    """Whether an intrinsic makes a stage's elements that reads nothing beyond edges."""
    intrinsics = [stage.attr(leaf).tensor_intrin for leaf in stage.leaf_iter_vars]
    return any(x is not None and x.clips for x in intrinsics)


def _adds_products(op: Any) -> bool:
    """Whether an operation is a sum of products of two elements."""
    body = op.body[0]
    if op.num_outputs != 1 or type(body) is not Reduce or body.init:
        return False
    if builtin_kind(body.combiner) is not Add or not is_const(body.condition, 1):
        return False
    product = uncast(body.source[0])
    return type(product) is Mul and all(
        type(uncast(e)) is ProducerLoad for e in (product.a, product.b)
    )


def _moves(e: Any) -> bool:
    """Whether an element is one of another tensor, or that or zero."""
    e = uncast(e)
    if type(e) is Call and e.op.name == "tir.if_then_else" and is_const(uncast(e.args[2]), 0):
        e = uncast(e.args[1])
    return type(e) is ProducerLoad
