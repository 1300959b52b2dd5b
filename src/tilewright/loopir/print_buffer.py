"""Buffers as text: their declarations, and variables that only they define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .buffer import Buffer
from .expr import IntImm, SizeVar, Var, is_const
from .print_expr import ExprPrinter, quote
from .stmt import Stmt
from .visit import free_vars, used_vars


def fresh(v: Var) -> str:
    """The text that makes a variable."""
    return f"T.{v.dtype}({'is_size_var=True' if type(v) is SizeVar else ''})"


def is_default(b: Buffer) -> bool:
    """Whether a buffer is more than its shape, dtype and scope in no way."""
    return (
        not b.strides
        and is_const(b.elem_offset, 0)
        and (b.data_alignment, b.offset_factor) == (64, 1)
        and not b.buffer_kind
        and not b.axis_separators
    )


def is_plain(b: Buffer) -> bool:
    """Whether a parameter can stand whole in the signature: constant shape, the rest default."""
    constant = all(type(d) is IntImm for d in b.shape)
    return constant and b.scope_name == "global" and is_default(b)


def _lone(b: Buffer) -> list[Var]:
    """Variables that a buffer defines: strides or offsets by themselves, of the usual type."""
    return [v for v in (*b.strides, b.elem_offset) if type(v) is Var and v.dtype == "int32"]


def _needed(b: Buffer) -> list[Var]:
    """The variables that must be known where a buffer is declared."""
    lone = _lone(b)
    exprs = (*b.shape, *[e for e in (*b.strides, b.elem_offset) if not any(e is v for v in lone)])
    return [v for e in exprs for v in free_vars(e)]


class BufferPrinter(ExprPrinter):
    """Prints declarations of buffers and of the variables in them."""

    def __init__(self) -> None:
        super().__init__()
        self.pad = ""

    def begin(self, text: str) -> None:
        self.out.append(self.pad + text)

    def declare(self, b: Buffer) -> None:
        """Print `name = T.Buffer(...)` for a buffer over memory that has a name already."""
        name = self.buffer_name(b)
        self.begin(f"{name} = T.Buffer(")
        self.buffer_args(b, name, self.names.get(b.data))
        self.out.append(")\n")

    def buffer_args(self, b: Buffer, name: str, data: str | None) -> None:
        out = self.out
        out.append("(")
        self.exprs(b.shape)
        out.append(",)" if len(b.shape) == 1 else ")")
        if b.dtype != "float32":
            out.append(f', "{b.dtype}"')
        if data is not None:
            out.append(f", data={data}")
        elif self.names.get(b.data) is None:
            self.names.alias(b.data, f"{name}.data")
        if b.strides:
            out.append(", strides=(")
            for n, stride in enumerate(b.strides):
                out.append(", " if n else "")
                self._field(stride, f"{name}.strides[{n}]")
            out.append(",)" if len(b.strides) == 1 else ")")
        if not is_const(b.elem_offset, 0):
            out.append(", elem_offset=")
            self._field(b.elem_offset, f"{name}.elem_offset")
        if b.scope_name != "global":
            out.append(f", scope={quote(b.scope_name)}")
        if b.data_alignment != 64:
            out.append(f", align={b.data_alignment}")
        if b.offset_factor != 1:
            out.append(f", offset_factor={b.offset_factor}")
        if b.buffer_kind:
            out.append(', buffer_type="auto"')
        if b.axis_separators:
            out.append(f", axis_separators={list(b.axis_separators)}")

    def _field(self, value: Any, text: str) -> None:
        """A stride or offset: a variable seen first here is read from the buffer, as `text`."""
        if isinstance(value, Var) and self.names.get(value) is None:
            self.names.alias(value, text)
            self.out.append(quote(value.name))
        else:
            self.expr(value)

    def sizes(self, arguments: Sequence[Buffer], body: Stmt, views: Sequence[Buffer]) -> None:
        """Declare the variables that shapes of arguments define, and those that nothing does."""
        found: dict[Var, None] = {}
        used, inside = used_vars(body)
        for b in arguments:
            found.update(dict.fromkeys(_needed(b)))
        defined = {v for b in arguments for v in (b.data, *_lone(b))}
        for b in views:
            needed = [v for v in _needed(b) if v not in inside and v not in defined]
            found.update(dict.fromkeys(needed))
        defined.update(v for b in views for v in (b.data, *_lone(b)))
        rest = (v for v in used if v not in inside and v not in defined)
        found.update(dict.fromkeys(rest))
        new = [v for v in found if self.names.get(v) is None]
        if new:
            names = ", ".join([self.names.define(v, v.name) for v in new])
            self.begin(f"{names} = {', '.join(map(fresh, new))}\n")
