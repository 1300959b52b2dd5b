"""`runtime.convert`: Python values as the runtime's, lists and dicts of them included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import OperandError
from .node import Node
from .operators import ExprOps


def convert(value: Any) -> Any:
    """Numbers and text as Python's, lists as tuples of converted elements, dicts of them.

    What stands for an expression becomes it; functions, arrays, None and what is of the IR already
    stay as they are. OperandError: anything else.
    """
    if value is None or isinstance(value, (bool, int, float, str, Node)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(convert(item) for item in value)
    if isinstance(value, Mapping):
        return {key: convert(item) for key, item in value.items()}
    if isinstance(value, ExprOps):
        return value.asexpr()
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()  # NumPy's numbers
    if hasattr(value, "asobject"):
        return value.asobject()
    if callable(value) or hasattr(value, "shape") or hasattr(value, "same_as"):
        return value
    raise OperandError(f"{value!r} (of type {type(value).__name__}) is nothing of the runtime's")
