"""Tensorised loops: the loops from an axis inwards are replaced by a tensor intrinsic.

The region that those loops cover (outer loops fixed, inner ones relaxed) must have the intrinsic's
shape, and the computation, rewritten over that region, must be the intrinsic's, expression for
expression. Leading dimensions of extent 1 that the intrinsic does not have are dropped. The
intrinsic's declared buffers are bound to the regions (tensorize_regions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arith import Analyzer, IntervalSet, eval_set, union
from ..loopir.buffer import Buffer
from ..loopir.equal import structural_equal
from ..loopir.expr import LT, Add, Mul, PrimExpr, SizeVar, Var, const, is_const
from ..loopir.iter import IterVar, ProducerLoad, Range, Reduce
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import Stmt, seq
from ..loopir.visit import free_vars, post_order_visit
from ..schedule.placement import first_reduction_loop
from ..schedule.relations import derived_from, derived_from_both
from ..schedule.stage_bounds import Bounds, root_offsets
from ..schedule.state import StageState
from ..schedule.whole_vectors import uncast
from ..tensor.reduce import builtin_kind
from ..tensor.tensor import Tensor
from .stage_body import substitute_buffers
from .stage_guards import region_guards
from .stage_memory import Memory
from .tensorize_regions import (
    Box,
    bind_region,
    buffers_by_tensor,
    check_starts,
    failed,
    steps_of_view,
)


def tensorized_body(builder: Any, stage: StageState) -> Stmt:
    """The whole nest of a stage with a tensorised axis."""
    bounds, memory = builder.bounds, builder.memory
    place = next(
        i
        for i, leaf in enumerate(stage.leaf_iter_vars)
        if stage.attr(leaf).tensor_intrin is not None
    )
    intrin = stage.attr(stage.leaf_iter_vars[place]).tensor_intrin
    _check_attached(builder, stage, place)
    for t in (*stage.op.input_tensors, *stage.op.outputs):
        owner = builder.stage_of.get(t.op)
        if owner is not None and owner.rolling:
            raise failed(
                stage,
                f"Tensorize failed, {t.op.name} is a rolling buffer, whose regions are not in one "
                "piece; leave out rolling_buffer or tensorize",
            )
    if derived_from_both(stage.relations, stage.op):
        raise failed(stage, "Tensorize failed, data and reduction axes of the stage were fused")
    split = first_reduction_loop(stage)
    match = _Match(bounds, stage, intrin, place, split >= place or intrin.reduce_init is not None)
    match.check()
    bind = match.bindings(memory)
    outer = stage.leaf_iter_vars[:place]
    values = builder.values(stage)
    if split >= place:
        body = bind(intrin.body)
        _check_guards(builder, stage, place, values)
        return _guarded_nest(builder, stage, outer, values, body)
    if intrin.reduce_update is None:
        raise failed(stage, f"Reduction update op for intrin {intrin.name} is not defined")
    _check_guards(builder, stage, place, values)
    update: Stmt = bind(intrin.reduce_update)
    update = builder.guarded(stage, _outer_values(stage, values), update)
    update = builder.nest(stage, outer[split:], update)
    if intrin.reduce_init is not None:
        family = derived_from(stage.relations, stage.op.reduce_axis)
        data = [leaf for leaf in outer[split:] if leaf not in family]
        init = bind(intrin.reduce_init)
        skip = frozenset(family)
        init = builder.guarded(stage, _outer_values(stage, values), init, skip, starts=True)
        for leaf in reversed(data):
            init = builder.wrap(stage, leaf, init)
    else:
        init = builder.init_nest(stage, stage.leaf_iter_vars[split:])
    whole: Stmt = builder.nest(stage, outer[:split], seq(init, update))
    return whole


def _outer_values(stage: StageState, values: Mapping[IterVar, PrimExpr]) -> dict[IterVar, PrimExpr]:
    return {a: v for a, v in values.items() if a in stage.op.axis or a in stage.op.reduce_axis}


def _guarded_nest(
    builder: Any,
    stage: StageState,
    outer: Sequence[IterVar],
    values: Mapping[IterVar, PrimExpr],
    body: Stmt,
) -> Stmt:
    body = builder.guarded(stage, values, body)
    result: Stmt = builder.nest(stage, outer, body)
    return result


def _check_guards(
    builder: Any, stage: StageState, place: int, values: Mapping[IterVar, PrimExpr]
) -> None:
    """A guard may not depend on a loop that the intrinsic replaces."""
    mine = builder.bounds[stage]
    inner = {mine.var[leaf] for leaf in stage.leaf_iter_vars[place:]}
    split = "split condition", "let the tile divide the extent"
    free = builder.overrun.summed(stage, values)
    guards = region_guards(builder.bounds, stage, values, frozenset(), None, free)
    edges = builder.overrun.edges(stage, values)
    if edges and stage.id in builder.overrun.filled:
        raise failed(stage, f"{edges[0]} is not proved; let the tile divide the extent")
    guards += edges
    given = [(c, split) for c in guards]
    predicate = builder.store_predicate(stage, values)
    if predicate is not None:
        given.append((predicate, ("store predicate", "let it use outer axes only")))
    for condition, (what, advice) in given:
        found = next((v for v in free_vars(condition) if v in inner), None)
        if found is not None:
            raise failed(
                stage,
                f"Tensorize failed, {what} {condition} relies on var {found.name} "
                f"defined inside tensorize scope; {advice}",
            )


def _check_attached(builder: Any, stage: StageState, place: int) -> None:
    """No stage may be computed inside the loops that the intrinsic replaces."""
    for leaf in stage.leaf_iter_vars[place:]:
        for child in builder.attached.get((stage.id, id(leaf)), []):
            raise failed(
                stage,
                f"Tensorize failed, stage {child.name} is computed at {leaf.var.name}, which the "
                "intrinsic replaces; compute it at an outer loop",
            )


class _Match:
    """The region that a tensorised nest covers, and its comparison with the intrinsic, which
    `starts` the reduction or goes on with it."""

    def __init__(
        self, bounds: Bounds, stage: StageState, intrin: Any, place: int, starts: bool
    ) -> None:
        self.stage, self.intrin, self.bounds, self.starts = stage, intrin, bounds, starts
        self.analyzer: Analyzer = bounds.analyzer
        mine = bounds[stage]
        relaxed = {
            mine.var[leaf]: IntervalSet.from_range(
                Range.from_min_extent(const(0, mine.extent[leaf].dtype), mine.extent[leaf])
            )
            for leaf in stage.leaf_iter_vars[place:]
        }
        offsets = root_offsets(bounds, stage)
        self.axes: dict[IterVar, tuple[PrimExpr, PrimExpr]] = {}
        sets: dict[Var, IntervalSet] = {}
        for axis in stage.op.root_iter_vars():
            taken = eval_set(mine.min[axis] + offsets[axis], relaxed, self.analyzer)
            cover = taken.cover_range(axis.dom, self.analyzer)
            assert cover is not None
            self.axes[axis] = (cover.min, self.analyzer.simplify(cover.extent))
            sets[axis.var] = IntervalSet.from_range(Range.from_min_extent(*self.axes[axis]))
        self.inputs = self._input_regions({**relaxed, **sets})

    def _input_regions(self, sets: Mapping[Var, IntervalSet]) -> dict[Tensor, Box]:
        found: dict[Tensor, list[list[IntervalSet]]] = {}

        def visit(e: Any) -> None:
            if isinstance(e, ProducerLoad):
                dims = found.setdefault(e.producer, [[] for _ in e.indices])
                for d, index in enumerate(e.indices):
                    dims[d].append(eval_set(index, sets, self.analyzer))

        post_order_visit(self.stage.op.body[0], visit)
        result: dict[Tensor, Box] = {}
        for t, dims in found.items():
            box: Box = []
            for d, several in enumerate(dims):
                whole = Range.from_min_extent(const(0), t.shape[d])
                cover = union(several, self.analyzer).cover_range(whole, self.analyzer)
                assert cover is not None
                box.append((cover.min, self.analyzer.simplify(cover.extent)))
            result[t] = box
        return result

    def check(self) -> None:
        """Shapes, dtypes and expressions must be the intrinsic's."""
        op, want = self.stage.op, self.intrin.op
        if op.num_outputs != want.num_outputs:
            raise failed(self.stage, "Tensorize failed, output size mismatch")
        inputs = op.input_tensors
        if len(inputs) != len(self.intrin.inputs):
            raise failed(
                self.stage,
                f"Tensorize failed, input size mismatch: the stage reads {len(inputs)} tensors, "
                f"{self.intrin.name} {len(self.intrin.inputs)}",
            )
        for t, declared in zip(inputs, self.intrin.inputs):
            if t.dtype != declared.dtype:
                raise failed(
                    self.stage,
                    f"Tensorize failed, data type mismatch on {t.op.name}: {t.dtype}, "
                    f"{self.intrin.name} takes {declared.dtype}",
                )
            self._squeezed(self.inputs[t], declared.shape, t.op.name)
        self._squeezed([self.axes[a] for a in op.axis], want.output(0).shape, op.name)
        for axis in want.root_iter_vars():
            self.analyzer.bind(axis.var, axis.dom)
        mine, theirs = self._rewritten_body(), [self._plain(e) for e in want.body]
        for a, b in zip(mine, theirs):
            if not structural_equal(a, b, map_free_vars=False):
                raise failed(
                    self.stage,
                    f"Failed to match the compute with TensorIntrin {self.intrin.name}'s "
                    f"declaration:\n  provided:  {a}\n  intrinsic: {b}",
                )

    def _squeezed(self, box: Box, shape: Sequence[PrimExpr], name: str) -> int:
        """How many leading dimensions of extent 1 the intrinsic does not have."""
        extra = len(box) - len(shape)
        fits = extra >= 0 and all(is_const(e, 1) for _, e in box[: max(extra, 0)])
        if fits:
            fits = all(self.analyzer.can_prove_equal(e, s) for (_, e), s in zip(box[extra:], shape))
        if not fits:
            have = ", ".join(str(e) for _, e in box)
            wants = ", ".join(str(s) for s in shape)
            raise failed(
                self.stage,
                f"Tensorize failed, the region of {name} is [{have}], "
                f"{self.intrin.name} takes [{wants}]",
            )
        return extra

    def _rewritten_body(self) -> list[PrimExpr]:
        """The stage's body over the region, in the intrinsic's variables."""
        op, want = self.stage.op, self.intrin.op
        table: dict[Var, Any] = {}
        extra = len(op.axis) - len(want.axis)
        for k, axis in enumerate(op.axis):
            low = self.axes[axis][0]
            table[axis.var] = low if k < extra else low + want.axis[k - extra].var
        running = [a for a in op.reduce_axis if not is_const(self.axes[a][1], 1)]
        targets = list(want.reduce_axis)
        if len(running) < len(targets):
            running = list(op.reduce_axis)[-len(targets) :]
        if len(running) != len(targets):
            raise failed(
                self.stage,
                f"Tensorize failed, reduction over {len(running)} axes, "
                f"{self.intrin.name} reduces {len(targets)}",
            )
        for axis in op.reduce_axis:
            table[axis.var] = self.axes[axis][0]
        for axis, target in zip(running, targets):
            extent = self.axes[axis][1]
            if not self.analyzer.can_prove_equal(extent, target.dom.extent):
                raise failed(
                    self.stage,
                    f"Tensorize failed, reduction axis {axis.var.name} has extent {extent}, "
                    f"{self.intrin.name} takes {target.dom.extent}",
                )
            table[axis.var] = self.axes[axis][0] + target.var
        rewriter = _ToIntrinsic(self, table)
        return [self._plain(rewriter.body(e, targets)) for e in op.body]

    def _plain(self, e: PrimExpr) -> PrimExpr:
        if isinstance(e, Reduce):
            source = [self.analyzer.simplify(s) for s in e.source]
            condition = self.analyzer.simplify(e.condition)
            init = e.init if self.starts else ()
            return Reduce(e.combiner, source, e.axis, condition, e.value_index, init)
        simple: PrimExpr = self.analyzer.simplify(e)
        return simple

    def bindings(self, memory: Memory) -> Any:
        """A function that puts the actual regions in place of the intrinsic's buffers."""
        op = self.stage.op
        values: dict[Var, Any] = {}
        views: dict[Buffer, Buffer] = {}
        pairs: list[tuple[Tensor, Tensor, Box]] = [
            (d, t, self.inputs[t]) for d, t in zip(self.intrin.inputs, op.input_tensors)
        ]
        box = [self.axes[a] for a in op.axis]
        pairs += [(self.intrin.op.output(i), op.output(i), box) for i in range(op.num_outputs)]
        buffer_of = buffers_by_tensor(self.intrin)
        if self.intrin.clips:
            check_starts(self.stage, memory, self.intrin.name, op.input_tensors)
        for declared, tensor, region in pairs:
            buffer = buffer_of[declared]
            views[buffer] = bind_region(
                self.stage, self.analyzer, memory, buffer, tensor, region, values
            )
            array = memory.place(tensor).array
            if array is not None:
                given = self.intrin.views.get(declared)
                values |= steps_of_view(self.stage, self.analyzer, tensor, array, given)
        return lambda body: substitute_buffers(body, values, views)


class _ToIntrinsic(Rewriter):
    """Reads of the stage's inputs become reads of the intrinsic's, relative to the region."""

    def __init__(self, match: _Match, table: Mapping[Var, Any]) -> None:
        self.match = match
        self.offsets = table
        inputs = match.stage.op.input_tensors
        self.partner = dict(zip(inputs, match.intrin.inputs))

    def body(self, e: PrimExpr, axes: Sequence[IterVar]) -> PrimExpr:
        if isinstance(e, Reduce):
            source = [self.expr(s) for s in e.source]
            init = [self.expr(s) for s in e.init]
            ends = self.match.intrin.clips and _ends_with_array(e)
            condition = const(True) if ends else self.expr(e.condition)
            return Reduce(e.combiner, source, axes, condition, e.value_index, init)
        result: PrimExpr = self.expr(e)
        return result

    @handles(Var, SizeVar)
    def _var(self, e: Var) -> Any:
        return self.offsets.get(e, e)

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        declared = self.partner[e.producer]
        box = self.match.inputs[e.producer]
        indices = [
            self.match.analyzer.simplify(self.expr(i) - low) for i, (low, _) in zip(e.indices, box)
        ]
        return ProducerLoad(declared, indices[len(box) - len(declared.shape) :])


def _ends_with_array(e: Reduce) -> bool:
    """Whether products are summed while an index of a factor lies in its array: where an intrinsic
    takes zeros beyond it, it may go on."""
    c, product = e.condition, e.source[0]
    if type(c) is not LT or type(product) is not Mul or builtin_kind(e.combiner) is not Add:
        return False
    factors = [uncast(x) for x in (product.a, product.b)]
    return any(
        structural_equal(index, c.a) and structural_equal(size, c.b)
        for x in factors
        if isinstance(x, ProducerLoad)
        for index, size in zip(x.indices, x.producer.shape)
    )


def tensor_compute_body(
    stage: StageState,
    bounds: Bounds,
    memory: Memory,
    values: Mapping[IterVar, PrimExpr],
) -> Stmt:
    """A TensorComputeOp's intrinsic on the regions that its call names."""
    op, analyzer = stage.op, bounds.analyzer
    axis_values = {a.var: v for a, v in values.items()}
    table: dict[Var, Any] = {}
    views: dict[Buffer, Buffer] = {}
    intrin = op.intrin
    buffer_of = buffers_by_tensor(intrin)
    reader = _AxisValues(axis_values)
    for declared, tensor, region in zip(intrin.inputs, op.tensors, op.regions):
        box = [(reader.expr(r.min), reader.expr(r.extent)) for r in region]
        buffer = buffer_of[declared]
        views[buffer] = bind_region(stage, analyzer, memory, buffer, tensor, box, table)
    for i, tensor in enumerate(op.outputs):
        declared = intrin.op.output(i)
        box = [
            (
                values[a] if k < op.schedulable_ndim else bounds[stage].min[a],
                bounds[stage].extent[a],
            )
            for k, a in enumerate(op.axis)
        ]
        buffer = buffer_of[declared]
        views[buffer] = bind_region(stage, analyzer, memory, buffer, tensor, box, table)
    for var, value in zip(intrin.scalar_params, op.scalar_inputs):
        table[var] = reader.expr(value)
    body = intrin.body
    if op.reduce_axis and intrin.reduce_update is not None:
        init = intrin.reduce_init if intrin.reduce_init is not None else None
        body = seq(init, intrin.reduce_update)
    return substitute_buffers(body, table, views)


class _AxisValues(Rewriter):
    def __init__(self, table: Mapping[Var, Any]) -> None:
        self.values = table

    @handles(Var, SizeVar)
    def _var(self, e: Var) -> Any:
        return self.values.get(e, e)
