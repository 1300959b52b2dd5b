"""A skeleton: a sketch whose flexible stages have their places, with everything but lengths
decided.

From the lengths of a candidate follow its annotations, by these rules for CPUs:

- the outermost loops of each stage at the root are fused and run in parallel: as many as a column
  says, else until there are more than 16 pieces of work for each core; stages of little work stay
  serial;
- the innermost loop of a stage is vectorised where it is a data loop of 2 to 256 iterations; one
  that no rule has tiled is cut into vectors of the target first, the last of them masked;
- in a tiled reduction, the data loops behind the last reduction loop are written out in full while
  the tile is small: it then stays in registers;
- `auto_unroll_max_step` on the outermost loop of each reduction;
- `skip_zeros` there too, where a tiled sum reads a padded input; where a whole row of the result is
  in the tile, the loop along the kernel's row is written out, so that each element of the tile has
  the steps of its own;
- `tree_reduce` on a short reduction of what lies in a row, such as partial results; of these two,
  a column may take either away (pragmas.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..loopir.expr import const_int
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.visit import free_vars, walk
from ..schedule.bounds import MAX_VECTOR, infer_bounds
from ..schedule.relations import Split
from ..schedule.state import GROUP_ROOT, INLINE, INLINED_ALREADY
from . import rows as R
from .pragmas import SKIP_ZEROS, TREE_REDUCE, has_tree, padding_of, reduces_a_row
from .rows import Row, apply_row
from .space import Matrix, Space, parallel_limit, vector_lanes
from .state import State

PIECES_PER_CORE = 16
SERIAL_BELOW = 8192
MAX_LANES = MAX_VECTOR
LONG = 4  # a loop of more vectors that no rule has tiled is cut
LINES = 32  # as many elements of each of 16 rows fill the first cache less than half
MAX_TILE = 64
MAX_STEPS = 256  # of a tile, written out for each position in the kernel

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class StagePlan:
    """How one stage of a skeleton is annotated. `parallel`, `unroll`, `without`: columns, the last
    by pragma."""

    ident: int
    root: bool = False
    limit: int = 0
    parallel: int = -1
    unroll: int = -1
    options: tuple[int, ...] = ()
    data_last: bool = False
    tile_loops: tuple[int, ...] = ()
    heavy: bool = False
    padded: bool = False
    borders: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    row_sum: bool = False
    without: Mapping[str, int] = field(default_factory=dict)

    def steps(self, rows: Matrix) -> Any:
        """The limits for unrolling of candidates (a row: of one); 0 where there is no column."""
        return np.array(self.options)[rows[..., self.unroll]] if self.unroll >= 0 else 0

    def keeps(self, pragma: str, row: Matrix) -> bool:
        """Whether a candidate has a pragma that the rules give the stage."""
        return pragma not in self.without or not row[self.without[pragma]]


class Skeleton:
    """One loop structure: the state with open lengths, and the annotation of its stages."""

    def __init__(self, space: Space, choices: Sequence[int], cores: int) -> None:
        self.space, self.choices, self.cores = space, tuple(int(c) for c in choices), cores
        self.rows = space.place_rows(self.choices)
        self.state = State.from_rows(space.sketch.origin, space.sketch.rows)
        for row in self.rows:
            apply_row(self.state, row)
        for row in lane_rows(self.state, space.vector_bytes):
            apply_row(self.state, row)
            self.rows.append(row)
        self.vectors = {s.id for s in self.state.live_stages if _ends_with_data(s)}
        self.plans = [p for s in self.state.live_stages if (p := self._plan(s)) is not None]

    def _plan(self, stage: Any) -> StagePlan | None:
        state = self.state
        access = state.access
        if not access.is_compute(stage.op) or stage.attach_type in (INLINE, INLINED_ALREADY):
            return None
        root = stage.attach_type == GROUP_ROOT
        parallel = next((c.column for c in self.space.parallel if c.node == stage.id), -1)
        unroll = next((c for c in self.space.unroll if c.node == stage.id), None)
        leaves = stage.leaf_iter_vars
        last_reduce = max(
            (n for n, a in enumerate(leaves) if a.iter_type == IterVar.CommReduce), default=-1
        )
        data_last = stage.id in self.vectors
        tiled = bool(stage.op.reduce_axis) and bool(stage.relations)
        conditions = padding_of(stage) if self.space.rule_pragmas else []
        return StagePlan(
            ident=stage.id,
            root=root,
            limit=parallel_limit(state, stage) if root else 0,
            parallel=parallel,
            unroll=unroll.column if unroll is not None else -1,
            options=unroll.values if unroll is not None else (),
            data_last=data_last,
            tile_loops=tuple(range(last_reduce + 1, len(leaves) - int(data_last))) if tiled else (),
            heavy=any(s.attach_stage is stage for s in state.live_stages),
            padded=bool(conditions),
            borders=border_loops(stage, conditions),
            row_sum=self.space.rule_pragmas and reduces_a_row(stage),
            without={c.kind: c.column for c in self.space.pragmas if c.node == stage.id},
        )

    # -- annotations of one candidate

    def close(self, row: Matrix) -> State:
        """The finished state of one candidate."""
        sketch = self.space.sketch
        lengths = [int(v) for v in row[: len(sketch.open)]]
        state = sketch.close(lengths, self.rows)
        extents = leaf_extents(state)
        for plan in reversed(self.plans):
            for new in self._annotations(plan, row, extents[plan.ident], state):
                apply_row(state, new)
        return state

    def _annotations(
        self, plan: StagePlan, row: Matrix, extents: Sequence[int], state: State
    ) -> list[Row]:
        place = state.order.index(plan.ident)
        stage = state.stage_at(place)
        count = len(stage.leaf_iter_vars)
        made: list[Row] = []
        if count and vectorizable(plan.data_last, np.array(extents[-1]), count):
            made.append(("AN", place, count - 1, R.VECTORIZE))
        for n, flags in zip(*unrolled_loops(plan, np.array([extents], np.int64))):
            if flags[0] and extents[n] > 1:
                made.append(("AN", place, n, R.UNROLL))
        if plan.row_sum and has_tree(extents[-1]) and plan.keeps(TREE_REDUCE, row):
            made.append(("PR", place, count - 1, TREE_REDUCE))
        if plan.root:
            wanted = int(row[plan.parallel]) if plan.parallel >= 0 else -1
            arrays = np.array(extents, np.int64)[None, :]
            p = int(parallel_loops(np.array([wanted]), arrays, plan, self.cores)[0]) if count else 0
            if p > 1:
                made.append(("FU", place, tuple(range(p))))
            if p > 0:
                made.append(("AN", place, 0, R.PARALLEL))
        step = plan.steps(row)
        if step > 0:
            # last, since a loop that is fused with others leaves its pragmas behind
            made.append(("PR", place, 0, f"{R.UNROLL_PRAGMA}${step}"))
        if plan.padded and plan.keeps(SKIP_ZEROS, row):
            made.append(("PR", place, 0, SKIP_ZEROS))
        return made


def _ends_with_data(stage: Any) -> bool:
    leaves = stage.leaf_iter_vars
    return bool(leaves) and leaves[-1].iter_type == IterVar.DataPar


def border_loops(
    stage: Any, conditions: Sequence[Any]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """For each data axis that a condition of padding ties to one reduction axis: the positions of
    the leaf loops of the two."""
    axis_of = {a: a for a in (*stage.op.axis, *stage.op.reduce_axis)}
    for relation in stage.relations:
        if isinstance(relation, Split) and relation.parent in axis_of:
            axis_of[relation.outer] = axis_of[relation.inner] = axis_of[relation.parent]
    loops: dict[Any, list[int]] = {}
    for n, leaf in enumerate(stage.leaf_iter_vars):
        if leaf in axis_of:
            loops.setdefault(axis_of[leaf].var, []).append(n)
    reduces = {a.var for a in stage.op.reduce_axis}
    pairs: dict[Any, None] = {}
    for condition in conditions:
        used = set(free_vars(condition))
        data, kernel = used - reduces, used & reduces
        if len(data) == 1 and len(kernel) == 1 and used <= loops.keys():
            pairs[data.pop(), kernel.pop()] = None
    return tuple((tuple(loops[d]), tuple(loops[k])) for d, k in pairs)


def unrolled_loops(plan: StagePlan, extents: Matrix) -> tuple[tuple[int, ...], Flags]:
    """Which loops of a tiled reduction are written out: their places, and for each of them whether
    it is in each candidate (P, N). extents: (N, loops).

    The tile, where it is small, and with it the loops along a padded kernel whose axis of the
    result is whole in the tile, while that makes at most MAX_STEPS steps.
    """
    inner = plan.tile_loops
    steps = extents[:, list(inner)].prod(axis=1)
    small = (steps > 1) & (steps <= MAX_TILE)
    places, flags = list(inner), [small] * len(inner)
    for data, kernel in reversed(plan.borders):
        outer = [n for n in data if n not in inner]
        more = extents[:, list(kernel)].prod(axis=1)
        able = small & (extents[:, outer] == 1).all(axis=1) & (steps * more <= MAX_STEPS)
        steps = np.where(able, steps * more, steps)
        places += kernel
        flags += [able] * len(kernel)
    return tuple(places), np.array(flags, bool).reshape(len(places), len(extents))


def lane_rows(state: State, vector_bytes: int) -> list[Row]:
    """Splits of long innermost loops of stages that no rule has tiled, so that they are vectors.

    Where such a stage transposes, shorter ones are split too, and the loop along which its input is
    contiguous is cut and stands right outside the vector: each cache line of the input then serves
    whole.
    """
    rows: list[Row] = []
    for place, stage in enumerate(state.live_stages):
        op = stage.op
        if (
            not state.access.is_compute(op)
            or stage.attach_type in (INLINE, INLINED_ALREADY)
            or stage.relations
        ):
            continue
        if op.reduce_axis or not op.axis or stage.id in state.packed:
            continue
        loop = len(stage.leaf_iter_vars) - 1
        extent = state.extent_of(place, loop)
        along = contiguous_axis(op)
        lanes = vector_lanes([t.dtype for t in op.outputs], vector_bytes)
        if extent is None or extent <= (LONG * lanes if along is None else lanes):
            continue
        if extent % lanes and extent % (lanes // 2) == 0:
            lanes //= 2  # else the last vector is masked
        if lanes > 1:
            rows.append(("SP", place, loop, extent, (lanes,), 1))
            rows += _transposing_rows(state, place, loop, along)
    return rows


def _transposing_rows(state: State, place: int, last: int, loop: int | None) -> list[Row]:
    """A stage's loop along its input's rows cut and moved inwards; `last` was split already."""
    stage = state.stage_at(place)
    extent = None if loop is None else state.extent_of(place, loop)
    if loop is None or extent is None or any(s.attach_stage is stage for s in state.live_stages):
        return []
    piece = max(d for d in range(1, LINES + 1) if extent % d == 0)
    if piece == 1:
        return []
    if piece == extent:
        order = [n for n in range(last + 1) if n != loop] + [loop, last + 1]
        return [("RE", place, tuple(order))]
    order = [n for n in range(last + 2) if n != loop + 1] + [loop + 1, last + 2]
    return [("SP", place, loop, extent, (piece,), 1), ("RE", place, tuple(order))]


def contiguous_axis(op: Any) -> int | None:
    """The position of the axis along which an element-wise operation reads a row, where that is not
    the innermost and no input is read along the innermost."""
    places = {a.var: n for n, a in enumerate(op.axis)}
    last = len(op.axis) - 1
    found: set[int] = set()
    for e in op.body:
        for x in walk(e):
            if isinstance(x, ProducerLoad) and x.indices:
                found |= {places[v] for v in free_vars(x.indices[-1]) if v in places}
    return None if last in found or len(found) != 1 else found.pop()


def vectorizable(data_last: bool, extent: Any, loops: int) -> Any:
    """Whether the innermost loop of a stage becomes a vector (arrays allowed)."""
    return data_last & (extent > 1) & (extent <= MAX_LANES)


def parallel_counts(wanted: Any, extents: Matrix, plan: StagePlan, cores: int) -> Matrix:
    """How many outer loops run in parallel: `wanted`, or by the rule where that is -1.

    extents: (N, loops) of the whole stage; its product is the stage's work.
    """
    limit = plan.limit
    work = extents.prod(axis=1) * (SERIAL_BELOW if plan.heavy else 1)
    if limit == 0:
        return np.zeros(len(extents), np.int64)
    pieces = np.cumprod(extents[:, :limit], axis=1)
    enough = pieces > PIECES_PER_CORE * cores
    rule = np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, limit)
    rule = np.where((work < SERIAL_BELOW) | (cores < 2), 0, rule)
    return np.where(np.asarray(wanted) < 0, rule, np.minimum(wanted, limit))


def parallel_loops(wanted: Any, extents: Matrix, plan: StagePlan, cores: int) -> Matrix:
    """The same, less the loop that is a vector."""
    count = extents.shape[1]
    p = parallel_counts(wanted, extents, plan, cores)
    vector = vectorizable(plan.data_last, extents[:, -1], count)
    return np.where(vector, np.minimum(p, count - 1), p)


def leaf_extents(state: State) -> dict[int, list[int]]:
    """Extents of the leaf loops of each stage of a closed state, where not constant 1, or, of the
    innermost, the most that it is."""
    sch = state.schedule.normalize()
    bounds = infer_bounds(sch)
    found: dict[int, list[int]] = {}
    for stage in sch.stages:
        if stage.id in bounds.of:
            extent, leaves = bounds[stage].extent, stage.leaf_iter_vars
            found[stage.id] = [const_int(extent[a]) or 1 for a in leaves]
            if leaves and leaves[-1] in stage.op.root_iter_vars():  # one length, if it is a vector
                most = bounds.analyzer.const_int_bound(extent[leaves[-1]]).max_value
                found[stage.id][-1] = int(most) if most <= MAX_LANES else found[stage.id][-1]
    return found
