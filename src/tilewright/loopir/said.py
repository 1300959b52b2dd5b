"""What attributes say of a whole kernel."""

from __future__ import annotations

from typing import Any

from .expr import const_int
from .stmt import AttrStmt
from .visit import nodes


def said(body: Any, key: str) -> int:
    """The largest number that attributes of a name say in a kernel; 0 where none does."""
    found = (s.value for s in nodes(body) if type(s) is AttrStmt and s.attr_key == key)
    return max((const_int(value) or 0 for value in found), default=0)
