"""Object code in this process without LLVM: our own linker makes a library of it and of the runtime
that came along, which the system loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import link, native
from .network_code import enter


class LinkedCode:
    """The functions `names` of an object, with the runtime's object (`export.runtime_object`); they
    are linked when first asked for and leave the process with this."""

    __slots__ = ("__weakref__", "_addresses", "_names", "_parts")

    def __init__(self, obj: bytes, runtime: bytes, names: Sequence[str]) -> None:
        self._parts = {"the module": obj, "the runtime": runtime}
        self._names = names
        self._addresses: dict[str, int] | None = None

    def load(self, name: str) -> tuple[int, Any]:
        """The address of a function, and what has to live as long as that is used."""
        if self._addresses is None:
            data = b"".join(link.link_shared(self._parts))
            parallel = native.needs_threads(self._parts["the module"])
            self._addresses = enter(self, data, parallel, self._names)
        return self._addresses[name], self
