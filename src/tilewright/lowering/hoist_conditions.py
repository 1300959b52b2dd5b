"""Move conditions out of the loops in which they do not change."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import fresh_copy, is_prefetch
from ..loopir.effects import is_pure
from ..loopir.rewrite import OverStatements, handles
from ..loopir.visit import walk
from .options import LowerOptions


def hoist_conditions(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`for k: if c: body` becomes `if c: for k: body` where c depends neither on k nor on a thread.

    Of nested conditions without `else` each one that may goes out, past those that stay. A
    condition on a thread variable stays inside: threads that leave a loop early gain nothing and
    could miss a barrier. The loops are serial, unrolled or vectorised ones: parallel ones are
    started by the function as a whole. Prefetches in front of a condition, which change nothing,
    are left out where it does not hold.

    Needs nothing; guarantees nothing. Stands before partition_loops, which cuts a loop short where
    its body is one condition on its variable, and before unroll_loops, which would copy the
    conditions.
    """
    return func.with_body(_Hoister().stmt(func.body))


_LOOPS = (S.ForKind.SERIAL, S.ForKind.UNROLLED, S.ForKind.VECTORIZED)
_DIVISIONS = (E.FloorDiv, E.FloorMod, E.Div, E.Mod)
_THREADS = ("thread_extent", "virtual_thread")


class _Hoister(OverStatements):
    def __init__(self) -> None:
        self.threads: set[E.Var] = set()

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key in _THREADS:
            self.threads.add(s.node.var)
        return super()._attr(s)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        whole = self.stmt(s.body)
        hints, body = _hints_of(whole)
        if s.kind not in _LOOPS or type(body) is not S.IfThenElse:
            return s.with_parts(body=whole)
        if body.else_case is not None:
            if not self._invariant(body.condition, s.loop_var):
                return s.with_parts(body=whole)
            other = fresh_copy(s.with_parts(body=S.seq(*hints, body.else_case)))
            then = s.with_parts(body=S.seq(*hints, body.then_case))
            return S.IfThenElse(body.condition, then, other)
        out: list[Any] = []
        stay: list[Any] = []
        inner: S.Stmt = body
        while type(inner) is S.IfThenElse and inner.else_case is None:
            if self._invariant(inner.condition, s.loop_var):
                out.append(inner.condition)
            elif is_pure(inner.condition):
                stay.append(inner.condition)
            else:
                break
            inner = inner.then_case
        if not out:
            return s.with_parts(body=whole)
        for condition in reversed(stay):
            inner = S.IfThenElse(condition, inner)
        inner = s.with_parts(body=S.seq(*hints, inner))
        for condition in reversed(out):
            inner = S.IfThenElse(condition, inner)
        return inner

    def _invariant(self, condition: Any, loop_var: E.Var) -> bool:
        if not is_pure(condition) or may_divide_by_zero(condition):
            return False
        return not any(
            isinstance(x, E.Var) and (x is loop_var or x in self.threads) for x in walk(condition)
        )


def _hints_of(body: S.Stmt) -> tuple[list[S.Stmt], S.Stmt]:
    """Prefetches at the begin of a body, and the one statement after them, or the body."""
    if type(body) is not S.SeqStmt or not all(is_prefetch(x) for x in body.seq[:-1]):
        return [], body
    return list(body.seq[:-1]), body.seq[-1]


def may_divide_by_zero(e: Any) -> bool:
    """Whether an expression divides by what is no constant: in front of a loop that may have no
    step it could not be computed."""
    return any(type(x) in _DIVISIONS and type(x.b) is not E.IntImm for x in walk(e))
