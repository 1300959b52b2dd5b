"""Check accesses at run time where they are not proved to be in bounds."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.op import if_then_else
from ..loopir.operators import logical_and, logical_not
from ..loopir.rewrite import OverStatements, handles
from ..loopir.visit import CHILDREN
from .bounded import BoundedRewriter
from .options import LowerOptions


def check_bounds(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Put an AssertStmt before each statement with an access that might be out of bounds.

    Each index is checked against its dimension's extent, under the conditions (of `if_then_else`)
    on which the access is made. Only with the option `bound_checks`; vectorised loops with checks
    run serially.

    Needs buffers with all their dimensions, since an index can leave a row and stay in the array.
    Stands right after rewrite_unsafe_select, before anything is merged or moved.
    """
    if not options.bound_checks:
        return func
    return func.with_body(_Checker(func).stmt(func.body))


class _Checker(OverStatements, BoundedRewriter):
    recursive = ("_collect",)

    def _checked(self, s: S.Stmt, exprs: Any, store: S.BufferStore | None = None) -> S.Stmt:
        """`s` after the checks of what it reads (and of the element it writes)."""
        checks: list[tuple[Any, str]] = []
        for e in exprs:
            self._collect(e, None, checks)
        if store is not None:
            self._access(store.buffer, store.indices, store.predicate, None, checks, "write")
        for condition, message in reversed(checks):
            s = S.AssertStmt(condition, E.StringImm(message), s)
        return s

    def _collect(self, e: Any, path: Any, checks: list[tuple[Any, str]]) -> None:
        """Checks of the reads in `e`, inner ones first; `path` is when `e` is evaluated."""
        kind = type(e)
        if kind is E.Call and e.op.name == "tir.if_then_else":
            condition, t, f = e.args
            self._collect(condition, path, checks)
            for truth, part in ((condition, t), (logical_not(condition), f)):
                with self.analyzer.enter_constraint(truth):
                    inner = truth if path is None else logical_and(path, truth)
                    self._collect(part, inner, checks)
            return
        if kind is E.Call and e.op.name == "tir.address_of":
            return
        for part in CHILDREN[kind](e):
            self._collect(part, path, checks)
        if kind is E.BufferLoad:
            self._access(e.buffer, e.indices, e.predicate, path, checks, "read")

    def _access(
        self, b: Buffer, indices: Any, predicate: Any, path: Any, checks: Any, what: str
    ) -> None:
        if predicate is not None or any(parse(i.dtype).lanes > 1 for i in indices):
            return
        prove = self.analyzer.can_prove
        for d, (i, n) in enumerate(zip(indices, b.shape)):
            low, high = i >= 0, i < n
            parts = [c for c in (low, high) if not prove(c)]
            for c in parts:
                check = c if path is None else if_then_else(path, c, E.const(1, "bool"))
                text = f"{what} of {b.name} is out of bounds: index {d} is {i}, extent {n}"
                checks.append((check, text))

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        return self._checked(s, (*s.indices, s.value), s)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        return self._checked(s, (s.value,))

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        return self._checked(super()._let_stmt(s), (s.value,))

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        return self._checked(super()._for(s), (s.min, s.extent))

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        return self._checked(super()._if(s), (s.condition,))
