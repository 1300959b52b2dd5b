"""Constant operands of sums of products in the panels that a default schedule would copy them into
at each call: laid out once, ahead of time."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from ...loopir.expr import const_int
from ...loopir.visit import free_vars
from ...tensor.tensor import Tensor
from .contraction import contraction_of
from .dots import groups_of
from .machine import Machine
from .reduce import in_rows
from .register_tile import panel_width

IN_BLOCKS = frozenset({"conv_nchwc", "depthwise_nchwc", "winograd_product"})
"""Tags of sums whose weights lie in blocks already, and which have tiles of their own kind."""


@dataclass(frozen=True)
class Panels:
    """The dimensions of a tensor in panels, outermost first: (dimension, extent, below) stands for
    index // `below` % `extent` of that one. `column` is cut, and steps that an instruction takes
    groups of; the last parts may be filled up."""

    tensor: Tensor
    column: int
    parts: tuple[tuple[int, int, int], ...]


def panels_of(op: Any, constants: Container[Tensor], machine: Machine) -> Panels | None:
    """How the vector side of a sum of products should lie, where it is one of the `constants`:
    panels of columns, in each one step of the reduction after the other. None where it stays."""
    form = None if op.tag in IN_BLOCKS else contraction_of(op)
    side = None if form is None else form.vector_side
    if form is None or side is None or form.both or form.column < 0:
        return None
    if side.indices[form.column] is not op.axis[-1].var or in_rows(op.output(0), machine):
        return None
    tensor = side.producer
    sizes = [const_int(d) for d in tensor.shape]
    if tensor not in constants or None in sizes:
        return None
    width = panel_width(op, form, machine)
    if form.group and form.group % width:
        return None
    steps = {a.var: n for n, a in enumerate(op.reduce_axis)}
    used = [[steps[v] for v in free_vars(x) if v in steps] for x in side.indices]
    others = [d for d in range(len(sizes)) if d != form.column]
    order = sorted(others, key=lambda d: max(used[d], default=-1))
    outer = [d for d in order if not used[d]]
    count = -(-(sizes[form.column] or 0) // width)
    parts = [(d, sizes[d] or 0, 1) for d in outer]
    parts.append((form.column, count, width))
    groups = groups_of(op, form, machine)
    terms = 1 if groups is None else groups.terms
    last: list[tuple[int, int, int]] = [(form.column, width, 1)]
    for d in order:
        grouped = groups is not None and side.indices[d] is groups.steps.var
        if used[d]:
            each = terms if grouped else 1
            parts.append((d, -(-(sizes[d] or 0) // each), each))
        if grouped:
            last.append((d, terms, 1))
    return Panels(tensor, form.column, (*parts, *last))
