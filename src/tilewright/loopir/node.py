"""The base classes of the IR's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .operators import ExprOps
from .schema import fields_of


class Node:
    """Anything of the IR: immutable by convention, compared by identity."""

    __slots__ = ("__weakref__",)
    schema: ClassVar[str] = ""  # see schema.py
    abstract: ClassVar[bool] = False
    arguments: ClassVar[Mapping[str, str]] = {}  # fields that a constructor has other names for
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "schema" in vars(cls):
            cls._fields = tuple(f.name for f in fields_of(cls.schema))
        cls.abstract = bool(vars(cls).get("abstract"))

    def same_as(self, other: object) -> bool:
        """Whether this is the same object."""
        return self is other

    def script(self, *, verbose_expr: bool = False, **_: Any) -> str:
        """The node as TVMScript-style text, variables and buffers from around it declared first;
        those of an expression where `verbose_expr` asks for them."""
        return str(_spelled(self, verbose_expr))

    def show(self, *_: Any, **options: Any) -> None:
        """Print the text."""
        print(self.script(**options))

    def asobject(self) -> Any:
        """The object itself."""
        return self


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
_spelled: Any = object.__repr__


def set_speller(speller: Any) -> None:
    """How `node.script()` is made; print_whole.py sets it once."""
    global _spelled
    _spelled = speller


def set_printer(printer: Any) -> None:
    """How `str(expr)` is made; printer.py sets it once, since it stands above this module."""
    global _text
    _text = printer
