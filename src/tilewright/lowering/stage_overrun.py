"""Tiles at the edge of a tensor, computed whole.

A tile that does not divide reaches over the edge. What an internal stage stores there nobody reads
for a result, so it need not be kept from computing it, as long as what it reads there is memory:
the tiles of its producers, which reach as far, and in which zeros are put for what they do not
have. So the innermost loops of a product at the edge are the same FMAs as elsewhere, on registers,
and masks are needed only where arguments are read and results are stored.

Halide and Exo compute such tiles whole too; there the user says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loopir.expr import PrimExpr, const
from ..loopir.iter import IterVar, ProducerLoad, Reduce
from ..loopir.subst import substitute
from ..loopir.visit import free_vars, walk
from ..schedule.bounds import Bounds
from ..schedule.placement import is_tile
from ..schedule.state import StageState
from ..tensor.op import PlaceholderOp
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
        if not self._is_tile(stage) or axis not in stage.op.axis:
            return False
        table = {a.var: v for a, v in values.items()}
        filled: set[int] = set()
        for e in stage.op.body:
            for load in walk(e):
                if type(load) is not ProducerLoad:
                    continue
                along = [d for d, i in enumerate(load.indices) if axis.var in free_vars(i)]
                if not along:
                    continue
                if all(self._there(load, d, table) for d in along):
                    continue
                producer = self.stage_of[load.producer.op]
                if not self._is_tile(producer) or producer.op.reduce_axis:
                    return False
                if not all(self._held(load.producer, d, load.indices[d], table) for d in along):
                    return False
                filled.add(producer.id)
        self.filled |= filled
        return True

    def _is_tile(self, stage: StageState) -> bool:
        """Whether only its readers see a stage's memory, on a CPU."""
        if self.bounds.threads or self.bounds.virtual or not is_tile(stage):
            return False
        owner, known = self.memory.owner, self.memory.arguments
        return all(owner(t) is t and t not in known for t in stage.op.outputs)

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
