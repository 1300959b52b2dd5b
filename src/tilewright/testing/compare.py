"""Tests of passes that say what goes in and what has to come out."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from ..loopir.equal import assert_structural_equal
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..script.entry import prim_func

_SPELLINGS = {"before": "Before", "expected": "Expected"}


class CompareBeforeAfter:
    """A class of tests with `before`, `transform` and `expected`: the transformed program has to
    have the structure of the expected one, or to raise, where `expected` is an exception.

    `before` and `expected` are a PrimFunc or an IRModule, a function that is read as one of the IR,
    a class of such functions, or a method (also a fixture, of other fixtures) that gives a program.
    `transform` is a pass, or a method that gives one. All three become fixtures of the class.
    """

    check_well_formed = True
    before: Any = None
    transform: Any = None
    expected: Any = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, other in _SPELLINGS.items():
            given = vars(cls).get(name, vars(cls).get(other))
            if given is not None:
                setattr(cls, name, _fixture(given, cls.check_well_formed))
        given = vars(cls).get("transform")
        if given is not None and not _is_fixture(given):
            made = given if inspect.isfunction(given) else _giving(given)
            cls.transform = import_module("pytest").fixture(made)

    def test_compare(self, before: Any, expected: Any, transform: Any) -> None:
        """Compare what the transformation makes of `before` with `expected`. Raises ValueError
        where the two differ."""
        if inspect.isclass(expected) and issubclass(expected, Exception):
            try:
                transform(before)
            except expected:
                return
            raise AssertionError(f"the transformation raised no {expected.__name__}")
        found = transform(before)
        if isinstance(expected, PrimFunc) and isinstance(found, IRModule):
            found = next(iter(found.functions.values()))
        assert_structural_equal(found, expected, map_free_vars=True)


def _is_fixture(given: Any) -> bool:
    """Whether pytest made it, by any of its versions."""
    return hasattr(given, "_pytestfixturefunction") or "Fixture" in type(given).__name__


def _giving(value: Any) -> Any:
    def give(self: Any) -> Any:
        return value

    return give


def _fixture(given: Any, check: bool) -> Any:
    """A fixture that gives the program, read when a test asks for it."""
    if _is_fixture(given):
        return given
    if inspect.isfunction(given):
        names = list(inspect.signature(given).parameters)
        made = given if names[:1] == ["self"] else _reading({"": given}, check)
    elif inspect.isclass(given) and not issubclass(given, Exception):
        functions = {
            name: item
            for name, item in vars(given).items()
            if inspect.isfunction(item) or isinstance(item, PrimFunc)
        }
        made = _reading(functions, check)
    else:
        made = _giving(given)
    return import_module("pytest").fixture(made)


def _reading(functions: dict[str, Any], check: bool) -> Any:
    def read(self: Any) -> Any:
        made = {
            name: item
            if isinstance(item, PrimFunc)
            else prim_func(item, private=not name, check_well_formed=check)
            for name, item in functions.items()
        }
        return made.get("") or IRModule(made)

    return read
