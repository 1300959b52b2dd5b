"""Copies of statements with other values for variables, and definitions of their own.

A pass that duplicates code calls `fresh_copy`, so that every variable and buffer of a function is
still defined in one place only. `Folder` is the rewriter for substitutions: it folds the integer
arithmetic that constants make possible and leaves the rest to simplify_statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import expr as E
from . import realize as R
from . import stmt as S
from .buffer import Buffer
from .fold import fold_binary
from .operators import _COMPARE
from .rewrite import ARITH, COMPARE, Rewriter, handles


def times(size: Any, count: int) -> Any:
    """`size * count`, in the type of the size."""
    return fold_pair(E.Mul, size, E.IntImm(size.dtype, count))


def fold_pair(kind: type, a: Any, b: Any) -> Any:
    """`kind(a, b)` for operands of one integer type, folded where constants allow."""
    if type(b) is E.IntImm:
        if type(a) is E.IntImm:
            value = fold_binary(kind.fold_name, a.dtype, a.value, b.value)  # type: ignore[attr-defined]
            if value is not None:
                return E.IntImm(a.dtype, int(value))
        elif b.value == 0:
            if kind is E.Add or kind is E.Sub:
                return a
            if kind is E.Mul:
                return b
        elif b.value == 1:
            if kind is E.Mul or kind is E.FloorDiv or kind is E.Div:
                return a
            if kind is E.FloorMod or kind is E.Mod:
                return E.IntImm(a.dtype, 0)
    elif type(a) is E.IntImm:
        if a.value == 0:
            if kind is E.Add:
                return b
            if kind is E.Mul:
                return a
        elif a.value == 1 and kind is E.Mul:
            return b
    return kind(a, b)


class Folder(Rewriter):
    """A rewriter that folds integer arithmetic on the way up."""

    @handles(*ARITH)
    def _arith(self, e: Any) -> Any:
        table = self.table
        x, y = e.a, e.b
        a, b = table[type(x)](self, x), table[type(y)](self, y)
        if a is x and b is y:
            return e
        return fold_pair(type(e), a, b)

    @handles(*COMPARE)
    def _compare(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        if a is e.a and b is e.b:
            return e
        if type(a) is E.IntImm and type(b) is E.IntImm:
            return E.IntImm("bool", int(_COMPARE[type(e).__name__](a.value, b.value)))
        return type(e)(a, b)

    @handles(E.And, E.Or)
    def _logic(self, e: Any) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        if a is e.a and b is e.b:
            return e
        for x, y in ((a, b), (b, a)):
            if type(x) is E.IntImm:
                return y if bool(x.value) == (type(e) is E.And) else x
        return type(e)(a, b)

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        condition = self.expr(s.condition)
        known = const_condition(condition)
        if known is not None:
            chosen = s.then_case if known else s.else_case
            return S.no_op() if chosen is None else self.stmt(chosen)
        then_case = self.stmt(s.then_case)
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        return s.with_parts(condition=condition, then_case=then_case, else_case=else_case)


class Copier(Folder):
    """Replaces variables by `values` and gives every definition in the copy a new name."""

    def __init__(self, values: Mapping[E.Var, Any]) -> None:
        self.values: dict[E.Var, Any] = dict(values)
        self.buffers: dict[Buffer, Buffer] = {}
        self.moved: set[E.Var] = set()

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.values.get(e, e)

    def buffer(self, b: Buffer) -> Buffer:
        if b.data not in self.moved:
            return b
        copy = self.buffers.get(b)
        if copy is None:
            copy = b.with_(data=self.values[b.data])
            self.buffers[b] = copy
        return copy

    def define(self, v: E.Var) -> E.Var:
        """A new variable in the place of `v` from here on."""
        new = type(v)(v.name, v.type_annotation)
        self.values[v] = new
        return new

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        var = self.define(s.loop_var)
        body = self.stmt(s.body)
        return s.with_parts(loop_var=var, min=low, extent=extent, body=body)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        value = self.expr(s.value)
        var = self.define(s.var)
        return S.LetStmt(var, value, self.stmt(s.body))

    @handles(E.Let)
    def _let(self, e: E.Let) -> Any:
        value = self.expr(e.value)
        var = self.define(e.var)
        return E.Let(var, value, self.expr(e.body))

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        self.define(s.buffer.data)
        self.moved.add(s.buffer.data)
        buffer = self.buffer(s.buffer)
        shape = self.exprs(buffer.shape)
        if shape is not buffer.shape:
            buffer = buffer.with_(shape=shape)
            self.buffers[s.buffer] = buffer
        return S.Allocate(buffer, self.stmt(s.body), s.annotations)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        node = self.buffer(s.node) if isinstance(s.node, Buffer) else s.node
        if isinstance(node, E.Var):
            node = self.values.get(node, node)
        value, body = self.expr(s.value), self.stmt(s.body)
        return S.AttrStmt(node, s.attr_key, value, body)


def fresh_copy(s: S.Stmt, values: Mapping[E.Var, Any] | None = None) -> S.Stmt:
    """`s` with variables replaced by `values` (of the same types) and new variables and buffers
    wherever it defines some."""
    copy: S.Stmt = Copier(values or {}).stmt(s)
    return copy


def walk_stmts(s: S.Stmt) -> Iterator[Any]:
    """Every statement below and including `s`, in order; expressions are not visited."""
    stack: list[Any] = [s]
    while stack:
        x = stack.pop()
        yield x
        kind = type(x)
        if kind is S.SeqStmt:
            stack.extend(reversed(x.seq))
        elif kind is S.IfThenElse:
            if x.else_case is not None:
                stack.append(x.else_case)
            stack.append(x.then_case)
        elif kind in _WITH_BODY:
            stack.append(x.body)


_WITH_BODY = frozenset(
    (
        *(S.For, S.While, S.LetStmt, S.AttrStmt, S.AssertStmt, S.Allocate),
        *(R.ProducerRealize, R.BufferRealize, R.DeclBuffer, R.AllocateConst),
    )
)


def is_prefetch(s: Any) -> bool:
    """Whether a statement only asks for memory ahead."""
    called = type(s) is S.Evaluate and type(s.value) is E.Call
    return called and s.value.op.name == "tir.prefetch"


def is_likely(e: Any) -> bool:
    """Whether `e` is a guard marked as true almost always."""
    return type(e) is E.Call and e.op.name == "tir.likely"


def strip_likely(e: Any) -> Any:
    """The condition inside `likely`, or `e` itself."""
    return e.args[0] if is_likely(e) else e


def const_condition(e: Any) -> bool | None:
    """The value of a condition that is a constant, else None."""
    e = strip_likely(e)
    return bool(e.value) if type(e) is E.IntImm else None


def conjuncts(e: Any) -> list[Any]:
    """The parts of a conjunction, in order."""
    parts: list[Any] = []
    stack = [e]
    while stack:
        item = stack.pop()
        if type(item) is E.And:
            stack.extend((item.b, item.a))
        else:
            parts.append(item)
    return parts
