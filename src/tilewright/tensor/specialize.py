"""Conditions under which a tensor program is being specialised."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

from ..base.errors import TilewrightError
from ..loopir.expr import PrimExpr, convert


class SpecializedCondition:
    """`with te.SpecializedCondition([n == 128]): ...` says what holds for the code made inside.

    Generators of schedules ask for it with `SpecializedCondition.current()`. Raises TilewrightError
    where a condition is no comparison.
    """

    _stack: ClassVar[ContextVar[tuple[SpecializedCondition, ...]]] = ContextVar(
        "specialized_conditions", default=()
    )

    def __init__(self, conditions: Any) -> None:
        given = conditions if isinstance(conditions, Sequence) else [conditions]
        self.clauses: tuple[PrimExpr, ...] = tuple(convert(c) for c in given)
        for c in self.clauses:
            if c.dtype != "bool":
                raise TilewrightError(f"a specialised condition is a comparison, got {c}")

    @staticmethod
    def current() -> SpecializedCondition | None:
        """The innermost condition that holds here."""
        stack = SpecializedCondition._stack.get()
        return stack[-1] if stack else None

    def __enter__(self) -> SpecializedCondition:
        self._stack.set((*self._stack.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.set(self._stack.get()[:-1])
