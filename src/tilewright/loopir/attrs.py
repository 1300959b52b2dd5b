"""Attributes, nodes by the names of their classes, functions by name, places in sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

from ..base.errors import UsageError
from .node import Node
from .types import TupleType as TupleType
from .types import Type


class Attrs(Node):
    """Values by name, read as items and as attributes."""

    __slots__ = ("_values",)
    schema = "_values:dict"

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"there is no attribute {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> list[str]:
        """The names."""
        return list(self._values)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values."""
        return list(self._values.items())

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self._values.get(key, default)

    def get_int(self, key: str) -> int:
        """A value as an int."""
        return int(self._values[key])

    def get_str(self, key: str) -> str:
        """A value as text."""
        return str(self._values[key])

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """A value as a tuple of ints."""
        return tuple(int(x) for x in self._values[key])


class DictAttrs(Attrs):
    """Attributes of any names."""

    __slots__ = ()


class SourceName(Node):
    """The name of a source."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Span(Node):
    """A place in a source: lines and columns, counted as the source's reader does."""

    __slots__ = ("column", "end_column", "end_line", "line", "source_name")

    def __init__(
        self, source_name: Any, line: int, end_line: int, column: int, end_column: int
    ) -> None:
        self.source_name = source_name
        self.line, self.end_line = line, end_line
        self.column, self.end_column = column, end_column


class CallingConv(IntEnum):
    """How a function is called, by TVM's numbers."""

    DEFAULT = 0
    C_PACKED_FUNC = 1
    DEVICE_KERNEL_LAUNCH = 2


class FuncType(Type):
    """The type of functions of values of some types."""

    __slots__ = ("arg_types", "ret_type")

    def __init__(self, arg_types: Any, ret_type: Type) -> None:
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FuncType)
            and other.arg_types == self.arg_types
            and other.ret_type == self.ret_type
        )

    def __hash__(self) -> int:
        return hash((self.arg_types, self.ret_type))


def _kinds() -> Iterator[type]:
    """The classes of nodes, those of other rooms too."""
    pending: list[type] = [Node]
    while pending:
        kind = pending.pop()
        yield kind
        pending += kind.__subclasses__()


def make_node(type_key: str, **kwargs: Any) -> Any:
    """A node by the name of its class, as "tir.Add" or "IntImm", of its fields; "DictAttrs" of any.

    UsageError for a class that is not there, or fields that it does not take.
    """
    name = type_key.rpartition(".")[2]
    if name == "DictAttrs":
        return DictAttrs(kwargs)
    kind = next((k for k in _kinds() if k.__name__ == name and not vars(k).get("abstract")), None)
    if kind is None:
        raise UsageError(f"there is no node {type_key!r}")
    kwargs.pop("span", None)
    try:
        return kind(**kwargs)
    except TypeError as error:
        raise UsageError(f"make_node({type_key!r}): {error}") from None
