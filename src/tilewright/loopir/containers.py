"""`runtime.convert`: Python values as the IR's, lists and dicts of them included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .construct import convert as _convert
from .node import Node


def convert(value: Any) -> Any:
    """Numbers and strings as expressions, lists as tuples of converted elements, dicts of them.

    Functions, None and what is of the IR already stay as they are.
    """
    if value is None or isinstance(value, Node) or (callable(value) and not _number(value)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(convert(item) for item in value)
    if isinstance(value, Mapping):
        return {key: convert(item) for key, item in value.items()}
    if hasattr(value, "shape") and getattr(value, "shape", ()) != ():
        return value
    return _convert(value)


def _number(value: Any) -> bool:
    return hasattr(value, "asexpr") or hasattr(value, "item")
