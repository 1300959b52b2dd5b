"""Loops bound to threads, `T.thread_binding`, as the launches that kernels are made of."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import walk_stmts
from ..loopir.iter import IterVar, Range
from ..loopir.rewrite import Rewriter, handles

# threads that are no hardware's: copies of statements
_VIRTUAL = ("vthread", "cthread")


def launch_thread_loops(func: S.PrimFunc) -> S.PrimFunc:
    """Make an AttrStmt "thread_extent" (for vthreads "virtual_thread") of each loop bound to one.

    Needs a function as users give it, before passes that look at loops. Guarantees: no loop is of
    the kind THREAD_BINDING; the variable of a loop is that of its thread, plus where the loop
    begins. Stands before all passes, since they know threads by launches, and first in those that
    look at kernels, for users who run one of them on functions as they wrote them.
    """
    loops = (s for s in walk_stmts(func.body) if type(s) is S.For)
    if all(s.kind != S.ForKind.THREAD_BINDING for s in loops):
        return func
    return func.with_body(_Launch().stmt(func.body))


class _Launch(Rewriter):
    def __init__(self) -> None:
        self.values: dict[E.Var, E.PrimExpr] = {}

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.get(e, e)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        if s.kind != S.ForKind.THREAD_BINDING or s.thread_binding is None:
            return super()._for(s)
        tag = s.thread_binding.thread_tag
        low, extent = self.expr(s.min), self.expr(s.extent)
        # the thread's variable may be shared by loops side by side, and each launch defines its own
        var = E.Var(s.loop_var.name if tag.startswith(_VIRTUAL) else tag, s.loop_var.dtype)
        self.values[s.loop_var] = self.values[s.thread_binding.var] = (
            var if E.is_const(low, 0) else var + low
        )
        axis = IterVar(Range(E.const(0, extent.dtype), extent), var, IterVar.ThreadIndex, tag)
        key = "virtual_thread" if tag.startswith(_VIRTUAL) else "thread_extent"
        return S.AttrStmt(axis, key, extent, self.stmt(s.body))
