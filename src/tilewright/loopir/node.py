"""The base classes of the IR's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .operators import ExprOps
from .schema import fields_of


class Node:
    """Anything of the IR: immutable by convention, compared by identity."""

    __slots__ = ("__weakref__",)
    schema: ClassVar[str] = ""  # see schema.py
    abstract: ClassVar[bool] = False
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "schema" in vars(cls):
            cls._fields = tuple(f.name for f in fields_of(cls.schema))
        cls.abstract = bool(vars(cls).get("abstract"))

    def same_as(self, other: object) -> bool:
        """Whether this is the same object."""
        return self is other


Object = Node  # TVM's name for what all of its objects derive from


class PrimExpr(ExprOps, Node):
    """An expression with a value of type `dtype` (canonical text)."""

    __slots__ = ("dtype",)
    dtype: str

    if TYPE_CHECKING:  # shapes hold constants as a rule; of others int() raises a TypeError

        def __int__(self) -> int: ...

    def asexpr(self) -> PrimExpr:
        """The expression itself."""
        return self

    __hash__ = ExprOps.__hash__

    def __str__(self) -> str:
        return str(_text(self))

    __repr__ = __str__


_text: Any = object.__repr__


def set_printer(printer: Any) -> None:
    """How `str(expr)` is made; printer.py sets it once, since it stands above this module."""
    global _text
    _text = printer
