"""Statements of scripts: a syntax tree, walked in order, that drives the builder's frames."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

from ..loopir import expr as E
from ..loopir import op
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.iter import IterVar
from . import frames as F
from . import statements as T
from .buffers import elements
from .build import Builder, Frame
from .evaluate import Evaluator, Scopes, condition, is_symbolic
from .meta import meta_var
from .source import Source

_at_work: ContextVar[Parser | None] = ContextVar("script_parser", default=None)
_LOOPS = (
    "a for loop runs over range, T.serial, T.parallel, T.vectorized, T.unroll, T.thread_binding "
    "or T.grid"
)


def at_work() -> Parser | None:
    """The parser that evaluates an expression now: macros continue in it."""
    return _at_work.get()


class Parser(Evaluator):
    """Reads statements of one source into a builder."""

    recursive: ClassVar[tuple[str, ...]] = ("eval", "statement")
    statements: ClassVar[dict[type, Callable[[Any, Any], None]]] = {}

    def __init__(self, source: Source, scopes: Scopes, builder: Builder) -> None:
        super().__init__(source, scopes)
        self.builder = builder

    @contextmanager
    def working(self) -> Any:
        """Be the parser at work."""
        token = _at_work.set(self)
        try:
            yield
        finally:
            _at_work.reset(token)

    # -- functions

    def function(
        self, node: ast.FunctionDef, annotations: Mapping[str, Any], private: bool
    ) -> S.PrimFunc:
        """The function of a definition. `annotations`: those that Python has evaluated."""
        frame = F.PrimFuncFrame(private)
        frame.name = node.name
        frame.open()
        self.scopes.blocks.append({})
        a = node.args
        if a.vararg or a.kwarg or a.defaults or a.kwonlyargs:
            raise self.fail(node, "a function has plain parameters only, without defaults")
        for p in (*a.posonlyargs, *a.args):
            self.scopes.set(p.arg, frame.arg(p.arg, self._parameter(p, annotations)))
        self.block(node.body)
        self.scopes.blocks.pop()
        self.builder.frames.pop()
        made: S.PrimFunc = self.attempt(node, frame.made)
        return made

    def _parameter(self, p: ast.arg, annotations: Mapping[str, Any]) -> Any:
        """A new variable or buffer, as an annotation says."""
        if p.annotation is None:
            raise self.fail(
                p, f'parameter {p.arg} needs a type: {p.arg}: T.Buffer((16,), "float32")'
            )
        kind = annotations.get(p.arg)
        if kind is None or isinstance(kind, str):
            kind = self.eval(p.annotation)
            if isinstance(kind, str):  # `from __future__ import annotations` around a text
                kind = self.eval(ast.parse(kind, mode="eval").body)
        if callable(kind) and not isinstance(kind, (Buffer, type)):
            kind = self.attempt(p, kind)
        if isinstance(kind, Buffer):
            memory = self.builder.fresh(E.Var(p.arg, "handle"))
            return self.builder.fresh(kind.with_(data=memory, name=p.arg))
        if isinstance(kind, E.Var):
            return self.builder.fresh(type(kind)(p.arg, kind.type_annotation))
        raise self.fail(
            p, f"the type of a parameter is T.Buffer(...), T.handle or T.int32 and the like, "
            f"got {kind!r}"
        )  # fmt: skip

    # -- blocks

    def block(self, body: Sequence[Any]) -> None:
        """Statements in a scope of their own; frames entered without `with` end with it."""
        depth = len(self.builder.frames)
        self.scopes.blocks.append({})
        for s in body:
            self.statement(s)
        while len(self.builder.frames) > depth:
            self.builder.frames[-1].close()
        self.scopes.blocks.pop()

    def statement(self, node: Any) -> None:
        """One statement."""
        rule = self.statements.get(type(node))
        if rule is None:
            raise self.fail(node, f"{type(node).__name__} has no meaning in a script")
        rule(self, node)

    def inside(self, frame: Frame, body: Sequence[Any], target: Any = None) -> None:
        """Run statements as the body of a frame."""
        value = frame.open()
        self.scopes.blocks.append({})
        if target is not None:
            self.bind(target, value)
        self.block(body)
        self.scopes.blocks.pop()
        frame.close()

    # -- names

    def bind(self, target: Any, value: Any) -> None:
        """Give values of `for` and `with` their names."""
        if isinstance(target, (ast.Tuple, ast.List)):
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            for part, one in self._pairs(target, values):
                self.bind(part, one)
            return
        if not isinstance(target, ast.Name):
            raise self.fail(target, "a name is expected here")
        self.builder.name(target.id, value)
        self.scopes.set(target.id, value)

    def _pairs(self, target: Any, values: list[Any]) -> list[tuple[Any, Any]]:
        """Names with their values; one `*names` takes what the others leave."""
        names = list(target.elts)
        star = next((n for n, t in enumerate(names) if isinstance(t, ast.Starred)), None)
        if star is not None and len(values) >= len(names) - 1:
            end = len(values) - (len(names) - 1 - star)
            values = [*values[:star], values[star:end], *values[end:]]
            names[star] = names[star].value
        if len(values) != len(names):
            raise self.fail(target, f"{len(names)} names for {len(values)} values")
        return list(zip(names, values))

    def assign(self, target: Any, value: Any) -> None:
        """`target = value`: a name for what the program has, or a variable that holds a value.
        Raises DiagnosticError where what is evaluated raises an error."""
        if isinstance(target, ast.Subscript):
            self._store(target, value)
            return
        if isinstance(value, Frame):
            self.bind(target, self.attempt(target, value.open))
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            values = list(value) if isinstance(value, (list, tuple, meta_var)) else [value]
            for part, one in self._pairs(target, values):
                self.assign(part, one)
            return
        if isinstance(value, meta_var):
            self.bind(target, value.value)
            return
        new = isinstance(value, (Buffer, IterVar)) or id(value) in self.builder.unnamed
        if new or not (is_symbolic(value) or isinstance(value, (bool, int, float))):
            self.bind(target, value)
            return
        frame = self.attempt(target, T.LetStmt, value)
        self.bind(target, frame.open())

    def _store(self, target: ast.Subscript, value: Any) -> None:
        buffer = self.eval(target.value)
        if not isinstance(buffer, Buffer):
            raise self.fail(
                target, f"only elements of buffers are written, got {buffer!r}; over memory, "
                "declare a buffer: T.Buffer(..., data=)"
            )  # fmt: skip
        places = self.attempt(target, elements, buffer, self.eval(target.slice))
        self.builder.emit(self.attempt(target, T.store, buffer, value, places, None))

    # -- rules

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self.fail(node, "one assignment at a time: a = b = c is not supported")
        target = node.targets[0]
        self.assign(target, self.eval(node.value))

    def _annotated(self, node: ast.AnnAssign) -> None:
        kind = self.eval(node.annotation)
        made = self.attempt(node.annotation, kind) if callable(kind) else kind
        if not isinstance(made, E.Var):
            raise self.fail(node.annotation, "a variable has a type such as T.int32")
        if node.value is None:
            self.bind(node.target, made)
            return
        value = self.eval(node.value)
        if isinstance(value, (bool, int, float)) and made.dtype != "handle":
            value = E.const(value, made.dtype)
        if isinstance(node.target, ast.Name):
            self.builder.name(node.target.id, made)
        frame = self.attempt(node, T.LetStmt, value, var=made)
        self.bind(node.target, frame.open())

    def _augmented(self, node: ast.AugAssign) -> None:
        loaded = ast.copy_location(_as_load(node.target), node.target)
        value = self.binary(node, type(node.op), self.eval(loaded), self.eval(node.value))
        self.assign(node.target, value)

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        value = self.eval(node.value)
        if value is None:
            return
        if isinstance(value, Frame):
            self.attempt(node, value.open)
        elif isinstance(value, S.Stmt):
            self.builder.emit(value)
        elif is_symbolic(value) or isinstance(value, (bool, int, float)):
            self.builder.emit(S.Evaluate(value))
        elif not isinstance(value, (Buffer, str)):
            raise self.fail(node, f"a statement is expected here, got {value!r}")

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            raise self.fail(node, "a for loop has no else")
        frame = self._loop(node.iter)
        if not isinstance(frame, F.ForFrame):
            raise self.fail(node.iter, _LOOPS)
        self.inside(frame, node.body, node.target)

    def _loop(self, node: Any) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            plain = node.func.id in self.scopes and self.scopes.find(node.func.id) is builtins.range
            if plain:
                args = self.many(node.args)
                if len(args) not in (1, 2) or node.keywords:
                    raise self.fail(node, "range has an end, or a begin and an end, and no step")
                return self.attempt(node, T.serial, *args)
        return self.eval(node)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise self.fail(node, "a while loop has no else")
        self.inside(F.WhileFrame(condition(self.eval(node.test))), node.body)

    def _with(self, node: ast.With) -> None:
        self._items(node.items, node.body)

    def _items(self, items: Sequence[ast.withitem], body: Sequence[Any]) -> None:
        depth = len(items)
        entered: list[Frame] = []
        self.scopes.blocks.append({})
        for item in items:
            frame = self.eval(item.context_expr)
            if not isinstance(frame, Frame):
                raise self.fail(
                    item.context_expr, f"`with` takes a statement such as T.attr, got {frame!r}"
                )
            value = self.attempt(item.context_expr, frame.open)
            entered.append(frame)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        self.block(body)
        self.scopes.blocks.pop()
        for frame in reversed(entered[:depth]):
            self.attempt(items[0].context_expr, frame.close)

    def _if(self, node: ast.If) -> None:
        test = self.eval(node.test)
        if not is_symbolic(test):
            for s in node.body if test else node.orelse:
                self.statement(s)
            return
        frame = F.IfFrame(condition(test))
        frame.open()
        self.inside(F.BranchFrame("Then"), node.body)
        if node.orelse:
            self.inside(F.BranchFrame("Else"), node.orelse)
        frame.close()

    def _assert(self, node: ast.Assert) -> None:
        message = "" if node.msg is None else self.eval(node.msg)
        F.AssertFrame(condition(self.eval(node.test)), message).open()

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            value = self.eval(node.value)
            if value is not None:
                self.builder.emit(S.Evaluate(self.attempt(node, op.ret, value)))

    def _pass(self, node: ast.Pass) -> None:
        return None

    def _refused(self, node: Any) -> None:
        what = type(node).__name__.lower().removesuffix("def")
        raise self.fail(
            node, f"{what} has no place in a T.prim_func: write it outside; values of Python that "
            "are in scope there are used here by name, and T.macro makes pieces of programs"
        )  # fmt: skip


def _as_load(target: Any) -> Any:
    """The target of `+=` as an expression."""
    if isinstance(target, ast.Subscript):
        return ast.Subscript(value=target.value, slice=target.slice, ctx=ast.Load())
    return ast.Name(id=target.id, ctx=ast.Load())


Parser.statements.update(
    {
        ast.Assign: Parser._assign,
        ast.AnnAssign: Parser._annotated,
        ast.AugAssign: Parser._augmented,
        ast.Expr: Parser._expression,
        ast.For: Parser._for,
        ast.While: Parser._while,
        ast.With: Parser._with,
        ast.If: Parser._if,
        ast.Assert: Parser._assert,
        ast.Return: Parser._return,
        ast.Pass: Parser._pass,
        ast.FunctionDef: Parser._refused,
        ast.ClassDef: Parser._refused,
        ast.Import: Parser._refused,
        ast.ImportFrom: Parser._refused,
    }
)
