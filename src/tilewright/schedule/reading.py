"""What a stage's readers need of it: the loops that run while it is live, and the regions that its
readers read in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..arith import IntervalSet, eval_set
from ..base.errors import ScheduleError
from ..loopir.expr import FloorDiv, FloorMod, PrimExpr, Var, const
from ..loopir.iter import IterVar, Range
from ..loopir.subst import substitute
from ..loopir.visit import free_vars, nodes
from ..tensor.op import BaseComputeOp, ScanOp
from ..tensor.regions import Known, finite, reads_of, span, whole_of
from ..tensor.tensor import Tensor
from .placement import attach_path, is_virtual, runs_on, threads_around
from .relations import Fuse, Split, Values, derived_from
from .stage_bounds import Bounds, root_offsets
from .state import VIEW, StageState
from .thread_memory import each_its_own, sees_all

Regions = dict[Tensor, list[list[IntervalSet]]]
"""Of each tensor, of each dimension, the intervals that are read."""


def _needs_relax(stage: StageState, holder: StageState, leaf: IterVar, outside: bool) -> bool:
    """Whether a loop runs, as seen from the memory of `stage`; `outside` its attach point or
    not.
    """
    thread = holder.attr(leaf).bind_thread
    if thread is None:
        return not outside
    if not outside and (is_virtual(thread) or not runs_on(stage, thread)):
        return True  # its memory is private to threads, but these are one, or do not compute it
    return sees_all(stage, thread)


def relaxed_loops(
    b: Bounds,
    stage: StageState,
    reader: StageState,
    point: tuple[StageState, IterVar] | None,
) -> dict[Var, IntervalSet]:
    """Intervals of the loop variables that run while one instance of `stage` is live for
    `reader`.
    """
    relaxed: dict[Var, IntervalSet] = {}
    outside = False
    path = [(reader, leaf) for leaf in reversed(reader.leaf_iter_vars)]
    path += list(attach_path(reader))
    on_way = {(holder.id, leaf) for holder, leaf in path}
    # threads that a reduction is shared out among run around stages in its serial loops
    threads = [t for t in threads_around(reader) if (t[0].id, t[1]) not in on_way]
    shared = {(holder.id, leaf) for holder, leaf in threads_around(stage)} if threads else set()
    for n, (holder, leaf) in enumerate([*path, *threads]):
        if point is not None and holder is point[0] and leaf is point[1]:
            outside = True
        if n >= len(path):
            outside = (holder.id, leaf) in shared
        mine = b[holder]
        if leaf not in mine.extent:
            continue  # a scan's spatial axis: no loop of its own
        if _needs_relax(stage, holder, leaf, outside):
            extent = mine.extent[leaf]
            if each_its_own(holder, b, leaf):  # one step, which may be another one for each thread
                extent = b.extents.get(mine.var[leaf], extent)
            zero = const(0, extent.dtype)
            relaxed[mine.var[leaf]] = IntervalSet.from_range(Range.from_min_extent(zero, extent))
    if point is not None and not any(h is point[0] and a is point[1] for h, a in path):
        raise ScheduleError(
            f"Invalid Schedule, cannot find the producer {stage.name} along the loop nest "
            f"specified by compute_at of consumer {reader.name}: {stage.name} is computed at "
            f"{point[0].name}, axis {point[1].var.name}, but {reader.name} reads it outside of "
            "that loop; attach it at a loop around all that read it, or leave it at the root"
        )
    return _closed(b, relaxed)


def _closed(b: Bounds, relaxed: Mapping[Var, IntervalSet]) -> dict[Var, IntervalSet]:
    """The intervals, innermost loop first, without each other's variables: a loop whose extent
    depends on a loop around it runs as often as it does in any iteration of that."""
    result: dict[Var, IntervalSet] = {}
    for var, interval in reversed(list(relaxed.items())):
        low, last = interval.min_value, interval.max_value
        if any(v in result for e in (low, last) if finite(e) for v in free_vars(e)):
            interval = span(b.analyzer, low, last, result)
        result[var] = interval
    return result


def _of_fused(b: Bounds, reader: StageState, relaxed: Mapping[Var, IntervalSet]) -> Known | None:
    """The values of indices made of several axes that were fused: part of a fused loop is no
    rectangle of the axes, but where an index is the place in the fused one it is an interval."""
    fused = {a.var for r in reader.relations if isinstance(r, Fuse) for a in r.parents}
    fused &= {a.var for a in reader.op.root_iter_vars()}
    if not fused:
        return None
    mine, offsets = b[reader], root_offsets(b, reader)
    values = {a.var: mine.min[a] + o for a, o in offsets.items() if a in mine.min}

    def known(index: PrimExpr) -> IntervalSet | None:
        if len(fused & set(free_vars(index))) < 2:
            return None
        place = b.analyzer.simplify(substitute(index, values))
        taken = eval_set(place, relaxed, b.analyzer)
        return taken if finite(taken.min_value) and finite(taken.max_value) else None

    return known


def _of_tiles(b: Bounds, reader: StageState, relaxed: Mapping[Var, IntervalSet]) -> Known | None:
    """The values of quotients and rests of axes whose tiles are split again: tiles may be the
    groups that those count. The last part of a tile may reach over its end, into the next group;
    where it is found that only this makes more than one group of a part, that is guarded."""
    mine, relations = b[reader], reader.relations
    inside = derived_from(relations, [r.inner for r in relations if isinstance(r, Split)])
    parts = {r.parent for r in relations if isinstance(r, Split)} & inside
    values: Values = {x: mine.offset(x) for x in reader.leaf_iter_vars if x in mine.extent}
    offsets: dict[Var, PrimExpr] = {}
    guarded: list[IterVar] = []
    for relation in reversed(relations):
        if not all(c in values for c in relation.children):
            continue
        relation.up(values, mine.extent)
        for axis in parts.intersection(relation.parents):
            extent = mine.extent[axis]
            part = substitute(values[axis], offsets)
            taken = eval_set(part, relaxed, b.analyzer).max_value
            if finite(taken) and not b.analyzer.can_prove(taken < extent):
                place = Var(axis.var.name, axis.var.dtype)
                b.analyzer.bind(place, Range.from_min_extent(const(0, extent.dtype), extent))
                offsets[place], values[axis] = part, place
                guarded.append(axis)
    roots = {a.var: mine.min[a] + values[a] for a in reader.op.root_iter_vars() if a in values}
    parted = {v for v, e in roots.items() if any(x in offsets for x in free_vars(e))}
    if not parted:
        return None

    def known(index: PrimExpr) -> IntervalSet | None:
        if parted.isdisjoint(free_vars(index)):
            return None
        if not any(type(e) in (FloorDiv, FloorMod) for e in nodes(index)):
            return None
        place = substitute(b.analyzer.simplify(substitute(index, roots)), offsets)
        taken = eval_set(place, relaxed, b.analyzer)
        if not (finite(taken.min_value) and finite(taken.max_value)):
            return None
        mine.guarded.update(dict.fromkeys(guarded))
        return taken

    return known


def _axis_sets(
    b: Bounds, reader: StageState, relaxed: Mapping[Var, IntervalSet]
) -> dict[Var, IntervalSet]:
    """The values that each root axis of a reader takes."""
    mine = b[reader]
    offsets = root_offsets(b, reader)
    result: dict[Var, IntervalSet] = {}
    for axis in reader.op.root_iter_vars():
        low, extent = mine.needed.get(axis, (mine.min[axis], mine.extent[axis]))
        whole = span(b.analyzer, low, low + (extent - 1), relaxed)
        if axis not in offsets:
            result[axis.var] = whole
            continue
        taken = eval_set(mine.min[axis] + offsets[axis], relaxed, b.analyzer)
        result[axis.var] = _clip(b, taken, whole)
    return _closed(b, dict(reversed(result.items())))


def _clip(b: Bounds, taken: IntervalSet, whole: IntervalSet) -> IntervalSet:
    """`taken`, cut to `whole` at the ends where that is proved to be tighter (the rest is
    guarded).
    """
    low, high = taken.min_value, taken.max_value
    if finite(whole.min_value) and (
        not finite(low) or b.analyzer.can_prove(whole.min_value >= low)
    ):
        low = whole.min_value
    if finite(whole.max_value) and (
        not finite(high) or b.analyzer.can_prove(whole.max_value <= high)
    ):
        high = whole.max_value
    return IntervalSet(low, high)


def add_reads(
    b: Bounds,
    reader: StageState,
    relaxed: Mapping[Var, IntervalSet],
    regions: Regions,
    inside: bool = False,
) -> None:
    """Add what `reader` reads of each tensor in `regions`, which are made in its loops where
    `inside`: of what a view lies in all, since places of a whole array are taken for its own."""
    if reader.scope == VIEW:
        for t in reader.op.input_tensors:
            for dim, extent in zip(regions.get(t, ()), t.shape):
                dim.append(whole_of(extent))
        return
    if isinstance(reader.op, ScanOp):
        _scan_reads(b, reader, relaxed, regions)
        return
    domains: dict[Var, IntervalSet] = {}
    if isinstance(reader.op, BaseComputeOp):
        domains = {**relaxed, **_axis_sets(b, reader, relaxed)}
    tiles = _of_tiles(b, reader, relaxed) if inside else None
    ways = [w for w in (tiles, _of_fused(b, reader, relaxed)) if w]

    def known(index: PrimExpr) -> IntervalSet | None:
        return next((found for w in ways if (found := w(index)) is not None), None)

    for t, intervals in reads_of(reader.op, domains, b.analyzer, regions, known):
        for dim, interval in zip(regions[t], intervals):
            dim.append(interval)


def _scan_reads(
    b: Bounds, stage: StageState, relaxed: Mapping[Var, IntervalSet], regions: Regions
) -> None:
    """A scan reads its initial values whole, and of its update the step at work."""
    op = stage.op
    mine = b[stage]
    spatial: Sequence[IterVar] = op.spatial_axis_
    used = 0
    for init, update in zip(op.init, op.update):
        dims = len(update.shape) - 1
        axes = spatial[used : used + dims]
        used += dims
        ranges = []
        for a in axes:
            last = mine.min[a] + (mine.extent[a] - 1)
            ranges.append(span(b.analyzer, mine.min[a], last, relaxed))
        if init in regions:
            for d, s in enumerate([whole_of(init.shape[0]), *ranges]):
                regions[init][d].append(s)
        if update in regions:
            step = mine.min[op.scan_axis] + mine.offset(op.scan_axis)
            now = eval_set(step, relaxed, b.analyzer)
            for d, s in enumerate([now, *ranges]):
                regions[update][d].append(s)
