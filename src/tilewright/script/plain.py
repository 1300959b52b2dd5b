"""Attributes as plain values: what `T.func_attr` and annotations are given, without constants of
the IR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loopir import expr as E


def plain(value: Any) -> Any:
    """A constant as Python's bool, int, float or str; lists and dicts of them alike."""
    if isinstance(value, E.IntImm):
        return bool(value.value) if value.dtype == "bool" else value.value
    if isinstance(value, (E.FloatImm, E.StringImm)):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return plain_attributes(value)
    return value


def plain_attributes(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes by name."""
    return {str(plain(k)): plain(v) for k, v in values.items()}
