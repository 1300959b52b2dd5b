"""Check that a function is well formed: types, scopes, ranks, conditions, thread extents.

Passes rely on what stands here; tests run it after every pass, users may (option `verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from ..base.dtype import parse
from ..base.errors import InternalError
from . import expr as E
from . import stmt as S
from .buffer import Buffer
from .equal import structural_equal
from .iter import THREAD_KEYS, IterVar
from .module import IRModule
from .printer import script
from .verify_expr import CHECKS, access, accessed
from .visit import children, tree_size

_MOST_PRINTED = 1_000_000  # nodes


class _Broken(Exception):
    pass


class Verified:
    """What has been found right in one program after the other: a pass leaves most expressions as
    they were. They are kept, so that none has the `id` of one that is gone."""

    def __init__(self) -> None:
        self.typed: dict[int, Any] = {}
        """Nodes whose own types are right."""
        self.whole: dict[int, tuple[Any, frozenset[E.Var]]] = {}
        """Expressions of statements that are right where some variables are in scope."""


class _Verifier:
    """Walks a function with an explicit stack of statements and of actions that end scopes."""

    statements: ClassVar[dict[type, Callable[[Any, Any], None]]] = {}

    def __init__(self, func: S.PrimFunc, before: Verified) -> None:
        self.func = func
        self.before = before
        self.scope: dict[E.Var, str] = {}
        self.asked: list[E.Var] = []  # variables that had to be in scope, of one expression
        self.threads: dict[str, list[Any]] = {}
        self.stack: list[Any] = []
        self.owner: S.Stmt | None = None

    def run(self) -> None:
        self.signature()
        stack = self.stack
        stack.append(self.func.body)
        while stack:
            item = stack.pop()
            if isinstance(item, S.Stmt):
                self.owner = item
                self.statement(item)
            else:
                item()

    def require(self, holds: bool, text: str) -> None:
        if not holds:
            raise _Broken(text)

    # -- scopes

    def define(self, v: Any, what: str) -> None:
        """Bring a variable into scope for what is pushed on the stack after this call."""
        if not isinstance(v, E.Var):
            raise _Broken(f"{what} is {v!r}, no variable")
        if v in self.scope:
            raise _Broken(f"{what} {v.name} is defined again inside its scope ({self.scope[v]})")
        self.scope[v] = what
        self.stack.append(partial(self.scope.pop, v))

    def signature(self) -> None:
        func = self.func
        for p in func.params:
            self.define(p, "parameter")
        for p, b in func.buffer_map.items():
            self.require(p in func.params, f"buffer_map has {p.name}, which is no parameter")
            self.require(p.dtype == "handle", f"parameter {p.name} of a buffer is {p.dtype}")
            if b.data is not p:
                self.define(b.data, "data of argument")
            for e in (*b.shape, *b.strides, b.elem_offset):
                if isinstance(e, E.Var) and e not in self.scope:
                    self.define(e, "size of argument")
        for b in func.buffer_map.values():
            self.integers("shape or stride of argument " + b.name, (*b.shape, *b.strides))

    # -- expressions

    def expression(self, root: Any) -> None:
        """Check the types of all nodes below `root`, and that its variables are in scope."""
        known = self.before.whole.get(id(root))
        if known is not None and self.scope.keys() >= known[1]:
            self.asked += known[1]
            return
        around, self.asked = self.asked, []
        if not self.walked(root):
            self.before.whole[id(root)] = root, frozenset(self.asked)
        self.asked += around

    def walked(self, root: Any) -> bool:
        """Check all nodes below; whether some of them are lets, whose variables come in scope."""
        lets = False
        stack: list[Any] = [root]
        seen: set[int] = set()  # nodes checked with the variables now in scope
        typed = self.before.typed  # never variables
        while stack:
            e = stack.pop()
            kind = type(e)
            if kind is tuple:
                let, before = e
                seen = self.let_scope(let, before, stack, seen)
                continue
            key = id(e)
            if key in seen:
                continue
            seen.add(key)
            if kind is E.BufferLoad or key not in typed:
                self.node(e)
            if kind is E.Let:
                lets = True
                stack += [(e, None), e.value]
            else:
                stack += children(e)[::-1]
        return lets

    def let_scope(
        self, e: E.Let, before: set[int] | None, stack: list[Any], seen: set[int]
    ) -> set[int]:
        """Enter the body of a let, or with `before` leave it; gives the nodes seen there."""
        if before is not None:
            del self.scope[e.var]
            return before
        self.require(e.var not in self.scope, f"{e.var.name} is defined again inside its scope")
        self.scope[e.var] = "let"
        stack += [(e, seen), e.body]
        return set()

    def node(self, e: Any) -> None:
        kind = type(e)
        if kind is E.Var or kind is E.SizeVar:
            if e not in self.scope:
                raise _Broken(f"variable {e.name} is used outside of its scope")
            self.asked.append(e)
            return
        if kind is E.BufferLoad:
            self.buffer(e.buffer)
        if id(e) in self.before.typed:
            return
        if kind not in CHECKS:
            raise _Broken(f"{e!r} (of type {kind.__name__}) stands where an expression must")
        for part in children(e):
            if not isinstance(part, E.PrimExpr):
                raise _Broken(f"{part!r} stands where an expression must")
        check = CHECKS[kind]
        wrong = None if check is None else check(e)
        if wrong:
            raise _Broken(wrong)
        self.before.typed[id(e)] = e

    def buffer(self, b: Buffer) -> None:
        """A buffer's memory, and what its addresses are computed from, must be in scope."""
        if b.data not in self.scope:
            raise _Broken(f"buffer {b.name} is used where its memory is not in scope")
        self.asked.append(b.data)
        if len(b.shape) > 1 or b.strides:
            for e in (*b.shape, *b.strides):
                self.expression(e)
        if not E.is_const(b.elem_offset):
            self.expression(b.elem_offset)

    def integers(self, what: str, items: Iterable[Any]) -> None:
        for e in items:
            self.expression(e)
            t = parse(e.dtype)
            self.require(t.is_integer and t.lanes == 1, f"{what} is {e.dtype}")

    def condition(self, what: str, e: Any) -> None:
        self.expression(e)
        self.require(e.dtype == "bool", f"the condition of {what} is {e.dtype}")

    # -- statements

    def statement(self, s: S.Stmt) -> None:
        handler = self.statements.get(type(s))
        if handler is None:
            raise _Broken(f"unknown statement {type(s).__name__}")
        handler(self, s)

    def push(self, s: Any) -> None:
        if not isinstance(s, S.Stmt):
            raise _Broken(f"{s!r} stands where a statement must")
        self.stack.append(s)

    def _for(self, s: S.For) -> None:
        self.integers("a bound of a loop", (s.min, s.extent))
        v = s.loop_var
        self.require(
            v.dtype == s.min.dtype == s.extent.dtype,
            f"loop variable {v.name} is {v.dtype}, from {s.min.dtype}, extent {s.extent.dtype}",
        )
        self.require(0 <= s.kind < len(S.FOR_KINDS), f"a loop of kind {s.kind}")
        if s.kind == S.ForKind.THREAD_BINDING:
            self.require(s.thread_binding is not None, "a loop bound to no thread axis")
        self.define(v, "loop variable")
        self.push(s.body)

    def _while(self, s: S.While) -> None:
        self.condition("while", s.condition)
        self.push(s.body)

    def _let(self, s: S.LetStmt) -> None:
        self.expression(s.value)
        self.require(
            s.var.dtype == s.value.dtype,
            f"a let gives {s.var.name} of type {s.var.dtype} a value of type {s.value.dtype}",
        )
        self.define(s.var, "let")
        self.push(s.body)

    def _attr(self, s: S.AttrStmt) -> None:
        self.expression(s.value)
        if s.attr_key in THREAD_KEYS:
            self.thread(s)
        self.push(s.body)

    def thread(self, s: S.AttrStmt) -> None:
        axis = s.node
        if not isinstance(axis, IterVar):
            raise _Broken(f"{s.attr_key} of {axis!r}, which is no thread axis")
        t = parse(s.value.dtype)
        self.require(t.is_integer and t.lanes == 1, f"the extent of a thread axis is {t.text}")
        tag = axis.thread_tag
        if tag and not tag.startswith("vthread"):
            extents = self.threads.setdefault(tag, [])
            if extents and not structural_equal(extents[-1], s.value):
                raise _Broken(f"{tag} has extent {extents[-1]} around, but {s.value} here")
            extents.append(s.value)
            self.stack.append(extents.pop)
        if axis.var not in self.scope:
            self.define(axis.var, "thread axis")

    def _assert(self, s: S.AssertStmt) -> None:
        self.condition("assert", s.condition)
        self.require(isinstance(s.message, E.StringImm), "the message of an assert is no text")
        self.push(s.body)

    def _if(self, s: S.IfThenElse) -> None:
        self.condition("if", s.condition)
        if s.else_case is not None:
            self.push(s.else_case)
        self.push(s.then_case)

    def _store(self, s: S.BufferStore) -> None:
        b = s.buffer
        for e in (*s.indices, s.value, *(() if s.predicate is None else (s.predicate,))):
            self.expression(e)
        self.buffer(b)
        wrong = access(b, s.indices, s.predicate)
        if wrong:
            raise _Broken(wrong)
        wanted = accessed(b, s.indices)
        if s.value.dtype != wanted:
            raise _Broken(
                f"a value of type {s.value.dtype} is stored where buffer {b.name} takes {wanted}"
            )

    def _allocate(self, s: S.Allocate) -> None:
        b = s.buffer
        self.integers(f"an extent of {b.name}", (*b.shape, *b.strides))
        self.require(b.data.dtype == "handle", f"the memory of {b.name} is {b.data.dtype}")
        self.define(b.data, "allocation")
        if isinstance(b.elem_offset, E.Var) and b.elem_offset not in self.scope:
            self.define(b.elem_offset, "offset of allocation")
        self.push(s.body)

    def _seq(self, s: S.SeqStmt) -> None:
        for x in reversed(s.seq):
            self.push(x)

    def _evaluate(self, s: S.Evaluate) -> None:
        self.expression(s.value)

    def _prefetch(self, s: S.Prefetch) -> None:
        self.buffer(s.buffer)
        self.require(len(s.bounds) == s.buffer.ndim, f"prefetch of {len(s.bounds)} dimensions")
        for r in s.bounds:
            self.integers("a bound of prefetch", (r.min, r.extent))


_Verifier.statements.update(
    {
        S.For: _Verifier._for,
        S.While: _Verifier._while,
        S.LetStmt: _Verifier._let,
        S.AttrStmt: _Verifier._attr,
        S.AssertStmt: _Verifier._assert,
        S.IfThenElse: _Verifier._if,
        S.BufferStore: _Verifier._store,
        S.Allocate: _Verifier._allocate,
        S.SeqStmt: _Verifier._seq,
        S.Evaluate: _Verifier._evaluate,
        S.Prefetch: _Verifier._prefetch,
    }
)


def verify(program: Any, after: str = "", before: Verified | None = None) -> None:
    """Raise InternalError, with the place marked in the printed text, for a malformed program.

    `program` is a PrimFunc or an IRModule; `after` names the pass that made it; `before` knows what
    was right in the programs of which it was made, and will know of this one. Checked: operands
    of one type and results as they say; lanes, ranks and types of reads and stores; conditions of
    type bool; every variable and every buffer's memory in scope where used and not defined again
    there; one extent for each thread axis of a kernel. Bounds of accesses are not checked.
    """
    before = Verified() if before is None else before
    if isinstance(program, IRModule):
        for func in program.functions.values():
            verify(func, after, before)
        return
    verifier = _Verifier(program, before)
    try:
        verifier.run()
    except _Broken as error:
        passed = f" after {after}" if after else ""
        marks = {} if verifier.owner is None else {verifier.owner: str(error)}
        raise InternalError(
            f"{program.name} is not well formed{passed}: {error}\n{_printed(program, marks)}"
        ) from None


def _printed(func: S.PrimFunc, marks: dict[Any, str]) -> str:
    try:
        if tree_size(func.body) > _MOST_PRINTED:
            return "(it is too long to print)"
        return script(func, marks)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        return f"(it cannot be printed: {error!r})"
