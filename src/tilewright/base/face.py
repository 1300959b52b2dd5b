"""Faces: modules that hold public names only, each resolved when it is first used (PEP 562).

`__getattr__, __dir__ = face(__name__, {"tensor.compute": "placeholder compute"})` is all that such
a module needs at run time; `python -m tools.make_stubs` writes the stub beside it (`__init__.pyi`)
from the same names, which type checkers and editors read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

FACES: dict[str, Face] = {}
"""The faces that have been imported, by module."""


class _Faced(ModuleType):
    """A module whose names are a face's: importing a module below it does not hide one of them.

    Python sets each module that is imported as an attribute of the package that it lies in, so that
    `nn.dense`, a function, would become the module nn/dense.py once anyone imports that.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not FACES[self.__name__].hidden_by(name, value):
            super().__setattr__(name, value)


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
            raise AttributeError(self._lacks(name))
        value = getattr(import_module(f"tilewright.{place[0]}"), place[1])
        vars(sys.modules[self.module])[name] = value
        return value

    def hidden_by(self, name: str, value: object) -> bool:
        """Whether `value` is a module below this one of the name of something else here."""
        below = isinstance(value, ModuleType) and value.__name__ == f"{self.module}.{name}"
        return below and name in self.homes and name not in self.modules

    def _lacks(self, name: str) -> str:
        """What to say of a name that is not here: why, where TVM has it."""
        from difflib import get_close_matches

        from ..vocabulary import refusal

        text = f"module {self.module!r} has no attribute {name!r}"
        within = f"{self.module}.".removeprefix("tilewright.")
        why = "" if name.startswith("__") else refusal(within + name)
        if why:
            return f"{text}; {why}"
        near = [] if name.startswith("_") else get_close_matches(name, self.names(), 1)
        return f"{text}; did you mean {near[0]}?" if near else text


def face(
    module: str, homes: Mapping[str, str], modules: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module with these names.

    homes: names by the module, below tilewright, that defines them ("new=old" renames; "*" takes
    what the module's BUILDERS names). modules: the modules below this one.
    """
    made = FACES[module] = Face(module, homes, modules)
    sys.modules[module].__class__ = _Faced
    return made.find, made.names
