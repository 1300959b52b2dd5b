"""Leave out the steps of a sum that add products with zeros of padding.

A convolution reads its padded input, `if_then_else(inside, x, 0)`, inlined or from a stage of its
own. Where `inside` does not hold, the step adds zero. The pragma "skip_zeros" on any loop of such
a sum guards its update by those parts of `inside` that a whole innermost loop shares, so that
hoist_conditions takes the test out of that loop: a 3x3 convolution of a 7x7 image does 18 % less
work when both directions can be cut. Parts that change within the innermost loop, or from one
element of the register tile to the next, are left alone: a test for every element costs more than
it saves. Only where all that a part depends on is unrolled is there no test: the steps of the
elements that it does not hold for are not written.

The sum is the same but where a skipped factor is infinite or NaN: zero times that is NaN, and the
pragma says that it need not be. oneDNN's direct convolutions skip the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arith.linear import conjuncts
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir.construct import cast
from ..loopir.effects import is_pure
from ..loopir.expr import const_int, is_const
from ..loopir.iter import IterVar, ProducerLoad, Reduce
from ..loopir.subst import substitute
from ..loopir.visit import free_vars, uses_var
from ..schedule.stage_bounds import Bounds
from ..schedule.state import StageState
from ..tensor.op import ComputeOp

PRAGMA = "skip_zeros"
_DEPTH = 4  # copies of copies of a padded input
_INNER = (IterVar.Unrolled, IterVar.Vectorized)


def skip_conditions(
    stage: StageState, bounds: Bounds, values: Mapping[IterVar, Any]
) -> list[E.PrimExpr]:
    """Conditions without which the update of a stage's sum adds zero; none without the pragma."""
    if not any(
        key == PRAGMA for leaf in stage.leaf_iter_vars for key, _ in stage.attr(leaf).pragmas
    ):
        return []
    update = stage.op.body[0]
    if len(stage.op.body) != 1 or not isinstance(update, Reduce) or not _sums(update):
        return []
    table = {axis.var: value for axis, value in values.items()}
    inner = _innermost(stage, bounds)
    unrolled = _unrolled(stage, bounds)
    found: list[E.PrimExpr] = []
    for condition in zero_unless(update.source[0]):
        here = bounds.analyzer.simplify(substitute(condition, table))
        fixed = unrolled.issuperset(free_vars(here)) or not uses_var(here, inner.__contains__)
        if fixed and is_pure(here) and not bounds.analyzer.can_prove(here):
            found.append(here)
    return found


@recursive
def zero_unless(e: Any, depth: int = _DEPTH) -> list[E.PrimExpr]:
    """Conditions on the variables of `e`, without any one of which `e` is zero."""
    kind = type(e)
    if kind is E.Mul:
        return zero_unless(e.a, depth) + zero_unless(e.b, depth)
    if kind is E.Cast:
        return zero_unless(e.value, depth)
    if kind is E.Select:
        condition, value, other = e.condition, e.true_value, e.false_value
    elif kind is E.Call and e.op.name == "tir.if_then_else":
        condition, value, other = e.args
    elif kind is ProducerLoad:
        return _of_read(e, depth)
    else:
        return []
    return [*conjuncts(condition), *zero_unless(value, depth)] if is_const(other, 0) else []


def _of_read(e: ProducerLoad, depth: int) -> list[E.PrimExpr]:
    op = e.producer.op
    if not isinstance(op, ComputeOp) or op.reduce_axis or depth == 0:
        return []
    table = {a.var: cast(a.var.dtype, i) for a, i in zip(op.axis, e.indices)}
    found = zero_unless(op.body[e.producer.value_index], depth - 1)
    return [substitute(c, table) for c in found]


def _sums(update: Reduce) -> bool:
    """Whether the reduction adds its source to what it has."""
    combiner = update.combiner
    if len(combiner.result) != 1 or not is_const(combiner.identity_element[0], 0):
        return False
    result = combiner.result[0]
    ends = {combiner.lhs[0], combiner.rhs[0]}
    return type(result) is E.Add and {result.a, result.b} == ends


def _unrolled(stage: StageState, bounds: Bounds) -> set[E.Var]:
    """Variables of loops that are written out: a number in each copy."""
    mine = bounds[stage]
    leaves = stage.leaf_iter_vars
    return {mine.var[a] for a in leaves if stage.kind_of(a) == IterVar.Unrolled}


def _innermost(stage: StageState, bounds: Bounds) -> set[E.Var]:
    """Variables of the unrolled and vector loops within, and of the loop around these."""
    mine, found = bounds[stage], set()
    for leaf in reversed(stage.leaf_iter_vars):
        if const_int(mine.extent[leaf]) == 1:
            continue
        found.add(mine.var[leaf])
        if stage.kind_of(leaf) not in _INNER:
            break
    return found
