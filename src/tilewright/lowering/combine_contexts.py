"""Make each context of a device once in a function, however many calls use it."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.equal import structural_equal
from ..loopir.iter import THREAD_KEYS
from ..loopir.rewrite import Rewriter, handles


def combine_contexts(func: S.PrimFunc) -> S.PrimFunc:
    """`tvm_thread_context(e)` becomes a variable whose value is `e`, bound at the start of the
    function; inside of parallel loops, threads and coprocessors' scopes at the start of these,
    since a context belongs to the thread that made it.

    Needs contexts that are made of parameters only. No pass of the pipeline: users who generate
    code for coprocessors ask for it.
    """
    return func.with_body(_Contexts().scope(func.body))


class _Contexts(Rewriter):
    def __init__(self) -> None:
        self.known: list[tuple[E.Var, Any]] = []

    def scope(self, body: S.Stmt) -> S.Stmt:
        """A statement with the contexts that it uses bound around it."""
        outer, self.known = self.known, []
        new: S.Stmt = self.stmt(body)
        for var, value in reversed(self.known):
            new = S.LetStmt(var, value, new)
        self.known = outer
        return new

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        if e.op.name != "tir.tvm_thread_context":
            return Rewriter.table[E.Call](self, e)
        value = e.args[0]
        for var, same in self.known:
            if structural_equal(same, value):
                return var
        var = E.Var("ctx_cache_", value.dtype)
        self.known.append((var, value))
        return var

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        if s.kind != S.ForKind.PARALLEL:
            return Rewriter.table[S.For](self, s)
        low, extent = self.expr(s.min), self.expr(s.extent)
        body = self.scope(s.body)
        return s.with_parts(min=low, extent=extent, body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key in THREAD_KEYS or s.attr_key == "coproc_uop_scope":
            return S.AttrStmt(s.node, s.attr_key, self.expr(s.value), self.scope(s.body))
        return Rewriter.table[S.AttrStmt](self, s)
