"""Functions that CI's tool for coverage takes its probes away from."""

from __future__ import annotations

from functools import cache, cached_property, wraps
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

from tests.probes import _MARK, _Known, measured

SOURCE = """
def plain(): ...

@wrapped
def decorated(): ...

@cache
def kept(): ...

table = {"in a table": lambda: 0, "in tables": [(lambda: 1,)]}

class Base:
    @property
    def read(self): ...
    @cached_property
    def read_once(self): ...
    @classmethod
    def of_class(cls): ...
    @staticmethod
    def of_none(): ...
    def method(self): ...

class Derived(Base):
    def another(self): ...
"""


def wrapped(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


def module(marked: bool = True) -> ModuleType:
    made = ModuleType("probed")
    made.__spec__ = ModuleSpec("probed", None)
    given = {"wrapped": wrapped, "cache": cache, "cached_property": cached_property}
    vars(made).update(given)
    exec(SOURCE, vars(made))
    for name in given:
        delattr(made, name)
    if marked:
        for function in every(made):
            code = function.__code__
            function.__code__ = code.replace(co_consts=(*code.co_consts, _MARK))
    return made


def every(made: Any) -> list[FunctionType]:
    base, table = made.Base, made.table
    return [
        made.plain, made.decorated.__wrapped__, made.kept.__wrapped__, table["in a table"],
        table["in tables"][0][0], base.read.fget, vars(base)["read_once"].func,
        base.of_class.__func__, base.of_none, base.method, made.Derived.another,
    ]  # fmt: skip


def test_every_function_with_probes_is_found_once() -> None:
    made = module()
    found = list(measured(vars(made)))
    assert sorted(map(id, found)) == sorted(map(id, every(made)))


def test_functions_without_probes_are_none_of_them() -> None:
    assert list(measured(vars(module(marked=False)))) == []


def test_a_module_is_looked_through_once_and_again_when_it_is_loaded_anew() -> None:
    known, made, again = _Known(), module(), module()
    first = known.functions(vars(made).values(), set())
    assert len(first) == len(every(made))
    assert known.functions(vars(made).values(), set()) is first
    assert known.functions(vars(again).values(), set()) == list(measured(vars(again))) != first


def test_a_module_that_is_being_loaded_is_looked_through_again() -> None:
    known, made = _Known(), module()
    spec: Any = made.__spec__
    spec._initializing = True
    names, plain = vars(made), made.plain
    names["plain"] = None
    fewer = known.functions(vars(made).values(), set())
    names["plain"], spec._initializing = plain, False
    assert len(known.functions(vars(made).values(), set())) == len(fewer) + 1


def test_a_module_counts_once_a_time_and_a_frames_names_not_at_all() -> None:
    known, made = _Known(), module()
    visited: set[Any] = set()
    assert known.functions(vars(made).values(), visited)
    assert known.functions(vars(made).values(), visited) == []
    assert known.functions({"plain": made.plain}.values(), set()) == []
