"""Checks of what docstrings say of errors: for the tables of test_drawn_*.py.

The rows are of functions that were drawn by chance from all public ones whose docstrings name an
error (`random.Random(1311).sample`, 240 of 1,147).
A row makes the call that the docstring describes.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

import pytest

import tilewright
from tilewright import te, tir
from tilewright.base.errors import OperandError, ScheduleError, TilewrightError, UsageError

T, U, O, S = TilewrightError, UsageError, OperandError, ScheduleError
Row = tuple[str, type[BaseException], str, Callable[[Any], object]]
NOTHING = object()
"""What is no operand of anything."""


def t(*shape: Any, dtype: str = "float32") -> te.Tensor:
    """A tensor to be given."""
    return te.placeholder(shape, dtype)


def x(dtype: str = "int32") -> tir.Var:
    """A scalar of a program."""
    return tir.Var("x", dtype)


def lanes(count: int) -> Any:
    """A vector."""
    return tir.Broadcast(tir.const(1, "int32"), count)


def tables(rows: list[Row]) -> Any:
    """One test for each row: the place of a function below tilewright, the class that is said,
    words of the reason, and a call that is given the function."""
    return pytest.mark.parametrize(
        ("path", "error", "reason", "call"), rows, ids=[row[0] for row in rows]
    )


def found(path: str) -> Any:
    """What stands at a place below tilewright."""
    parts = path.split(".")
    for k in range(len(parts) - 1, 0, -1):
        name = ".".join(["tilewright", *parts[:k]])
        try:
            return reduce(getattr, parts[k:], import_module(name))
        except ModuleNotFoundError:
            continue
    return reduce(getattr, parts, tilewright)


def check(
    path: str, error: type[BaseException], reason: str, call: Callable[[Any], object]
) -> None:
    """The docstring names the class, and the call raises it for that reason."""
    said = found(path)
    text = inspect.getdoc(said) or ""
    assert re.search(rf"\b{error.__name__}\b", text), f"{path} says nothing of {error.__name__}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error) as caught:
            call(said)
    assert re.search(reason, str(caught.value)), str(caught.value)
