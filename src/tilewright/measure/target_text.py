"""Targets in the texts of records, also of those that TVM wrote."""

from __future__ import annotations

from ..base.errors import TargetError
from ..target.kinds import find_kind
from ..target.target import Target


def read_target(text: str) -> Target:
    """The target of a record; attributes that only TVM has are left out. TargetError for a kind
    that there is not."""
    try:
        return Target(text)
    except TargetError:
        words = text.split()
        kind = find_kind(words[0] if words else "")
        return Target(" ".join([kind.name, *filter(lambda w: _is_known(kind.name, w), words[1:])]))


def _is_known(kind: str, word: str) -> bool:
    try:
        Target(f"{kind} {word}")
    except TargetError:
        return False
    return True
