"""The loops of a skeleton, read once from its schedule with open lengths.

For each stage: the loops around it, outermost first; for each axis its region (where it starts and
how long it is, as bound inference would find) and its value in terms of these loops. All of it are
formulas of the open lengths, so nothing is lowered when candidates come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ...base.errors import ScheduleError
from ...loopir.expr import Add, FloorDiv, IntImm, Max, Min, Mul, PrimExpr, Sub, Var, convert
from ...loopir.iter import IterVar
from ...schedule.placement import attach_point, runs_on, same_thread
from ...schedule.relations import Fuse, Singleton, Split
from ...schedule.thread_memory import sees_all
from ...tensor.op import ComputeOp, ExternOp, PlaceholderOp, domain
from ..layout import Digit, PackOrder, pack_order
from .index import IndexParser, Sum
from .program import ONE, ZERO, Program, Slot
from .regions import Regions
from .stage_nest import StageNest
from .value import Loop, Value, Values


class Nest:
    """All stages of a normalised schedule, by their number."""

    def __init__(
        self,
        schedule: Any,
        lengths: Iterable[Var],
        packed: Mapping[int, int] | None = None,
        vectors: Collection[int] = (),
    ) -> None:
        """packed: by stages that copy into the order of their readers' loops, these readers.
        vectors: stages whose innermost loop is to be a vector."""
        self.schedule, self.vectors = schedule, vectors
        self.packed = packed or {}
        variables = list(lengths)
        self.program = Program(len(variables))
        self.values = Values(self.program)
        self.lengths = {v: self.program.input(k) for k, v in enumerate(variables)}
        self.indices = IndexParser(self.program, self.lengths)
        self.loops: list[Loop] = []
        self.stages: dict[int, StageNest] = {}
        self.readers = schedule.consumers()
        self.regions = Regions(self)
        for stage in reversed(schedule.stages):
            if isinstance(stage.op, ComputeOp):
                self._read_stage(stage)
            elif not isinstance(stage.op, (PlaceholderOp, ExternOp)):
                raise ScheduleError(
                    f"auto_scheduler: stage {stage.name} is a {stage.op.kind} operation; the "
                    "search schedules te.compute operations only"
                )

    # -- formulas

    def slot(self, e: PrimExpr) -> Slot:
        """The slot of a length."""
        rule = _LENGTHS.get(type(e))
        if isinstance(e, Var):
            found = self.lengths.get(e)
            if found is None:
                raise ScheduleError(
                    f"auto_scheduler: the extent {e.name} is not known; the search needs constant "
                    "shapes"
                )
            return found
        if isinstance(e, IntImm):
            return self.program.const(e.value)
        if rule is None:
            raise ScheduleError(f"auto_scheduler: a length must be a product, got {e}")
        return rule(self.program, self.slot(e.a), self.slot(e.b))  # type: ignore[attr-defined]

    def sum_value(self, nest: StageNest, index: Sum) -> Value:
        """An index of a statement of a stage."""
        values = self.values
        total = Value(index.const)
        for var, factor in index.axes.items():
            axis = nest.axes.get(var)
            if axis is None:
                raise ScheduleError(
                    f"auto_scheduler: {nest.stage.name} reads at {var.name}, which is none of its "
                    "axes"
                )
            both = values.add(axis.base, axis.own)
            total = values.add(total, values.scale(both, factor))
        for factor, kind, inner, divisor in index.parts:
            part = values.quotient(kind, self.sum_value(nest, inner), divisor)
            total = values.add(total, values.scale(part, factor))
        return total

    # -- stages

    def _read_stage(self, stage: Any) -> None:
        point = attach_point(stage)
        path: list[Loop] = []
        if point is not None:
            parent = self.stages[point[0].id]
            last = next(k for k, a in enumerate(point[0].leaf_iter_vars) if a is point[1])
            own = parent.path[parent.outside :]
            path = parent.path[: parent.outside] + [x for x in own if x.place <= last]
        nest = StageNest(stage, path)
        if point is not None:
            nest.limits.update(self.stages[point[0].id].limits)
        self.stages[stage.id] = nest
        self.regions.infer_axes(nest)
        self._pass_down(nest)
        if not self._add_packed_loops(nest):
            self._add_loops(nest)

    def _pass_down(self, nest: StageNest) -> None:
        """The extents of all axes, as the relations of the stage have them."""
        p, extent = self.program, nest.extents
        for root in nest.stage.op.root_iter_vars():
            extent[root] = nest.axes[root.var].extent
        for r in nest.stage.relations:
            if isinstance(r, Split):
                size = r.factor if r.factor is not None else r.nparts
                assert size is not None
                whole = extent[r.parent]
                tile = p.max(ONE, p.min(self.slot(size), whole))
                rest = p.ceildiv(whole, tile)
                extent[r.inner], extent[r.outer] = (
                    (tile, rest) if r.factor is not None else (rest, tile)
                )
            elif isinstance(r, Fuse):
                extent[r.fused] = p.mul(extent[r.outer], extent[r.inner])
            elif isinstance(r, Singleton):
                extent[r.axis] = ONE
            else:
                raise ScheduleError(
                    f"auto_scheduler: the loops of stage {nest.stage.name} went through "
                    "transform_layout, which the search does not do"
                )

    def _add_loops(self, nest: StageNest) -> None:
        """One loop for each leaf, or part of a fused leaf; the axes' values follow from them."""
        stage = nest.stage
        offset: dict[IterVar, Value] = {}
        for place, leaf in enumerate(stage.leaf_iter_vars):
            thread = stage.attr(leaf).bind_thread
            launched = self._launched(nest, thread)
            if launched:
                offset[leaf] = self._joined(launched)
                self._limit(nest, launched, nest.extents[leaf])
                continue
            given = thread is not None and thread.dom is not None
            parts = [leaf] if given else _parts(stage, leaf)
            for k, part in enumerate(parts):
                extent = nest.extents[part]
                if given:
                    extent = self.slot(thread.dom.extent)
                last = leaf is stage.leaf_iter_vars[-1]
                loop = self._add_loop(nest, leaf, place, extent, thread, k == 0, last)
                offset[part] = Value(ZERO, {loop: ONE})
        for r in reversed(stage.relations):
            self._pass_up(r, offset, nest.extents)
        for root in stage.op.root_iter_vars():
            nest.axes[root.var].own = offset[root]

    def _add_packed_loops(self, nest: StageNest) -> bool:
        """The loops of a copy into the order of its reader's loops; False for other stages."""
        p, stage = self.program, nest.stage
        order = self._pack_order(stage)
        if order is None:
            return False
        for place, digit in enumerate(order.digits):
            extent, below = self._count(stage, digit), self.slot(convert(digit.below))
            last = digit is order.digits[-1]
            loop = self._add_loop(nest, digit.axis, place, extent, None, True, last)
            own = nest.axes[stage.op.axis[digit.dim].var].own
            own.strides[loop] = p.add(own.strides.get(loop, ZERO), below)
        return True

    def _pack_order(self, stage: Any) -> PackOrder | None:
        """The order in which a stage's memory is, if that is one of its reader's loops."""
        reader = self.stages.get(self.packed.get(stage.id, -1))
        if reader is None or stage.relations:
            return None
        return pack_order(reader.stage, stage.op.output(0))

    def packed_shape(self, stage: Any) -> list[Slot] | None:
        """How long memory in the order of a reader's loops is in each dimension: tiles that do not
        divide one are filled up."""
        order = self._pack_order(stage)
        if order is None:
            return None
        shape = [ONE] * order.rank
        for digit in order.digits:
            shape[digit.dim] = self.program.mul(shape[digit.dim], self._count(stage, digit))
        return shape

    def _count(self, stage: Any, digit: Digit) -> Slot:
        """How many values a digit takes. Constants are laid out in whole tiles; copies end with the
        last tile that there is of an axis, so where outer parts have one value, inner ones do not
        take all of theirs."""
        p, extent = self.program, self.slot(convert(digit.extent))
        if not isinstance(stage.op, ComputeOp):
            return extent
        size = self.slot(convert(domain(stage.op.axis[digit.dim]).extent))
        return p.min(extent, p.ceildiv(size, self.slot(convert(digit.below))))

    def _add_loop(self, nest: StageNest, *about: Any) -> Loop:
        loop = Loop(len(self.loops), nest.stage, *about)
        self.loops.append(loop)
        nest.path.append(loop)
        return loop

    def _launched(self, nest: StageNest, thread: IterVar | None) -> list[Loop]:
        """The loops around a stage that already run on the threads of an axis."""
        if thread is None:
            return []
        return [x for x in nest.path if x.thread is not None and same_thread(x.thread, thread)]

    def _joined(self, loops: list[Loop]) -> Value:
        """The value of a fused leaf in terms of the loops that it is made of."""
        strides: dict[Loop, Slot] = {}
        stride = ONE
        for loop in reversed(loops):
            strides[loop] = stride
            stride = self.program.mul(stride, loop.extent)
        return Value(ZERO, strides)

    def _limit(self, nest: StageNest, launched: list[Loop], extent: Slot) -> None:
        """Note that no more threads than a leaf has steps take part."""
        p = self.program
        for loop in reversed(launched):
            nest.limits[loop] = p.min(loop.extent, extent)
            extent = p.ceildiv(extent, loop.extent)

    def _pass_up(self, r: Any, offset: dict[IterVar, Value], extent: dict[IterVar, Slot]) -> None:
        values = self.values
        if isinstance(r, Split):
            outer = values.scale(offset[r.outer], extent[r.inner])
            offset[r.parent] = values.add(outer, offset[r.inner])
        elif isinstance(r, Fuse) and r.fused in offset:
            fused = offset[r.fused]
            offset[r.outer] = values.quotient("div", fused, extent[r.inner])
            offset[r.inner] = values.quotient("mod", fused, extent[r.inner])

    # -- regions

    def moving(self, stage: Any, reader: StageNest) -> Callable[[Loop], bool]:
        """Which loops around `reader` run within one life of the memory of `stage`."""
        own = self.stages.get(stage.id)
        if own is None or stage.is_output:
            return lambda loop: True
        runs: set[Loop] = set()
        for k, loop in enumerate(reader.path):
            outside = k < own.outside
            if loop.thread is None:
                if not outside:
                    runs.add(loop)
            elif (not outside and not runs_on(stage, loop.thread)) or sees_all(stage, loop.thread):
                runs.add(loop)
        return runs.__contains__


_LENGTHS: dict[type, Callable[[Program, Slot, Slot], Slot]] = {
    Mul: Program.mul,
    Add: Program.add,
    Sub: Program.sub,
    FloorDiv: Program.floordiv,
    Max: Program.max,
    Min: Program.min,
}


def _parts(stage: Any, leaf: IterVar) -> list[IterVar]:
    """The axes that a fused leaf is made of, outermost first; else the leaf itself."""
    made = {r.fused: r for r in stage.relations if isinstance(r, Fuse)}
    stack, parts = [leaf], []
    while stack:
        axis = stack.pop()
        if axis in made:
            stack += [made[axis].inner, made[axis].outer]
        else:
            parts.append(axis)
    return parts
