"""Which elements of buffers a program touches, and proof that they exist."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..base.deep import deep_call, recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.iter import IterVar, Range
from ..loopir.subst import substitute
from ..loopir.visit import CHILDREN, free_vars, walk
from .analyzer import Analyzer
from .int_set import IntervalSet, eval_set, union

MAX_WITNESSES = 512


def index_in_range(index: Any, extent: Any, analyzer: Analyzer) -> bool:
    """Whether 0 <= index < extent is proved; for a vector index, in every lane."""
    for end in _lane_ends(E.convert(index)):
        if not (analyzer.can_prove_greater_equal(end, 0) and analyzer.can_prove_less(end, extent)):
            return False
    return True


@recursive
def _lane_ends(index: E.PrimExpr) -> list[E.PrimExpr]:
    """Scalars between which all lanes of an index lie, the index itself if it is one."""
    if isinstance(index, E.Broadcast):
        return _lane_ends(index.value)
    if isinstance(index, E.Ramp):
        return [index.base, index.base + index.stride * (index.lanes - 1)]
    return [index]


def prove_bounds(indices: Sequence[Any], shape: Sequence[Any], analyzer: Analyzer) -> bool:
    """Whether every index lies in its dimension, by what the analyzer knows of this place."""
    return len(indices) == len(shape) and all(
        index_in_range(i, extent, analyzer) for i, extent in zip(indices, shape)
    )


def find_violation(
    indices: Sequence[Any],
    shape: Sequence[Any],
    ranges: Mapping[E.Var, Range],
    guards: Sequence[Any] = (),
) -> dict[E.Var, int] | None:
    """Values of the variables at which all guards hold and an index is outside: proof of a bug.

    Looks at corners, at their neighbours and where a guard begins to hold, at most `MAX_WITNESSES`
    points. None where there is none, or where indices, shape, guards or ranges hold what has no
    value here (loads, variables without a constant range). Raises OperandError where `guards` holds
    what is neither a number nor an expression.
    """
    needed: dict[E.Var, None] = {}
    for e in (*indices, *shape, *guards):
        for v in free_vars(E.convert(e)):
            needed.setdefault(v)
    candidates = []
    for v in needed:
        few = _candidates(ranges.get(v))
        if few is None:
            return None
        candidates.append(few)
    for point in itertools.islice(itertools.product(*candidates), MAX_WITNESSES):
        values = dict(zip(needed, point))
        try:
            if not all(_value(g, values) for g in guards):
                continue
            for i, extent in zip(indices, shape):
                if not 0 <= _value(i, values) < _value(extent, values):
                    return values
        except _NoValue:
            return None
    return None


def _candidates(r: Range | None) -> list[int] | None:
    if r is None:
        return None
    low, extent = E.const_int(r.min), E.const_int(r.extent)
    if low is None or extent is None:
        return None
    if extent <= 4:
        return list(range(low, low + extent))
    return [low + extent - 1, low, low + extent - 2, low + 1]


class _NoValue(Exception):
    pass


def _value(e: Any, values: Mapping[E.Var, int]) -> int:
    """The value of an index expression at a point."""
    point = {v: E.const(x, v.dtype) for v, x in values.items()}
    result = Analyzer().simplify(substitute(E.convert(e), point))
    if not isinstance(result, E.IntImm):
        raise _NoValue
    return result.value


def domain_touched(
    stmt: S.Stmt, buffer: Buffer, loads: bool = True, stores: bool = True
) -> tuple[Range, ...]:
    """The box of `buffer` that a statement reads (loads) and writes (stores), guards left aside.

    Ends are free of the statement's own loop variables. Empty where the buffer is not touched; a
    dimension whose ends are not known is taken whole.
    """
    return deep_call(_domain_touched, stmt, buffer, loads, stores)


def _domain_touched(stmt: S.Stmt, buffer: Buffer, loads: bool, stores: bool) -> tuple[Range, ...]:
    boxes: list[list[IntervalSet]] = []
    analyzer = Analyzer()
    for indices, loops in _accesses(stmt, buffer, loads, stores):
        box = []
        for index in indices:
            s = eval_set(index, {}, analyzer)
            for var, r in reversed(loops):
                s = _relaxed(s, var, r, analyzer)
            box.append(s)
        boxes.append(box)
    if not boxes:
        return ()
    result = []
    for dim, extent in enumerate(buffer.shape):
        whole = Range.from_min_extent(E.const(0, extent.dtype), extent)
        touched = union([box[dim] for box in boxes], analyzer).cover_range(whole, analyzer)
        result.append(touched or whole)
    return tuple(result)


def _relaxed(s: IntervalSet, var: E.Var, r: Range, analyzer: Analyzer) -> IntervalSet:
    dom = {var: IntervalSet.from_range(r)}
    low: Any = s.min_value
    high: Any = s.max_value
    if s.has_lower_bound():
        low = eval_set(low, dom, analyzer).min_value
    if s.has_upper_bound():
        high = eval_set(high, dom, analyzer).max_value
    return IntervalSet(low, high)


def _same(a: Buffer, b: Buffer) -> bool:
    return a is b or (a.data is b.data and len(a.shape) == len(b.shape))


Access = tuple[tuple[E.PrimExpr, ...], list[tuple[E.Var, Range]]]


def _accesses(stmt: S.Stmt, buffer: Buffer, loads: bool, stores: bool) -> Iterator[Access]:
    """Indices of every access, with the loops of the statement around it, outermost first."""
    stack: list[tuple[Any, list[tuple[E.Var, Range]]]] = [(stmt, [])]
    while stack:
        node, loops = stack.pop()
        t = type(node)
        if t is S.For:
            inner = [*loops, (node.loop_var, Range.from_min_extent(node.min, node.extent))]
            stack.extend(((node.body, inner), (node.extent, loops), (node.min, loops)))
            continue
        if t is S.AttrStmt and node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            zero = E.const(0, node.value.dtype)
            inner = [*loops, (node.node.var, Range.from_min_extent(zero, node.value))]
            stack.append((node.body, inner))
            continue
        if t is S.BufferStore and stores and _same(node.buffer, buffer):
            yield node.indices, loops
        if isinstance(node, E.PrimExpr):
            if loads:
                for x in walk(node):
                    if type(x) is E.BufferLoad and _same(x.buffer, buffer):
                        yield x.indices, loops
            continue
        stack.extend((c, loops) for c in reversed(CHILDREN[t](node)))
