"""Pragmas that a stage has by a rule, and that a search may leave out.

`skip_zeros`, on a tiled sum that reads a padded input, and `tree_reduce`, on a short reduction
along a row, save work, but not always time. Where each test would be of one product alone, as in
depthwise convolutions, there is no `skip_zeros`: without it searches of 32 and 40 measurements
ended faster in the mean (by 1.13 over seven of them, up to 1.72, at least 0.96). Candidates begin
with them; a column of their own (0: by the rule, 1: without) lets mutations take them away.
`auto_unroll_max_step` has a column of values.
"""

from __future__ import annotations

from typing import Any

from ..loopir.expr import PrimExpr, const_int
from ..loopir.iter import ProducerLoad
from ..loopir.visit import free_vars
from ..lowering import skip_zeros, tree_reduce
from ..tensor.op import domain

SKIP_ZEROS, TREE_REDUCE = skip_zeros.PRAGMA, tree_reduce.PRAGMA
BY_RULE, WITHOUT = "by rule", "without"
VALUES = (BY_RULE, WITHOUT)


def padding_of(stage: Any) -> list[PrimExpr]:
    """The conditions outside of which a tiled sum adds zeros, where one test of them is good for
    several products: `skip_zeros` tests them."""
    if not stage.op.reduce_axis or not stage.relations:
        return []
    found = skip_zeros.zero_unless(stage.op.body[0].source[0])
    tested = {v for condition in found for v in free_vars(condition)}
    others = [a for a in stage.op.reduce_axis if a.var not in tested]
    return found if any(const_int(domain(a).extent) != 1 for a in others) else []


def reduces_a_row(stage: Any) -> bool:
    """Whether a stage adds up, or finds the largest of, elements of one tensor along its rows."""
    op, leaves = stage.op, stage.leaf_iter_vars
    if stage.relations or len(op.reduce_axis) != 1 or leaves[-1] is not op.reduce_axis[0]:
        return False
    read, last = op.body[0].source[0], op.reduce_axis[0].var
    return len(op.body) == 1 and isinstance(read, ProducerLoad) and last in read.indices[-1:]


def has_tree(extent: int) -> bool:
    """Whether `tree_reduce` does something with a loop of that length."""
    return 2 <= extent <= tree_reduce.MOST


def pragmas_of(stage: Any) -> list[str]:
    """The pragmas that a stage with a reduction has by rules."""
    found = [SKIP_ZEROS] if padding_of(stage) else []
    return [*found, TREE_REDUCE] if reduces_a_row(stage) else found
