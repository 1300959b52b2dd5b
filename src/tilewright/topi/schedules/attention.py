"""Attention (topi/nn/attention.py): some rows of queries at a time, from their scores to their end.

The scores of these rows with all keys stay in the second-level cache, so that no matrix of scores
is ever in memory. Of many keys a block at a time: each piece of rows copies all keys and values
into panels, which pays for enough rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

from ...base.dtype import parse
from ...loopir.expr import Var
from ...loopir.iter import IterVar, ProducerLoad
from ...schedule.api import Schedule, Stage
from ...schedule.auto_inline import is_injective, loads_of
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor
from .contraction import contraction_of
from .injective import arrange
from .machine import (
    FEW_ROWS,
    PARALLEL_PRODUCTS,
    PARALLEL_STEPS,
    Machine,
    even,
    extent_of,
    nearby,
    parallel_if,
    work_of,
)
from .matmul import schedule_contraction
from .reduce import in_lanes, row_run, schedule_reduce
from .softmax import LEAST_ROWS, rows_at_once
from .tiles import vectors

MORE_ROWS = 2 * LEAST_ROWS  # of all keys, that pay for the panels of these
LEAST_KEYS = 32  # of a block
MORE_LOOPS = 5  # on threads, where each stage has its own


def schedule_attention(s: Schedule, out: Tensor, machine: Machine) -> None:
    """All stages at the rows of a piece, or, where keys come in blocks, at one of those after the
    other; pieces on threads."""
    sums, scores, powers = (_stage(s, n) for n in ("T_attended", "T_scores", "T_powers"))
    online = next((x for x in s.stages if x.op.name == "T_online"), None)
    form = contraction_of(sums.op)
    inner = len(form.rows) if form is not None else 1
    # the axes of the output in the order of the sums
    ends = online if online is not None else sums
    load = next(e for e in _loads(s[out]) if e.producer.op is ends.op and len(e.indices) > 1)
    by_variable = {a.var: a for a in s[out].op.axis}
    *lead, last = (by_variable[v] for v in load.indices if isinstance(v, Var))
    batch, rows = lead[: len(lead) - inner], lead[len(lead) - inner :]
    keys = extent_of(powers.op.axis[-1])
    beside = prod(map(extent_of, rows[:-1]))
    nbytes = beside * keys * parse(powers.op.output_dtype(0)).nbytes
    heads, n = prod(map(extent_of, batch)), extent_of(rows[-1])
    at_once = rows_at_once(heads, n, nbytes, machine)
    options = nearby(at_once, even(n, -(-at_once // 2)), min(n, 2 * at_once))
    (at_once,) = machine.choose(out.op.name, "at_once", options)
    work = work_of(sums.op.output(0)) + work_of(scores.op.output(0))
    if online is None and beside * n <= FEW_ROWS:
        waits = machine.longest(heads * -(-n // at_once)) - 1
        if waits * (work // (beside * n)) / machine.cores > MORE_LOOPS * PARALLEL_STEPS:
            _one_by_one(s, out, machine)
            return
    piece, rows[-1] = s[out].split(rows[-1], factor=at_once)
    s[out].reorder(*batch, piece, *rows, last)
    piece = s[out].fuse(*batch, piece) if batch else piece
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS, machine)
    vectors(s[out], machine)
    seen = _inlined_scores(s, scores, powers)
    place: tuple[Stage, IterVar] = (s[out], piece)
    if online is not None:
        online.compute_at(*place)
        place = (online, online.op.reduce_axis[0])
        online.reorder(place[1], *online.op.axis)
        vectors(online, machine)
    _softmax_at(s, place, powers, machine)
    few = beside * at_once <= FEW_ROWS and online is None
    _scores_at(s, place, scores, seen, few, machine)
    result = sums.op.output(0)
    schedule_contraction(s, result, result, machine, alone=False)
    sums.compute_at(*place)


def _one_by_one(s: Schedule, out: Tensor, machine: Machine) -> None:
    """Stage by stage, each on all threads, which share keys, too: a few rows have few scores."""
    scores, powers, sums = (_stage(s, n) for n in ("T_scores", "T_powers", "T_attended"))
    seen = _inlined_scores(s, scores, powers)
    schedule_reduce(s, scores.op.output(0), seen.op.output(0), machine)  # 0.6 of dot products
    for name in ("T_largest", "T_total"):
        result = _stage(s, name).op.output(0)
        schedule_reduce(s, result, result, machine)
    result = sums.op.output(0)
    schedule_contraction(s, result, result, machine)
    for stage in (powers, s[out]):
        arrange(stage, list(stage.op.axis), machine)


def keys_at_once(rows: Sequence[int], keys: int, dtype: str, machine: Machine) -> int:
    """Keys in a block, 0 for all of them: as many as a piece has rows, whose scores are then what
    `rows_at_once` has room for, where there would be few rows to a piece of all keys."""
    room = machine.l2_bytes // 4 // parse(dtype).nbytes
    if prod(rows) <= FEW_ROWS or room // max(1, keys) > MORE_ROWS:
        return 0
    size = max(LEAST_KEYS, isqrt(room) // LEAST_KEYS * LEAST_KEYS)
    return size if size < keys else 0


def _softmax_at(s: Schedule, place: tuple[Stage, IterVar], powers: Stage, machine: Machine) -> None:
    """Powers of scores, with the largest of a row before it, and their sums."""
    powers.compute_at(*place)
    for name, at in (("T_largest", (powers, powers.op.axis[-2])), ("T_total", place)):
        stage = _stage(s, name)
        at = place if place[0].op.name == "T_online" else at
        for x in (*_in_lanes(s, stage, machine), stage):
            x.compute_at(*at)
    vectors(powers, machine)


def _in_lanes(s: Schedule, stage: Stage, machine: Machine) -> list[Stage]:
    result, k = stage.op.output(0), stage.op.reduce_axis[-1]
    if not row_run(result, s):
        return []
    return in_lanes(s, result, k, extent_of(k), machine, stage.op.name)


def _scores_at(
    s: Schedule,
    place: tuple[Stage, IterVar],
    scores: Stage,
    seen: Stage,
    few: bool,
    machine: Machine,
) -> None:
    """Products of queries and keys, and what the softmax is taken of."""
    seen.compute_at(*place)
    result = scores.op.output(0)
    if few:
        for lanes in _in_lanes(s, scores, machine):
            lanes.compute_at(*place)
        if seen is not scores:
            scores.compute_at(*place)
            vectors(seen, machine)
    elif len(seen.op.axis) == len(scores.op.axis):
        schedule_contraction(s, result, seen.op.output(0), machine, alone=False)
    else:  # of a block
        schedule_contraction(s, result, result, machine, alone=False)
        scores.compute_at(*place)
        vectors(seen, machine)


def _stage(s: Schedule, name: str) -> Stage:
    found: Stage = next(x for x in s.stages if x.op.name == name)
    return found


def _loads(stage: Stage) -> list[ProducerLoad]:
    assert isinstance(stage.op, ComputeOp)
    return loads_of(stage.op)


def _inlined_scores(s: Schedule, scores: Stage, powers: Stage) -> Stage:
    """The stage of what the softmax is taken of, with all that lies between it and the products
    inlined."""
    reads = [e.producer for e in _loads(powers)]
    masked = next(s[t] for t in reads if s[t].op.name != "T_largest")
    for stage in list(s.stages):
        if stage not in (scores, masked, powers) and is_injective(stage.op) and not stage.is_output:
            stage.compute_inline()
    return masked
