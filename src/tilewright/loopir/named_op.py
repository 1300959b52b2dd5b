"""Operations by name: what calls call."""

from __future__ import annotations

from typing import Any, ClassVar

from ..base.errors import MissingFunctionError
from .op_table import KNOWN, TABLE, UNKNOWN


class Op:
    """A named operation; `Op.get(name)` gives the one object of that name.

    `row` is what the compiler knows of it (op_table.py), `attrs` what users say of it.
    """

    __slots__ = ("attrs", "name", "row")
    _table: ClassVar[dict[str, Op]] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self.attrs: dict[str, Any] = {}
        self.row = TABLE.get(name[4:], UNKNOWN) if name.startswith("tir.") else UNKNOWN

    @staticmethod
    def get(op_name: str) -> Op:
        """The operation of a name; MissingFunctionError if there is none, and no call of it."""
        short = op_name.removeprefix("tir.")
        if op_name not in Op._table and short not in KNOWN and short not in TABLE:
            raise MissingFunctionError(f"AttributeError: Operator {op_name} is not registered")
        return Op.named(op_name)

    @staticmethod
    def named(name: str) -> Op:
        """The operation of a name, made when first asked for."""
        op = Op._table.get(name)
        if op is None:
            op = Op._table.setdefault(name, Op(name))
        return op

    def same_as(self, other: object) -> bool:
        """Whether this is the same operation."""
        return self is other

    def get_attr(self, key: str) -> Any:
        """What `register_op_attr` said under a key; None if nothing."""
        return self.attrs.get(key)

    def __repr__(self) -> str:
        return f"Op({self.name})"
