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

from collections.abc import Mapping
from typing import Any

from ..arith import IntervalSet, union
from ..base.errors import ScheduleError
from ..loopir.expr import IntImm, PrimExpr, Var, cast, const, is_const
from ..loopir.iter import IterVar, Range
from ..tensor.op import ExternOp, PlaceholderOp, ScanOp, TensorComputeOp
from ..tensor.regions import finite
from ..tensor.tensor import Tensor
from .placement import (
    attach_path,
    attach_point,
    check_initial,
    in_scan,
    is_virtual,
    same_thread,
)
from .reading import Regions, add_reads, relaxed_loops
from .relations import Values, pass_down_extents
from .scan_memory import check_scans
from .stage_bounds import Bounds, StageBounds
from .state import SCAN_UPDATE, StageState
from .thread_memory import (
    Span,
    check_private,
    even_extent,
    given_extent,
    parts_in_scan,
)
from .whole_vectors import from_whole_vectors, whole_vectors

MAX_VECTOR = 256  # steps of a loop that is made a vector of one length
REDUCTION = IterVar.CommReduce


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
                relaxed_loops(b, stage, reader, point)


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
    whole = stage.layout is not None or _in_tiles(b, stage)
    if whole and point is None and not in_scan(stage):
        return result
    regions: Regions = {t: [[] for _ in t.shape] for t in op.outputs}
    for reader in {r.id: r for t in op.outputs for r in readers.get(t, ())}.values():
        check_initial(stage, reader)
        fixed = relaxed_loops(b, stage, reader, point)
        add_reads(b, reader, fixed, regions, point is not None and point[0] is reader)
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


def _in_tiles(b: Bounds, stage: StageState) -> bool:
    """Whether stages within this one are computed by tensor intrinsics: their tiles, of fixed
    sizes, are cut of the whole, and of a part they would be others."""
    made = b.inside.get(stage.id, ())
    return any(x.attr(leaf).tensor_intrin for x in made for leaf in x.leaf_iter_vars)


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
