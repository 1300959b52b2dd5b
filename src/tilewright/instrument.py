"""What watches passes run: `with tvm.transform.PassContext(instruments=[...])`."""

from __future__ import annotations

import time
from typing import Any


class PassInstrument:
    """Base of instruments: override what you want to be told."""

    def enter_pass_ctx(self) -> None:
        """The context was entered."""

    def exit_pass_ctx(self) -> None:
        """The context is about to be left."""

    def should_run(self, mod: Any, info: Any) -> bool:
        """Whether a pass may run."""
        return True

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """A pass is about to run."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """A pass has run."""


def pass_instrument(kind: Any = None) -> Any:
    """Decorate a class to make its objects instruments; methods that it lacks do nothing."""

    def make(cls: type) -> type:
        if issubclass(cls, PassInstrument):
            return cls
        return type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__})

    return make if kind is None else make(kind)


class PassTimingInstrument(PassInstrument):
    """Times passes; `render()` gives a table in microseconds."""

    def __init__(self) -> None:
        self._open: list[tuple[str, float]] = []
        self._done: list[tuple[int, str, float]] = []

    def run_before_pass(self, mod: Any, info: Any) -> None:
        self._open.append((info.name, time.perf_counter()))

    def run_after_pass(self, mod: Any, info: Any) -> None:
        name, start = self._open.pop()
        self._done.append((len(self._open), name, time.perf_counter() - start))

    def render(self) -> str:
        """One line a pass, in the order in which they ended."""
        return "\n".join(f"{'  ' * d}{name}: {t * 1e6:.0f}us" for d, name, t in self._done)


class PrintBeforeAll(PassInstrument):
    """Prints the program before each pass."""

    def run_before_pass(self, mod: Any, info: Any) -> None:
        print(f"Before Running Pass: {info}\n{mod}")


class PrintAfterAll(PassInstrument):
    """Prints the program after each pass."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        print(f"After Running Pass: {info}\n{mod}")


class PassPrintingInstrument(PassInstrument):
    """Prints the program before and after the passes of those names."""

    def __init__(self, print_before_pass_names: Any = (), print_after_pass_names: Any = ()) -> None:
        self.before = tuple(print_before_pass_names)
        self.after = tuple(print_after_pass_names)

    def run_before_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.before:
            print(f"Print IR before: {info.name}\n{mod}")

    def run_after_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.after:
            print(f"Print IR after: {info.name}\n{mod}")


__all__ = [
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "pass_instrument",
]
