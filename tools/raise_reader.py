"""What a function raises for what it was given, read from its source: for tools/api_errors.py.

A `raise` counts where its condition looks at an argument (or at `self`), or has none; those of the
project's functions that are given an argument as it is count as the function's own, some calls
deep, and so do those of what wraps it. What a `try` around it catches does not. A bug of the
compiler (InternalError) and what Python raises by itself are no part of a function's promise.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any

from tilewright.base.errors import OperandError, TilewrightError

PACKAGE = "tilewright"
PLAIN = (ValueError, TypeError, KeyError, IndexError)
Given = dict[str, "frozenset[str] | None"]


@dataclass(frozen=True)
class Raised:
    """An error, and the place and the condition that it is raised for; `depth` calls below."""

    error: type[BaseException]
    where: str
    line: int
    guard: str
    message: str
    about: frozenset[str] = frozenset()
    """The parameters that the condition looks at, of the function that was asked about."""
    depth: int = 0


def makers(cls: type) -> Iterator[Any]:
    """What runs where an object of a class is made."""
    for name in ("__new__", "__init__", "__post_init__"):
        made = getattr(cls, name, None)
        if isinstance(made, FunctionType) and made.__module__.startswith(PACKAGE):
            yield made


@functools.cache
def raised_by(call: FunctionType, owner: type | None, depth: int) -> tuple[Raised, ...]:
    """What a function raises for its parameters."""
    tree = _tree(call)
    if tree is None:
        return ()
    reader = _Reader(call, tree, owner, depth)
    names = inspect.signature(call, follow_wrapped=False).parameters
    reader.origins = {name: frozenset([name]) for name in names}
    reader.own = dict(reader.origins)
    reader.spread()
    reader.block(reader.tree.body, (), ())
    return tuple(dict.fromkeys(reader.found))


@functools.cache
def _module_tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


@functools.cache
def _functions(module: str) -> dict[tuple[str, int], ast.FunctionDef]:
    return {
        (node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])): node
        for node in ast.walk(_module_tree(module))
        if isinstance(node, ast.FunctionDef)
    }


def _tree(call: Any) -> ast.FunctionDef | None:
    """The source of a function of the project, as a tree; nothing of lambdas and made ones."""
    code = getattr(call, "__code__", None)
    module = getattr(call, "__globals__", {}).get("__name__", "")
    if code is None or not module.startswith(PACKAGE) or module not in sys.modules:
        return None
    try:
        return _functions(module).get((code.co_name, code.co_firstlineno))
    except (OSError, TypeError):
        return None


@dataclass
class _Reader:
    """Goes through the statements of one function."""

    call: FunctionType
    tree: ast.FunctionDef
    owner: type | None
    depth: int
    origins: dict[str, frozenset[str]] = field(default_factory=dict)
    """The parameters that a name's value comes from."""
    own: dict[str, frozenset[str]] = field(default_factory=dict)
    """Parameters, and names of what goes through one: by the parameter."""
    found: list[Raised] = field(default_factory=list)
    local: dict[str, Any] = field(default_factory=dict)
    shapes: set[str] = field(default_factory=set)
    """The parameters of the callee at hand that are given the shape of a tensor."""
    handled: list[tuple[str | None, tuple[type[BaseException], ...]]] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.call.__globals__['__name__']}.{self.call.__qualname__}"

    def spread(self) -> None:
        """Names that hold what comes of arguments; functions and imports of the body."""
        body = [n for s in self.tree.body for n in _own(s)]
        for node in body:
            if isinstance(node, ast.ImportFrom):
                self._import(node)
        for node in body:
            if isinstance(node, (ast.For, ast.comprehension)):
                target, through = node.target, node.iter
                if isinstance(target, ast.Name) and isinstance(through, ast.Name):
                    self.own |= {target.id: self.own[through.id]} if through.id in self.own else {}
        pairs = [pair for node in body for pair in _bindings(node)]
        before: dict[str, frozenset[str]] = {}
        while before != self.origins:
            before = dict(self.origins)
            for targets, value in pairs:
                for name in (n.id for t in targets for n in _names(t)):
                    found = self.origins.get(name, frozenset()) | self.sources(value)
                    if found and name not in self.call.__code__.co_varnames[: _count(self.call)]:
                        self.origins[name] = found

    def _import(self, node: ast.ImportFrom) -> None:
        package = self.call.__globals__.get("__package__") or ""
        up = package.split(".")[: len(package.split(".")) - (node.level or 1) + 1]
        name = ".".join([*up, node.module] if node.module else up) if node.level else node.module
        if name and name.startswith(PACKAGE):
            home = __import__(name, fromlist=["x"])
            for alias in node.names:
                value = getattr(home, alias.name, None)
                self.local[alias.asname or alias.name] = value

    def sources(self, node: ast.AST) -> frozenset[str]:
        """The parameters that an expression depends on."""
        return _union(self.origins.get(n.id, frozenset()) for n in _names(node))

    def block(self, body: list[ast.stmt], guards: tuple[ast.AST, ...], caught: Any) -> None:
        """Statements below conditions, within handlers of errors. What follows an `if` that always
        leaves is conditional on it."""
        for statement in body:
            self.statement(statement, guards, caught)
            if isinstance(statement, ast.If) and _leaves(statement.body):
                guards = (*guards, statement.test)

    def statement(self, node: ast.stmt, guards: tuple[ast.AST, ...], caught: Any) -> None:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return
        if isinstance(node, ast.Raise):
            self._raise(node, guards, caught)
            return
        if isinstance(node, ast.Try):
            self._try(node, guards, caught)
            return
        inner = guards
        if isinstance(node, (ast.If, ast.While)):
            inner = (*guards, node.test)
        elif isinstance(node, (ast.For, ast.With)):
            inner = (*guards, *([node.iter] if isinstance(node, ast.For) else []))
        elif isinstance(node, ast.Match):
            inner = (*guards, node.subject)
            for case in node.cases:
                self.block(case.body, inner, caught)
        for expression in ast.iter_child_nodes(node):
            if isinstance(expression, (ast.stmt, ast.match_case)):
                continue
            for part in _own(expression):
                if isinstance(part, ast.Call):
                    self._call(part, caught)
        for name in ("body", "orelse"):
            if not isinstance(node, ast.Match) and getattr(node, name, None):
                self.block(getattr(node, name), inner, caught)

    def _try(self, node: ast.Try, guards: tuple[ast.AST, ...], caught: Any) -> None:
        kinds = [self._classes(h.type) for h in node.handlers]
        self.block(node.body, guards, (*caught, *(k for kind in kinds for k in kind)))
        for handler, kind in zip(node.handlers, kinds, strict=True):
            self.handled.append((handler.name, kind))
            # what is looked at is what went wrong within
            self.block(handler.body, (*guards, *node.body), caught)
            self.handled.pop()
        self.block(node.orelse, guards, caught)
        self.block(node.finalbody, guards, caught)

    def _classes(self, node: ast.expr | None) -> tuple[type[BaseException], ...]:
        if node is None:
            return (BaseException,)
        parts = list(node.elts) if isinstance(node, ast.Tuple) else [node]
        found = [self.value(part) for part in parts]
        flat = [c for f in found for c in (f if isinstance(f, tuple) else (f,))]
        return tuple(c for c in flat if isinstance(c, type) and issubclass(c, BaseException))

    def _raise(self, node: ast.Raise, guards: tuple[ast.AST, ...], caught: Any) -> None:
        conditions = [g for g in guards if self.sources(g)]
        about = _union(self.sources(g) for g in conditions[-1:])
        if guards and not conditions:
            return
        shown = " & ".join(ast.unparse(g)[:90] for g in conditions[-2:])
        message = ast.unparse(node.exc)[:160] if node.exc is not None else "(again)"
        for kind in self._kinds(node.exc):
            self._add(Raised(kind, self.place, node.lineno, shown, message, about), caught)

    def _kinds(self, raised: ast.expr | None) -> tuple[type[BaseException], ...]:
        """The classes of what is raised: a class, its call, a caught one again, a function's."""
        if raised is None:
            return self.handled[-1][1] if self.handled else ()
        if isinstance(raised, ast.Name):
            for name, kinds in reversed(self.handled):
                if name == raised.id:
                    return kinds
        value = self.value(raised.func if isinstance(raised, ast.Call) else raised)
        if isinstance(value, FunctionType):
            given = value.__annotations__.get("return")
            value = value.__globals__.get(given) if isinstance(given, str) else given
        return (value,) if isinstance(value, type) and issubclass(value, BaseException) else ()

    def _add(self, raised: Raised, caught: Any) -> None:
        ours = issubclass(raised.error, TilewrightError) or raised.error in PLAIN
        if ours and not any(issubclass(raised.error, kind) for kind in caught):
            self.found.append(raised)

    def _call(self, node: ast.Call, caught: Any) -> None:
        """What a function raises that is given arguments as they are."""
        if self.depth == 0:
            return
        callee, owner, bound = self._callee(node.func)
        calls = list(makers(callee)) if isinstance(callee, type) else [callee]
        if isinstance(callee, type):
            owner, bound = callee, True
        for call in calls:
            call = getattr(call, "__func__", call)
            if isinstance(call, FunctionType) and _tree(call) is not None:
                given = self._given(call, node, bound)
                parameters = inspect.signature(call, follow_wrapped=False).parameters.values()
                nothing = {p.name for p in parameters if p.default is None}
                for raised in raised_by(call, owner, self.depth - 1):
                    parts = [given.get(name, frozenset()) for name in raised.about]
                    if issubclass(raised.error, OperandError) and raised.about <= self.shapes:
                        continue  # the shape of a tensor holds expressions already
                    left_out = any(n not in given for n in raised.about if n in nothing)
                    if any(parts) and None not in parts and not left_out:
                        about = _union(part for part in parts if part)
                        self._add(replace(raised, about=about, depth=raised.depth + 1), caught)

    def _given(self, call: FunctionType, node: ast.Call, bound: bool) -> Given:
        """The parameters of a callee that get an argument as it is, and which."""
        parameters = list(inspect.signature(call, follow_wrapped=False).parameters.values())
        places = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        more = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
        given: Given = {}
        self.shapes = set()

        def give(name: str, value: ast.expr) -> None:
            sources = self._direct(value)
            if isinstance(value, ast.Attribute) and value.attr == "shape":
                self.shapes.add(name)
            if sources is None or given.get(name, frozenset()) is None:
                given[name] = None
            else:
                given[name] = (given.get(name) or frozenset()) | sources

        at = 0
        if bound and places:
            at = 1
            if isinstance(node.func, ast.Attribute):
                give(places[0], node.func.value)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                for name in (*places[at:], rest):
                    give(name, argument.value)
            else:
                give(places[at] if at < len(places) else rest, argument)
            at += 1
        names = {p.name for p in parameters}
        for keyword in node.keywords:
            give(keyword.arg if keyword.arg in names else more, keyword.value)
        return given

    def _direct(self, node: ast.expr) -> frozenset[str] | None:
        """The parameters that an expression is, as they are, or whose shape it is of; none of
        constants and of other parts of arguments; None where the function made it itself."""
        names = list(_names(node))
        if isinstance(node, ast.Starred):
            return self._direct(node.value)
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [self._direct(part) for part in node.elts]
            if None in parts:
                return None
            return _union(part for part in parts if part)
        if isinstance(node, (ast.Attribute, ast.Subscript)) and len(names) == 1:
            shaped = any(isinstance(n, ast.Attribute) and n.attr == "shape" for n in ast.walk(node))
            return self._direct(names[0]) if shaped else frozenset()
        if isinstance(node, ast.Constant):
            return frozenset()
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.own:
            return self.own[node.id]
        known = self.value(node) is not None and node.id not in self.call.__code__.co_varnames
        return frozenset() if known or node.id in self.origins else None

    def _callee(self, node: ast.expr) -> tuple[Any, type | None, bool]:
        """What is called, the class it is found in, and whether it is bound to an object."""
        if isinstance(node, ast.Attribute):
            inner = node.value
            home = self._home(inner)
            if home is not None:
                made = inspect.getattr_static(home, node.attr, None)
                return made, home, not isinstance(made, staticmethod)
            if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "super":
                for base in self.owner.__mro__[1:] if self.owner is not None else ():
                    if node.attr in vars(base):
                        return vars(base)[node.attr], base, True
        found = self.value(node)
        return found, None, False

    def _home(self, node: ast.expr) -> type | None:
        """The class of an object: of a parameter, or of an attribute of one that is annotated."""
        if isinstance(node, ast.Name):
            return self._class_of(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            outer = self._class_of(node.value.id)
            for base in outer.__mro__ if outer is not None else ():
                given = (
                    base.__annotations__.get(node.attr) if "__annotations__" in vars(base) else None
                )
                if isinstance(given, str):
                    found = vars(sys.modules[base.__module__]).get(given)
                    return found if isinstance(found, type) else None
        return None

    def _class_of(self, name: str) -> type | None:
        first = next(iter(self.tree.args.posonlyargs + self.tree.args.args), None)
        if self.owner is not None and first is not None and name == first.arg in ("self", "cls"):
            return self.owner
        arguments = [*self.tree.args.posonlyargs, *self.tree.args.args, *self.tree.args.kwonlyargs]
        for argument in arguments:
            if argument.arg == name and isinstance(argument.annotation, ast.Name):
                value = self.value(argument.annotation)
                if isinstance(value, type) and value.__module__.startswith(PACKAGE):
                    return value
        return None

    def value(self, node: ast.expr) -> Any:
        """What a name or an attribute of a module or class means; None where that is unknown."""
        if isinstance(node, ast.Name):
            if node.id in self.local:
                return self.local[node.id]
            code, closure = self.call.__code__, self.call.__closure__ or ()
            for name, cell in zip(code.co_freevars, closure, strict=False):
                if name == node.id:
                    try:
                        return cell.cell_contents
                    except ValueError:
                        return None
            return self.call.__globals__.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            home = self.value(node.value)
            if isinstance(home, (ModuleType, type)):
                try:
                    return getattr(home, node.attr, None)
                except Exception:  # a face, whose name cannot be had here
                    return None
        return None


def _union(parts: Iterable[frozenset[str] | None]) -> frozenset[str]:
    return frozenset(name for part in parts if part for name in part)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a tree without those of functions within."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _own(child)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Name))


def _bindings(node: ast.AST) -> Iterator[tuple[list[ast.AST], ast.AST]]:
    """What a statement or expression binds, and to what."""
    if isinstance(node, ast.Assign):
        yield (
            [t for t in node.targets if not isinstance(t, (ast.Attribute, ast.Subscript))],
            node.value,
        )
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
        if isinstance(node.target, ast.Name):
            yield [node.target], node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield [node.target], node.iter
    elif isinstance(node, ast.With):
        for item in node.items:
            if item.optional_vars is not None:
                yield [item.optional_vars], item.context_expr


def _count(call: FunctionType) -> int:
    code = call.__code__
    return code.co_argcount + code.co_kwonlyargcount


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))
