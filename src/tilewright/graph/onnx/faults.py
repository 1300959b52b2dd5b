"""Several things that are wrong with a model, in one error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...base.errors import ImportModelError

_MOST = 50
"""Faults that an error lists."""


class Faults:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.found: dict[str, ImportModelError | None] = {}

    def add(self, fault: str) -> None:
        self.found.setdefault(fault)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """An ImportModelError in here is kept for later."""
        try:
            yield
        except ImportModelError as error:
            self.found.setdefault(str(error), error)

    def end(self, of_model: bool = False) -> None:
        """Raise what was found: the one error, or all as lines of one; `of_model`: it does not
        depend on the sizes of inputs."""
        if self.found:
            error = self._error()
            error.of_model = of_model
            raise error

    def _error(self) -> ImportModelError:
        if len(self.found) == 1:
            ((told, error),) = self.found.items()
            return ImportModelError(told) if error is None else error
        lines = [told.replace("\n", "\n  ") for told in self.found]
        more = [f"... and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
        told = "\n- ".join([f"the model has {len(lines)} faults:", *lines[:_MOST], *more])
        return ImportModelError(told)
