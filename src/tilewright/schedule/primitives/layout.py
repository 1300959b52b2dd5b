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

from ...arith import Analyzer, IntervalSet, eval_set, inverse_index_map
from ...base.dtype import parse
from ...base.errors import OperandError, TilewrightError
from ...loopir.expr import PrimExpr, Var, const, convert
from ...loopir.iter import IterVar, Range
from ...loopir.subst import substitute
from ...tensor.op import ComputeOp, PlaceholderOp, ScanOp, domain
from ..layout_map import AXIS_SEPARATOR, LayoutMap
from ..relations import Transform
from ..state import Illegal, StageState


class Layout:
    """A map from the indices of a tensor to those of its memory, with the extents there. `filled`
    are conditions on the new variables: where they do not hold lies no element.
    """

    __slots__ = ("extents", "filled", "forward", "inverse", "new_variables", "variables")

    def __init__(
        self,
        variables: Sequence[Var],
        forward: Sequence[PrimExpr],
        new_variables: Sequence[Var],
        inverse: Sequence[PrimExpr],
        extents: Sequence[PrimExpr],
        filled: Sequence[PrimExpr],
    ) -> None:
        self.variables = tuple(variables)
        self.forward = tuple(forward)
        self.new_variables = tuple(new_variables)
        self.inverse = tuple(inverse)
        self.extents = tuple(extents)
        self.filled = tuple(filled)


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
    unwritten. Indices below zero, as in lambda i: [-i], are counted from the lowest of them.
    Returns the new loop axes, for an input none.
    """
    op = stage.op
    layout = make_layout(_shape_of(stage), mapping)
    stage.layout = layout
    stage.axis_separators = mapping.separators
    if isinstance(op, PlaceholderOp):
        return []
    new = [
        IterVar(None, Var(f"axis{k}", e.dtype), IterVar.DataPar)
        for k, e in enumerate(layout.forward)
    ]
    stage.relations.append(
        Transform(
            op.axis,
            new,
            layout.variables,
            layout.forward,
            layout.new_variables,
            layout.inverse,
            layout.extents,
            layout.filled,
        )
    )
    stage.leaf_iter_vars[: len(op.axis)] = new
    for axis in new:
        stage.add_axis(axis)
    return new


def _is_state(stage: StageState, other: StageState) -> bool:
    """Whether a stage computes the initial values or the update of a scan."""
    if not isinstance(other.op, ScanOp):
        return False
    return any(t.op is stage.op for t in (*other.op.init, *other.op.update))


def make_layout(shape: Sequence[PrimExpr], mapping: LayoutMap) -> Layout:
    """The Layout of a map over a shape; Illegal if it is not invertible."""
    variables = mapping.variables
    analyzer = Analyzer()
    ranges = {}
    for v, extent in zip(variables, shape):
        ranges[v] = Range.from_min_extent(const(0, extent.dtype), extent)
        analyzer.bind(v, ranges[v])
    sets = {v: IntervalSet.from_range(r) for v, r in ranges.items()}
    forward, extents = [], []
    for e in mapping.indices:
        cover = eval_set(e, sets, analyzer).cover_range(Range(0, 1), analyzer)
        assert cover is not None
        low = const(0, e.dtype) if analyzer.can_prove(cover.min >= 0) else cover.min
        forward.append(analyzer.simplify(e - low))
        extents.append(analyzer.simplify(cover.min - low + cover.extent))
    new_variables = [Var(f"axis{k}", e.dtype) for k, e in enumerate(forward)]
    try:
        inverse = inverse_index_map(variables, ranges, forward, new_variables, extents)
    except TilewrightError as problem:
        raise Illegal(f"the layout map is not invertible digit by digit: {problem}") from None
    filled = _filled(variables, forward, new_variables, inverse, extents)
    return Layout(variables, forward, new_variables, inverse, extents, filled)


def _filled(
    variables: Sequence[Var],
    forward: Sequence[PrimExpr],
    new_variables: Sequence[Var],
    inverse: Sequence[PrimExpr],
    extents: Sequence[PrimExpr],
) -> list[PrimExpr]:
    """Conditions that new indices stand for an element, besides the upper ends of its indices."""
    analyzer = Analyzer()
    for v, extent in zip(new_variables, extents):
        analyzer.bind(v, Range.from_min_extent(const(0, v.dtype), extent))
    table = dict(zip(variables, inverse))
    conditions = [e >= 0 for e in inverse]
    conditions += [substitute(e, table).equal(v) for e, v in zip(forward, new_variables)]
    return [analyzer.simplify(c) for c in conditions if not analyzer.can_prove(c)]


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
