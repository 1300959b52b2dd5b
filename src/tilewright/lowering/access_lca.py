"""Where in a program each buffer is used: the innermost statement around all its uses."""

from __future__ import annotations

from typing import Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.visit import CHILDREN


def detect_buffer_access_lca(func: S.PrimFunc) -> dict[Buffer, S.Stmt | None]:
    """For each buffer that is loaded, stored or given by its address, the innermost loop around all
    these places; None for the whole function. Blocks, which TVM looks at too, there are none."""
    found = _Places({b.data: b for b in func.buffer_map.values()})
    found.visit(func.body, ())
    return {b: loops[-1] if loops else None for b, loops in found.common.items()}


class _Places(Recursive):
    recursive = ("visit",)

    def __init__(self, buffers: dict[E.Var, Buffer]) -> None:
        self.buffers = buffers
        self.common: dict[Buffer, tuple[Any, ...]] = {}

    def visit(self, node: Any, loops: tuple[Any, ...]) -> None:
        """Look at a node within `loops`, outermost first."""
        kind = type(node)
        if kind in (E.BufferLoad, S.BufferStore):
            self.buffers.setdefault(node.buffer.data, node.buffer)
            self._use(node.buffer, loops)
        elif isinstance(node, E.Var) and node in self.buffers:
            self._use(self.buffers[node], loops)
        elif kind is S.Allocate:
            self.buffers[node.buffer.data] = node.buffer
        inner = (*loops, node) if kind is S.For else loops
        for part in CHILDREN[kind](node):
            self.visit(part, inner if isinstance(part, S.Stmt) else loops)

    def _use(self, buffer: Buffer, loops: tuple[Any, ...]) -> None:
        known = self.common.get(buffer)
        if known is None:
            self.common[buffer] = loops
            return
        same = 0
        for a, b in zip(known, loops):
            if a is not b:
                break
            same += 1
        self.common[buffer] = known[:same]
