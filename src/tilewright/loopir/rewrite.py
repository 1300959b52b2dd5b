"""Rewriters: recursion over the IR with one handler a node type.

Subclass `Rewriter`, mark methods with `@handles(Add, Sub)`; every node type without a handler gets
the default, which rewrites the children and returns the same object where nothing changed.
`self.expr(e)` and `self.stmt(s)` dispatch through a table on `type(e)`. visit.py has what only
reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from ..base.deep import Recursive
from . import expr as E
from . import iter as I
from . import realize as R
from . import stmt as S
from .buffer import Buffer
from .schema import fields_of
from .visit import EVALUATED

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


_PARTS = {
    "expr": "self.expr({0})",
    "stmt": "self.stmt({0})",
    "expr?": "None if {0} is None else self.expr({0})",
    "stmt?": "None if {0} is None else self.stmt({0})",
    "expr*": "self.exprs({0})",
    "range*": "self._ranges({0})",
    "buffer": "self.buffer({0})",
}


def derived(kind: Any) -> Handler:
    """The default handler of a class of nodes: its parts rewritten, in the order of evaluation.

    It is made as text, so that it is what one would write: passes spend their time in it.
    """
    forms = {f.name: f.form for f in fields_of(kind.schema) if f.form in _PARTS}
    order = dict.fromkeys([*EVALUATED.get(kind, ()), *forms])
    new = {name: _PARTS[forms[name]].format(f"e.{name}") for name in order}
    given = [name for name in inspect.signature(kind).parameters if name != "span"]
    given = [kind.arguments.get(name, name) for name in given]
    values = [f"n_{name}" if name in new else f"e.{name}" for name in given]
    lines = [
        *(f"n_{name} = {text}" for name, text in new.items()),
        f"if {' and '.join(f'n_{name} is e.{name}' for name in new)}:",
        "    return e",
        f"return kind({', '.join(values)})",
    ]
    scope: dict[str, Any] = {"kind": kind}
    name = f"rewrite_{kind.__name__}"  # as tracebacks show it
    exec(f"def {name}(self, e):\n" + "".join(f"    {line}\n" for line in lines), scope)
    handler: Handler = handles(kind)(scope[name])
    return handler


class _Dispatch(Recursive):
    table: ClassVar[dict[type, Handler]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        methods = [m for base in reversed(cls.__mro__) for m in vars(base).values()]
        cls.table = {t: m for m in methods for t in getattr(m, "handled_types", ())}


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

    def _ranges(self, items: Sequence[I.Range]) -> Any:
        new = tuple([self.range(r) for r in items])
        return items if all(a is b for a, b in zip(new, items)) else new

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

    _not = derived(E.Not)
    _cast = derived(E.Cast)
    _select = derived(E.Select)
    _ramp = derived(E.Ramp)
    _broadcast = derived(E.Broadcast)
    _shuffle = derived(E.Shuffle)
    _let = derived(E.Let)
    _call = derived(E.Call)
    _load = derived(E.BufferLoad)
    _producer_load = derived(I.ProducerLoad)
    _reduce = derived(I.Reduce)
    _for = derived(S.For)
    _while = derived(S.While)
    _let_stmt = derived(S.LetStmt)
    _attr = derived(S.AttrStmt)
    _assert = derived(S.AssertStmt)
    _if = derived(S.IfThenElse)
    _store = derived(S.BufferStore)
    _evaluate = derived(S.Evaluate)
    _prefetch = derived(S.Prefetch)
    _producer_store = derived(R.ProducerStore)
    _producer_realize = derived(R.ProducerRealize)
    _buffer_realize = derived(R.BufferRealize)
    _decl_buffer = derived(R.DeclBuffer)

    @handles(R.AllocateConst)
    def _allocate_const(self, s: R.AllocateConst) -> Any:
        extents, body = self.exprs(s.extents), self.stmt(s.body)
        if extents is s.extents and body is s.body:
            return s
        return R.AllocateConst(s.buffer_var, s.dtype, extents, s.data, body, s.annotations)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        buffer, body = self.buffer(s.buffer), self.stmt(s.body)
        return s.with_parts(buffer=buffer, body=body)

    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        new = [self.stmt(x) for x in s.seq]
        if all(a is b for a, b in zip(new, s.seq)):
            return s
        return S.seq(new)


Rewriter.__init_subclass__.__func__(Rewriter)  # type: ignore[attr-defined]


class OverStatements(Rewriter):
    """Rewrites statements alone: their expressions stay as they are."""

    def expr(self, e: Any) -> Any:
        return e

    def exprs(self, items: Sequence[Any]) -> Any:
        return items

    @handles(S.BufferStore, S.Evaluate)
    def _leaf_stmt(self, s: Any) -> Any:
        return s
