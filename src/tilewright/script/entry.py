"""`@T.prim_func`, `@I.ir_module`, `@T.macro` and `from_source`: from Python or text to the IR."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FrameType
from typing import Any

from ..base.deep import deep_call
from ..base.errors import DiagnosticError, UsageError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.functor import undefined_vars
from ..loopir.module import IRModule
from .build import Builder, present
from .evaluate import Scopes
from .frames import IRModuleFrame
from .plain import plain_attributes
from .read import Parser, at_work
from .source import Source, first_line

_ROOM = __name__.rpartition(".")[0]


def prim_func(
    func: Callable[..., Any] | None = None,
    private: bool = False,
    check_well_formed: bool = True,
) -> Any:
    """A function of the IR from the source of a Python function; a decorator.

    Its parameters are annotated with their types, `A: T.Buffer((16,), "float32")`. Values of Python
    that are visible where the function is defined may be used in it. `private`: it gets no
    attribute "global_symbol". `check_well_formed`: refuse variables that nothing defines. In a
    class under `@I.ir_module` it becomes a function of that module. DiagnosticError shows what
    cannot be read, with the line and column of the source.
    """
    around = sys._getframe(1)

    def decorate(function: Any) -> Any:
        if not inspect.isfunction(function):
            raise UsageError(f"T.prim_func decorates a function, got {function!r}")
        if _in_module_class(around):
            return function  # the decorator of the class reads it
        source = Source.of(function)
        node = _only(source, ast.FunctionDef)
        visible = {**_locals(around), **captured(function)}
        notes = inspect.get_annotations(function)
        return _read(source, node, visible, notes, private, check_well_formed)

    return decorate if func is None else decorate(func)


prim_func.dispatch_token = "tir"  # type: ignore[attr-defined]  # as TVM marks it


def _read(
    source: Source,
    node: Any,
    visible: Mapping[str, Any],
    annotations: Mapping[str, Any],
    private: bool,
    check: bool,
) -> S.PrimFunc:
    with Builder() as builder:
        parser = Parser(source, Scopes(visible), builder)
        with parser.working():
            made = deep_call(parser.function, node, annotations, private)
    if check:
        _check(source, node, made)
    return made


def _check(source: Source, node: Any, function: S.PrimFunc) -> None:
    """Refuse variables that nothing defines."""
    known: set[Any] = set(function.params)
    for b in function.buffer_map.values():
        for e in (b.data, *b.shape, *b.strides, b.elem_offset):
            known.update(v for v in _variables(e))
    loose = [v for v in undefined_vars(function.body, list(known)) if v.dtype != "handle"]
    if loose:
        names = ", ".join(v.name for v in loose)
        raise source.error(
            node, f"nothing in {node.name} defines {names}: make it a parameter or a loop, or "
            "read the function with check_well_formed=False"
        )  # fmt: skip


def _variables(e: Any) -> list[E.Var]:
    return [e] if isinstance(e, E.Var) else undefined_vars(e)


def ir_module(mod: Any = None, check_well_formed: bool = True) -> Any:
    """A module of the functions of a class; a decorator. Each stands under `@T.prim_func`."""
    around = sys._getframe(1)

    def decorate(cls: Any) -> IRModule:
        if not inspect.isclass(cls):
            raise UsageError(f"I.ir_module decorates a class, got {cls!r}")
        source = Source.of(cls)
        node = _only(source, ast.ClassDef)
        functions = {k: v for k, v in vars(cls).items() if inspect.isfunction(v)}
        visible = _locals(around)
        for f in functions.values():
            visible.update(captured(f))
        visible = {**vars(sys.modules.get(cls.__module__, builtins)), **visible}
        notes = {name: inspect.get_annotations(f) for name, f in functions.items()}
        made = _module(source, node, visible, notes, check_well_formed)
        return made

    return decorate if mod is None else decorate(mod)


def _module(
    source: Source,
    node: ast.ClassDef,
    visible: Mapping[str, Any],
    annotations: Mapping[str, Mapping[str, Any]],
    check: bool,
) -> IRModule:
    functions: dict[str, S.PrimFunc] = {}
    attrs: dict[str, Any] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            private, sure = _decoration(source, item, visible)
            notes = annotations.get(item.name, {})
            made = _read(source, item, visible, notes, private, check and sure)
            functions[item.name] = made
        elif (found := _attributes(source, item, visible)) is not None:
            attrs.update(found)
        elif not isinstance(item, ast.Pass) and not _is_text(item):
            raise source.error(
                item, "a module holds functions under @T.prim_func and I.module_attrs; global "
                "variables and functions of other kinds are not supported"
            )  # fmt: skip
    return IRModule(functions, attrs)


def _attributes(source: Source, item: ast.stmt, visible: Mapping[str, Any]) -> Any:
    """The attributes that a statement in a module's body gives; None if it is another one."""
    call = item.value if isinstance(item, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        return None
    parser = Parser(source, Scopes(visible), Builder())
    if parser.eval(call.func) is not module_attrs:
        return None
    return plain_attributes(parser.eval(call.args[0]))


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Attributes of the module in whose class, or `with I.ir_module()`, this stands. Raises
    UsageError where attrs is no dictionary."""
    if not isinstance(attrs, Mapping):
        raise UsageError(f"I.module_attrs takes a dictionary, got {attrs!r}")
    work = present()
    for frame in reversed(work.frames if work else ()):
        if isinstance(frame, IRModuleFrame):
            frame.attrs.update(plain_attributes(attrs))


def _is_text(item: Any) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)


def _decoration(
    source: Source, node: ast.FunctionDef, visible: Mapping[str, Any]
) -> tuple[bool, bool]:
    """Whether a function is private, and whether it is checked, as its decorator says."""
    parser = Parser(source, Scopes(visible), Builder())
    for item in node.decorator_list:
        call = item if isinstance(item, ast.Call) else None
        if parser.eval(call.func if call else item) is prim_func:
            said = {k.arg: parser.eval(k.value) for k in call.keywords} if call else {}
            return bool(said.get("private")), bool(said.get("check_well_formed", True))
    raise source.error(node, f"{node.name} stands under no @T.prim_func")


def from_source(
    program: Any,
    extra_vars: Mapping[str, Any] | None = None,
    check_well_formed: bool = True,
) -> Any:
    """The function or module of a text (or of a Python function or class).

    `T`, `tir`, `I`, `ir` and `tvm` are known in texts, and what `extra_vars` names. Raises
    DiagnosticError where the source of `program` cannot be had.
    """
    if isinstance(program, str):
        source, notes = Source(program), {}
        visible = {**_standard(), **(extra_vars or {})}
        return deep_call(_from_text, source, visible, check_well_formed)
    source = Source.of(program)
    visible = {**_standard(), **captured(program), **(extra_vars or {})}
    if inspect.isclass(program):
        node = _only(source, ast.ClassDef)
        functions = {k: v for k, v in vars(program).items() if inspect.isfunction(v)}
        kinds = {name: inspect.get_annotations(f) for name, f in functions.items()}
        return _module(source, node, visible, kinds, check_well_formed)
    notes = inspect.get_annotations(program)
    node = _only(source, ast.FunctionDef)
    return _read(source, node, visible, notes, False, check_well_formed)


def _from_text(source: Source, visible: dict[str, Any], check: bool) -> Any:
    found: list[Any] = []
    for item in source.tree().body:
        if isinstance(item, ast.FunctionDef):
            private, sure = _decoration(source, item, visible)
            found.append(_read(source, item, visible, {}, private, check and sure))
        elif isinstance(item, ast.ClassDef):
            found.append(_module(source, item, visible, {}, check))
        elif isinstance(item, (ast.Import, ast.ImportFrom)):
            _import(source, item, visible)
        elif not _is_text(item):
            raise source.error(item, "a script holds a function or a class, after its imports")
    if len(found) != 1:
        raise DiagnosticError(
            f"{source.name}: a script holds one function or one class, got {len(found)}"
        )
    return found[0]


def _import(source: Source, node: Any, visible: dict[str, Any]) -> None:
    """Names of `from tvm.script import tir as T` and of `import tvm`."""
    origin = getattr(node, "module", None) or ""
    for name in node.names:
        whole = f"{origin}.{name.name}" if origin else name.name
        parts = whole.split(".")
        if parts[0] not in ("tvm", "tilewright"):
            raise source.error(node, "a script imports from tvm alone; pass others as extra_vars")
        top = parts[:1] if not origin and name.asname is None else parts
        try:
            value: Any = import_module("tilewright")
            for part in top[1:]:
                value = getattr(value, part)
        except AttributeError as error:
            raise source.error(node, str(error)) from None
        visible[name.asname or parts[-1 if origin else 0]] = value


def _standard() -> dict[str, Any]:
    tir, ir = (import_module(f"{_ROOM}.{name}") for name in ("tir", "ir"))
    return {"T": tir, "tir": tir, "I": ir, "ir": ir, "tvm": import_module("tilewright")}


# -- what surrounds a function


def captured(function: Any) -> dict[str, Any]:
    """The names that a function sees: of its module, then of the functions around it."""
    function = inspect.unwrap(function) if inspect.isfunction(function) else function
    if not inspect.isfunction(function):
        return dict(vars(sys.modules[function.__module__]))
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return found


def _locals(frame: FrameType | None) -> dict[str, Any]:
    """Local names of where a decorator stands: annotations may use them without a closure."""
    if frame is None or frame.f_locals is frame.f_globals:
        return {}
    return dict(frame.f_locals)


def _in_module_class(frame: FrameType) -> bool:
    """Whether a frame is the body of a class that is decorated: I.ir_module reads it whole."""
    local = frame.f_locals
    if "__qualname__" not in local or "__module__" not in local:
        return False
    return first_line(frame.f_code.co_filename, frame.f_code.co_firstlineno).startswith("@")


def _only(source: Source, kind: type) -> Any:
    body = source.tree().body
    if len(body) != 1 or not isinstance(body[0], kind):
        raise DiagnosticError(
            f"{source.name}:{source.line}: the source of one definition is expected here"
        )
    return body[0]


class Macro:
    """A piece of program: where it is called, its body stands with the arguments in place. Raises
    DiagnosticError where the source of `function` cannot be had."""

    def __init__(self, function: Any, hygienic: bool) -> None:
        self.function = function
        self.hygienic = hygienic
        self.source = Source.of(function)
        self.node = _only(self.source, ast.FunctionDef)
        self.visible = captured(function)
        self.__name__ = function.__name__

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """As a method, with the object for its first argument."""
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        parser = at_work()
        if parser is None:
            raise UsageError(f"the macro {self.__name__} is called in a T.prim_func only")
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        around = self.visible if self.hygienic else {**self.visible, **parser.scopes.visible()}
        scopes = Scopes(around)
        scopes.blocks.append(dict(bound.arguments))
        inner = Parser(self.source, scopes, parser.builder)
        with inner.working():
            for s in self.node.body:
                inner.statement(s)


def macro(*args: Any, hygienic: bool = True) -> Any:
    """A decorator that makes a piece of program of a function, to be called in T.prim_func.

    `hygienic`: names in it mean what they mean where it is defined, not where it is called. Raises
    UsageError where what it decorates is no function.
    """
    if not args:
        return lambda function: Macro(function, hygienic)
    if len(args) == 1 and inspect.isfunction(args[0]):
        return Macro(args[0], hygienic)
    raise UsageError("T.macro stands before a function: @T.macro or @T.macro(hygienic=False)")
