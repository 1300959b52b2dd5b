"""transform_layout: other axes and another arrangement in memory, by an invertible map.

# s[B].transform_layout(lambda i, j: [i // 4, j, i % 4])
for i in range(16):                for ax0 in range(4):
    for j in range(8):     ->          for ax1 in range(8):
        B[i, j] = ...                      for ax2 in range(4):
                                               B[ax0, ax1, ax2] = ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...arith.index_map import AXIS_SEPARATOR
from ...base.dtype import parse
from ...base.errors import OperandError
from ...loopir.expr import PrimExpr, Var, convert
from ...loopir.iter import IterVar
from ...tensor.op import ComputeOp, PlaceholderOp, ScanOp, domain
from ..layout_map import Layout, LayoutMap
from ..relations import Transform
from ..state import Illegal, StageState


def read_map(stage: StageState, mapping: Callable[..., Any]) -> LayoutMap:
    """What a user's function does to the indices of the stage's tensor; Illegal where the layout
    of that tensor cannot change.
    """
    shape = _shape_of(stage)
    variables = _variables(shape, mapping)
    items = mapping(*variables)
    if not isinstance(items, (list, tuple)):
        raise Illegal(f"the layout map must give a list of indices, got {items!r}")
    forward: list[PrimExpr | str] = []
    count = 0
    for item in items:
        if isinstance(item, str) and item == AXIS_SEPARATOR:
            forward.append(item)
        else:
            forward.append(_index(item, count))
            count += 1
    return LayoutMap(variables, forward)


def _shape_of(stage: StageState) -> Sequence[PrimExpr]:
    """The shape that the map is over."""
    op = stage.op
    if stage.layout is not None:
        raise Illegal("the layout was transformed already; compose the two maps into one")
    if isinstance(op, PlaceholderOp):
        return op.shape
    if any(_is_state(stage, s) for s in stage.schedule.stages):
        raise Illegal("the states of a scan lie in the scan's own array, whose layout is fixed")
    if not isinstance(op, ComputeOp):
        raise Illegal(f"transform_layout needs a compute operation or an input, not {op}")
    leaves = stage.leaf_iter_vars[: len(op.axis)]
    if len(leaves) != len(op.axis) or any(a is not b for a, b in zip(leaves, op.axis)):
        raise Illegal(
            "Cannot transform the layout once the compute axes have been split, fused or reordered",
            legal="call transform_layout before other primitives on these axes",
        )
    return [domain(a).extent for a in op.axis]


def transform_layout(stage: StageState, mapping: LayoutMap) -> list[IterVar]:
    """Map the dimensions of the stage's tensor in memory, and its loops with them.

    `mapping` (a user's function, through `read_map`) takes one variable a dimension and gives the
    new indices; with te.AXIS_SEPARATOR between them, memory has several dimensions. The map must be
    invertible over the tensor's shape; new extents that are not filled (padding) are left
    unwritten. Indices below zero, as in lambda i: [-i], are counted from the lowest of them. A
    stage that is computed in a loop of its reader holds only what the loop needs, laid out as if
    that were the whole tensor.
    Returns the new loop axes, for an input none. Raises ScheduleError where the function takes
    another number of indices than the tensor has, gives no list of integers, or the stage's layout
    was transformed already.
    """
    op = stage.op
    layout = Layout(mapping, _shape_of(stage))
    stage.layout = layout
    stage.axis_separators = mapping.separators
    if isinstance(op, PlaceholderOp):
        return []
    new = [
        IterVar(None, Var(f"axis{k}", e.dtype), IterVar.DataPar)
        for k, e in enumerate(layout.forward)
    ]
    stage.relations.append(Transform(op.axis, new, layout))
    stage.leaf_iter_vars[: len(op.axis)] = new
    for axis in new:
        stage.add_axis(axis)
    return new


def _is_state(stage: StageState, other: StageState) -> bool:
    """Whether a stage computes the initial values or the update of a scan."""
    if not isinstance(other.op, ScanOp):
        return False
    return any(t.op is stage.op for t in (*other.op.init, *other.op.update))


def _index(item: Any, number: int) -> PrimExpr:
    """One new index, an integer expression."""
    try:
        e = convert(item)
    except OperandError as problem:
        raise Illegal(f"index {number} of the layout map: {problem}") from None
    if not parse(e.dtype).is_integer:
        raise Illegal(f"index {number} of the layout map is no integer but {e} of type {e.dtype}")
    return e


def _variables(shape: Sequence[PrimExpr], mapping: Callable[..., Any]) -> list[Var]:
    """One variable a dimension, named like the parameters of the map."""
    if not callable(mapping):
        raise Illegal(
            f"a layout map is a function of the indices, got {mapping!r}",
            legal="transform_layout(lambda i, j: [i // 4, j, i % 4])",
        )
    if isinstance(mapping, LayoutMap):
        names, varargs = [v.name for v in mapping.variables], False
    else:
        parameters = list(inspect.signature(mapping).parameters.values())
        names = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
        varargs = len(names) != len(parameters)
    if len(names) > len(shape) or (len(names) < len(shape) and not varargs):
        raise Illegal(f"the layout map takes {len(names)} indices, the tensor has {len(shape)}")
    names += [f"i{k}" for k in range(len(names), len(shape))]
    return [Var(name, extent.dtype) for name, extent in zip(names, shape)]
