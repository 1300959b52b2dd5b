"""What runs functions beside a search: `autotvm.measure.executor`, bases for one's own."""

from __future__ import annotations

from typing import Any


class Executor:
    """Runs functions: `submit(func, *args, **kwargs)` gives a Future."""

    def submit(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """A future of what `func(*args, **kwargs)` gives."""
        raise NotImplementedError(f"{type(self).__name__} has to define submit")


class Future:
    """What a function will have given."""

    def done(self) -> bool:
        """Whether it has."""
        raise NotImplementedError(f"{type(self).__name__} has to define done")

    def get(self, timeout: float | None = None) -> Any:
        """What it gave, waiting for it. `timeout`: seconds."""
        raise NotImplementedError(f"{type(self).__name__} has to define get")


class FutureError(RuntimeError):
    """A future has no result."""


class TimeoutError(FutureError):
    """A function did not end in time."""


class ExecutionError(FutureError):
    """A function raised an error."""
