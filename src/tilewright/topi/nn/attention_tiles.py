"""Tiles of queries, keys and values in shared memory, for attention in one kernel
(attention_kernel.py): copies of rows, which a block's threads share out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...loopir import op as O
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.expr import BufferLoad, Var, const
from ...loopir.stmt import AttrStmt, BufferStore, For, ForKind, IfThenElse, Stmt, seq
from .attention_plan import Plan
from .attention_scores import Reads

Element = Callable[[Any, Any], Any]


class Copy(NamedTuple):
    """How a tile is filled: what begins that, and what ends it where it waits in registers."""

    begin: Stmt
    end: Stmt | None


class Tiles:
    """Makes them, for threads with a `number`."""

    def __init__(self, plan: Plan, number: Any, reads: Reads) -> None:
        self.plan, self.number, self.reads = plan, number, reads
        self.ahead: Buffer | None = None
        if plan.copied:
            self.ahead = decl_buffer((plan.copied,), plan.dtype, "ahead", scope="local")

    def buffer(self, name: str, rows: int, fragments: int) -> Buffer:
        """Rows of so many fragments."""
        shape, align = self.plan.tile_shape(rows, fragments), self.plan.tile_align
        return decl_buffer(shape, self.plan.dtype, name, scope="shared", data_alignment=align)

    def copy(self, to: Buffer, size: int, element: Element) -> Stmt:
        """Fill a tile with rows, zeros behind the last of their elements."""
        lanes = self.plan.lanes(size)
        vectors = self.plan.vectors(size)

        def store(n: int, row: Any, column: Any, lane: Any) -> Stmt:
            value = self._value(row, column + lane, column, size, vectors * lanes, element)
            return BufferStore(to, value, self.plan.place(row, column, lane))

        made = self._each(int(to.shape[-2]), size, store)
        return AttrStmt(const(0), "pragma_async_scope", const(1), made) if self.plan.late else made

    def begun(
        self, to: Buffer, size: int, elements: Callable[[Callable[[Element], Stmt]], Stmt]
    ) -> Copy:
        """`elements` makes a statement of what fills a tile with the elements that it says."""
        ahead = self.ahead
        if ahead is None or not self.plan.waiting(size):
            whole = elements(lambda element: self.copy(to, size, element))
            return Copy(whole, None) if self.plan.late else Copy(seq(), whole)
        lanes, rows = self.plan.lanes(size), int(to.shape[-2])
        vectors = self.plan.vectors(size)

        def load(element: Element) -> Stmt:
            def store(n: int, row: Any, column: Any, lane: Any) -> Stmt:
                value = self._value(row, column + lane, column, size, vectors * lanes, element)
                return BufferStore(ahead, value, [n * lanes + lane])

            return self._each(rows, size, store)

        def store(n: int, row: Any, column: Any, lane: Any) -> Stmt:
            place = self.plan.place(row, column, lane)
            return BufferStore(to, BufferLoad(ahead, [n * lanes + lane]), place)

        return Copy(elements(load), self._each(rows, size, store))

    def _value(
        self, row: Any, at: Any, column: Any, size: int, copied: int, element: Element
    ) -> Any:
        value = self.reads.expr(element(row, at))
        if copied == size:
            return value
        return O.if_then_else(column < size, value, const(0, self.plan.dtype))

    def _each(self, rows: int, size: int, store: Callable[[int, Any, Any, Any], Stmt]) -> Stmt:
        """`store(n, row, column, lane)` for a thread's vectors, and lanes of these."""
        lanes, vectors = self.plan.lanes(size), self.plan.vectors(size)
        threads = self.plan.threads
        made: list[Stmt] = []
        for n, first in enumerate(range(0, rows * vectors, threads)):
            at = self.number + first
            row, column = O.indexdiv(at, vectors), O.indexmod(at, vectors) * lanes
            lane = Var("lane", "int32")
            kind = ForKind.VECTORIZED if lanes > 1 else ForKind.SERIAL
            stored: Stmt = For(lane, 0, lanes, kind, store(n, row, column, lane))
            if first + threads > rows * vectors:
                stored = IfThenElse(at < rows * vectors, stored)
            made.append(stored)
        return seq(*made)
