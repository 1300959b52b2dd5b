"""split: one loop becomes two.

for i in range(n):                 for i_outer in range((n + 31) // 32):
    B[i] = ...             ->          for i_inner in range(32):
                                           if i_outer * 32 + i_inner < n:
                                               B[i_outer * 32 + i_inner] = ...
"""

from __future__ import annotations

from typing import Any

from ...base.dtype import parse
from ...base.errors import OperandError
from ...loopir.expr import IntImm, PrimExpr, Var, const, convert
from ...loopir.iter import IterVar
from ..relations import Split
from ..state import Illegal, StageState

CODE_PRAGMAS = ("import_llvm", "import_c")
SPLITTABLE = (IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered)


def split(
    stage: StageState,
    parent: IterVar,
    factor: Any = None,
    nparts: Any = None,
    disable_predication: bool = False,
) -> tuple[IterVar, IterVar]:
    """Split a leaf axis into (outer, inner): inner of extent `factor`, or outer of extent `nparts`.

    Where the extent is not divisible, the last tile is guarded, unless `disable_predication` says
    that running over the end does no harm. Names are `<parent>.outer` and `<parent>.inner`. Raises
    ScheduleError where `parent` is no loop of the stage, or is bound or annotated already, and
    where not exactly one of `factor` and `nparts` is given, an integer above 0.
    """
    position = stage.leaf_position(parent)
    if (factor is None) == (nparts is None):
        raise Illegal("give exactly one of factor and nparts", parent)
    check_plain(stage, parent, "split")
    given = factor if factor is not None else nparts
    size = tile_size(given, parent, "factor" if factor is not None else "nparts")
    name, dtype = parent.var.name, parent.var.dtype
    outer = IterVar(None, Var(f"{name}.outer", dtype), parent.iter_type)
    inner = IterVar(None, Var(f"{name}.inner", dtype), parent.iter_type)
    by_factor = factor is not None
    stage.relations.append(
        Split(
            parent,
            outer,
            inner,
            size if by_factor else None,
            None if by_factor else size,
            disable_predication,
        )
    )
    stage.leaf_iter_vars[position : position + 1] = [outer, inner]
    stage.add_axis(outer)
    stage.add_axis(inner)
    keep_code(stage, outer, parent)
    return outer, inner


def keep_code(stage: StageState, axis: IterVar, *gone: IterVar) -> None:
    """Code that pragmas on axes bring along is still needed when these axes become others."""
    code = [p for g in gone for p in stage.attr(g).pragmas if p[0] in CODE_PRAGMAS]
    if code:
        stage.attrs[axis] = stage.attr(axis).with_(pragmas=tuple(code))


def tile_size(value: Any, axis: IterVar, what: str) -> PrimExpr:
    """A positive integer (or an expression that will be one) for a tile."""
    try:
        size = convert(value)
    except OperandError as problem:
        raise Illegal(f"{what} must be an integer, got {value!r}: {problem}", axis) from None
    if not parse(size.dtype).is_integer:
        raise Illegal(f"{what} must be an integer, got {value!r} of type {size.dtype}", axis)
    if isinstance(size, IntImm) and size.value <= 0:
        raise Illegal(f"{what} must be positive, got {size.value}", axis, "a factor of 1 or more")
    return const(size.value) if isinstance(size, IntImm) else size


def check_plain(stage: StageState, axis: IterVar, verb: str) -> None:
    """The axis must be an ordinary loop still: not bound to a thread, vectorised, ..."""
    kind = stage.kind_of(axis)
    if kind not in SPLITTABLE or stage.attr(axis).bind_thread is not None:
        bound = stage.attr(axis).bind_thread
        how = f"bound to {bound.thread_tag}" if bound is not None else IterVar.KINDS[kind]
        raise Illegal(
            f"Cannot {verb} on {how}: axis {axis.var.name}",
            axis,
            f"{verb} the axis before it is bound, vectorized, unrolled, parallel or tensorized",
        )
