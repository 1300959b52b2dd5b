"""Bound inference: which part of each tensor every loop iteration needs, and so the extent of
every loop.

Design. Stages are visited consumers first. For a stage P attached inside loop L of stage S, the
loops outside and including L are fixed, all others on the way to each consumer are *relaxed*: they
run. The value of each root axis of a consumer is an affine expression of its loop variables
(relations.pass_up_values); evaluating that over the intervals of the relaxed variables
(arith.eval_set) gives the values the axis takes, and evaluating the consumer's index expressions
over those gives the region of P that is read. The union over consumers is P's region: `min` (of
fixed loop variables) and `extent` (constant wherever that can be proved) a root axis. There is one
rule per relation for values and none for sets.

A region may reach over the edge of the tensor, or over what is needed, where a tile does not
divide: loop generation guards what cannot be proved. A thread axis is relaxed if the storage scope
is shared by those threads (rank of the scope <= rank of the thread axis), wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arith import Analyzer, IntervalSet, eval_set, union
from ..base.errors import ScheduleError
from ..loopir.expr import FloorDiv, FloorMod, IntImm, PrimExpr, Var, cast, const, is_const
from ..loopir.iter import IterVar, Range
from ..loopir.op import max as max_of
from ..loopir.subst import substitute
from ..loopir.visit import free_vars, nodes
from ..tensor.op import BaseComputeOp, ExternOp, PlaceholderOp, ScanOp, TensorComputeOp
from ..tensor.regions import Known, finite, reads_of, span, whole_of
from ..tensor.tensor import Tensor
from .placement import (
    attach_path,
    attach_point,
    check_initial,
    in_scan,
    is_virtual,
    runs_on,
    same_thread,
    threads_around,
)
from .relations import Fuse, Split, Values, derived_from, pass_down_extents, pass_up_values
from .scan_memory import check_scans
from .state import SCAN_UPDATE, StageState
from .thread_memory import (
    Span,
    check_private,
    each_its_own,
    even_extent,
    given_extent,
    parts_in_scan,
    sees_all,
)
from .whole_vectors import from_whole_vectors, whole_vectors

MAX_VECTOR = 256  # steps of a loop that is made a vector of one length
REDUCTION = IterVar.CommReduce
Regions = dict[Tensor, list[list[IntervalSet]]]


class StageBounds:
    """Of one stage: `min` of its root axes, `extent` of all axes, the loop variable of each leaf;
    `needed`, (min, extent) of root axes whose loops run over more than may be computed; `guarded`,
    tiles whose parts are not to reach into the next one.
    """

    __slots__ = ("extent", "guarded", "min", "needed", "var")

    def __init__(self) -> None:
        self.min: Values = {}
        self.extent: Values = {}
        self.needed: dict[IterVar, Span] = {}
        self.var: dict[IterVar, Var] = {}
        self.guarded: dict[IterVar, None] = {}

    def of_one_step(self, stage: StageState, analyzer: Analyzer) -> StageBounds:
        """The same, were the stage's reduction of extent 1."""
        new = StageBounds()
        new.min, new.needed, new.var = self.min, self.needed, self.var
        new.guarded = self.guarded
        roots = {a: self.extent[a] for a in stage.op.axis}
        roots |= {a: const(1, a.var.dtype) for a in stage.op.reduce_axis}
        shorter = pass_down_extents(stage.relations, roots, analyzer)
        reduction = derived_from(stage.relations, stage.op.reduce_axis)
        new.extent = {a: shorter[a] if a in reduction else e for a, e in self.extent.items()}
        return new

    def offset(self, leaf: IterVar) -> PrimExpr:
        """The value of a leaf axis inside its loop: the loop variable, or 0 for a single
        iteration.
        """
        extent = self.extent[leaf]
        if isinstance(extent, IntImm) and extent.value == 1:
            return const(0, extent.dtype)
        return self.var[leaf]


class Bounds:
    """The result of `infer_bounds`: StageBounds by stage, and an analyzer that knows all loop
    variables.
    """

    def __init__(self, sch: Any) -> None:
        self.schedule = sch
        self.analyzer = Analyzer()
        self.of: dict[int, StageBounds] = {}
        self.extents: dict[Var, PrimExpr] = {}
        self.regions: dict[Tensor, list[Range]] = {}
        self.threads: dict[Var, IterVar] = {}  # axes of real threads, by their variable
        self.virtual: set[Var] = set()  # variables of virtual threads
        self.inside: dict[int, list[StageState]] = {}  # the stages in the loops of others
        self.filled: dict[IterVar, int] = {}  # steps of axes of tiles that readers are filled up to
        self.positions = {stage.id: i for i, stage in enumerate(sch.stages)}

    def __getitem__(self, stage: StageState) -> StageBounds:
        return self.of[stage.id]

    def bind(self, var: Var, extent: PrimExpr) -> None:
        """Tell the analyzer what a loop variable runs over.

        The variable of a thread axis is one for all stages, which may use unequal parts of it.
        """
        known = self.extents.get(var)
        if known is not None:
            if self.analyzer.can_prove(extent <= known):
                return
            if not self.analyzer.can_prove(known <= extent):
                extent = max_of(known, extent)
        self.extents[var] = extent
        self.analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), extent))


def infer_bounds(sch: Any) -> Bounds:
    """Loop extents and regions of a normalised schedule; ScheduleError where an attachment is
    invalid.
    """
    bounds = Bounds(sch)
    for stage in sch.stages:
        holders = {
            holder.id for holder, _ in attach_path(stage)
        }  # raises where they go in a circle
        for number in holders:
            bounds.inside.setdefault(number, []).append(stage)
    _name_loop_variables(sch, bounds)
    readers = sch.consumers()
    for stage in reversed(sch.stages):
        _infer_stage(bounds, stage, readers)
    check_private(sch, bounds)
    check_scans(sch, bounds)
    return bounds


def _name_loop_variables(sch: Any, bounds: Bounds) -> None:
    """One variable a loop.

    A root axis's own variable stands for its value in the tensor expression, which is not the
    count of its loop where the region starts elsewhere; so loops over root axes get variables of
    their own.
    """
    used: set[Var] = set()
    threads: list[IterVar] = []
    for stage in sch.stages:
        mine = bounds.of[stage.id] = StageBounds()
        roots = set(stage.op.root_iter_vars())
        for leaf in stage.leaf_iter_vars:
            thread = stage.attr(leaf).bind_thread
            if thread is not None:
                known = next((t for t in threads if same_thread(t, thread)), None)
                if known is None:
                    threads.append(thread)
                var = thread.var if known is None else known.var
            else:
                var = leaf.var
            if thread is None and (var in used or leaf in roots):
                var = Var(leaf.var.name, leaf.var.dtype)
            used.add(var)
            mine.var[leaf] = var
    bounds.threads = {t.var: t for t in threads if not is_virtual(t)}
    bounds.virtual = {t.var for t in threads if is_virtual(t)}


def _infer_stage(b: Bounds, stage: StageState, readers: Mapping[Tensor, list[Any]]) -> None:
    op = stage.op
    if isinstance(op, (PlaceholderOp, ExternOp)):
        _gather_fixed(b, stage)
        if isinstance(op, ExternOp):
            _check_order(b, stage, readers)
        return
    found = _root_domains(b, stage, readers)
    domains = {a: from_whole_vectors(b, stage, a, *part) for a, part in found.items()}
    mine = b[stage]
    roots = {a: _even(b, stage, a, part) for a, part in domains.items()}
    if stage.layout is not None and not _stored_in_part(stage, roots):
        mine.needed = parts_in_scan(stage, domains, b)
        domains = {a: (a.dom.min, a.dom.extent) for a in op.root_iter_vars()}
        roots = {a: extent for a, (_, extent) in domains.items()}
    mine.min = {a: low for a, (low, _) in domains.items()}
    mine.extent = pass_down_extents(stage.relations, roots, b.analyzer)
    for leaf in stage.leaf_iter_vars:
        thread = stage.attr(leaf).bind_thread
        if thread is not None and is_const(mine.extent[leaf], 0) and leaf.iter_type == REDUCTION:
            mine.extent[leaf] = const(1, mine.extent[leaf].dtype)  # the identity is stored by one
        if thread is not None and thread.dom is not None:
            mine.extent[leaf] = given_extent(b, stage, leaf, thread)
        b.bind(mine.var[leaf], mine.extent[leaf])


def _even(b: Bounds, stage: StageState, axis: IterVar, part: Span) -> PrimExpr:
    """The extent of an axis; of one that is to be a vector the most that it is anywhere, since a
    vector has one length. What is computed in excess nobody reads."""
    extent = even_extent(b, stage, part[1])
    if isinstance(extent, IntImm):
        return whole_vectors(b, stage, axis, part[0], extent)
    if axis not in stage.leaf_iter_vars:
        return extent
    fixed = stage.rolling or attach_point(stage) is None or in_scan(stage)
    if fixed or stage.kind_of(axis) != IterVar.Vectorized:
        return extent
    most = b.analyzer.const_int_bound(extent).max_value
    return const(most, extent.dtype) if most <= MAX_VECTOR else extent


def _stored_in_part(stage: StageState, roots: Values) -> bool:
    """Whether a stage of another layout holds only what a loop of its reader needs: where that has
    one size, since a layout is one of constant extents."""
    if attach_point(stage) is None or in_scan(stage) or stage.rolling:
        return False
    return all(isinstance(roots[a], IntImm) for a in stage.op.axis)


def _gather_fixed(b: Bounds, stage: StageState) -> None:
    for axis in stage.op.root_iter_vars():
        b[stage].min[axis] = axis.dom.min
        b[stage].extent[axis] = axis.dom.extent


def _check_order(b: Bounds, stage: StageState, readers: Mapping[Tensor, list[Any]]) -> None:
    point = attach_point(stage)
    if point is not None:
        for t in stage.op.outputs:
            for reader in readers.get(t, ()):
                _relaxed_loops(b, stage, reader, point)


def _root_domains(
    b: Bounds, stage: StageState, readers: Mapping[Tensor, list[Any]]
) -> dict[IterVar, Span]:
    """(min, extent) of each root axis: what is needed, or more where that does no harm."""
    op = stage.op
    inner = op.axis if isinstance(op, TensorComputeOp) else ()
    axes = dict.fromkeys([*op.root_iter_vars(), *inner])
    result = {a: (a.dom.min, a.dom.extent) for a in axes}
    point = attach_point(stage)
    if stage.is_output:
        if point is not None and stage.attach_spec().attach_type != SCAN_UPDATE:
            raise ScheduleError(f"Output must be attached at root: {stage.name}")
        return result
    if stage.layout is not None and point is None and not in_scan(stage):
        return result
    regions: Regions = {t: [[] for _ in t.shape] for t in op.outputs}
    for reader in {r.id: r for t in op.outputs for r in readers.get(t, ())}.values():
        check_initial(stage, reader)
        fixed = _relaxed_loops(b, stage, reader, point)
        _add_reads(b, reader, fixed, regions, point is not None and point[0] is reader)
    for axis, dims in _dimension_axes(op).items():
        sets = [s for t, d in dims for s in regions[t][d]]
        dom = b.schedule.domain(axis)
        if any(_covers(b, s, dom) for s in sets):
            result[axis] = (dom.min, dom.extent)
        elif sets:
            cover = union(sets, b.analyzer).cover_range(dom, b.analyzer)
            assert cover is not None
            result[axis] = (cover.min, cast(axis.var.dtype, _positive(cover.extent)))
    return result


def _covers(b: Bounds, interval: IntervalSet, dom: Range) -> bool:
    """Whether an interval is the whole domain, beyond which no other one adds anything."""
    low, high, prove = interval.min_value, interval.max_value, b.analyzer.can_prove
    if not (finite(low) and finite(high)):
        return False
    return prove(low <= dom.min) and prove(high >= dom.min + (dom.extent - 1))


def _positive(extent: PrimExpr) -> PrimExpr:
    if isinstance(extent, IntImm) and extent.value < 0:
        return const(0, extent.dtype)
    return extent


def _dimension_axes(op: Any) -> dict[IterVar, list[tuple[Tensor, int]]]:
    """Which dimensions of which outputs each data axis runs over."""
    if isinstance(op, ScanOp):
        axes: dict[IterVar, list[tuple[Tensor, int]]] = {}
        spatial = iter(op.spatial_axis_)
        for t in op.outputs:
            for d in range(1, len(t.shape)):
                axes[next(spatial)] = [(t, d)]
        return axes
    return {a: [(t, d) for t in op.outputs] for d, a in enumerate(op.axis)}


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


def _relaxed_loops(
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


def root_offsets(
    b: Bounds, stage: StageState, leaves: Mapping[IterVar, PrimExpr] | None = None
) -> Values:
    """Offsets of all axes of a stage in terms of its loop variables (or of given leaf offsets)."""
    mine = b[stage]
    if leaves is None:
        leaves = {x: mine.offset(x) for x in stage.leaf_iter_vars if x in mine.extent}
    return pass_up_values(stage.relations, leaves, mine.extent)


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
            taken = eval_set(values[axis], relaxed, b.analyzer).max_value
            if finite(taken) and not b.analyzer.can_prove(taken < extent):
                place = Var(axis.var.name, axis.var.dtype)
                b.analyzer.bind(place, Range.from_min_extent(const(0, extent.dtype), extent))
                offsets[place], values[axis] = values[axis], place
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


def _add_reads(
    b: Bounds,
    reader: StageState,
    relaxed: Mapping[Var, IntervalSet],
    regions: Regions,
    inside: bool = False,
) -> None:
    """Add what `reader` reads of each tensor in `regions`, which are made in its loops where
    `inside`."""
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
