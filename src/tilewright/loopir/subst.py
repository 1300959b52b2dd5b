"""Replace variables by expressions, or buffers by buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .buffer import Buffer
from .expr import SizeVar, Var
from .iter import IterVar
from .rewrite import Rewriter, handles
from .stmt import Allocate


class _Substitute(Rewriter):
    def __init__(self, values: Mapping[Var, Any], buffers: Mapping[Buffer, Buffer]) -> None:
        self.values = values
        self.buffers = dict(buffers)

    @handles(Var, SizeVar)
    def _var(self, e: Var) -> Any:
        return self.values.get(e, e)

    def buffer(self, b: Buffer) -> Buffer:
        return self.buffers.get(b, b)

    @handles(Allocate)
    def _allocate(self, s: Allocate) -> Any:
        b = s.buffer
        if b not in self.buffers:
            shape, strides = self.exprs(b.shape), self.exprs(b.strides)
            if shape is not b.shape or strides is not b.strides:
                self.buffers[b] = b.with_(shape=shape, strides=strides)
        return Rewriter.table[Allocate](self, s)


def substitute(
    node: Any,
    values: Mapping[Any, Any],
    buffers: Mapping[Buffer, Buffer] | None = None,
) -> Any:
    """`node` (expression or statement) with variables and buffers replaced, without capture checks.

    Keys of `values` may be Var or IterVar. Definitions (loop variables, lets) are left alone. An
    allocation whose extents change gets a new buffer, also where its body uses it.
    """
    table = {k.var if isinstance(k, IterVar) else k: v for k, v in values.items()}
    rewriter = _Substitute(table, buffers or {})
    return rewriter.stmt(node)
