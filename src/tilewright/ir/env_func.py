"""`EnvFunc`: a registered function as an object that has its name."""

from __future__ import annotations

from typing import Any

from ..rt.packed import get_global_func


class EnvFunc:
    """A registered function by its name; found when it is called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnvFunc) and other.name == self.name

    def __hash__(self) -> int:
        return hash((EnvFunc, self.name))

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The function of that name; MissingFunctionError where none is registered."""
        get_global_func(name)
        return EnvFunc(name)

    @property
    def func(self) -> Any:
        """The function."""
        return get_global_func(self.name)

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)
