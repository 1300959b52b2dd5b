"""Put attributes of one key around the largest statements that they hold for."""

from __future__ import annotations

from typing import Any

from ..loopir import stmt as S
from ..loopir.equal import structural_equal
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import uses_var


def lift_attr_scope(func: S.PrimFunc, key: str) -> S.PrimFunc:
    """AttrStmts of a key, whose node and value are those of all statements beside them, go out of
    loops and conditions, as far as the next allocation or what their value is made of.

    Neighbours of one node and value come under one AttrStmt. Needs nothing; guarantees nothing. No
    pass of the pipeline: users who generate code for coprocessors ask for it.
    """
    lifter = _Lifter(key)
    return func.with_body(lifter.around(lifter.stmt(func.body)))


class _Lifter(Rewriter):
    """`held`: the attribute that what was just rewritten is to stand under, without its body."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.held: S.AttrStmt | None = None

    def around(self, body: S.Stmt) -> S.Stmt:
        """A statement under what is held for it; nothing is held then."""
        held, self.held = self.held, None
        return body if held is None else _under(held, body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == self.key:
            body = self.around(self.stmt(s.body))
            self.held = s
            return body
        return super()._attr(s)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        return s.with_parts(body=self.around(self.stmt(s.body)))

    @handles(S.For, S.LetStmt)
    def _definition(self, s: Any) -> Any:
        var = s.loop_var if type(s) is S.For else s.var
        body = self.stmt(s.body)
        if self.held is not None and uses_var(self.held.value, var.same_as):
            body = self.around(body)
        return s.with_parts(body=body)

    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        groups: list[tuple[S.AttrStmt | None, list[S.Stmt]]] = []
        for part in s.seq:
            self.held = None
            new = self.stmt(part)
            if groups and _alike(groups[-1][0], self.held):
                groups[-1][1].append(new)
            else:
                groups.append((self.held, [new]))
        self.held = groups[0][0] if len(groups) == 1 else None
        if len(groups) == 1:
            return S.SeqStmt(groups[0][1])
        parts = [(held, S.SeqStmt(x) if len(x) > 1 else x[0]) for held, x in groups]
        return S.SeqStmt([x if held is None else _under(held, x) for held, x in parts])

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        if s.else_case is None:
            return S.IfThenElse(s.condition, self.stmt(s.then_case))
        then_case, first = self.stmt(s.then_case), self.held
        self.held = None
        else_case, second = self.stmt(s.else_case), self.held
        if not _alike(first, second):
            then_case = then_case if first is None else _under(first, then_case)
            else_case = self.around(else_case)
        return S.IfThenElse(s.condition, then_case, else_case)


def _under(held: S.AttrStmt, body: S.Stmt) -> S.Stmt:
    return S.AttrStmt(held.node, held.attr_key, held.value, body)


def _alike(a: S.AttrStmt | None, b: S.AttrStmt | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.node is b.node and structural_equal(a.value, b.value)
