"""Types of variables as TVM's users write them: `PointerType(PrimType("float32"), "global")`.

Variables here have a dtype alone; a pointer's is "handle".
"""

from __future__ import annotations

from typing import Any

from ..base.dtype import canonical


class Type:
    """A type."""

    __slots__ = ()

    def script(self, **_: Any) -> str:
        """The type as TVMScript-style text."""
        return repr(self)


class TupleType(Type):
    """The type of several values; of none, that of functions without a value (`VoidType()`)."""

    __slots__ = ("fields",)

    def __init__(self, fields: Any) -> None:
        self.fields = tuple(fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleType) and other.fields == self.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def script(self, **_: Any) -> str:
        return f"T.Tuple({', '.join(t.script() for t in self.fields)})"


def VoidType() -> TupleType:
    """The type of functions without a value."""
    return TupleType(())


class PrimType(Type):
    """The type of numbers of a dtype. Raises TilewrightError where `dtype` is no type such as
    'float32'."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = canonical(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrimType) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"PrimType({self.dtype})"

    def script(self, **_: Any) -> str:
        return f"T.{self.dtype}"


class PointerType(Type):
    """The type of addresses of elements in a storage scope."""

    __slots__ = ("element_type", "storage_scope")

    def __init__(self, element_type: Type, storage_scope: str = "") -> None:
        self.element_type = element_type
        self.storage_scope = storage_scope

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PointerType)
            and other.element_type == self.element_type
            and other.storage_scope == self.storage_scope
        )

    def __hash__(self) -> int:
        return hash((self.element_type, self.storage_scope))

    def __repr__(self) -> str:
        return f"PointerType({self.element_type}, {self.storage_scope!r})"

    def script(self, **_: Any) -> str:
        element = getattr(self.element_type, "dtype", "void")
        return f'T.handle("{element}", "{self.storage_scope or "global"}")'


def dtype_of(given: Any) -> str:
    """The dtype of variables of a type, which may be a dtype."""
    if isinstance(given, PointerType):
        return "handle"
    return given.dtype if isinstance(given, PrimType) else canonical(given)
