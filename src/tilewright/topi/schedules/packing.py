"""Copies of the vector side of a sum of products: panels of columns, in each one step of the
reduction after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...loopir.iter import IterVar, ProducerLoad
from ...loopir.visit import free_vars
from ...schedule.api import Schedule, Stage
from ...tensor.tensor import Tensor
from .contraction import Contraction
from .dots import Groups
from .machine import PARALLEL_PRODUCTS, PIECES, Machine, extent_of, parallel_if, size_of, work_of
from .memory_order import steps_of, uses_of


def pack(
    s: Schedule,
    form: Contraction,
    product: Tensor,
    lanes: int,
    groups: Groups | None,
    more: Tensor | None = None,
) -> Stage:
    """A copy of a panel, one step of the reduction after the other, or one group of them. `more`:
    what else reads it."""
    side, column = form.vector_side, form.column
    assert side is not None, "what is packed is read"
    readers = [product] if more is None else [product, more]
    copy = s[s.cache_read(side.producer, "global", readers)]
    others, along = _dimensions(side, column, product)
    if form.in_order and groups is None:
        _copy_rows(copy, list(copy.op.axis), column, along, lanes)
        return copy
    if groups is not None:
        return _pack_groups(copy, side, groups, others, along, column, lanes)

    def panel(*indices: Any) -> list[Any]:
        return [indices[d] for d in (*others, *along, column)]

    axes = dict(zip((*others, *along, column), copy.transform_layout(panel)))
    _copy_rows(copy, [axes[d] for d in range(len(axes))], column, along, lanes)
    return copy


def splits_evenly(form: Contraction, op: Any) -> bool:
    """Whether the columns of a tile are those of a panel of the whole vector side."""
    side, j = form.vector_side, op.axis[-1].var
    return side is not None and not form.group and side.indices[form.column] is j


def pack_ahead(
    s: Schedule, form: Contraction, product: Tensor, width: int, machine: Machine
) -> None:
    """A copy of all panels, by all threads: pieces of rows would each make their own."""
    side, column = form.vector_side, form.column
    assert side is not None, "what is packed is read"
    copy = s[s.cache_read(side.producer, "global", [product])]
    others, along = _dimensions(side, column, product)

    def panels(*indices: Any) -> list[Any]:
        j = indices[column]
        return [*(indices[d] for d in others), j // width, *(indices[d] for d in along), j % width]

    axes = copy.transform_layout(panels)
    outer, steps, j = axes[: len(others) + 1], axes[len(others) + 1 : -1], axes[-1]
    own = dict(zip((*others, *along, column), (*outer[:-1], *steps, j)))
    lanes = machine.lanes(product.dtype)
    _copy_rows(copy, [own[d] for d in range(len(own))], column, along, lanes)
    sizes = [size_of(d) for d in side.producer.shape]
    count = prod(sizes[d] for d in others) * -(-sizes[column] // width)
    able = steps and steps[0] in copy.leaf_iter_vars
    shared = [*outer, steps[0]] if able and 0 < count < PIECES * machine.cores else outer
    parallel_if(copy, copy.fuse(*shared), work_of(product), PARALLEL_PRODUCTS, machine)


def _dimensions(side: ProducerLoad, column: int, product: Tensor) -> tuple[list[int], list[int]]:
    """Of a vector side: the dimensions beside its columns, those of the reduction apart. Columns
    that windows slide over are read at steps of the reduction too."""
    steps = {a.var for a in product.op.reduce_axis}
    beside = [d for d in range(len(side.indices)) if d != column]
    along = [d for d in beside if steps.intersection(free_vars(side.indices[d]))]
    others = [d for d in beside if d not in along]
    return others, along


def _copy_rows(
    copy: Stage, axes: Sequence[IterVar], column: int, along: Sequence[int], lanes: int
) -> None:
    """Columns in vectors; where the dimension whose neighbours are neighbours in the memory that is
    read is one of the reduction, `along`, in squares of vectors, which lowering turns in registers,
    or, where it is short, a column at a time: its line of memory is read once. `axes`: loops by
    dimension."""
    j, near = axes[column], _near(copy)
    if near is None or near not in along:
        jp, jv = copy.split(j, factor=lanes)
        copy.vectorize(jv)
        copy.unroll(jp)
        return
    ko, ki = copy.split(axes[near], factor=lanes)
    if extent_of(copy.op.axis[near]) >= lanes:
        jp, jv = copy.split(j, factor=lanes)
        copy.reorder(ko, jp, ki, jv)
        copy.vectorize(jv)
    else:
        copy.reorder(ko, j, ki)
    copy.unroll(ki)


def _near(copy: Stage) -> int | None:
    """The dimension of a copy along which it goes from element to element of the memory that it
    reads, behind what is inlined; None where there is none."""
    axes, uses = list(copy.op.axis), uses_of(copy)
    if len(uses.reads) != 1:
        return None
    steps = steps_of(*uses.reads[0], axes) or []
    near = [d for d, n in enumerate(steps) if n == 1 and extent_of(axes[d]) != 1]
    return near[-1] if near else None


def _pack_groups(
    copy: Stage,
    side: ProducerLoad,
    groups: Groups,
    others: list[int],
    along: list[int],
    column: int,
    lanes: int,
) -> Stage:
    """Vectors of columns, in each of which the steps of a group are neighbours."""
    terms = groups.terms
    (grouped,) = [d for d in along if side.indices[d] is groups.steps.var]

    def panel(*indices: Any) -> list[Any]:
        steps = [indices[d] // terms if d == grouped else indices[d] for d in along]
        return [*(indices[d] for d in others), *steps, indices[column], indices[grouped] % terms]

    near = _near(copy)
    axes = copy.transform_layout(panel)
    *_, j, k = axes
    step = axes[len(others) + along.index(grouped)]
    if near == grouped:
        around, line = copy.split(step, factor=lanes)
        jp, ji = copy.split(j, factor=4)
        copy.reorder(around, jp, line, ji, k)
        copy.unroll(line)
        copy.unroll(ji)
        copy.vectorize(k)
        return copy
    jp, jv = copy.split(j, factor=lanes)
    copy.reorder(jp, k, jv)
    copy.unroll(k)
    copy.vectorize(jv)
    copy.pragma(step, "loop_partition_hint")
    copy.pragma(jp, "loop_partition_hint")
    return copy
