"""Functions that a cell of a notebook defines again."""

from __future__ import annotations

from typing import Any


def is_redefined(known: Any, function: Any) -> bool:
    """Whether a function is the one that is known, of a program's own text that was run again: of
    the main program, and of its name there."""
    return all(
        getattr(f, "__module__", "") == "__main__"
        and getattr(f, "__qualname__", "") == getattr(function, "__qualname__", None)
        for f in (known, function)
    )
