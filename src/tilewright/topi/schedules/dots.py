"""Which instruction adds up the products of a contraction, groups of neighbours at a time.

Its columns are padded to whole vectors and lie with the steps of a group innermost; the row side
is read a group at a time, so these steps lie one behind the other there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...loopir.expr import const_int
from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.visit import free_vars, walk
from ...target.dots import Dot
from ..tensor_intrin.dot import dot_product
from .contraction import Contraction, step_of
from .machine import Machine, extent_of


@dataclass(frozen=True)
class Groups:
    """An instruction and the axis of a reduction whose steps it takes a group of."""

    dot: Dot
    steps: IterVar

    @property
    def terms(self) -> int:
        """Steps in a group."""
        return self.dot.terms

    def intrinsic(self, op: Any, form: Contraction) -> Any:
        """The tensor intrinsic for the loops over a vector and a group."""
        row, side = form.row_side, form.vector_side
        assert row is not None and side is not None, "both sides are read"
        k, j = self.steps.var, op.axis[-1].var
        columns = ["j", "k"] if form.panel else _places(side, k, j)
        return dot_product(
            self.dot, op.body[0].source[0], row.producer, (_places(row, k, j), columns)
        )


def _places(load: ProducerLoad, k: Any, j: Any) -> list[str]:
    found = ["k" if x is k else "j" if x is j else "" for x in load.indices]
    return found[next(i for i, p in enumerate(found) if p) :]


def groups_of(op: Any, form: Contraction | None, machine: Machine) -> Groups | None:
    """The first of the machine's instructions that computes a sum of products; None for none."""
    if form is None or form.both or form.group:
        return None
    row, side = form.row_side, form.vector_side
    if row is None or side is None or row.producer == side.producer or not op.reduce_axis:
        return None
    steps = next((a for a in op.reduce_axis if row.indices[-1] is a.var), None)
    if steps is None or step_of(row, steps.var) != 1:
        return None
    inside = [x for x in side.indices if steps.var in free_vars(x)]
    plain = len(inside) == 1 and inside[0] is steps.var and form.column >= 0
    for dot in machine.dots:
        fits = dot.takes(row.dtype, side.dtype, op.output_dtype(0))
        laid = form.terms == dot.terms if form.panel else plain
        whole = extent_of(steps) > 0 and extent_of(steps) % dot.terms == 0
        wide = form.panel > 0 or extent_of(op.axis[-1]) >= dot.lanes
        if fits and laid and whole and wide:
            return Groups(dot, steps)
    return None


def groups_of_conv(op: Any, machine: Machine) -> Groups | None:
    """The instruction for a blocked convolution whose kernel has groups of channels innermost;
    None where there is none for it, or the kernel has not."""
    data, kernel = _factors_of_conv(op)
    *_, channels = op.reduce_axis
    if kernel is None or data is None or len(kernel.indices) < 7:
        return None
    terms = const_int(kernel.producer.shape[-1])
    for dot in machine.dots:
        fits = dot.takes(data.dtype, kernel.dtype, op.output_dtype(0)) and dot.terms == terms
        if fits and extent_of(op.axis[-1]) % dot.lanes == 0:
            return Groups(dot, channels)
    return None


def conv_intrinsic(op: Any, groups: Groups) -> Any:
    """The tensor intrinsic of a blocked convolution, for the loops over a vector of filters and a
    group of channels."""
    data, _ = _factors_of_conv(op)
    assert data is not None, "groups_of_conv has found it"
    return dot_product(groups.dot, op.body[0].source[0], data.producer, (["k"], ["j", "k"]))


def _factors_of_conv(op: Any) -> tuple[ProducerLoad | None, ProducerLoad | None]:
    """The reads of data and kernel."""
    loads = [e for e in walk(op.body[0].source[0]) if type(e) is ProducerLoad]
    data = next((e for e in loads if len(e.indices) == 5), None)
    return data, next((e for e in loads if len(e.indices) > 5), None)
