"""Modules: functions by name, with attributes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import TilewrightError
from .stmt import PrimFunc, Program


class UnknownNameError(TilewrightError, KeyError, ValueError):
    """A module has no function of that name."""

    __str__ = Exception.__str__


class GlobalVar(str):
    """The name of a function in a module."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """The name."""
        return str(self)


class IRModule(Program):
    """Functions by name."""

    __slots__ = ("attrs", "functions")
    schema = "functions:functions attrs:dict"

    def __init__(
        self,
        functions: Mapping[str, PrimFunc] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.functions: dict[str, PrimFunc] = {
            GlobalVar(k): f for k, f in (functions or {}).items()
        }
        self.attrs = dict(attrs) if attrs else {}

    @staticmethod
    def from_expr(expr: PrimFunc | IRModule) -> IRModule:
        """A module of one function, under the function's own name."""
        return expr if isinstance(expr, IRModule) else IRModule({expr.name: expr})

    def with_functions(self, functions: Mapping[str, PrimFunc]) -> IRModule:
        """A module of other functions with the same attributes."""
        return IRModule(functions, self.attrs)

    def __getitem__(self, name: str) -> PrimFunc:
        found = self.functions.get(GlobalVar(name))
        if found is None:
            has = ", ".join(self.functions) or "none"
            raise UnknownNameError(f"the module has no function {name!r}; it has: {has}")
        return found

    def __setitem__(self, name: str, func: PrimFunc) -> None:
        """Put a function under a name, in the place of the one there."""
        self.functions[GlobalVar(name)] = func

    update_func = __setitem__

    def __contains__(self, name: str) -> bool:
        return name in self.functions

    def __len__(self) -> int:
        return len(self.functions)

    def update(self, other: IRModule | Mapping[str, PrimFunc]) -> None:
        """Add the functions of another module; those of the same name are replaced."""
        more = other.functions if isinstance(other, IRModule) else other
        self.functions.update((GlobalVar(k), f) for k, f in more.items())

    def get_global_var(self, name: str) -> GlobalVar:
        """The key of a function; it must be there."""
        self[name]
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """The functions' names."""
        return [GlobalVar(name) for name in self.functions]

    def clone(self) -> IRModule:
        """A module of the same functions, to which others can be added."""
        return self.with_functions(self.functions)

    def get_attr(self, attr_key: str) -> Any:
        """The value of an attribute; None where the module has it not."""
        return self.attrs.get(attr_key)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """The same functions with an attribute more."""
        return self.with_attrs({attr_key: attr_value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """The same functions with attributes more."""
        return IRModule(self.functions, {**self.attrs, **attr_map})

    def without_attr(self, attr_key: str) -> IRModule:
        """The same functions without an attribute."""
        kept = {key: value for key, value in self.attrs.items() if key != attr_key}
        return IRModule(self.functions, kept)
