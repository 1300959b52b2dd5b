"""A rewriter that tells an Analyzer where it is: ranges of loops, threads and lets, conditions."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..arith.bound import ConstIntBound
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.iter import THREAD_KEYS, Range
from ..loopir.operators import logical_not
from ..loopir.rewrite import Rewriter, handles


def learn_shapes(analyzer: Analyzer, func: S.PrimFunc) -> None:
    """Tell an analyzer that the dimensions of a function's arguments are zero or more."""
    no_limit = ConstIntBound.POS_INF
    for b in func.buffer_map.values():
        for d in b.shape:
            if type(d) is E.Var and d.dtype in ("int32", "int64"):
                analyzer.const_int_bound_update(d, ConstIntBound(0, no_limit))


class BoundedRewriter(Rewriter):
    """Statements are rewritten in their context; expressions by `expr`, as in any Rewriter."""

    def __init__(self, func: S.PrimFunc | None = None) -> None:
        self.analyzer = Analyzer()
        if func is not None:
            learn_shapes(self.analyzer, func)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        return self._loop(s, self.expr(s.min), self.expr(s.extent))

    def _loop(self, s: S.For, low: Any, extent: Any) -> Any:
        """A loop of these bounds."""
        self.analyzer.bind(s.loop_var, Range.from_min_extent(low, extent))
        body = self.stmt(s.body)
        return s.with_parts(min=low, extent=extent, body=body)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        value = self.expr(s.value)
        self.analyzer.let(s.var, value)
        body = self.stmt(s.body)
        return s.with_parts(value=value, body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        value = self.expr(s.value)
        if s.attr_key in THREAD_KEYS:
            zero = E.const(0, value.dtype)
            self.analyzer.bind(s.node.var, Range.from_min_extent(zero, value))
        body = self.stmt(s.body)
        if s.attr_key in THREAD_KEYS:
            self.analyzer.forget(s.node.var)  # the next launch may be of more threads
        return s.with_parts(value=value, body=body)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        return self._branches(s, self.expr(s.condition))

    def _branches(self, s: S.IfThenElse, condition: Any) -> Any:
        """Both cases under a condition."""
        with self.analyzer.enter_constraint(condition):
            then_case = self.stmt(s.then_case)
        else_case = None
        if s.else_case is not None:
            with self.analyzer.enter_constraint(logical_not(condition)):
                else_case = self.stmt(s.else_case)
        return s.with_parts(condition=condition, then_case=then_case, else_case=else_case)

    @handles(S.AssertStmt)
    def _assert(self, s: S.AssertStmt) -> Any:
        condition = self.expr(s.condition)
        with self.analyzer.enter_constraint(condition):
            body = self.stmt(s.body)
        return s.with_parts(condition=condition, body=body)
