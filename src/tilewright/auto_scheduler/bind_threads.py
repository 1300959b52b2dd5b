"""Thread binding of GPU sketches: which loops run on blocks and threads, as rows with open lengths.

The stages of a sketch at the root become kernels (the initialisation rules of Ansor's GPU search,
Zheng et al., OSDI 2020, as TVM applies them):

- a tiled stage, or the one that a tiled stage is computed in: its first three levels of tiles, each
  fused, on blockIdx.x, vthread and threadIdx.x; what the tile reads from shared memory is fetched
  by all its threads together, in vectors of an open length;
- a stage whose reductions threads share: its outer loops on blockIdx.x;
- any other: its outer data loops fused and split by an open number of threads.

These rows come behind the sketch's own, so the live schedule of the result has every thread bound
while its lengths are still open: features and limits are read off it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..base.dtype import parse
from ..loopir.expr import Call, Select, const_int
from ..loopir.iter import IterVar
from ..loopir.visit import nodes
from ..schedule.relations import Split
from ..schedule.state import GROUP_ROOT, SCOPE
from . import rows as R
from .access import has_cross_thread_reduction
from .rows import apply_row
from .space import divisors
from .state import State

OUTER_LEVELS = 3
THREAD_LEVEL = 1
MAX_LANES = 4
BLOCKS = (16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Source:
    """What a row split: the stage and whether it was a data loop."""

    ident: int
    data: bool


@dataclass
class Tiled:
    """A kernel of tiles: the rows that split the data loops of the stage `ident`; `tiny`: it is too
    small to fill a warp."""

    ident: int
    rows: list[int]
    tiny: bool


@dataclass
class Fetch:
    """A copy into shared memory: the row that splits it into vectors (-1: none)."""

    ident: int
    row: int


@dataclass
class Bound:
    """A sketch with its threads bound. `options`: values by (row, level) of lengths that need not
    divide their loops."""

    state: State
    tiled: list[Tiled] = field(default_factory=list)
    fetches: list[Fetch] = field(default_factory=list)
    options: dict[int, tuple[int, ...]] = field(default_factory=dict)
    owners: dict[int, Source] = field(default_factory=dict)


class Binder:
    """Binds the stages of one sketch."""

    def __init__(self, sketch: State, hardware: Any) -> None:
        self.hardware = hardware
        self.sources = split_sources(sketch)
        self.state = sketch.copy()
        self.bound = Bound(self.state, owners=dict(self.sources))
        for f in self.state.open:
            row = sketch.rows[f.row]
            if self._shares_threads(f):
                self.bound.options[f.row] = self.thread_counts(row[3])
            elif not row[5] and len(row[4]) == 1 and not self.sources[f.row].data:
                self.bound.options[f.row] = block_counts(row[3])

    def _shares_threads(self, factor: Any) -> bool:
        """Whether a length says how many threads share a reduction."""
        for stage in self.state.live_stages:
            for r in stage.relations:
                if isinstance(r, Split) and r.factor is factor.var:
                    return stage.attr(r.inner).bind_thread is not None
        return False

    def thread_counts(self, most: int | None) -> tuple[int, ...]:
        """Numbers of threads to choose from: powers of two, from a warp to the limit, or not far
        beyond the work there is."""
        limit = max(1, self.hardware.max_threads_per_block)
        least = max(1, self.hardware.warp_size)
        if least == 1:
            least = min(16, limit)
        found = [least]
        while found[-1] * 2 <= limit and (most is None or found[-1] < most):
            found.append(found[-1] * 2)
        return tuple(found)

    def bind(self) -> Bound:
        """Bind all stages, the last first."""
        roots = self._tiled_roots()
        idents = list(reversed(self.state.order))
        for ident in idents:
            stage = self.state.schedule.by_id[ident]
            if not self.state.access.is_compute(stage.op):
                continue
            if stage.attach_type == GROUP_ROOT:
                self._bind_root(stage, roots.get(ident))
            elif stage.attach_type == SCOPE and stage.scope == "shared":
                self._bind_fetch(stage)
        return self.bound

    def _tiled_roots(self) -> dict[int, int]:
        """By root stage, the tiled stage in it."""
        found = {}
        for stage in self.state.live_stages:
            op = stage.op
            if not self.state.access.is_compute(op) or has_cross_thread_reduction(stage):
                continue
            if not self.state.access.needs_multi_level_tiling(op) or not stage.relations:
                continue
            if stage.attach_type == SCOPE and stage.attach_stage is not None:
                found[stage.attach_stage.id] = stage.id
            elif stage.attach_type == GROUP_ROOT:
                found[stage.id] = stage.id
        return found

    # -- kernels

    def _bind_root(self, stage: Any, tiled: int | None) -> None:
        threads = any(_thread_of(stage, a) == "threadIdx.x" for a in stage.leaf_iter_vars)
        if threads or any(
            s.attach_stage is stage and has_cross_thread_reduction(s)
            for s in self.state.live_stages
        ):
            self._add("AN", stage, self._fuse_outer(stage), R.BLOCK_X)
        elif tiled is not None and len(levels_of(stage)) > OUTER_LEVELS:
            self._bind_tiles(stage, tiled)
        else:
            self._bind_plain(stage)

    def _bind_tiles(self, stage: Any, tiled: int) -> None:
        levels = levels_of(stage)
        for place, kind in enumerate((R.BLOCK_X, R.VTHREAD, R.THREAD_X)):
            loops = [_leaf_place(stage, a) for a in levels[place]]
            if len(loops) > 1:
                self._add("FU", stage, tuple(loops))
            self._add("AN", stage, place, kind)
        rows = [n for n, s in self.sources.items() if s.ident == tiled and s.data]
        extents = [const_int(a.dom.extent) or 1 for a in stage.op.axis]
        tiny = prod(extents) <= 2 * max(1, self.hardware.warp_size)
        self.bound.tiled.append(Tiled(stage.id, rows, tiny))

    def _bind_plain(self, stage: Any) -> None:
        place = self._fuse_outer(stage)
        extent = self.state.extent_of(self._place(stage), place)
        least = max(1, self.hardware.warp_size)
        if extent is None or extent > least:
            self._open_split(stage, extent, self.thread_counts(extent))
            self._add("AN", stage, place, R.BLOCK_X)
            place += 1
        self._add("AN", stage, place, R.THREAD_X)

    def _fuse_outer(self, stage: Any) -> int:
        """Fuse the data loops, down to the first in which another stage is computed or to the first
        that is annotated; returns the place of the result."""
        inside = [s.attach_ivar for s in self.state.live_stages if s.attach_stage is stage]
        count = 0
        for leaf in stage.leaf_iter_vars:
            if stage.kind_of(leaf) != IterVar.DataPar or _thread_of(stage, leaf):
                break
            count += 1
            if any(leaf is a for a in inside):
                break
        if count != 1:
            self._add("FU", stage, tuple(range(count)))
        return 0

    # -- shared memory

    def _bind_fetch(self, stage: Any) -> None:
        tiled = stage.attach_stage.id
        rows = [n for n, s in self.sources.items() if s.ident == tiled and s.data]
        if not rows or stage.op.reduce_axis or stage.relations:
            return
        count = len(stage.leaf_iter_vars)
        if count > 1:
            self._add("FU", stage, tuple(range(count)))
        lanes = self._lanes(stage)
        row = -1
        if len(lanes) > 1:
            row = self._open_split(stage, None, lanes)
            self._add("AN", stage, 1, R.VECTORIZE)
        self._add("FFSP", stage, 0, tuple(rows), THREAD_LEVEL, 1)
        self._add("AN", stage, 1, R.THREAD_X)
        self.bound.fetches.append(Fetch(stage.id, row))

    def _lanes(self, stage: Any) -> tuple[int, ...]:
        """Lengths of vectors that a copy may fetch: powers of two, no wider than a load, and one
        only where its elements are chosen or computed one by one."""
        op = stage.op
        last = const_int(op.axis[-1].dom.extent) or 1 if op.axis else 1
        if last % 2 or not self._is_plain(op):
            return (1,)
        most = min(
            self.hardware.vector_unit_bytes // max(1, parse(op.output(0).dtype).nbytes), MAX_LANES
        )
        return tuple(n for n in (1, 2, 4) if n <= most and last % n == 0)

    def _is_plain(self, op: Any) -> bool:
        """Whether an operation, with those that are inlined in it, only moves elements."""
        stack = [op]
        while stack:
            item = stack.pop()
            if any(isinstance(x, (Select, Call)) for e in item.body for x in nodes(e)):
                return False
            sources = self.state.access.get_direct_producers(item)
            stack += [p for p in sources if p in self.state.access.inlined]
        return True

    def _open_split(self, stage: Any, extent: int | None, options: tuple[int, ...]) -> int:
        """Split the first loop by an open factor from a list; returns the row's number."""
        row = len(self.state.rows)
        self._add("SP", stage, 0, extent, (None,), 1)
        self.bound.options[row] = options
        self.bound.owners[row] = Source(stage.id, True)
        return row

    def _place(self, stage: Any) -> int:
        return self.state.order.index(stage.id)

    def _add(self, name: str, stage: Any, *rest: Any) -> None:
        apply_row(self.state, (name, self._place(stage), *rest))


def bind_threads(sketch: State, hardware: Any) -> Bound:
    """The sketch with its loops bound to blocks and threads of the device."""
    return Binder(sketch, hardware).bind()


def block_counts(extent: int | None) -> tuple[int, ...]:
    """Numbers of blocks to share a reduction of so many steps: its divisors, if it has some."""
    exact = tuple(n for n in divisors(extent or 1) if BLOCKS[0] <= n <= BLOCKS[-1])
    return exact if len(exact) > 2 else BLOCKS


def split_sources(sketch: State) -> dict[int, Source]:
    """What the rows of a state that split loops with open lengths or lists of them have split."""
    state = State(sketch.dag)
    found: dict[int, Source] = {}
    for n, row in enumerate(sketch.rows):
        if row[0] == "SP":
            stage = state.stage_at(row[1])
            data = stage.leaf_iter_vars[row[2]].iter_type == IterVar.DataPar
            found[n] = Source(stage.id, data)
        apply_row(state, row)
    return found


def levels_of(stage: Any) -> list[list[Any]]:
    """The pieces of a stage's split data loops by level, outermost first."""
    splits = {r.parent: r for r in stage.relations if isinstance(r, Split)}

    def parts(axis: Any) -> list[Any]:
        r = splits.get(axis)
        return [axis] if r is None else [*parts(r.outer), *parts(r.inner)]

    pieces = [parts(a) for a in stage.op.axis if a in splits]
    depth = min((len(p) for p in pieces), default=0)
    return [[p[level] for p in pieces] for level in range(depth)]


def _leaf_place(stage: Any, axis: Any) -> int:
    return next(n for n, a in enumerate(stage.leaf_iter_vars) if a is axis)


def _thread_of(stage: Any, axis: Any) -> str:
    thread = stage.attr(axis).bind_thread
    return "" if thread is None else str(thread.thread_tag)
