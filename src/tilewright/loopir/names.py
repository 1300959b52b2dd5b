"""Names for printed objects: legal in Python, unique among those in scope."""

from __future__ import annotations

import keyword
import re
from typing import Any

_ILLEGAL = re.compile(r"[^0-9A-Za-z_]")
_RESERVED = frozenset((*keyword.kwlist, "T", "I", "range", "min", "max", "all", "any", ""))


def legal_name(hint: str) -> str:
    """`hint` as a Python identifier: `.` and the like become `_`."""
    name = _ILLEGAL.sub("_", hint)
    return f"_{name}" if name[:1].isdigit() else name


class Names:
    """Texts of objects by identity. Scopes nest: what was defined last is released first."""

    def __init__(self) -> None:
        self._text: dict[int, str] = {}
        self._alive: dict[str, int] = {}
        self._taken: set[str] = set(_RESERVED)
        self._log: list[tuple[int, str, str, str | None]] = []
        self._keep: list[Any] = []

    def get(self, obj: Any) -> str | None:
        return self._text.get(id(obj))

    def define(self, obj: Any, hint: str) -> str:
        """A new name like `hint` for `obj` until the present scope is left."""
        base = legal_name(hint)
        count = self._alive.get(base, 0)
        number, name = count, base if count == 0 else f"{base}_{count}"
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._alive[base] = count + 1
        self._taken.add(name)
        self._log.append((id(obj), name, base, self._text.get(id(obj))))
        self._text[id(obj)] = name
        self._keep.append(obj)
        return name

    def alias(self, obj: Any, text: str) -> None:
        """Let `obj` print as `text` (such as `A.data`) until the present scope is left."""
        self._log.append((id(obj), "", "", self._text.get(id(obj))))
        self._text[id(obj)] = text
        self._keep.append(obj)

    def mark(self) -> int:
        """The beginning of a scope, for `release`."""
        return len(self._log)

    def release(self, mark: int) -> None:
        """Forget everything defined since `mark`."""
        while len(self._log) > mark:
            key, name, base, previous = self._log.pop()
            if name:
                self._taken.discard(name)
                self._alive[base] -= 1
            if previous is None:
                del self._text[key]
            else:
                self._text[key] = previous
