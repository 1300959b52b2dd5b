"""Which instruction adds up the products of a contraction, groups of neighbours at a time.

Its columns are padded to whole vectors and lie with the steps of a group innermost; the row side
is read a group at a time, so these steps lie one behind the other there. Where they do not, where
the last group is not whole, or where the instruction wants the bytes of the other sign, the product
is restated as one of copies that are as it takes them (regroup.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ...loopir.expr import const_int
from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.visit import free_vars, walk
from ...target.dots import Dot, Fit, best_first
from ..tensor_intrin.dot import dot_product
from .contraction import NARROW, Contraction, step_of
from .machine import LIKELY_ROWS, Machine, extent_of

FLIPPED_ROWS = 2  # that share the sums of a column, which take as long as one row does


@dataclass(frozen=True)
class Groups:
    """An instruction and the axis of a reduction whose steps it takes a group of; `fit`: how it
    takes the sides. `copied`: the row side has to be copied for it, `filled`: and both sides end
    with zeros, in the place of what the last group has not."""

    dot: Dot
    steps: IterVar
    fit: Fit
    copied: bool = False
    filled: bool = False

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
            self.dot, op.body[0].source[0], row.producer, (_places(row, k, j), columns),
            self.fit.swapped,
        )  # fmt: skip

    def sums_of_columns(self, op: Any, steps: IterVar, panel: bool) -> Any:
        """The same for sums of the elements of columns, in the place of products."""
        source = op.body[0].source[0]
        side = next(e for e in walk(source) if type(e) is ProducerLoad)
        columns = ["j", "k"] if panel else _places(side, steps.var, op.axis[-1].var)
        return dot_product(self.dot, source, None, ([], columns), self.fit.swapped)


def _places(load: ProducerLoad, k: Any, j: Any) -> list[str]:
    found = ["k" if x is k else "j" if x is j else "" for x in load.indices]
    return found[next(i for i, p in enumerate(found) if p) :]


def groups_of(op: Any, form: Contraction | None, machine: Machine) -> Groups | None:
    """The best of the machine's instructions that compute a sum of products; None for none."""
    if form is None or form.both or form.group or extent_of(op.axis[-1]) == 1:
        return None
    row, side = form.row_side, form.vector_side
    if row is None or side is None or row.producer == side.producer or not op.reduce_axis:
        return None
    steps = _steps_of_groups(op, form, row, side)
    if steps is None:
        return None
    whole, near = extent_of(steps), row.indices[-1] is steps.var and step_of(row, steps.var) == 1
    known = all(const_int(d) is not None for t in (op.output(0), row.producer) for d in t.shape)
    rows = prod(extent_of(op.axis[i]) or LIKELY_ROWS for i in form.rows)
    for dot, fit in _fitting(op, form, row, side, machine):
        filled = whole % dot.terms > 0
        copied = filled or fit.flipped or not near
        laid = form.panel == 0 or form.terms == dot.terms
        pays = not fit.flipped or rows >= FLIPPED_ROWS
        if laid and pays and 2 * whole > dot.terms and (known or not copied):
            return Groups(dot, steps, fit, copied, filled)
    return None


def _steps_of_groups(
    op: Any, form: Contraction, row: ProducerLoad, side: ProducerLoad
) -> IterVar | None:
    """The axis of a reduction that both sides have a dimension for; if there are several, one whose
    steps are neighbours in the row side, or the longest."""
    found = []
    for axis in op.reduce_axis:
        uses = [[x for x in e.indices if axis.var in free_vars(x)] for e in (row, side)]
        alone = [len(u) == 1 and u[0] is axis.var for u in uses]
        if extent_of(axis) > 1 and alone[0] and (form.panel or (alone[1] and form.column >= 0)):
            found.append((row.indices[-1] is axis.var, extent_of(axis), axis))
    return max(found, key=lambda f: f[:2], default=(False, 0, None))[2]


def _fitting(
    op: Any, form: Contraction, row: ProducerLoad, side: ProducerLoad, machine: Machine
) -> list[tuple[Dot, Fit]]:
    """What computes the sum in the widest vectors that a few columns fill, best first."""
    n = extent_of(op.axis[-1])
    most = max(2 * n - 1, NARROW) if n else machine.vector_bytes
    sums = op.output_dtype(0)
    fit = [d.lanes for d in machine.dots if d.sums == sums and d.lanes <= most]
    widths = [lanes for lanes in fit if form.panel % lanes == 0]
    return best_first(machine.dots, max(widths, default=0), row.dtype, side.dtype, sums)


def groups_of_conv(op: Any, machine: Machine) -> Groups | None:
    """The instruction for a blocked convolution whose kernel has groups of channels innermost;
    None where there is none for it, or the kernel has not."""
    data, kernel = _factors_of_conv(op)
    *_, channels = op.reduce_axis
    if kernel is None or data is None or len(kernel.indices) < 7:
        return None
    terms = const_int(kernel.producer.shape[-1])
    filters = extent_of(op.axis[-1])
    lanes = max((d.lanes for d in machine.dots if filters % d.lanes == 0), default=0)
    types = data.dtype, kernel.dtype, op.output_dtype(0)
    for dot, fit in best_first(machine.dots, lanes, *types):
        if dot.terms == terms and not fit.flipped:
            return Groups(dot, channels, fit)
    return None


def conv_intrinsic(op: Any, groups: Groups) -> Any:
    """The tensor intrinsic of a blocked convolution, for the loops over a vector of filters and a
    group of channels."""
    data, _ = _factors_of_conv(op)
    assert data is not None, "groups_of_conv has found it"
    places = ["k"], ["j", "k"]
    return dot_product(groups.dot, op.body[0].source[0], data.producer, places, groups.fit.swapped)


def _factors_of_conv(op: Any) -> tuple[ProducerLoad | None, ProducerLoad | None]:
    """The reads of data and kernel."""
    loads = [e for e in walk(op.body[0].source[0]) if type(e) is ProducerLoad]
    data = next((e for e in loads if len(e.indices) == 5), None)
    return data, next((e for e in loads if len(e.indices) > 5), None)
