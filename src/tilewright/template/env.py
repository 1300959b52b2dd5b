"""State of a search that all of the process may ask for."""

from __future__ import annotations

from typing import Any


class AutotvmGlobalScope:
    """`in_tuning`: whether a search runs; `silent`: whether it shows no progress. `current`: the
    scope of this process, which is the one that was made first."""

    __slots__ = ("in_tuning", "silent")

    current: Any = None

    def __init__(self) -> None:
        self.in_tuning = False
        self.silent = False
        if AutotvmGlobalScope.current is None:
            AutotvmGlobalScope.current = self

    def deep_copy(self, global_scope: AutotvmGlobalScope) -> None:
        """Take over what another scope says."""
        self.in_tuning, self.silent = global_scope.in_tuning, global_scope.silent


GLOBAL_SCOPE = AutotvmGlobalScope()


def reset_global_scope(global_scope: AutotvmGlobalScope) -> None:
    """Let this process's scope say what another does."""
    GLOBAL_SCOPE.deep_copy(global_scope)
