"""Faces: modules that hold public names only, each resolved when it is first used (PEP 562).

`__getattr__, __dir__ = face(__name__, {"tensor.compute": "placeholder compute"})` is all that such
a module needs at run time; `python -m tools.make_stubs` writes the stub beside it (`__init__.pyi`)
from the same names, which type checkers and editors read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

FACES: dict[str, Face] = {}
"""The faces that have been imported, by module."""


class Face:
    """What a face holds: names with their homes, and modules below it."""

    def __init__(self, module: str, homes: Mapping[str, str], modules: str) -> None:
        self.module = module
        self.modules = tuple(modules.split())
        self.tables = tuple(home for home, names in homes.items() if names == "*")
        self.homes: dict[str, tuple[str, str]] = {}
        for home, names in homes.items():
            for entry in names.split() if names != "*" else ():
                name, _, own = entry.partition("=")
                self.homes[name] = (home, own or name)

    def names(self) -> list[str]:
        """All public names."""
        return sorted((*self.homes, *self.modules, *self._of_tables()))

    def _of_tables(self) -> dict[str, tuple[str, str]]:
        """The names of modules that say themselves which they make."""
        found: dict[str, tuple[str, str]] = {}
        for home in self.tables:
            names = import_module(f"tilewright.{home}").BUILDERS
            found.update((name, (home, name)) for name in names)
        return found

    def find(self, name: str) -> Any:
        """The value of a name; AttributeError if there is none."""
        if name in self.modules:
            return import_module(f"{self.module}.{name}")
        if name == "__all__":
            return self.names()
        place = self.homes.get(name)
        if place is None and not name.startswith("__"):
            place = self._of_tables().get(name)
        if place is None:
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        value = getattr(import_module(f"tilewright.{place[0]}"), place[1])
        vars(sys.modules[self.module])[name] = value
        return value


def face(
    module: str, homes: Mapping[str, str], modules: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module with these names.

    homes: names by the module, below tilewright, that defines them ("new=old" renames; "*" takes
    what the module's BUILDERS names). modules: the modules below this one.
    """
    made = FACES[module] = Face(module, homes, modules)
    return made.find, made.names
