"""Pragmas that a stage has by a rule, and that a search may leave out.

`skip_zeros`, on a tiled sum that reads a padded input, and `tree_reduce`, on a short reduction
along a row, save work, but not always time. Candidates begin with them; a column of their own (0:
by the rule, 1: without) lets mutations take them away. `auto_unroll_max_step` has a column of
values.
"""

from __future__ import annotations

from typing import Any

from ..loopir.expr import PrimExpr
from ..loopir.iter import ProducerLoad
from ..lowering import skip_zeros, tree_reduce

SKIP_ZEROS, TREE_REDUCE = skip_zeros.PRAGMA, tree_reduce.PRAGMA
BY_RULE, WITHOUT = "by rule", "without"
VALUES = (BY_RULE, WITHOUT)


def padding_of(stage: Any) -> list[PrimExpr]:
    """The conditions outside of which a tiled sum adds zeros: `skip_zeros` tests them."""
    tiled = bool(stage.op.reduce_axis) and bool(stage.relations)
    return skip_zeros.zero_unless(stage.op.body[0].source[0]) if tiled else []


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
