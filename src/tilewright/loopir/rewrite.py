"""Rewriters: recursion over the IR with one handler a node type.

Subclass `Rewriter`, mark methods with `@handles(Add, Sub)`; every node type without a handler gets
the default, which rewrites the children and returns the same object where nothing changed.
`self.expr(e)` and `self.stmt(s)` dispatch through a table on `type(e)`. visit.py has what only
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from . import expr as E
from . import iter as I
from . import stmt as S
from .buffer import Buffer

Handler = Callable[..., Any]
F = TypeVar("F", bound=Handler)

LEAVES = (E.Var, E.SizeVar, E.IntImm, E.FloatImm, E.StringImm)
ARITH = (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)
COMPARE = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)
LOGIC = (E.And, E.Or)


def handles(*types: type) -> Callable[[F], F]:
    """Mark a method of a Rewriter as the handler of some node types."""

    def mark(method: F) -> F:
        method.handled_types = types  # type: ignore[attr-defined]
        return method

    return mark


class _Dispatch:
    table: ClassVar[dict[type, Handler]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.table = dict(cls.table)
        for method in vars(cls).values():
            for t in getattr(method, "handled_types", ()):
                cls.table[t] = method


class Rewriter(_Dispatch):
    """Rewrites expressions and statements bottom up; see the module's head."""

    def expr(self, e: Any) -> Any:
        return self.table[type(e)](self, e)

    def stmt(self, s: Any) -> Any:
        return self.table[type(s)](self, s)

    def buffer(self, b: Buffer) -> Buffer:
        """The buffer that takes the place of `b`; the hook for passes that move data."""
        return b

    def exprs(self, items: Sequence[Any]) -> Any:
        table = self.table
        new = tuple([table[type(x)](self, x) for x in items])
        for a, b in zip(new, items):
            if a is not b:
                return new
        return items

    def range(self, r: I.Range) -> I.Range:
        low, extent = self.expr(r.min), self.expr(r.extent)
        if low is r.min and extent is r.extent:
            return r
        return I.Range.from_min_extent(low, extent)

    @handles(*LEAVES)
    def _leaf(self, e: Any) -> Any:
        return e

    @handles(*ARITH, *COMPARE, *LOGIC)
    def _pair(self, e: Any) -> Any:
        table = self.table
        x, y = e.a, e.b
        a, b = table[type(x)](self, x), table[type(y)](self, y)
        return e if a is x and b is y else type(e)(a, b)

    @handles(E.Not)
    def _not(self, e: E.Not) -> Any:
        a = self.expr(e.a)
        return e if a is e.a else E.Not(a)

    @handles(E.Cast)
    def _cast(self, e: E.Cast) -> Any:
        value = self.expr(e.value)
        return e if value is e.value else E.Cast(e.dtype, value)

    @handles(E.Select)
    def _select(self, e: E.Select) -> Any:
        c, t, f = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        if c is e.condition and t is e.true_value and f is e.false_value:
            return e
        return E.Select(c, t, f)

    @handles(E.Ramp)
    def _ramp(self, e: E.Ramp) -> Any:
        base, stride = self.expr(e.base), self.expr(e.stride)
        return e if base is e.base and stride is e.stride else E.Ramp(base, stride, e.lanes)

    @handles(E.Broadcast)
    def _broadcast(self, e: E.Broadcast) -> Any:
        value = self.expr(e.value)
        return e if value is e.value else E.Broadcast(value, e.lanes)

    @handles(E.Shuffle)
    def _shuffle(self, e: E.Shuffle) -> Any:
        vectors = self.exprs(e.vectors)
        return e if vectors is e.vectors else E.Shuffle(vectors, e.indices)

    @handles(E.Let)
    def _let(self, e: E.Let) -> Any:
        value, body = self.expr(e.value), self.expr(e.body)
        return e if value is e.value and body is e.body else E.Let(e.var, value, body)

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        args = self.exprs(e.args)
        return e if args is e.args else E.Call(e.dtype, e.op, args)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        indices, buffer = self.exprs(e.indices), self.buffer(e.buffer)
        predicate = None if e.predicate is None else self.expr(e.predicate)
        if indices is e.indices and buffer is e.buffer and predicate is e.predicate:
            return e
        return E.BufferLoad(buffer, indices, predicate)

    @handles(I.ProducerLoad)
    def _producer_load(self, e: I.ProducerLoad) -> Any:
        indices = self.exprs(e.indices)
        return e if indices is e.indices else I.ProducerLoad(e.producer, indices)

    @handles(I.Reduce)
    def _reduce(self, e: I.Reduce) -> Any:
        source, init = self.exprs(e.source), self.exprs(e.init)
        condition = self.expr(e.condition)
        if source is e.source and condition is e.condition and init is e.init:
            return e
        return I.Reduce(e.combiner, source, e.axis, condition, e.value_index, init)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent, body = self.expr(s.min), self.expr(s.extent), self.stmt(s.body)
        if low is s.min and extent is s.extent and body is s.body:
            return s
        return S.For(s.loop_var, low, extent, s.kind, body, s.thread_binding, s.annotations)

    @handles(S.While)
    def _while(self, s: S.While) -> Any:
        condition, body = self.expr(s.condition), self.stmt(s.body)
        return s if condition is s.condition and body is s.body else S.While(condition, body)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        value, body = self.expr(s.value), self.stmt(s.body)
        return s if value is s.value and body is s.body else S.LetStmt(s.var, value, body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        value, body = self.expr(s.value), self.stmt(s.body)
        if value is s.value and body is s.body:
            return s
        return S.AttrStmt(s.node, s.attr_key, value, body)

    @handles(S.AssertStmt)
    def _assert(self, s: S.AssertStmt) -> Any:
        condition, body = self.expr(s.condition), self.stmt(s.body)
        if condition is s.condition and body is s.body:
            return s
        return S.AssertStmt(condition, s.message, body)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        condition, then_case = self.expr(s.condition), self.stmt(s.then_case)
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        if condition is s.condition and then_case is s.then_case and else_case is s.else_case:
            return s
        return S.IfThenElse(condition, then_case, else_case)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        indices, value, buffer = self.exprs(s.indices), self.expr(s.value), self.buffer(s.buffer)
        predicate = None if s.predicate is None else self.expr(s.predicate)
        if (
            indices is s.indices
            and value is s.value
            and buffer is s.buffer
            and predicate is s.predicate
        ):
            return s
        return S.BufferStore(buffer, value, indices, predicate)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        buffer, body = self.buffer(s.buffer), self.stmt(s.body)
        if buffer is s.buffer and body is s.body:
            return s
        return S.Allocate(buffer, body, s.annotations)

    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        new = [self.stmt(x) for x in s.seq]
        if all(a is b for a, b in zip(new, s.seq)):
            return s
        return S.seq(new)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        value = self.expr(s.value)
        return s if value is s.value else S.Evaluate(value)

    @handles(S.Prefetch)
    def _prefetch(self, s: S.Prefetch) -> Any:
        bounds, buffer = tuple(self.range(r) for r in s.bounds), self.buffer(s.buffer)
        if buffer is s.buffer and all(a is b for a, b in zip(bounds, s.bounds)):
            return s
        return S.Prefetch(buffer, bounds)


Rewriter.__init_subclass__.__func__(Rewriter)  # type: ignore[attr-defined]
