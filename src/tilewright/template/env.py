"""State of a search that all of the process may ask for."""

from __future__ import annotations


class AutotvmGlobalScope:
    """`in_tuning`: whether a search runs; `silent`: whether it shows no progress."""

    __slots__ = ("in_tuning", "silent")

    def __init__(self) -> None:
        self.in_tuning = False
        self.silent = False


GLOBAL_SCOPE = AutotvmGlobalScope()
