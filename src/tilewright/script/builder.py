"""`IRBuilder`: programs built by Python itself, with the frames that the parser uses.

with IRBuilder() as ib:
    with T.prim_func():
        ...
func = ib.get()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import UsageError
from .build import Builder, present
from .frames import IRModuleFrame, PrimFuncFrame


class IRBuilder:
    """Collects what is built inside `with`."""

    def __init__(self) -> None:
        self._builder = Builder()

    def __enter__(self) -> IRBuilder:
        self._builder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._builder.__exit__(*error)

    def get(self) -> Any:
        """The one function, module or statement that was built; UsageError if there is not one."""
        return self._builder.get()

    @staticmethod
    def name(s: str, v: Any) -> Any:
        """Name a variable or buffer that has no name yet; gives it back."""
        found = present()
        if found is None:
            raise UsageError("IRBuilder.name names things inside `with IRBuilder():`")
        found.name(s, v)
        return v

    @staticmethod
    def name_many(s: Sequence[str], vs: Sequence[Any]) -> list[Any]:
        """Name several things; gives them back."""
        return [IRBuilder.name(text, v) for text, v in zip(s, vs, strict=True)]

    @staticmethod
    def is_in_scope() -> bool:
        """Whether a builder is at work."""
        return present() is not None


def prim_func(is_private: bool = False) -> PrimFuncFrame:
    """A function; its parameters are added by T.arg, its name by T.func_name."""
    return PrimFuncFrame(is_private)


def ir_module() -> IRModuleFrame:
    """A module of the functions built inside."""
    return IRModuleFrame()
