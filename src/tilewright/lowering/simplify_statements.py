"""Simplify every expression in its context, and the statements around constants."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import const_condition, fresh_copy, walk_stmts
from ..loopir.equal import structural_equal
from ..loopir.expr import const_int
from ..loopir.iter import THREAD_KEYS
from ..loopir.rewrite import handles
from ..loopir.visit import uses_var
from .and_of_ors import AndOfOrs
from .bounded import BoundedRewriter
from .options import LowerOptions


def simplify_statements(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Bring expressions to the normal form of arith, knowing the ranges of loops and threads and
    the conditions around each place.

    Branches whose condition is decided are chosen, loops of one step become their body, loops of
    none vanish, lets of constants and variables are replaced, asserts that always hold are removed,
    and so are predicates and stores of what an element holds already.

    Needs each variable to be defined once. Guarantees the printed normal form of indices. Stands
    after each group of passes that write index arithmetic without simplifying it themselves:
    flattening, partitioning, unrolling.
    """
    return func.with_body(_Simplifier(func, True).stmt(func.body))


def simplify_in_loops(
    func: S.PrimFunc,
    options: LowerOptions,
    assumptions: bool = False,
    and_of_ors: bool = False,
) -> S.PrimFunc:
    """`simplify_statements` that leaves every loop, however few steps it has, as TVM's Simplify.
    Variables stay where conditions leave them one value. `assumptions`: what `tir.assume` says of
    variables is known in the statements after it. `and_of_ors`: conditions become conjunctions of
    disjunctions."""
    kind = _Assuming if assumptions else _Simplifier
    rewriter = kind(func, False, and_of_ors)
    rewriter.analyzer.keep_variables()
    return func.with_body(rewriter.stmt(func.body))


class _Simplifier(BoundedRewriter):
    def __init__(self, func: S.PrimFunc, short_loops: bool, and_of_ors: bool = False) -> None:
        super().__init__(func)
        self.form = AndOfOrs(self.analyzer).of if and_of_ors else None
        self.short_loops = short_loops  # whether loops of one step or none are replaced

    def expr(self, e: Any) -> Any:
        simple = self.analyzer.simplify(e)
        return simple if self.form is None else self.form(simple)

    def exprs(self, items: Any) -> Any:
        simplify = self.analyzer.simplify if self.form is None else self.expr
        new = tuple([simplify(x) for x in items])
        for a, b in zip(new, items):
            if a is not b:
                return new
        return items

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        if self.short_loops:
            size = const_int(extent)
            if size == 1 and s.thread_binding is None:
                return self._with_value(s.loop_var, low, s.body)
            if (size is not None and size <= 0) or (
                size is None and self.analyzer.can_prove(extent <= 0)
            ):
                return S.no_op()
        return self._loop(s, low, extent)

    def _with_value(self, var: E.Var, value: Any, body: S.Stmt) -> Any:
        """The body with a variable replaced: by the analyzer, which does not see sizes of
        buffers."""
        for s in walk_stmts(body):
            if type(s) is S.Allocate and any(uses_var(d, var.same_as) for d in s.buffer.shape):
                return self.stmt(fresh_copy(body, {var: value}))
        self.analyzer.bind(var, value)
        return self.stmt(body)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        condition = self.expr(s.condition)
        known = const_condition(condition)
        if known is None and self.analyzer.can_prove(condition):
            known = True
        if known is not None:
            chosen = s.then_case if known else s.else_case
            return S.no_op() if chosen is None else self.stmt(chosen)
        return self._branches(s, condition)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        value = self.expr(s.value)
        if isinstance(value, (E.IntImm, E.FloatImm, E.Var)) and value.dtype == s.var.dtype:
            return self._with_value(s.var, value, s.body)
        self.analyzer.let(s.var, value)
        body = self.stmt(s.body)
        return s.with_parts(value=value, body=body)

    @handles(S.AssertStmt)
    def _assert(self, s: S.AssertStmt) -> Any:
        if self.analyzer.can_prove(s.condition):
            return self.stmt(s.body)
        return super()._assert(s)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        predicate = s.predicate
        if predicate is not None:
            predicate = self.expr(predicate)
            known = _all_lanes(predicate)
            if known is False:
                return S.no_op()
            predicate = None if known else predicate
        indices, value = self.exprs(s.indices), self.expr(s.value)
        if predicate is None and _is_element(value, s.buffer, indices):
            return S.no_op()
        return s.with_parts(value=value, indices=indices, predicate=predicate)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        body = self.stmt(s.body)
        return s.with_parts(body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key in THREAD_KEYS or isinstance(s.node, (Buffer, E.Var)):
            return super()._attr(s)
        body = self.stmt(s.body)
        return s.with_parts(body=body)


class _Assuming(_Simplifier):
    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        new: list[S.Stmt] = []
        with ExitStack() as assumed:
            for item in s.seq:
                new.append(self.stmt(item))
                condition = _assumption(item)
                if condition is not None:
                    assumed.enter_context(self.analyzer.enter_constraint(condition))
        return s if all(a is b for a, b in zip(new, s.seq)) else S.seq(new)


def _assumption(s: S.Stmt) -> Any:
    """The condition that a statement says to hold; None where it is none."""
    call: Any = s.value if type(s) is S.Evaluate else None
    return call.args[0] if type(call) is E.Call and call.op.name == "tir.assume" else None


def _all_lanes(predicate: Any) -> bool | None:
    """The value of a predicate that is the same constant in all lanes, else None."""
    if type(predicate) is E.Broadcast:
        predicate = predicate.value
    return const_condition(predicate)


def _is_element(value: Any, buffer: Buffer, indices: Any) -> bool:
    """Whether a value is what an element holds, read as it is."""
    if type(value) is not E.BufferLoad or value.predicate is not None:
        return False
    same = value.buffer is buffer
    return same and bool(structural_equal(tuple(value.indices), tuple(indices)))
