"""Bound inference on formulas: which part of each tensor its readers need, for all candidates.

The rules are those of schedule/bounds.py, with the loops outside of a stage standing at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...loopir.iter import ProducerLoad
from ...loopir.visit import post_order_visit
from ...schedule.bounds import MAX_VECTOR
from ...tensor.op import ComputeOp, ExternOp
from .index import Sum
from .program import ONE, ZERO, Slot
from .stage_nest import Axis, StageNest
from .value import Loop, Value

if TYPE_CHECKING:
    from .nest import Nest

Ends = tuple[Slot, Slot]


class Need:
    """What is read of a dimension while some loops run and all others stand at 0, how that shifts
    with the others, and by how much it may be longer at other places."""

    __slots__ = ("high", "low", "shift", "slack")

    def __init__(self, low: Slot, high: Slot, shift: Value, slack: Slot) -> None:
        self.low, self.high, self.shift, self.slack = low, high, shift, slack


class Regions:
    """Finds the axes of the stages of a nest, readers before what they read."""

    def __init__(self, nest: Nest) -> None:
        self.nest, self.program, self.values = nest, nest.program, nest.values

    def infer_axes(self, own: StageNest) -> None:
        """Where each axis starts and how long it is, from what the readers need."""
        stage, p = own.stage, self.program
        for root in stage.op.root_iter_vars():
            base = Value(self.nest.slot(root.dom.min))
            extent = self.nest.slot(root.dom.extent)
            own.axes[root.var] = Axis(base, extent, extent)
        if stage.is_output or stage.layout is not None:
            return
        found: list[list[Need]] = [[] for _ in stage.op.axis]
        for t in stage.op.outputs:
            for reader in self.nest.readers.get(t, ()):
                if isinstance(reader.op, ExternOp):
                    return
                other = self.nest.stages[reader.id]
                moving = self.nest.moving(stage, other)
                for load in loads_of(reader.op):
                    if load.producer is t:
                        for d, e in enumerate(load.indices):
                            last = p.sub(self.nest.slot(t.shape[d]), ONE)
                            found[d].append(self._needed(other, e, last, moving))
        for d, root in enumerate(stage.op.axis):
            if found[d]:
                own.axes[root.var] = axis = self._union(found[d])
                if stage.id in self.nest.vectors and root is stage.leaf_iter_vars[-1]:
                    # a vector has one length: the most that it is anywhere
                    limit = p.const(MAX_VECTOR)
                    axis.extent = p.choose(limit, axis.room, axis.room, axis.extent)

    def _union(self, needs: list[Need]) -> Axis:
        p = self.program
        first = needs[0]
        low, high, slack = first.low, first.high, first.slack
        for other in needs[1:]:
            low, high = p.min(low, other.low), p.max(high, other.high)
            slack = p.max(slack, other.slack)
        start = Value(low, first.shift.strides, first.shift.quotients)
        extent = p.add(p.sub(high, low), ONE)
        return Axis(start, extent, p.add(extent, slack))

    def _needed(
        self, reader: StageNest, e: Any, last: Slot, moving: Callable[[Loop], bool]
    ) -> Need:
        """What an index covers of a dimension that ends at `last`."""
        p, values = self.program, self.values
        index = self.nest.indices.parse(e)
        if index is None:
            return Need(ZERO, last, Value(), ZERO)
        low, high = self.ends(reader, index, moving)
        shift = values.keep(self.nest.sum_value(reader, index), lambda loop: not moving(loop))
        down, up = values.reach(shift, lambda loop: True)
        # the whole dimension, where what is needed reaches over both its ends everywhere
        before = p.sub(ZERO, p.add(low, up))
        after = p.sub(p.add(high, down), last)
        inside = p.min(before, after)
        low, high = p.choose(inside, ZERO, ZERO, low), p.choose(inside, ZERO, last, high)
        slack = self._slack(reader, index, moving)
        return Need(low, high, shift, p.choose(inside, ZERO, ZERO, slack))

    def _slack(self, reader: StageNest, index: Sum, moving: Callable[[Loop], bool]) -> Slot:
        """How much more a quotient covers at other places than where all loops stand at 0."""
        p, values = self.program, self.values
        total = ZERO
        for factor, kind, inner, divisor in index.parts:
            shift = values.keep(self.nest.sum_value(reader, inner), lambda loop: not moving(loop))
            if kind != "div" or not shift.strides:
                continue
            step = divisor  # the shift is a multiple of it
            for loop, stride in shift.strides.items():
                step = p.gcd(step, p.mul(stride, p.min(ONE, p.sub(loop.extent, ONE))))
            low, high = self.ends(reader, inner, moving)
            here = p.sub(p.floordiv(high, divisor), p.floordiv(low, divisor))
            rest = p.sub(low, p.mul(p.floordiv(low, step), step))
            latest = p.add(p.sub(divisor, step), rest)
            most = p.floordiv(p.add(latest, p.sub(high, low)), divisor)
            total = p.add(total, p.mul(factor, p.sub(most, here)))
        return total

    def ends(self, reader: StageNest, index: Sum, moving: Callable[[Loop], bool]) -> Ends:
        """The lowest and highest value of an index while the moving loops run and all others stand
        at 0; no axis leaves its region."""
        p, values = self.program, self.values
        low = high = index.const
        for var, factor in index.axes.items():
            axis = reader.axes[var]
            down, up = values.reach(axis.base, moving)
            _, along = values.reach(axis.own, moving)
            first = p.add(axis.base.start, down)
            last = p.add(axis.base.start, p.add(up, p.min(along, p.sub(axis.extent, ONE))))
            low, high = self._extend(low, high, factor, (first, last))
        for factor, kind, inner, size in index.parts:
            less, more = self.ends(reader, inner, moving)
            below, above = p.floordiv(less, size), p.floordiv(more, size)
            pair = (below, above)
            if kind == "mod":
                top, least = p.sub(more, p.mul(above, size)), p.sub(less, p.mul(below, size))
                pair = (
                    p.choose(below, above, least, ZERO),
                    p.choose(below, above, top, p.sub(size, ONE)),
                )
            low, high = self._extend(low, high, factor, pair)
        return low, high

    def _extend(self, low: Slot, high: Slot, factor: Slot, pair: Ends) -> Ends:
        p = self.program
        first, last = reversed(pair) if self.values.is_negative(factor) else pair
        return p.add(low, p.mul(factor, first)), p.add(high, p.mul(factor, last))


def loads_of(op: ComputeOp) -> list[ProducerLoad]:
    """The reads of an operation's expressions."""
    found: list[ProducerLoad] = []

    def visit(e: Any) -> None:
        if isinstance(e, ProducerLoad):
            found.append(e)

    for body in op.body[:1] if op.reduce_axis else op.body:
        post_order_visit(body, visit)
    return found
