"""rfactor: part of a reduction becomes a data axis, so that it can run in parallel.

    for i in range(n):                       for k_inner in range(16):
        for k_outer in range(m // 16):           for i in range(n):
            for k_inner in range(16):    ->          for k_outer in range(m // 16):
                B[i] += A[i, k]                          B_rf[k_inner, i] += A[i, k]
                                             for i in range(n):
                                                 for k_inner_v in range(16):
                                                     B[i] += B_rf[k_inner_v, i]

Suriana, Adams, Kamil: Parallel associative reductions in Halide, CGO 2017.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...loopir import op as ops
from ...loopir.expr import PrimExpr, const
from ...loopir.iter import IterVar, ProducerLoad, Range, Reduce
from ...loopir.subst import substitute
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor
from ..relations import (
    Values,
    derived_from,
    overruns,
    pass_down_extents,
    pass_up_values,
    sources_of,
)
from ..state import Illegal, ScheduleState, StageState
from .arguments import require_own_domains, whole_number


def rfactor(sch: ScheduleState, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
    """Factor the reduction of `tensor` along leaf axis `axis`; returns the tensor(s) of partial
    results.

    The partial results have one more dimension, at place `factor_axis` (negative counts from the
    end). The stage of `tensor` starts over with new axes: what was said of its loops is gone.
    Raises ScheduleError where axis is no loop of the reduction of tensor, mixes with other axes, or
    factor_axis is out of range.
    """
    stage = sch.find(tensor)
    op = _check(stage, axis)
    rank = len(op.axis)
    factor_axis = whole_number(factor_axis, "factor_axis", axis)
    place = factor_axis if factor_axis >= 0 else rank + 1 + factor_axis
    if not 0 <= place <= rank:
        raise Illegal(f"factor_axis must be in [{-rank - 1}, {rank}], got {factor_axis}", axis)
    factored, factor_var = _partial(stage, op, axis, place)
    final = _final(op, factored, axis, factor_var, place)
    sch.inherited.update(zip(final.axis, op.axis))
    old = [op.output(i) for i in range(op.num_outputs)]
    position = sch.stages.index(stage)
    if stage.store_predicate is not None:
        renamed = {a.var: b.var for a, b in zip(op.axis, final.axis)}
        stage.store_predicate = substitute(stage.store_predicate, renamed)
    sch.set_op(stage, final)
    stage.set_root_axes(final.root_iter_vars())
    stage.attrs = {}
    table = {o: final.output(i) for i, o in enumerate(old)}
    sch.replace_dataflow(table, only=[s for s in sch.stages if s is not stage])
    new = sch.new_stage(factored, factored.name, position)
    new.group = stage.group
    outputs = [factored.output(i) for i in range(factored.num_outputs)]
    return outputs[0] if len(outputs) == 1 else outputs


def _check(stage: StageState, axis: IterVar) -> ComputeOp:
    op = stage.op
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        raise Illegal(f"rfactor needs a reduction, {stage.name} is none", axis)
    require_own_domains(op, "rfactor")
    stage.leaf_position(axis)
    if axis.iter_type != IterVar.CommReduce:
        raise Illegal(
            "Can only factor reduction axis",
            axis,
            "a leaf axis that comes from " + ", ".join(a.var.name for a in op.reduce_axis),
        )
    roots = sources_of(stage.relations, [axis])
    if any(a in roots for a in op.axis):
        raise Illegal("Factor axis touches normal axis.", axis)
    return op


def _partial(
    stage: StageState, op: ComputeOp, axis: IterVar, place: int
) -> tuple[ComputeOp, IterVar]:
    """The operation that computes partial results, and its new data axis."""
    analyzer = Analyzer()
    touched = [a for a in op.reduce_axis if a in sources_of(stage.relations, [axis])]
    extents = {a: a.dom.extent for a in op.root_iter_vars() if a.dom is not None}
    extent = pass_down_extents(stage.relations, extents, analyzer)
    family = derived_from(stage.relations, touched)
    factor = _fresh(axis, extent, IterVar.DataPar)
    new_axes = {
        a: factor if a is axis else _fresh(a, extent, IterVar.CommReduce)
        for a in stage.leaf_iter_vars
        if a in family
    }
    for a in new_axes.values():
        assert a.dom is not None
        analyzer.bind(a.var, a.dom)
    offsets = pass_up_values(stage.relations, {a: n.var for a, n in new_axes.items()}, extent)
    values: dict[Any, PrimExpr] = {}
    condition = _reduction(op).condition
    guards = []
    for a in touched:
        assert a.dom is not None
        values[a.var] = analyzer.simplify(a.dom.min + offsets[a])
        inside = analyzer.simplify(offsets[a]) < a.dom.extent
        if not analyzer.can_prove(inside):
            guards.append(ops.likely(inside))
    for inner, limit in overruns(stage.relations, offsets, extent):
        if not analyzer.can_prove(inner < limit):
            guards.append(ops.likely(analyzer.simplify(inner) < limit))
    condition = ops.all(*guards, substitute(condition, values))
    reduce_axis = [a for a in op.reduce_axis if a not in touched]
    reduce_axis += [n for a, n in new_axes.items() if a is not axis]
    source = [substitute(e, values) for e in _reduction(op).source]
    body = [
        Reduce(_reduction(op).combiner, source, reduce_axis, condition, i)
        for i in range(op.num_outputs)
    ]
    axes = [*op.axis[:place], factor, *op.axis[place:]]
    if not reduce_axis:
        body = _unreduced(op, source, condition)
    return ComputeOp(op.name + ".rf", op.tag, op.attrs, axes, body), factor


def _unreduced(op: ComputeOp, source: list[Any], condition: PrimExpr) -> list[Any]:
    """The partial results where nothing is left to reduce: the terms themselves."""
    identity = _reduction(op).combiner.identity_element
    return [ops.if_then_else(condition, s, e) for s, e in zip(source, identity)]


def _reduction(op: ComputeOp) -> Reduce:
    first = op.body[0]
    assert isinstance(first, Reduce)
    return first


def _fresh(axis: IterVar, extent: Values, kind: int) -> IterVar:
    """An axis of another operation with the variable of a loop, by which users know it again."""
    e = extent[axis]
    return IterVar(Range.from_min_extent(const(0, e.dtype), e), axis.var, kind)


def _final(
    op: ComputeOp, factored: ComputeOp, axis: IterVar, factor: IterVar, place: int
) -> ComputeOp:
    """The operation that combines the partial results."""
    axes = [IterVar(a.dom, f"ax{i}", IterVar.DataPar) for i, a in enumerate(op.axis)]
    reduced = IterVar(factor.dom, axis.var.name + ".v", IterVar.CommReduce)
    indices: list[Any] = [a.var for a in axes]
    indices.insert(place, reduced.var)
    source = [ProducerLoad(factored.output(i), indices) for i in range(op.num_outputs)]
    table = {old.var: new.var for old, new in zip(op.axis, axes)}
    init = [substitute(e, table) for e in _reduction(op).init]
    body = [
        Reduce(_reduction(op).combiner, source, [reduced], const(True), i, init)
        for i in range(op.num_outputs)
    ]
    return ComputeOp(op.name, op.tag, op.attrs, axes, body)
