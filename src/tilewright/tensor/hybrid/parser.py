"""Read a hybrid script: from a Python function of loops to a statement on buffers.

A name that is assigned once, to something that depends on no memory, stands for its value; any
other one is memory for one element, known in the loop (or function) where it is first assigned.
Values that are stored become of the type of the array, as NumPy's assignments do.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ...arith import Analyzer
from ...base.errors import TilewrightError, UsageError
from ...loopir.buffer import Buffer
from ...loopir.effects import is_pure
from ...loopir.expr import IntImm, PrimExpr, StringImm, Var, cast, const, convert
from ...loopir.iter import IterVar, Range
from ...loopir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Stmt,
    no_op,
    seq,
)
from ..extents import same_extent
from .calls import BIND, CONST
from .expressions import Expressions
from .values import Declared, Loop, Memory, Part, known_int, scalar_memory


class Parser(Expressions):
    """Reads one function with its arguments: Memory, expressions, numbers, tuples of them."""

    recursive: ClassVar[tuple[str, ...]] = ("value", "statement")

    def __init__(
        self,
        function: ast.FunctionDef,
        args: Sequence[Any],
        known: Mapping[str, Any],
        threads: dict[str, IterVar] | None = None,
    ) -> None:
        names = [a.arg for a in function.args.args]
        if len(names) != len(args):
            raise UsageError(
                f"{function.name} takes {len(names)} arguments ({', '.join(names)}), "
                f"got {len(args)}"
            )
        self.function = function
        self.known = known
        self.names: dict[str, Any] = dict(zip(names, args))
        self.stored = Counter(
            n.id
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        self.augmented = {
            n.target.id
            for n in ast.walk(function)
            if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
        }
        self.nested = threads is not None
        self.threads: dict[str, IterVar] = {} if threads is None else threads
        self.out: list[Stmt] = []
        self.memory: list[Buffer] = []
        self.fresh: list[str] = []
        self.loops: list[str] = []
        self.results: list[Memory] = []
        self.returned: list[Memory] | None = None
        self.analyzer = Analyzer()
        self.place: Any = function

    def parse(self) -> Stmt:
        """The statement; afterwards `returned` has the arrays of results."""
        try:
            for s in self.function.body:
                self.statement(s)
        except TilewrightError as error:
            if getattr(error, "hybrid_line", None) is not None:
                raise
            line = getattr(self.place, "lineno", 0)
            told = UsageError(f"hybrid script {self.function.name}, line {line}: {error}")
            told.hybrid_line = line  # type: ignore[attr-defined]
            raise told from None
        if self.returned is None:
            raise UsageError(
                f"hybrid script {self.function.name} returns nothing: end it with `return` of what "
                "output_tensor gave"
            )
        kept = {id(m) for m in self.returned}
        self.memory += [m.buffer for m in self.results if id(m) not in kept]
        body = seq(self.out)
        for inside in (True, False):  # kernels have shared and local memory, global is around them
            for b in reversed(self.memory):
                if (b.scope_name != "global") is inside:
                    body = Allocate(b, body)
            if inside and not self.nested:
                for axis in self.threads.values():
                    assert axis.dom is not None
                    body = AttrStmt(axis, "thread_extent", axis.dom.extent, body)
        return body

    # -- scopes

    @contextmanager
    def scope(self) -> Iterator[Callable[[], Stmt]]:
        """A loop's body: names that it defines are forgotten after it. Gives what makes it."""
        before = self.out, self.memory, self.fresh
        self.out, self.memory, self.fresh = [], [], []

        def made() -> Stmt:
            body = seq(self.out)
            for b in reversed(self.memory):
                body = Allocate(b, body)
            return body

        yield made
        for name in self.fresh:
            self.names.pop(name, None)
        self.out, self.memory, self.fresh = before

    @contextmanager
    def branch(self) -> Iterator[Callable[[], Stmt]]:
        """A part of an if: what it defines belongs to the loop around."""
        before, self.out = self.out, []
        yield lambda: seq(self.out)
        self.out = before

    def define(self, name: str, value: Any) -> None:
        if name not in self.names:
            self.fresh.append(name)
        self.names[name] = value

    # -- statements

    def statement(self, s: ast.stmt) -> None:
        self.place = s
        rule = self.statements.get(type(s))
        if rule is None:
            self.fail(f"`{type(s).__name__.lower()}` has no meaning in a hybrid script")
        rule(self, s)

    def _expr(self, s: ast.Expr) -> None:
        if isinstance(s.value, ast.Constant):
            return  # a docstring
        value = self.value(s.value)
        if isinstance(value, PrimExpr):
            self.out.append(Evaluate(value))

    def _pass(self, s: ast.Pass) -> None:
        return

    def _assign(self, s: ast.Assign) -> None:
        if len(s.targets) != 1:
            self.fail("one assignment a statement: a = b = c is not read")
        target = s.targets[0]
        value = self.value(s.value)
        if isinstance(target, ast.Tuple):
            self._unpack(target, value)
        elif isinstance(target, ast.Name):
            self._name(target.id, value)
        else:
            self._store(target, value)

    def _unpack(self, target: ast.Tuple, value: Any) -> None:
        if not isinstance(value, tuple) or len(value) != len(target.elts):
            self.fail(f"{len(target.elts)} names take what is not {len(target.elts)} values")
        for name, one in zip(target.elts, value):
            if isinstance(name, ast.Name):
                self._name(name.id, one)
            else:
                self._store(name, one)

    def _name(self, name: str, value: Any) -> None:
        there = self.names.get(name)
        if name in self.loops:
            self.fail(f"the loop variable {name} cannot be assigned")
        if isinstance(value, Declared):
            if there is not None:
                self.fail(f"{name} is known already: give the array another name")
            self._declare(name, value)
            return
        once = self.stored[name] == 1 and name not in self.augmented
        if isinstance(there, Memory) and there.scalar:
            self._put(there, [const(0)], value)
        elif once and (not isinstance(value, PrimExpr) or is_pure(value)):
            self.define(name, value)
        elif isinstance(value, (Memory, Part, tuple, str)):
            self.fail(f"{name} is assigned more than once, and once something that is no number")
        else:
            value = self.number(value)
            memory = scalar_memory(name, value.dtype)
            self.memory.append(memory.buffer)
            self.define(name, memory)
            self._put(memory, [const(0)], value)

    def _declare(self, name: str, given: Declared) -> None:
        if given.scope == "output":
            offset = Var("elem_offset", "int32")
            memory = Memory(Buffer(given.shape, given.dtype, name, elem_offset=offset))
            if self.nested or self.loops:
                memory = Memory(Buffer(given.shape, given.dtype, name))
            if self.loops:
                self.fail("output_tensor stands in no loop")
            self.results.append(memory)
        else:
            memory = Memory(Buffer(given.shape, given.dtype, name, scope=given.scope))
            self.memory.append(memory.buffer)
        self.define(name, memory)

    def _store(self, target: Any, value: Any) -> None:
        memory, indices = self.element(target)
        self._put(memory, indices, value)

    def _put(self, memory: Memory, indices: Sequence[Any], value: Any) -> None:
        stored = cast(memory.dtype, self.number(value))
        self.out.append(BufferStore(memory.buffer, stored, memory.checked(indices)))

    def _aug_assign(self, s: ast.AugAssign) -> None:
        memory, indices = self.element(s.target)
        new = self.binary(type(s.op), memory.at(indices), self.value(s.value))
        self._put(memory, indices, new)

    def element(self, target: Any) -> tuple[Memory, list[Any]]:
        """The array and indices of what is assigned to."""
        if isinstance(target, ast.Name):
            found = self.names.get(target.id)
            if isinstance(found, Memory) and found.scalar:
                return found, [const(0)]
            self.fail(f"{target.id} is no variable here: assign to its elements")
        if not isinstance(target, ast.Subscript):
            self.fail("what is assigned to is a name or an element")
        base, indices = self.value(target.value), self.indices(target.slice)
        if isinstance(base, Part):
            indices = [*base.indices, *indices]
            base = base.memory
        if not isinstance(base, Memory):
            self.fail(f"{ast.unparse(target.value)} is no array")
        return base, indices

    def _if(self, s: ast.If) -> None:
        test = self.condition(s.test)
        if isinstance(test, bool):
            for inner in s.body if test else s.orelse:
                self.statement(inner)
            return
        with self.branch() as then:
            for inner in s.body:
                self.statement(inner)
            first = then()
        second = None
        if s.orelse:
            with self.branch() as otherwise:
                for inner in s.orelse:
                    self.statement(inner)
                second = otherwise()
        self.out.append(IfThenElse(test, first, second))

    def _assert(self, s: ast.Assert) -> None:
        test = self.value(s.test)
        text = "" if s.msg is None else str(self.value(s.msg))
        self.out.append(AssertStmt(convert(test), StringImm(text), no_op()))

    def _return(self, s: ast.Return) -> None:
        if self.loops:
            self.fail("return stands in no loop")
        named = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
        found = [self.names.get(n.id) if isinstance(n, ast.Name) else None for n in named]
        mine = {id(m) for m in self.results}
        if not all(id(m) in mine for m in found) or len({id(m) for m in found}) < len(found):
            self.fail("return gives arrays of output_tensor, by their names, each once")
        self.returned = [m for m in found if isinstance(m, Memory)]

    # -- loops

    def _for(self, s: ast.For) -> None:
        if not isinstance(s.target, ast.Name) or s.orelse:
            self.fail("a loop has one variable, and no else")
        loop = self.value(s.iter)
        if not isinstance(loop, Loop):
            self.fail(
                "a loop runs over range, parallel, vectorize, unroll, const_range or bind, not "
                f"{ast.unparse(s.iter)}"
            )
        name = s.target.id
        if name in self.names:
            self.fail(f"{name} is known already: give the loop variable another name")
        self.loops.append(name)
        if loop.kind == CONST:
            self._expanded(name, loop, s.body)
        else:
            self._loop(name, loop, s.body)
        self.loops.pop()

    def _expanded(self, name: str, loop: Loop, body: Sequence[ast.stmt]) -> None:
        low = known_int(self.simple(loop.low), "the begin of const_range")
        extent = known_int(self.simple(loop.extent), "the extent of const_range")
        for i in range(low, low + extent):
            with self.scope() as made:
                self.define(name, i)
                for inner in body:
                    self.statement(inner)
                one = made()
            self.out.append(one)

    def _loop(self, name: str, loop: Loop, body: Sequence[ast.stmt]) -> None:
        low, extent = self.simple(loop.low), self.simple(loop.extent)
        low, extent = convert(low), convert(extent)
        bound = loop.kind == BIND
        var = self.thread(loop.tag, extent) if bound else Var(name, extent.dtype)
        at_zero = isinstance(low, IntImm) and low.value == 0
        with self.scope() as made:
            self.define(name, var if at_zero else var + low)
            if not bound:
                self.analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), extent))
            for inner in body:
                self.statement(inner)
            one = made()
        if not bound:
            one = For(var, const(0, var.dtype), extent, loop.kind, one)
        self.out.append(one)

    def thread(self, tag: str, extent: PrimExpr) -> Var:
        """The variable of a thread axis, one for all loops of the script."""
        axis = self.threads.get(tag)
        if axis is None:
            axis = IterVar(Range(0, extent), Var(tag, extent.dtype), IterVar.ThreadIndex, tag)
            self.threads[tag] = axis
        assert axis.dom is not None
        if not same_extent(axis.dom.extent, extent):
            self.fail(f"{tag} has extent {axis.dom.extent} in one loop, and {extent} in another")
        return axis.var

    def called(self, inner: tuple[Stmt, Sequence[Memory]]) -> Any:
        """What another script computes, here: its results are memory of this one."""
        body, results = inner
        self.memory += [m.buffer for m in results]
        self.out.append(body)
        return results[0] if len(results) == 1 else tuple(results)

    statements: Mapping[type, Any] = {
        ast.Expr: _expr,
        ast.Pass: _pass,
        ast.Assign: _assign,
        ast.AugAssign: _aug_assign,
        ast.If: _if,
        ast.Assert: _assert,
        ast.Return: _return,
        ast.For: _for,
    }
