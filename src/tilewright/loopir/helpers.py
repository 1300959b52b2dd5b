"""Small helpers of TVM's Python modules that scripts find there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .expr import IntImm


def div_ambiguity_error() -> RuntimeError:
    """The error that `/` of two integers raises: which of the divisions is meant is not said."""
    return RuntimeError(
        "TVM supports multiple types of integer divisions, please call div, indexdiv/indexmod, "
        "floordiv/floormod or truncdiv/truncmod directly to avoid ambiguity in the code."
    )


class WithScope:
    """A `with` that gives a value, and calls a function at its end."""

    def __init__(self, enter_value: Any, exit_cb: Callable[[], Any]) -> None:
        self._enter_value = enter_value
        self._exit_cb = exit_cb

    def __enter__(self) -> Any:
        return self._enter_value

    def __exit__(self, *_: object) -> None:
        self._exit_cb()


class IntImmEnum:
    """A number of an enumeration, as an int32 constant where one is asked for."""

    def __init__(self, value: int, span: object = None) -> None:
        self.value = value

    def asobject(self) -> IntImm:
        """The constant."""
        return IntImm("int32", self.value)
