"""Attention (topi/nn/attention.py): some rows of queries at a time, from their scores to their end.

The scores of these rows with all keys stay in the second-level cache, so that no matrix of scores
is ever in memory.
"""

from __future__ import annotations

from math import prod

from ...base.dtype import parse
from ...loopir.expr import Var
from ...loopir.iter import ProducerLoad
from ...schedule.api import Schedule, Stage
from ...schedule.auto_inline import is_injective, loads_of
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor
from .contraction import contraction_of
from .machine import PARALLEL_PRODUCTS, Machine, even, extent_of, nearby, parallel_if, work_of
from .matmul import schedule_contraction
from .reduce import in_lanes, row_run
from .softmax import rows_at_once
from .tiles import FEW_ROWS, vectors


def schedule_attention(s: Schedule, out: Tensor, machine: Machine) -> None:
    """All stages at the rows of a piece; pieces on threads."""
    sums, scores, powers = (_stage(s, n) for n in ("T_attended", "T_scores", "T_powers"))
    form = contraction_of(sums.op)
    inner = len(form.rows) if form is not None else 1
    # the axes of the output in the order of the sums
    load = next(e for e in _loads(s[out]) if e.producer.op is sums.op)
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
    piece, rows[-1] = s[out].split(rows[-1], factor=at_once)
    s[out].reorder(*batch, piece, *rows, last)
    piece = s[out].fuse(*batch, piece) if batch else piece
    parallel_if(s[out], piece, work, PARALLEL_PRODUCTS, machine)
    vectors(s[out], machine)
    few = beside * at_once <= FEW_ROWS
    masked = _inlined_scores(s, scores, powers)
    for stage in (powers, masked):
        stage.compute_at(s[out], piece)
    for name, at in (("T_largest", powers), ("T_total", s[out])):
        stage = _stage(s, name)
        axis = powers.op.axis[-2] if at is powers else piece
        k = stage.op.reduce_axis[-1]
        result = stage.op.output(0)
        lanes = in_lanes(s, result, k, extent_of(k), machine, name) if row_run(result) else None
        stage.compute_at(at, axis)
        if lanes is not None:
            lanes.compute_at(at, axis)
    vectors(powers, machine)
    result = scores.op.output(0)
    if few:
        k = scores.op.reduce_axis[-1]
        lanes = (
            in_lanes(s, result, k, extent_of(k), machine, "T_scores") if row_run(result) else None
        )
        if lanes is not None:
            lanes.compute_at(s[out], piece)
        if masked is not scores:
            scores.compute_at(s[out], piece)
            vectors(masked, machine)
    else:
        schedule_contraction(s, result, masked.op.output(0), machine, alone=False)
    result = sums.op.output(0)
    schedule_contraction(s, result, result, machine, alone=False)
    sums.compute_at(s[out], piece)


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
