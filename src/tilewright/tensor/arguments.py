"""Checks of what users pass where tensors are put together: names, functions, lists of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import TilewrightError, UsageError
from ..loopir.construct import convert
from .tensor import Tensor


def check_name(name: Any, what: str) -> None:
    """A name is text."""
    if not isinstance(name, str):
        raise TilewrightError(f"the name of {what} must be text, got {name!r}")


def as_attrs(value: Any) -> Any:
    """Attributes of an operation as users give them: numbers become constants of the IR, lists
    tuples, also inside of others; the rest stays as it is."""
    if isinstance(value, Mapping):
        return {key: as_attrs(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(as_attrs(item) for item in value)
    return convert(value) if isinstance(value, (bool, int, float, np.generic)) else value


def check_function(function: Any, what: str) -> None:
    """Something to call."""
    if not callable(function):
        raise TilewrightError(f"{what} must be a function, got {function!r}")


def tensor_list(value: Any, what: str) -> list[Tensor]:
    """One tensor or several, as a list."""
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    for item in items:
        if not isinstance(item, Tensor):
            raise UsageError(f"{what}, got {item!r}")
    return items
