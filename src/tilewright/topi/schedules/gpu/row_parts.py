"""Softmax and normalisation of a few long rows on a GPU: parts of rows by blocks of their own.

A kernel for each reduction has what it comes to of each part of each row; the next kernels, the
last of which has the result, put the parts of those before together in every block, which takes
less time than a kernel that does it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....loopir import op as O
from ....loopir.expr import cast, const, const_int
from ....loopir.iter import IterVar, ProducerLoad, Reduce
from ....loopir.rewrite import Rewriter, handles
from ....loopir.subst import substitute
from ....schedule.api import Schedule, Stage
from ....tensor.axes import reduce_axis
from ....tensor.compute import compute
from ....tensor.op import domain
from ....tensor.tensor import Tensor
from ..restated import restated
from .machine import GpuMachine, bind, fused
from .reduce import part_row, share_row, together
from .reduce_parts import LONG, fitting_parts


def parts_of_rows(operation: str, rows: int, loads: int, kernels: int, machine: GpuMachine) -> int:
    """Into how many parts rows are cut, of which a thread has so many loads for each of `kernels`
    and one more: 1 where what multiprocessors without a row would save is less than the time of
    those kernels, unless that is decided otherwise."""
    idle = machine.filling - rows
    is_worth = (kernels + 1) * loads * idle >= kernels * LONG * machine.filling
    return fitting_parts(operation, rows, loads, is_worth, machine)


class _Expanded(Rewriter):
    """Expressions without reads of what `stages` compute, element by element, and with those of
    `sums` instead of the sums of rows, which have so many `lead` indices."""

    def __init__(
        self, stages: Mapping[Tensor, Any], sums: Mapping[Tensor, Tensor], lead: int
    ) -> None:
        self.stages, self.sums, self.lead = stages, sums, lead

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        indices = self.exprs(e.indices)
        if e.producer in self.sums:
            return ProducerLoad(self.sums[e.producer], indices[: self.lead])
        op = self.stages.get(e.producer)
        if op is None:
            return e if indices is e.indices else ProducerLoad(e.producer, indices)
        table = {a.var: cast(a.var.dtype, i) for a, i in zip(op.axis, indices)}
        return self.expr(substitute(op.body[0], table))


def schedule_in_parts(
    s: Schedule,
    out: Tensor,
    sums: Sequence[Stage],
    beside: Sequence[Stage],
    parts: int,
    lanes: int,
    machine: GpuMachine,
) -> None:
    """Rows of `out` and the sums along them, each after those that it reads, of whole vectors of so
    many lanes; what is `beside` is computed where it is read."""
    steps = const_int(domain(sums[0].op.reduce_axis[0]).extent) or 0
    vectors = -(-steps // (lanes * parts))
    length = (vectors + -vectors % machine.threads) * lanes
    parts = -(-steps // length)
    computed = {x.op.output(0): x.op for x in beside}
    totals = [x.op.output(0) for x in sums]
    lead = len(out.op.axis) - 1
    shape = list(out.shape[:lead])
    partial: list[Tensor] = []
    known: list[list[Tensor]] = []
    for x in sums:
        known.append([_whole(y.op, t, shape) for y, t in zip(sums, partial)])
        expanded = _Expanded(computed, dict(zip(totals, known[-1])), lead)
        partial.append(_part(x.op, expanded, shape, (steps, length, parts)))
    for x, t in zip(sums, partial):
        restated(s, x.op.output(0), _whole(x.op, t, x.op.output(0).shape))
    for x in beside:
        x.compute_inline()
    for t, earlier in zip(partial, known):
        own = part_row(s, t, 1, lanes, machine.threads)
        stage = s[t]
        block = fused(stage, list(stage.op.axis))
        bind(stage, block, "blockIdx.x")
        lane = together(s, t, *own, machine.threads)
        stage.set_store_predicate(lane.var.equal(0))
        for u in earlier:
            if u.op in s.stage_of:  # those that it reads
                _put_together(s, u, stage, block, machine)
    stage = s[out]
    *axes, last = stage.op.axis
    part, _ = stage.split(last, factor=length)
    block = fused(stage, [*axes, part])
    bind(stage, block, "blockIdx.x")
    share_row(stage, machine.threads, lanes)
    for x in sums:
        _put_together(s, x.op.output(0), stage, block, machine)


def _part(
    op: Any, expanded: _Expanded, shape: Sequence[Any], sizes: tuple[int, int, int]
) -> Tensor:
    """What a reduction comes to of each part of rows, of all steps so many in each of some parts;
    (*shape, parts)."""
    steps, length, parts = sizes
    (body,), (old,) = op.body, op.reduce_axis
    source, where = expanded.expr(body.source[0]), expanded.expr(body.condition)
    k = reduce_axis((0, length), old.var.name)

    def element(*i: Any) -> Any:
        *lead, part = i
        at = part * length + k.var
        table = {**dict(zip((a.var for a in op.axis), lead)), old.var: at}
        inside = [O.likely(at < steps)] if parts * length > steps else []
        condition = O.all(*inside, substitute(where, table))
        return Reduce(body.combiner, [substitute(source, table)], [k], condition)

    found: Tensor = compute([*shape, parts], element, f"{op.name}.parts", op.tag)
    return found


def _whole(op: Any, partial: Tensor, shape: Sequence[Any]) -> Tensor:
    """What parts of a reduction come to; `shape` is that of rows, with more of extent 1 behind."""
    count = len(partial.shape) - 1

    def element(*i: Any) -> Any:
        return Reduce(op.body[0].combiner, [partial(*i[:count], k)], [k], const(True, "bool"))

    k = reduce_axis((0, partial.shape[count]), "part")
    found: Tensor = compute(shape, element, op.name, op.tag)
    return found


def _put_together(s: Schedule, red: Tensor, at: Stage, block: IterVar, machine: GpuMachine) -> None:
    """Have the threads of each block of another stage reduce what parts come to."""
    own = part_row(s, red, 1, 1, machine.threads)
    s[red].compute_at(at, block)
    together(s, red, *own, machine.threads)
