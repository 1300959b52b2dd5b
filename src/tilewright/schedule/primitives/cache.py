"""cache_read, cache_write: a copy of a tensor in other storage.

for i in range(n):                 for i in range(n):
    B[i] = f(A[i])         ->          A_shared[i] = A[i]          # cache_read(A, "shared", [B])
                                   for i in range(n):
                                       B_local[i] = f(A_shared[i]) # cache_write(B, "local")
                                   for i in range(n):
                                       B[i] = B_local[i]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith import Analyzer
from ...base.dtype import parse
from ...loopir import op as ops
from ...loopir.expr import PrimExpr, const, is_const
from ...loopir.iter import CommReducer, IterVar, ProducerLoad, Range, Reduce
from ...loopir.subst import substitute
from ...tensor.op import ComputeOp, TensorComputeOp
from ...tensor.tensor import Tensor
from ..relations import (
    derived_from,
    derived_from_both,
    pass_down_extents,
    pass_down_values,
    pass_up_values,
)
from ..state import Illegal, ScheduleState, StageState
from .arguments import check_scope, require_own_domains


def cache_read(sch: ScheduleState, tensor: Tensor, scope: str, readers: Any) -> Tensor:
    """A copy of `tensor` in storage `scope` that the `readers` read instead; returns the copy.
    Raises ScheduleError where `tensor` is no tensor of the schedule, `scope` is unknown, or no
    reader is given or one does not read it."""
    check_scope(scope)
    stage = _stage_of(sch, tensor)
    source = stage.op.output(tensor.value_index)
    reader_stages = _stages(sch, readers)
    if not reader_stages:
        raise Illegal(f"cache_read of {tensor.op.name} without readers")
    for reader in reader_stages:
        if source not in reader.op.input_tensors:
            inputs = ", ".join(t.op.name for t in reader.op.input_tensors)
            raise Illegal(
                f"Cannot find {source.op.name} in the inputs of {reader.name}",
                legal=f"{reader.name} reads {inputs or 'nothing'}",
            )
    suffix = f".v{source.value_index}" if source.op.num_outputs > 1 else ""
    axes = [
        IterVar(Range.from_min_extent(const(0, d.dtype), d), f"ax{i}", IterVar.DataPar)
        for i, d in enumerate(source.shape)
    ]
    name = f"{source.op.name}{suffix}.{scope}"
    sch.inherited.update(zip(axes, getattr(source.op, "axis", ())))
    cache = ComputeOp(name, "", {}, axes, [ProducerLoad(source, [a.var for a in axes])])
    copy = cache.output(0)
    sch.replace_dataflow({source: copy}, only=reader_stages)
    new = sch.new_stage(cache, name, sch.stages.index(stage) + 1)
    new.scope = scope
    new.group = reader_stages[0].group if _same_group(reader_stages) else stage.group
    return copy


def _same_group(stages: Sequence[StageState]) -> bool:
    return all(s.group is stages[0].group for s in stages)


def _stages(sch: ScheduleState, readers: Any) -> list[StageState]:
    items = readers if isinstance(readers, (list, tuple)) else [readers]
    return [sch.find(r) for r in items]


def _stage_of(sch: ScheduleState, tensor: Any) -> StageState:
    if not isinstance(tensor, Tensor):
        raise Illegal(f"expected a tensor, got {tensor!r}")
    stage: StageState = sch.find(tensor)
    return stage


def cache_write(sch: ScheduleState, tensor: Any, scope: str) -> Any:
    """Compute into storage `scope` first, then copy; returns the cache tensor, where the work is.

    `tensor` may be all outputs of one operation. The cache's dimensions follow the present order
    of the stage's data axes, split or not; the stage itself starts over as the copy. Raises
    ScheduleError where `tensor` is not all outputs of one te.compute of the schedule, `scope` is
    unknown, or data and reduction axes were fused.
    """
    check_scope(scope)
    several = isinstance(tensor, (list, tuple))
    tensors: Sequence[Tensor] = tensor if several else [tensor]
    if not tensors:
        raise Illegal("cache_write needs a tensor")
    stage = _stage_of(sch, tensors[0])
    if any(_stage_of(sch, t) is not stage for t in tensors):
        raise Illegal("cache_write: the tensors must come from the same operation")
    op = stage.op
    if len(tensors) != op.num_outputs:
        raise Illegal(
            f"cache_write needs all {op.num_outputs} outputs of {op.name}, got {len(tensors)}"
        )
    if isinstance(op, TensorComputeOp):
        cache, copies = _relay_tensor_compute(op, scope)
    elif isinstance(op, ComputeOp):
        cache, copies = _relay_compute(stage, op, scope)
    else:
        raise Illegal(f"cache write only take ComputeOp or TensorComputeOp as writers, not {op}")
    old = [op.output(i) for i in range(op.num_outputs)]
    position = sch.stages.index(stage)
    sch.set_op(stage, copies)
    stage.set_root_axes(copies.root_iter_vars())
    stage.attrs = {}
    table = {o: copies.output(i) for i, o in enumerate(old)}
    sch.replace_dataflow(table, only=[s for s in sch.stages if s is not stage])
    new = sch.new_stage(cache, cache.name, position)
    new.scope = scope
    new.group = stage.group
    outputs = [cache.output(t.value_index) for t in tensors]
    return outputs if several else outputs[0]


def _relay_compute(stage: StageState, op: ComputeOp, scope: str) -> tuple[ComputeOp, ComputeOp]:
    """The operation that computes into the cache, and the one that copies out of it."""
    analyzer = Analyzer()
    roots = {a: a.dom.extent for a in stage.op.root_iter_vars() if a.dom is not None}
    extent = pass_down_extents(stage.relations, roots, analyzer)
    mixed = derived_from_both(stage.relations, op)
    if mixed:
        raise Illegal("cache_write after data and reduction axes were fused", next(iter(mixed)))
    of_data = derived_from(stage.relations, op.axis)
    old_leaves = [a for a in stage.leaf_iter_vars if a in of_data]
    new_axes = [
        IterVar(
            Range.from_min_extent(const(0, extent[a].dtype), extent[a]),
            a.var.name + ".c",
            IterVar.DataPar,
        )
        for a in old_leaves
    ]
    for a in new_axes:
        assert a.dom is not None
        analyzer.bind(a.var, a.dom)
    offsets = pass_up_values(
        stage.relations, {o: n.var for o, n in zip(old_leaves, new_axes)}, extent
    )
    values: dict[Any, PrimExpr] = {}
    guards: list[PrimExpr] = []
    for a in op.axis:
        assert a.dom is not None
        values[a.var] = analyzer.simplify(a.dom.min + offsets[a])
        dom = stage.schedule.domain(a)
        past = offsets[a] if dom.min is a.dom.min else values[a.var] - dom.min
        guards += [c for c in (past >= 0, past < dom.extent) if not analyzer.can_prove(c)]
    if guards:
        require_own_domains(op, "cache_write")
    body = _guarded(_at(op, values), guards)
    name = f"{op.name}.{scope}"
    cache = ComputeOp(name, op.tag, op.attrs, new_axes, body)
    down = pass_down_values(
        stage.relations, {a: a.var - a.dom.min for a in op.axis if a.dom is not None}, extent
    )
    indices = [analyzer.simplify(down[a]) for a in old_leaves]
    loads = [ProducerLoad(cache.output(i), indices) for i in range(op.num_outputs)]
    return cache, ComputeOp(op.name, op.tag, op.attrs, op.axis, loads)


def _at(op: ComputeOp, values: dict[Any, PrimExpr]) -> list[PrimExpr]:
    """The bodies of an operation at other values of its data axes, by their variables. What a
    reduction combines, from where and how far may depend on the element: it gets axes of its own
    where it does."""
    first = op.body[0]
    if not isinstance(first, Reduce):
        return [substitute(e, values) for e in op.body]
    axes = [_moved(a, values) for a in first.axis]
    values = values | {a.var: n.var for a, n in zip(first.axis, axes)}

    def there(exprs: Sequence[PrimExpr]) -> list[PrimExpr]:
        return [substitute(e, values) for e in exprs]

    c = first.combiner
    results, identity = there(c.result), there(c.identity_element)
    if any(x is not y for x, y in zip((*results, *identity), (*c.result, *c.identity_element))):
        c = CommReducer(c.lhs, c.rhs, results, identity)
    source, init, condition = there(first.source), there(first.init), there([first.condition])[0]
    return [Reduce(c, source, axes, condition, i, init) for i in range(len(op.body))]


def _moved(axis: IterVar, values: dict[Any, PrimExpr]) -> IterVar:
    """A reduction axis, or another one where its domain changes."""
    assert axis.dom is not None
    low, extent = substitute(axis.dom.min, values), substitute(axis.dom.extent, values)
    if low is axis.dom.min and extent is axis.dom.extent:
        return axis
    return IterVar(Range.from_min_extent(low, extent), axis.var.name, axis.iter_type)


def _guarded(body: Sequence[PrimExpr], guards: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Bodies that read nothing where a guard fails (padding of tiles that do not divide)."""
    if not guards:
        return list(body)
    condition = ops.likely(ops.all(*guards))
    result: list[PrimExpr] = []
    for e in body:
        if isinstance(e, Reduce):
            both = ops.all(condition, e.condition)
            init = [
                i if is_const(i) else ops.if_then_else(condition, i, identity)
                for i, identity in zip(e.init, e.combiner.identity_element)
            ]
            result.append(Reduce(e.combiner, e.source, e.axis, both, e.value_index, init))
        else:
            result.append(ops.if_then_else(condition, e, const(0, parse(e.dtype).element)))
    return result


def _relay_tensor_compute(op: TensorComputeOp, scope: str) -> tuple[Any, ComputeOp]:
    cache = TensorComputeOp(
        f"{op.name}.{scope}",
        op.tag,
        op.axis,
        op.reduce_axis,
        op.schedulable_ndim,
        op.intrin,
        op.tensors,
        op.regions,
        op.scalar_inputs,
    )
    axes = [IterVar(a.dom, a.var.name, IterVar.DataPar) for a in op.axis]
    loads = [ProducerLoad(cache.output(i), [a.var for a in axes]) for i in range(op.num_outputs)]
    return cache, ComputeOp(op.name, op.tag, op.attrs, axes, loads)
