"""How a mistake is seeded: a function of the compiler replaced while a context lasts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tilewright.codegen.llvm import backend

Mutant = Callable[[], AbstractContextManager[Any]]


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """A function of a module, or a method, by what `make` makes of it; handlers of node types
    stand in their class's table too."""
    old = getattr(owner, name)
    new = make(old)
    table = dict.fromkeys(getattr(old, "handled_types", ()), new)
    with patch.object(owner, name, new), patch.dict(getattr(owner, "table", {}), table):
        yield


@contextmanager
def rewritten(pattern: str, text: str | Callable[[Any], str]) -> Iterator[None]:
    """LLVM IR with `text` in the place of what matches `pattern`."""

    def make(old: Any) -> Any:
        def emit(source: str, *rest: Any) -> Any:
            return old(re.sub(pattern, text, source), *rest)

        return emit

    with replaced(backend, "emit_object", make):
        yield


def catalogue(*mutants: Mutant) -> dict[str, Mutant]:
    """Mutants by name."""
    return {m.__name__: m for m in mutants}
