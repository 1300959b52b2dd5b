"""Drop statements that do nothing."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir import realize as R
from ..loopir import stmt as S
from ..loopir.copies import const_condition, walk_stmts
from ..loopir.effects import CallEffectKind, side_effect
from ..loopir.expr import const_int
from ..loopir.iter import Range
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import walk
from .bounded import BoundedRewriter
from .options import LowerOptions


def remove_no_ops(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Remove evaluations without effect, empty loops and branches, unused lets and allocations,
    attributes around nothing, and stores of an element to itself; with the option
    `disable_assert`, asserts too.

    Needs nothing; guarantees that no statement but the function's body is a no-op. Stands after the
    simplifier, which finds the conditions that never hold, and before passes that cost time a
    statement.
    """
    lets = any(type(s) is S.LetStmt for s in walk_stmts(func.body))
    return func.with_body(_Remover(lets, options.disable_assert).stmt(func.body))


def remove_proved_no_ops(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`remove_no_ops` where no simplifier went before: loops that are proved to have no step and
    stores whose index is proved to be that of the element stored are found too."""
    lets = any(type(s) is S.LetStmt for s in walk_stmts(func.body))
    bounds = BoundedRewriter(func).analyzer
    return func.with_body(_Remover(lets, options.disable_assert, bounds).stmt(func.body))


def has_effect(e: Any) -> bool:
    """Whether evaluating `e` changes anything."""
    return side_effect(e) > CallEffectKind.ReadState


class _Remover(Rewriter):
    """Bottom up; `used` holds the buffers stored to and, if there are lets, the variables read in
    what is kept."""

    def __init__(self, lets: bool, drop_asserts: bool, analyzer: Analyzer | None = None) -> None:
        self.lets = lets
        self.analyzer = analyzer
        self.drop_asserts = drop_asserts
        self.used: set[E.Var] = set()

    def _use(self, *exprs: Any) -> None:
        for e in exprs if self.lets else ():
            for x in walk(e):
                if isinstance(x, E.Var):
                    self.used.add(x)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        if not has_effect(s.value):
            return S.no_op()
        self.used.update(x for x in walk(s.value) if isinstance(x, E.Var))
        self.used.update(x.buffer.data for x in walk(s.value) if type(x) is E.BufferLoad)
        return s

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        value = s.value
        if type(value) is E.BufferLoad and value.buffer is s.buffer and self._same(s, value):
            return S.no_op()
        self.used.add(s.buffer.data)
        self._use(*s.indices, value)
        if s.predicate is not None:
            self._use(s.predicate)
        return s

    def _same(self, s: S.BufferStore, load: E.BufferLoad) -> bool:
        if load.predicate is not None or s.predicate is not None:
            return False
        prove = None if self.analyzer is None else self.analyzer.can_prove_equal
        return all(
            _equal_index(a, b) or (prove is not None and prove(a, b))
            for a, b in zip(s.indices, load.indices, strict=True)
        )

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        extent = const_int(s.extent)
        if extent is not None and extent <= 0:
            return S.no_op()
        if self.analyzer is not None:
            if self.analyzer.can_prove(s.extent <= 0):
                return S.no_op()
            self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent))
        body = self.stmt(s.body)
        if S.is_no_op(body):
            return body
        self._use(s.min, s.extent)
        return s.with_parts(body=body)

    @handles(S.While)
    def _while(self, s: S.While) -> Any:
        body = self.stmt(s.body)
        self._use(s.condition)
        return s.with_parts(body=body)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        known = const_condition(s.condition)
        if known is not None:
            chosen = s.then_case if known else s.else_case
            return S.no_op() if chosen is None else self.stmt(chosen)
        then_case = self._under(s.condition, s.then_case)
        else_case = None
        if s.else_case is not None:
            else_case = self._under(E.Not(s.condition), s.else_case)
        if S.is_no_op(else_case):
            else_case = None
        if S.is_no_op(then_case) and not has_effect(s.condition):
            if else_case is None:
                return S.no_op()
            self._use(s.condition)
            return S.IfThenElse(E.Not(s.condition), else_case)
        self._use(s.condition)
        return s.with_parts(then_case=then_case, else_case=else_case)

    def _under(self, condition: Any, s: S.Stmt) -> Any:
        if self.analyzer is None:
            return self.stmt(s)
        with self.analyzer.enter_constraint(condition):
            return self.stmt(s)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        if self.analyzer is not None and side_effect(s.value) <= CallEffectKind.Pure:
            self.analyzer.bind(s.var, s.value)
        body = self.stmt(s.body)
        if S.is_no_op(body) or s.var not in self.used:
            return S.seq(self.stmt(S.Evaluate(s.value)), body)
        self._use(s.value)
        return s.with_parts(body=body)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        body = self.stmt(s.body)
        if S.is_no_op(body) or not (s.buffer.data in self.used or _reads(body, s.buffer.data)):
            return body
        self._use(*s.buffer.shape)
        return s.with_parts(body=body)

    @handles(R.DeclBuffer)
    def _declare(self, s: R.DeclBuffer) -> Any:
        body = self.stmt(s.body)
        if S.is_no_op(body) or not (s.buffer.data in self.used or _reads(body, s.buffer.data)):
            return body
        return s.with_parts(body=body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        body = self.stmt(s.body)
        if S.is_no_op(body) and not s.attr_key.startswith(("pragma_import", "thread_extent")):
            return body
        self._use(s.value)
        if isinstance(s.node, E.Var):
            self.used.add(s.node)
        return s.with_parts(body=body)

    @handles(S.AssertStmt)
    def _assert(self, s: S.AssertStmt) -> Any:
        body = self.stmt(s.body)
        if self.drop_asserts or const_condition(s.condition):
            return body
        self._use(s.condition)
        return s.with_parts(body=body)

    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        new = [self.stmt(x) for x in s.seq]
        if all(a is b for a, b in zip(new, s.seq)) and not any(S.is_no_op(x) for x in new):
            return s
        return S.seq(new)


def _reads(body: S.Stmt, data: E.Var) -> bool:
    return any(type(x) is E.BufferLoad and x.buffer.data is data for x in walk(body))


@recursive
def _equal_index(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype != b.dtype:
        return False
    if type(a) is E.IntImm:
        return bool(a.value == b.value)
    if isinstance(a, (E.BinaryOp, E.CmpOp)):
        return _equal_index(a.a, b.a) and _equal_index(a.b, b.b)
    if type(a) is E.Ramp:
        return (
            a.lanes == b.lanes and _equal_index(a.base, b.base) and _equal_index(a.stride, b.stride)
        )
    return False
