"""Partition loops at conditions that choose a value: `Select(likely(i < n), a, b)`."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import is_likely
from ..loopir.op import likely
from ..loopir.rewrite import OverStatements, Rewriter, handles
from ..loopir.visit import CHILDREN, uses_var
from .options import LowerOptions
from .partition_loops import HINT, partition_loops


def partition_at_choices(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`partition_loops`, of choices too: a store or evaluation that has `Select(likely(c), a, b)`,
    or `if_then_else`, somewhere becomes `if likely(c): ... a ...; else: ... b ...` first. In a loop
    with the annotation or pragma "pragma_loop_partition_hint", all conditions on its variable count
    as likely ones.

    Needs what `partition_loops` does. This is `tir.transform.LoopPartition`; the pipeline keeps
    choices, which become vectors.
    """
    body = _Branches().stmt(_Hinted().stmt(func.body))
    return partition_loops(func.with_body(body), options)


class _Hinted(OverStatements):
    """Marks the conditions that loops with a hint are to be split at."""

    def __init__(self) -> None:
        self.hinted: list[E.Var] = []

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key != HINT or type(s.body) is not S.For:
            return super()._attr(s)
        return S.AttrStmt(s.node, HINT, s.value, self._inside(s.body))

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        if not s.annotations.get(HINT):
            return super()._for(s)
        left = {key: value for key, value in s.annotations.items() if key != HINT}
        plain = s.with_parts(annotations=left)
        return S.AttrStmt(s.loop_var, HINT, 1, self._inside(plain))

    def _inside(self, s: S.For) -> S.Stmt:
        self.hinted.append(s.loop_var)
        loop: S.Stmt = super()._for(s)
        self.hinted.pop()
        return loop

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        branch = super()._if(s)
        if is_likely(branch.condition) or not any(
            uses_var(branch.condition, v.same_as) for v in self.hinted
        ):
            return branch
        return S.IfThenElse(likely(branch.condition), branch.then_case, branch.else_case)


def _choice(e: Any) -> Any:
    """A choice by a likely condition in an expression that is always evaluated; None without."""
    stack = [e]
    while stack:
        x = stack.pop()
        chooses = type(x) is E.Select or _is_if(x)
        if chooses and is_likely(CHILDREN[type(x)](x)[0]):
            return x
        if type(x) is not E.Let:
            stack.extend(CHILDREN[type(x)](x)[:1] if _is_if(x) else CHILDREN[type(x)](x))
    return None


def _is_if(e: Any) -> bool:
    return type(e) is E.Call and e.op.name == "tir.if_then_else"


class _Branches(OverStatements):
    @handles(S.BufferStore, S.Evaluate)
    def _leaf_stmt(self, s: Any) -> Any:
        found = _choice(s.value)
        if found is None:
            return s
        condition, a, b = CHILDREN[type(found)](found)
        cases = [self.stmt(_Chosen(found, value).stmt(s)) for value in (a, b)]
        return S.IfThenElse(condition, *cases)


class _Chosen(Rewriter):
    """Puts a value in the place of a choice."""

    def __init__(self, choice: Any, value: Any) -> None:
        self.choice, self.value = choice, value

    @handles(E.Select, E.Call)
    def _replaced(self, e: Any) -> Any:
        return self.value if e is self.choice else Rewriter.table[type(e)](self, e)
