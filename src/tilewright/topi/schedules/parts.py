"""Long sums with few results: parts of the terms, that threads share, and what these give together.

How many parts there are depends on the target alone, and they are added in order: so results are
the same however many threads come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ...loopir.iter import IterVar
from ...schedule.api import Schedule, Stage
from ...tensor.tensor import Tensor
from .cuts import unevenness
from .machine import PARALLEL_PRODUCTS, PARALLEL_STEPS, PIECES, Machine, extent_of, parallel_if


@dataclass(frozen=True)
class Kind:
    """What work is counted in: so many are worth waking threads for, and a `partial` result takes
    as long as these."""

    least: int
    partial: int


# A partial product: of 3000 x 3000 x 300 and 2048 x 2048 x 256 in parts, measured (AVX-512).
PRODUCTS = Kind(PARALLEL_PRODUCTS, 20)
STEPS = Kind(PARALLEL_STEPS, 4)
NEAR, NEARER = 0.5, 4  # of the second-level cache, where a partial result costs so much less
GAIN = 1.1  # by how much parts have to be better, by these numbers
MOST_TRIED = 24  # numbers of parts


def parts_of(
    tiles: int,
    length: int,
    work: int,
    results: int,
    kind: Kind,
    machine: Machine,
    waits: Callable[[int], float] | None = None,
) -> int:
    """Into how many parts to cut sums of `length` terms each, so many `results` and `work` in all,
    which make `tiles` pieces for threads as they are; 1: they stay whole. `waits`: how many times
    as long as even shares it takes in so many parts."""
    most = 1 + PIECES * machine.cores
    most = min(most, 2 * work // (kind.least * max(1, tiles)), length // 2)
    if not tiles or most < 2 or work < 2 * kind.least:
        return 1
    waits = waits or (lambda n: unevenness([1], tiles * n, machine.cores))

    def cost(n: int) -> float:
        near = 4 * n * results <= NEAR * machine.l2_bytes
        extra = n * results * kind.partial // (NEARER if near else 1) if n > 1 else 0
        shared = min(machine.cores, max(1, extra // kind.least))
        return waits(n) * work / machine.cores + extra / shared

    found = range(most, 1, -max(1, most // MOST_TRIED))
    best = min(found, key=cost)
    return best if cost(best) * GAIN < cost(1) else 1


def step_of_parts(length: int, parts: int, whole: int) -> int:
    """How many terms a part has: a multiple of `whole`, where that makes no part much shorter."""
    each = -(-length // parts)
    return -(-each // whole) * whole if each >= 8 * whole else each


def sum_of_parts(s: Schedule, red: Tensor, out: Tensor, machine: Machine) -> None:
    """What parts give together, in vectors of neighbouring results, for each from the first part to
    the last one; `out` ends the group."""
    if not s[out].op.axis:
        return
    op = s[red].op
    lanes = min(machine.lanes(t.dtype) for t in op.outputs)
    work = prod(map(extent_of, (*op.axis, *op.reduce_axis)))
    if red.op is out.op and red.op.num_outputs == 1:
        red = s.cache_write(out, "local")
    stage = s[out]
    loops, vector = _in_vectors(stage, lanes)
    piece = stage.fuse(*loops) if len(loops) > 1 else loops[0]
    parallel_if(stage, piece, work * STEPS.partial, PARALLEL_STEPS, machine)
    if red.op is out.op:
        stage.reorder(*stage.op.reduce_axis, *vector)
        return
    total = s[red]
    total.compute_at(stage, piece)
    loops, vector = _in_vectors(total, lanes)
    total.reorder(*loops, *total.op.reduce_axis, *vector)


def _in_vectors(stage: Stage, lanes: int) -> tuple[list[IterVar], list[IterVar]]:
    """Cut the last axis into vectors, where it has more than one element: all loops around, and the
    one within."""
    *outer, last = stage.op.axis
    if extent_of(last) == 1:
        return [*outer, last], []
    around, within = stage.split(last, factor=min(lanes, extent_of(last) or lanes))
    stage.vectorize(within)
    return [*outer, around], [within]
