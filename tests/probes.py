"""CI's tool for coverage, taking its probes away at less cost where Python has no sys.monitoring.

Up to Python 3.11 slipcover calls a probe on each line, and takes those away that were called time
and again: it makes new code, and looks for the functions that have the old. For that it goes
through every name of every class of every module, hundreds of times: half as long as the tests
themselves while a worker is young. Here a module's functions are looked for once, and decorated
ones and properties are among them. One that is not found keeps its probes, and is measured all the
same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import CellType, FunctionType
from typing import Any

_MARK = "__slipcover__"
"""Among the constants of code that has probes."""


def take_away_cheaply() -> None:
    """Where this process measures coverage by probes; elsewhere nothing."""
    tool: Any = sys.modules.get("slipcover.slipcover")
    if tool is not None and sys.version_info < (3, 12):
        tool.Slipcover.find_functions = staticmethod(_Known().functions)


class _Known:
    """The functions of every module that is loaded."""

    def __init__(self) -> None:
        # with its spec, which keeps the number from being given again: a module that is loaded
        # anew has another
        self._found: dict[int, tuple[Any, list[FunctionType]]] = {}

    def functions(self, values: Any, visited: set[Any]) -> list[FunctionType]:
        """In the place of `Slipcover.find_functions`: those with probes, of a module by the values
        of its names. None of other values, which are a frame's."""
        names = values.mapping
        spec = names.get("__spec__")
        if spec is None or id(spec) in visited:
            return []
        visited.add(id(spec))
        if id(spec) in self._found:
            return self._found[id(spec)][1]
        found = list(measured(names))
        if not getattr(spec, "_initializing", False):  # else more may be defined
            self._found[id(spec)] = spec, found
        return found


def measured(names: Mapping[str, Any]) -> Iterator[FunctionType]:
    """Functions with probes that a module's names lead to: its own and its classes', also under
    decorators and in tables."""
    module = names.get("__name__")
    pending, seen = list(names.values()), set[int]()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) is FunctionType and _MARK in value.__code__.co_consts:
            yield value
        pending += _inside(value, module)


def _inside(value: Any, module: str | None) -> Iterable[Any]:
    kind = type(value)
    if kind is FunctionType:
        return [value.__dict__.get("__wrapped__"), *(value.__closure__ or ())]
    if issubclass(kind, type):
        return vars(value).values() if value.__module__ == module else ()
    if kind is property:
        return value.fget, value.fset, value.fdel
    if kind is cached_property:
        return (value.func,)
    if kind in (classmethod, staticmethod):
        return (value.__func__,)
    if kind is CellType:
        try:
            return (value.cell_contents,)
        except ValueError:  # empty
            return ()
    if kind is dict:
        return list(value.values())
    if kind in (list, tuple):
        return list(value)
    if hasattr(kind, "cache_info"):  # functools.cache
        return (value.__wrapped__,)
    return ()
