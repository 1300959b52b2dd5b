"""The skeleton of a GPU sketch: its loops have their threads, what is left follows the columns.

- `auto_unroll_max_step` on the outermost loop of each reduction;
- on Mali the innermost data loop of a tile becomes a vector, where it is as long as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..loopir.iter import IterVar
from . import rows as R
from .features import Batch
from .rows import Row, apply_row
from .skeleton import StagePlan, leaf_extents
from .space import Matrix
from .space_gpu import GpuSpace
from .state import State

LANES = (2, 4, 8, 16)


class GpuSkeleton:
    """One loop structure on blocks and threads. `vectors`: whether innermost loops are."""

    def __init__(self, space: GpuSpace, vectors: bool = False) -> None:
        self.space, self.vectors = space, vectors
        self.state = space.sketch
        self.rows: list[Row] = []
        self.nest = space.nest
        self.plans = [p for s in self.state.live_stages if (p := self._plan(s)) is not None]

    def _plan(self, stage: Any) -> StagePlan | None:
        access = self.state.access
        if not access.is_compute(stage.op) or stage.attach_type in (2, 3):
            return None
        unroll = next((c for c in self.space.unroll if c.node == stage.id), None)
        leaves = stage.leaf_iter_vars
        last = leaves[-1] if leaves else None
        data_last = last is not None and last.iter_type == IterVar.DataPar
        free = data_last and stage.attr(last).bind_thread is None
        return StagePlan(
            ident=stage.id,
            unroll=unroll.column if unroll is not None else -1,
            options=unroll.values if unroll is not None else (),
            data_last=bool(free and self.vectors),
        )

    def close(self, row: Matrix) -> State:
        """The finished state of one candidate."""
        sketch = self.space.sketch
        state = sketch.close([int(v) for v in row[: len(sketch.open)]])
        extents = leaf_extents(state) if self.vectors else {}
        for plan in reversed(self.plans):
            place = state.order.index(plan.ident)
            if plan.data_last and vector_length(np.array(extents[plan.ident][-1])):
                last = len(state.stage_at(place).leaf_iter_vars) - 1
                apply_row(state, ("AN", place, last, R.VECTORIZE))
            step = plan.steps(row)
            if step > 0:
                apply_row(state, ("PR", place, 0, f"{R.UNROLL_PRAGMA}${step}"))
        return state

    def batch(self, rows: Matrix, extents: dict[int, Matrix]) -> Batch:
        """What the features are told of candidates."""
        vector, unroll = {}, {}
        for plan in self.plans:
            mine = extents[plan.ident]
            if plan.data_last and mine.shape[1]:
                lanes = vector_length(mine[:, -1])
                vector[plan.ident] = np.broadcast_to(lanes, (len(rows),))
            if plan.unroll >= 0:
                unroll[plan.ident] = plan.steps(rows)
        factors = rows[:, : len(self.space.sketch.open)]
        return Batch(factors, vector=vector, unroll=unroll)


def vector_length(extent: Any) -> Any:
    """Whether a loop is as long as a vector of OpenCL (arrays allowed)."""
    return np.isin(extent, LANES)
