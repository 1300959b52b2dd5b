"""How a mistake is seeded: a function of the compiler replaced while a context lasts.

What a case costs most is to make machine code and to run it; where the replaced function was not
called (or the text not changed), neither can show anything, and `only_touched` leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from tilewright.base.errors import ScheduleError
from tilewright.codegen.llvm import backend

from . import check

Mutant = Callable[[], AbstractContextManager[Any]]


class Untouched(ScheduleError):
    """The mistake had no part in this case, which counts as one that passes."""


class _Touched:
    """How often replaced functions were called."""

    calls = 0


def touched() -> None:
    """Say that a mistake has a part in the present case."""
    _Touched.calls += 1


def _counted(new: Any) -> Any:
    if isinstance(new, staticmethod):
        return staticmethod(_counted(new.__func__))

    @wraps(new)
    def call(*args: Any, **kwargs: Any) -> Any:
        _Touched.calls += 1
        return new(*args, **kwargs)

    return call


@contextmanager
def only_touched() -> Iterator[None]:
    """Cases end before machine code is made where no replaced function was called."""
    _Touched.calls = 0

    def checked(old: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not _Touched.calls:
                raise Untouched("no function with a mistake was called in this case")
            return old(*args, **kwargs)

        return call

    emit = patch.object(backend, "emit_object", checked(backend.emit_object))
    with emit, patch.object(check.Run, "__call__", checked(check.Run.__call__)):
        yield


@contextmanager
def replaced(
    owner: Any, name: str, make: Callable[[Any], Any], late: bool = False
) -> Iterator[None]:
    """A function of a module, or a method, by what `make` makes of it; handlers of node types
    stand in their class's table too. `late`: it is called no sooner than the built function."""
    _Touched.calls += late
    old = getattr(owner, name)
    new = _counted(make(old))
    table = dict.fromkeys(getattr(old, "handled_types", ()), new)
    with patch.object(owner, name, new), patch.dict(getattr(owner, "table", {}), table):
        yield


@contextmanager
def rewritten(pattern: str, text: str | Callable[[Any], str]) -> Iterator[None]:
    """LLVM IR with `text` in the place of what matches `pattern`."""

    old = backend.emit_object

    def emit(source: str, *rest: Any) -> Any:
        changed = re.sub(pattern, text, source)
        _Touched.calls += changed != source
        return old(changed, *rest)

    with patch.object(backend, "emit_object", emit):
        yield


def catalogue(*mutants: Mutant) -> dict[str, Mutant]:
    """Mutants by name."""
    return {m.__name__: m for m in mutants}
