"""Element-wise work that writes rows of memory and reads columns of it: a transpose.

Along the last axis each element comes from another line of the cache, so lines are fetched as often
as they have elements unless the axis along which they lie is near. Both axes are cut into tiles of
whole lines, and these into squares of vectors, which lowering turns in registers
(lowering/turn_loads.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...arith import Analyzer, detect_linear_equation
from ...base.dtype import parse
from ...loopir.expr import PrimExpr, const, const_int
from ...loopir.iter import IterVar
from ...loopir.subst import substitute
from ...schedule.api import Schedule, Stage
from ...schedule.auto_inline import is_injective, loads_of
from ...schedule.state import INLINE
from ...tensor.tensor import Tensor
from .machine import LINE, Machine, extent_of


def reads_of(stage: Stage) -> Iterator[tuple[Tensor, Sequence[PrimExpr]]]:
    """What a stage reads, and where, behind the stages that are inlined into it."""
    s: Schedule = stage.schedule
    op: Any = stage.op
    for load in loads_of(op):
        before = s.stage_of.get(load.producer.op)
        if before is None or before.attach_type != INLINE or not is_injective(before.op):
            yield load.producer, load.indices
            continue
        table = {a.var: i for a, i in zip(before.op.axis, load.indices)}
        for t, indices in reads_of(before):
            yield t, [substitute(i, table) for i in indices]


def steps_of(t: Tensor, indices: Sequence[PrimExpr], axes: Sequence[IterVar]) -> list[int] | None:
    """Elements between what neighbours along each axis read; None where that is not known."""
    at: Any = const(0)
    for index, extent in zip(indices, t.shape):
        size = const_int(extent)
        if size is None:
            return None
        at = at * size + index
    analyzer = Analyzer()
    for a in axes:
        analyzer.bind(a.var, a.dom)
    factors = detect_linear_equation(analyzer.simplify(at), [a.var for a in axes])
    found = [const_int(f) for f in factors[:-1]]
    return None if not found or None in found else [n or 0 for n in found]


def run_across(stage: Stage, axes: Sequence[IterVar]) -> tuple[int, int]:
    """Which axes, as a range of positions in front of the last one, some input lies along, that is
    not read in order of the last one; an empty range where there is none."""
    for t, indices in reads_of(stage):
        steps = steps_of(t, indices, axes)
        if steps is None or abs(steps[-1]) < 2:
            continue
        ones = [k for k, n in enumerate(steps[:-1]) if n == 1 and extent_of(axes[k]) > 1]
        if not ones:
            continue
        first, last = ones[0], ones[0] + 1
        run = extent_of(axes[first])
        while first and steps[first - 1] == run:
            first -= 1
            run *= extent_of(axes[first])
        return first, last
    return 0, 0


def arrange_turned(
    stage: Stage, axes: Sequence[IterVar], run: tuple[int, int], machine: Machine
) -> IterVar:
    """Tiles of the axes in `run` and the last one; the loop over tiles."""
    nbytes = parse(stage.op.output_dtype(0)).nbytes
    side = min(machine.lanes(stage.op.output_dtype(0)), machine.registers)
    rows = stage.fuse(*axes[slice(*run)]) if run[1] - run[0] > 1 else axes[run[0]]
    others = [*axes[: run[0]], *axes[run[1] : -1]]
    tile, row = stage.split(rows, factor=max(side, LINE // nbytes))
    several, row = stage.split(row, factor=side)
    chunk, lane = stage.split(axes[-1], factor=side)
    stage.reorder(*others, tile, chunk, several, row, lane)
    stage.unroll(row)
    stage.vectorize(lane)
    return stage.fuse(*others, tile) if others else tile
