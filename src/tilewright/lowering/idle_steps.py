"""The steps of a loop in which it does nothing: those of tiles beyond the edge of an array.

Used by partition_loops. The rest of a loop of whole tiles has guards, and reaches to the end of a
piece: where a piece is far from full, most of its tiles lie beyond the edge, and would run through
all their loops to find each guard false.
"""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..arith.int_set import eval_set
from ..arith.same import same_expr
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import conjuncts, is_prefetch, strip_likely
from ..loopir.effects import is_pure
from ..loopir.iter import THREAD_KEYS, Range
from ..loopir.op import max as max_of
from ..loopir.visit import CHILDREN, walk
from .guards import ends_of, gap_of, range_of, uses_any

MOST_ENDS = 3
"""Different ends of guards: more are no tile's."""


class _Busy(Exception):
    """Something is done whose last step is not known."""


def last_busy(body: S.Stmt, var: E.Var, analyzer: Analyzer) -> Any | None:
    """The last value of `var` for which a loop's body does anything that can be seen outside of it;
    None where that is not known. What is stored where the body allocates it is not seen."""
    hidden: set[E.Var] = set()
    own: set[E.Var] = set()
    ends: list[Any] = []

    @recursive
    def visit(s: Any, relaxed: dict[E.Var, Range]) -> None:
        kind = type(s)
        if kind is S.BufferStore and s.buffer.data in own:
            return
        if kind is S.BufferStore or (kind is S.Evaluate and not is_prefetch(s)):
            raise _Busy
        if kind is S.For:
            runs = range_of(s, relaxed, hidden)
            if runs is None:
                hidden.add(s.loop_var)
            else:
                relaxed = {**relaxed, s.loop_var: runs}
        elif kind is S.AttrStmt and s.attr_key in THREAD_KEYS:
            relaxed = {**relaxed, s.node.var: Range(s.value)}
        elif kind is S.LetStmt:
            hidden.add(s.var)
        elif kind is S.Allocate:
            own.add(s.buffer.data)
        elif kind is S.IfThenElse and s.else_case is None:
            end = _end_of(s.condition, var, relaxed, hidden, analyzer)
            if end is not None:
                if not any(same_expr(end, x) for x in ends):
                    ends.append(end)
                return
        for part in CHILDREN[kind](s):
            if isinstance(part, S.Stmt):
                visit(part, relaxed)

    try:
        visit(body, {})
    except _Busy:
        return None
    if not ends or len(ends) > MOST_ENDS:
        return None
    last = ends[0]
    for end in ends[1:]:
        last = max_of(last, end)
    return last


def _end_of(
    condition: Any,
    var: E.Var,
    relaxed: dict[E.Var, Range],
    hidden: set[E.Var],
    analyzer: Analyzer,
) -> Any | None:
    """The last value of `var` with which a condition holds for any of the relaxed values."""
    condition = strip_likely(condition)
    if not is_pure(condition):
        return None
    for part in conjuncts(condition):
        gap = gap_of(part)
        names = {x for x in walk(part) if isinstance(x, E.Var)}
        if gap is None or var not in names or not hidden.isdisjoint(names):
            continue
        most = eval_set(gap, relaxed, analyzer).max_value if relaxed else gap
        if not isinstance(most, E.PrimExpr) or uses_any(most, relaxed):
            continue
        _, last = ends_of(var, most)
        if last is not None and last.dtype == var.dtype and is_pure(last):
            return last
    return None
