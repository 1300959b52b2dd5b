"""Features of all candidates of a skeleton at once, without lowering any of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from .annotations import Annotator, Batch
from .columns import COUNT, FLOAT_OPERATIONS, OPERATIONS, PLACE
from .intensity import write_intensity
from .memory import Memory, Sharing
from .nest import Nest
from .program import Array, Index
from .statements import Reader
from .tables import Tables
from .touch import Levels

CHUNK = 256  # candidates whose arrays stay in a core's caches


class Skeleton:
    """The loop structure of a state with open lengths, read once.

    state: `.schedule` is a schedule whose split factors may be variables, `.open` lists these
    (objects with `.var`), `.packed` maps the numbers of stages whose memory is in the order of
    their readers' loops to those readers. ScheduleError for operations other than te.compute (and
    te.extern, which is passed over) and for shapes that are not constant.
    """

    def __init__(self, state: Any, vectors: Collection[int] = ()) -> None:
        """vectors: stages whose innermost loop is to be a vector."""
        lengths = [factor.var for factor in state.open]
        packed = dict(getattr(state, "packed", {}))
        nest = Nest(state.schedule.normalize(), lengths, packed, vectors)
        self.statements = Reader(nest, packed).statements()
        self.names = [s.name for s in self.statements]
        self.tables = Tables(nest, self.statements)
        self.sharing = Sharing(self.tables)
        self.annotators = [Annotator(s, packed) for s in self.statements]
        self.counts: Array = np.array(
            [[float(s.counts[name]) for name in OPERATIONS] for s in self.statements]
        )
        self.flops: Array = self.counts[:, :FLOAT_OPERATIONS].sum(axis=1)
        self.allocated: list[tuple[int, int, float, Index]] = []
        for k, s in enumerate(self.statements):
            stage = s.nest.stage
            if not stage.is_output:
                shape = self.tables.program.place[s.target.shape]
                self.allocated.append((k, s.nest.outside, float(s.target.element), shape))

    def loop_extents(self, lengths: npt.NDArray[np.int64]) -> dict[int, npt.NDArray[np.int64]]:
        """By stage, the extents (N, loops) of its own loops, for lengths (N, open).

        These are the leaf loops that `Batch` speaks of. A copy into the order of its reader's tiles
        has one for each part of an axis that the reader's splits make; those of one iteration are
        left out when its lengths are known, so they stand before the last of the others here.
        """
        nest, program = self.tables.nest, self.tables.program
        values = program.run(lengths)
        found = {}
        for ident, stage in nest.stages.items():
            packed = ident in nest.packed and len(stage.path) > stage.outside
            if packed:
                slots = [loop.extent for loop in stage.path[stage.outside :]]
            else:
                slots = [stage.extents[a] for a in stage.stage.leaf_iter_vars]
            rows = values[program.place[np.array(slots, np.intp)]].T.astype(np.int64)
            found[ident] = _without_gaps(rows) if packed else rows
        return found

    def fused(self, batch: Batch) -> dict[int, npt.NDArray[np.int64]]:
        """By statement, how many of the outer loops around it run as one."""
        found = {}
        for k, s in enumerate(self.statements):
            if s.path and s.path[0].stage.id in batch.parallel:
                found[k] = np.asarray(batch.parallel[s.path[0].stage.id])
        return found


def features_of(state: Any) -> npt.NDArray[np.float32]:
    """Feature rows (S, 164) of the statements of one closed state."""
    rows, _ = features(Skeleton(state), Batch(np.zeros((1, 0), np.int64)))
    return rows.reshape(-1, COUNT)


def features(skeleton: Skeleton, batch: Batch) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Feature rows (N, S, 164) float32 of N candidates, and the names of the S statements.

    The columns are columns.NAMES, each as log2(value + 1). They follow the features of Ansor (Zheng
    et al., OSDI 2020) as TVM defines them; memory.py and intensity.py say where they differ.
    """
    count, names = len(batch.factors), skeleton.names
    rows: npt.NDArray[np.float32] = np.empty((count, len(names), COUNT), np.float32)
    if names:
        for start in range(0, count, CHUNK):
            part = batch.part(start, start + CHUNK)
            rows[start : start + CHUNK] = _columns(skeleton, part).transpose(2, 0, 1)
    return rows, names


def _columns(skeleton: Skeleton, batch: Batch) -> npt.NDArray[np.float32]:
    """The columns of all statements, (S, 164, N)."""
    shape = (len(skeleton.names), COUNT, len(batch.factors))
    out: npt.NDArray[np.float32] = np.zeros(shape, np.float32)
    levels = Levels(skeleton.tables, batch.factors, skeleton.fused(batch))
    if not levels.extent.shape[1]:  # no loop anywhere: single elements, that nothing moves over
        out[:, : len(OPERATIONS)] = skeleton.counts[:, :, None]
        out += 1.0
        return np.log2(out, out=out)
    memory = Memory(levels, skeleton.sharing)
    total = levels.trips[:, 0]
    out[:, : len(OPERATIONS)] = skeleton.counts[:, :, None] * total[:, None]
    for k, annotator in enumerate(skeleton.annotators):
        annotator.write(levels.extent[k], batch, out[k])
    memory.write(out)
    write_intensity(skeleton.flops, levels.trips, memory.own_bytes, out)
    out[:, PLACE["outer_prod"]] = total
    _write_allocation(skeleton, levels, out)
    out += 1.0
    return np.log2(out, out=out)


def _without_gaps(extents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Extents (N, loops) with those of 1 moved before the last of the others."""
    single = extents == 1
    after = np.cumsum(~single[:, ::-1], axis=1)[:, ::-1]
    order = np.argsort(np.where(single, 1, np.where(after == 1, 2, 0)), axis=1, kind="stable")
    return np.take_along_axis(extents, order, axis=1)


def _write_allocation(skeleton: Skeleton, levels: Levels, out: npt.NDArray[np.float32]) -> None:
    """Memory of statements that do not store to an argument, and the loops around it."""
    first = PLACE["alloc_size"]
    for k, outside, element, shape in skeleton.allocated:
        elements = levels.slots[shape].prod(axis=0)
        inner = levels.trips[k, outside]
        outer = levels.trips[k, 0] / inner
        out[k, first] = elements * element
        out[k, first + 1] = outer
        out[k, first + 2] = inner
        out[k, first + 3] = elements * outer
