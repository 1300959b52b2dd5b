"""Move conditions and lets out of all loops in which they do not change, by copies of the loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import fresh_copy
from ..loopir.effects import is_pure
from ..loopir.iter import IterVar
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import children, walk
from .hoist_conditions import may_divide_by_zero
from .options import LowerOptions
from .remove_no_ops import remove_proved_no_ops
from .simplify_statements import simplify_in_loops


class HoistedConditionals(IntFlag):
    """Which conditions HoistExpression moves."""

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    BooleanExpression = 4
    UsingBlockVar = 8
    All = 15


class HoistedLetBindings(IntFlag):
    """Which lets HoistExpression moves."""

    Never = 0
    RequiredByConditional = 1
    LetStmt = 2
    LetExpr = 4
    All = 7


def hoist_expressions(
    func: S.PrimFunc, options: LowerOptions, conditions: int, lets: int
) -> S.PrimFunc:
    """`for k: ... c ...` becomes `if c: for k: ... True ... else: for k: ... False ...`, and lets
    go in front of the loop, where c and the let's value do not depend on k and stand in no sequence
    of statements below it.

    `conditions` and `lets`: sums of HoistedConditionals and HoistedLetBindings, the kinds that
    move. Without UsingBlockVar nothing moves past a thread's axis, and no condition on one moves.
    The result is simplified, and what does nothing removed. No pass of the pipeline, where
    hoist_conditions moves what makes no copies.
    """
    survey = _Survey(HoistedConditionals(conditions), HoistedLetBindings(lets))
    survey.visit(func.body)
    hoister = _Hoister(survey)
    func = func.with_body(hoister.stmt(func.body))
    return remove_proved_no_ops(simplify_in_loops(func, options), options)


@dataclass
class _Loop:
    var: E.Var
    is_axis: bool
    in_sequence: bool = False
    lets: list[E.Var] = field(default_factory=list)
    conditions: list[tuple[Any, bool]] = field(default_factory=list)  # and whether both cases run


class _Survey(Recursive):
    """What goes out of which loop: `moved`, by the statement of the loop or axis."""

    recursive = ("visit",)

    def __init__(self, conditions: HoistedConditionals, lets: HoistedLetBindings) -> None:
        self.kinds, self.let_kinds = conditions, lets
        self.open: list[_Loop] = []
        self.moved: dict[S.Stmt, _Loop] = {}
        self.axes: set[E.Var] = set()
        self.values: dict[E.Var, Any] = {}
        self.depends: dict[E.Var, set[E.Var]] = {}  # of a let: loops and other lets
        self.hoisted: set[E.Var] = set()

    def visit(self, node: Any) -> None:
        kind = type(node)
        if kind is S.For:
            self._loop(node, node.loop_var, False)
            return
        if kind is S.AttrStmt and isinstance(node.node, (IterVar, E.Var)):
            axis = node.node
            self._loop(node, axis.var if isinstance(axis, IterVar) else axis, True)
            return
        if kind is S.LetStmt:
            self._let(node.var, node.value, HoistedLetBindings.LetStmt)
        elif kind is E.Let:
            self._let(node.var, node.value, HoistedLetBindings.LetExpr)
        elif kind is S.IfThenElse:
            both = node.else_case is not None
            self._condition(node.condition, HoistedConditionals.IfElseStmt, both)
        elif kind is E.Call and node.op.name == "tir.if_then_else":
            self._condition(node.args[0], HoistedConditionals.IfElseExpr)
        elif kind is E.And or kind is E.Or:
            self._condition(node.a, HoistedConditionals.BooleanExpression)
            self._condition(node.b, HoistedConditionals.BooleanExpression)
        elif kind is S.SeqStmt and self.open:
            self.open[-1].in_sequence = True
        for part in children(node):
            self.visit(part)

    def _loop(self, s: Any, var: E.Var, is_axis: bool) -> None:
        loop = _Loop(var, is_axis)
        self.open.append(loop)
        if is_axis:
            self.axes.add(var)
        for part in children(s):
            self.visit(part)
        self.open.pop()
        self.axes.discard(var)
        self.moved[s] = loop

    def _used(self, e: Any) -> set[E.Var]:
        """Variables that an expression's value is made of, through lets."""
        used = {x for x in walk(e) if isinstance(x, E.Var)}
        return used.union(*(self.depends.get(v, ()) for v in used))

    def _target(self, used: set[E.Var]) -> _Loop | None:
        """The loop in front of which something with these variables may stand."""
        found = None
        for loop in reversed(self.open):
            blocked = loop.is_axis and not self.kinds & HoistedConditionals.UsingBlockVar
            if loop.in_sequence or loop.var in used or blocked:
                break
            found = loop
        return found

    def _condition(self, e: Any, kind: HoistedConditionals, both: bool = True) -> None:
        if not is_pure(e) or may_divide_by_zero(e) or not kind & self.kinds:
            return
        used = self._used(e)
        if used & self.axes and not self.kinds & HoistedConditionals.UsingBlockVar:
            return
        lets = {v for v in used if v in self.values}
        needs = HoistedLetBindings.RequiredByConditional | HoistedLetBindings.LetStmt
        if lets and not self.let_kinds & needs:
            return
        loop = self._target(used)
        if loop is not None:
            loop.conditions.append((e, both))
            if self.let_kinds & HoistedLetBindings.RequiredByConditional:
                self.hoisted |= lets

    def _let(self, var: E.Var, value: Any, kind: HoistedLetBindings) -> None:
        used = self._used(value)
        self.values[var], self.depends[var] = value, used
        loop = self._target(used) if is_pure(value) and not may_divide_by_zero(value) else None
        if loop is not None:
            loop.lets.append(var)
            if kind & self.let_kinds:
                self.hoisted.add(var)


class _Hoister(Rewriter):
    def __init__(self, survey: _Survey) -> None:
        self.survey = survey
        placed = {v for loop in survey.moved.values() for v in loop.lets}
        self.hoisted = survey.hoisted & placed

    def _around(self, old: S.Stmt, new: S.Stmt) -> S.Stmt:
        loop = self.survey.moved.get(old)
        if loop is None:
            return new
        for condition, both in reversed(loop.conditions):
            new = S.IfThenElse(condition, new, fresh_copy(new) if both else None)
        for var in reversed(loop.lets):
            if var in self.hoisted:
                new = S.LetStmt(var, self.expr(self.survey.values[var]), new)
        return new

    @handles(S.For, S.AttrStmt)
    def _loop(self, s: Any) -> Any:
        return self._around(s, Rewriter.table[type(s)](self, s))

    @handles(S.LetStmt, E.Let)
    def _let_of(self, s: Any) -> Any:
        if s.var in self.hoisted:
            return self.table[type(s.body)](self, s.body)
        return Rewriter.table[type(s)](self, s)
