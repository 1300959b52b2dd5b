"""`T.float32` and the like: a new variable of a type, or a value of it."""

from __future__ import annotations

from typing import Any

from ..base.dtype import canonical
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.types import PointerType, PrimType
from .build import fresh


class TypeMaker:
    """`T.int32()` is a new variable, `T.int32(5)` a constant, `T.int32(x)` a cast.

    `is_size_var=True` makes a variable that is known to be zero or more.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.__name__ = dtype

    def __call__(self, expr: Any = None, *, is_size_var: bool = False) -> Any:
        if expr is None:
            return fresh((E.SizeVar if is_size_var else E.Var)("v", self.dtype))
        if isinstance(expr, str):
            expr = float(expr)
        if isinstance(expr, (bool, int, float)):
            return E.const(expr, self.dtype)
        return E.cast(self.dtype, expr)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class HandleMaker(TypeMaker):
    """`T.handle` and `T.handle("float32", "shared")`: a pointer, in a scope of storage."""

    def __call__(
        self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> Any:
        from .build import present

        made = super().__call__(is_size_var=is_size_var)
        if dtype is not None:
            element = getattr(dtype, "dtype", dtype)
            made._type = PointerType(PrimType(element), storage_scope)
        at_work = present()
        if at_work is not None and storage_scope not in ("", "global"):
            at_work.scopes[made] = storage_scope
        return made


class _Pointers:
    """The old spelling of handles: `T.Ptr[T.float32]`."""

    def __call__(self, dtype: Any, storage_scope: str = "global") -> Any:
        return HANDLE(None if callable(dtype) else dtype, storage_scope)

    def __getitem__(self, keys: Any) -> Any:
        return self(*keys) if isinstance(keys, tuple) else self(keys)


HANDLE = HandleMaker("handle")
VOID = HandleMaker("handle")
POINTERS = _Pointers()
BOOL = TypeMaker("bool")
_made: dict[str, TypeMaker] = {"bool": BOOL, "handle": HANDLE}


def type_maker(name: str) -> TypeMaker | None:
    """The maker of a type by its name; None if there is no such type."""
    found = _made.get(name)
    if found is None:
        try:
            if canonical(name) != name:
                return None
        except (TilewrightError, TypeError):
            return None
        found = _made.setdefault(name, TypeMaker(name))
    return found


BUILDERS = tuple(
    f"{code}{bits}{f'x{lanes}' if lanes > 1 else ''}"
    for code, widths in (
        ("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)), ("float", (16, 32, 64)),
        ("bfloat", (16,)),
    )
    for bits in widths
    for lanes in (1, 2, 4, 8, 16, 32, 64)
)  # fmt: skip
"""The types that `T` names by themselves; others resolve when used."""


def __getattr__(name: str) -> TypeMaker:
    found = type_maker(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def cast(src: Any, dtype: str, span: object = None) -> E.PrimExpr:
    """A value in another type; `T.Cast` takes the type first. Raises OperandError where `src` is
    neither a number nor an expression."""
    return E.cast(str(dtype), E.convert(src))
