"""The steps of a loop in which it does nothing: those of tiles beyond the edge of an array.

Used by partition_loops. The rest of a loop of whole tiles has guards, and reaches to the end of a
piece: where a piece is far from full, most of its tiles lie beyond the edge, and would run through
all their loops to find each guard false.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..arith.analyzer import Analyzer
from ..arith.int_set import eval_set
from ..arith.same import same_expr
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import conjuncts, is_prefetch, strip_likely
from ..loopir.effects import is_pure
from ..loopir.expr import const_int
from ..loopir.iter import THREAD_KEYS, Range
from ..loopir.op import max as max_of
from ..loopir.op import min as min_of
from ..loopir.visit import CHILDREN, walk
from .guards import ends_of, gap_of, range_of, uses_any

Kept = Collection[E.Var]

MOST_ENDS = 3
"""Different ends of guards: more are no tile's."""


class _Busy(Exception):
    """Something is done in steps that are not known."""


def first_busy(body: S.Stmt, var: E.Var, analyzer: Analyzer, kept: Kept = ()) -> Any | None:
    """The first value of `var` for which a loop's body does anything that can be seen outside of
    it; None where that is not known, or depends on one of `kept`. What is stored where the body
    allocates it is not seen."""
    return _Ends(var, analyzer, kept, 0).of(body)


def last_busy(body: S.Stmt, var: E.Var, analyzer: Analyzer, kept: Kept = ()) -> Any | None:
    """The last such value."""
    return _Ends(var, analyzer, kept, 1).of(body)


class _Ends:
    """The values of a variable at which guards end to hold: on one side, 0 for the low one."""

    def __init__(self, var: E.Var, analyzer: Analyzer, kept: Kept, side: int) -> None:
        self.var, self.analyzer, self.kept, self.side = var, analyzer, set(kept), side
        self.hidden: set[E.Var] = set()
        self.own: set[E.Var] = set()
        self.found: list[Any] = []

    def of(self, body: S.Stmt) -> Any | None:
        """The outermost end of all guards in a body; None where something has none."""
        try:
            self._visit(body, {}, None)
        except _Busy:
            return None
        if not self.found or len(self.found) > MOST_ENDS:
            return None
        farthest = max_of if self.side else min_of
        result = self.found[0]
        for end in self.found[1:]:
            result = farthest(result, end)
        return result

    @recursive
    def _visit(self, s: Any, relaxed: dict[E.Var, Range], end: Any | None) -> None:
        """Find what a statement does, where guards around it end at `end` (None: nowhere)."""
        kind = type(s)
        if kind is S.BufferStore and s.buffer.data in self.own:
            return
        if kind is S.BufferStore or (kind is S.Evaluate and not is_prefetch(s)):
            if end is None:
                raise _Busy
            if not any(same_expr(end, x) for x in self.found):
                self.found.append(end)
            return
        if kind is S.For:
            runs = range_of(s, relaxed, self.hidden)
            if runs is None:
                self.hidden.add(s.loop_var)
            else:
                relaxed = {**relaxed, s.loop_var: runs}
        elif kind is S.AttrStmt and s.attr_key in THREAD_KEYS:
            relaxed = {**relaxed, s.node.var: Range(s.value)}
        elif kind is S.LetStmt:
            self.hidden.add(s.var)
        elif kind is S.Allocate:
            self.own.add(s.buffer.data)
        elif kind is S.IfThenElse and s.else_case is None:
            end = self._nearer(end, self._end_of(s.condition, relaxed))
        for part in CHILDREN[kind](s):
            if isinstance(part, S.Stmt):
                self._visit(part, relaxed, end)

    def _end_of(self, condition: Any, relaxed: dict[E.Var, Range]) -> Any | None:
        """The end of the values with which a condition holds for any of the relaxed ones."""
        condition = strip_likely(condition)
        end: Any | None = None
        for part in conjuncts(condition) if is_pure(condition) else ():
            gap = gap_of(part)
            names = {x for x in walk(part) if isinstance(x, E.Var)}
            if gap is None or self.var not in names or not self.hidden.isdisjoint(names):
                continue
            most = eval_set(gap, relaxed, self.analyzer).max_value if relaxed else gap
            if not isinstance(most, E.PrimExpr) or uses_any(most, relaxed):
                continue
            one = ends_of(self.var, most)[self.side]
            if one is None or one.dtype != self.var.dtype or not is_pure(one):
                continue
            if not any(x in self.kept for x in walk(one)):
                end = self._nearer(end, self.analyzer.simplify(one))
        return end

    def _nearer(self, end: Any | None, other: Any | None) -> Any | None:
        """The nearer of two ends, both of which are such; one, where that is not known."""
        if end is None or other is None:
            return other if end is None else end
        values = const_int(end), const_int(other)
        if None in values:
            return end
        return end if (values[0] < values[1]) == bool(self.side) else other  # type: ignore[operator]
