"""Keep what overlapping tiles share in a circular buffer."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..arith.linear import detect_linear_equation
from ..base.deep import recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import walk_stmts
from ..loopir.expr import const, const_int
from ..loopir.iter import THREAD_KEYS
from ..loopir.operators import logical_or
from ..loopir.rewrite import OverStatements, Rewriter, handles
from ..loopir.visit import walk
from .fill_ahead import SCOPE as DOUBLED
from .options import LowerOptions

SCOPE = "rolling_buffer_scope"


def inject_rolling_buffer(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Let a buffer computed in a loop keep the rows that the loop's next step needs again.

    AttrStmt "rolling_buffer_scope" stands around the statement that fills the buffer; its value is
    a `tvm_tuple` of the region's first index in each dimension. If one of them moves with the loop
    by c rows and the region has E > c rows, the buffer is allocated around the loop, row r lies at
    r % E, and all steps but the first compute the last c rows only:

        for i: compute rows [c*i, c*i + E); use them
        =>  for i: if i == 0 or row >= E - c: compute row c*i + row, at (c*i + row) % E; use them

    Where the region moves in another way, is filled from what the loop writes, or belongs to one of
    several threads that the loop starts, each step computes all of it. What rolls is filled piece
    by piece and stays a single buffer.

    Needs buffers with all their dimensions. Guarantees that no "rolling_buffer_scope" is left.
    Stands before flatten_buffers.
    """
    if not any(type(s) is S.AttrStmt and s.attr_key == SCOPE for s in walk_stmts(func.body)):
        return func
    return func.with_body(_RollingBuffers().stmt(func.body))


class _Roll:
    """A buffer that rolls along a dimension in a loop."""

    __slots__ = ("allocation", "attr", "dim", "fresh", "minimum", "rows")

    def __init__(
        self, allocation: S.Allocate, attr: S.AttrStmt, dim: int, minimum: Any, rows: int, step: int
    ) -> None:
        self.allocation = allocation
        self.attr = attr
        self.dim = dim
        self.minimum = minimum
        self.rows = rows
        self.fresh = rows - step


class _RollingBuffers(OverStatements):
    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        rolls: list[_Roll] = []
        if s.kind in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
            for allocation, attr in _find(s.body, {}):
                roll = _plan(s, allocation, attr)
                if roll is not None:
                    rolls.append(roll)
        loop = s
        if rolls:
            loop = s.with_parts(body=_Circular(s, rolls).stmt(s.body))
        result: S.Stmt = loop.with_parts(body=self.stmt(loop.body))
        for roll in reversed(rolls):
            result = S.Allocate(roll.allocation.buffer, result, roll.allocation.annotations)
        return result

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        return self.stmt(s.body) if s.attr_key == SCOPE else super()._attr(s)


@recursive
def _find(s: S.Stmt, allocated: dict[E.Var, S.Allocate]) -> list[tuple[S.Allocate, S.AttrStmt]]:
    """Rolling buffers filled in each step of the loop whose body `s` is."""
    if type(s) is S.SeqStmt:
        return [pair for part in s.seq for pair in _find(part, allocated)]
    if type(s) is S.Allocate:
        return _find(s.body, {**allocated, s.buffer.data: s})
    if type(s) is S.AttrStmt and s.attr_key in THREAD_KEYS:
        return []  # each of the threads has a buffer of its own
    if type(s) is S.AttrStmt:
        below = _find(s.body, allocated)
        if s.attr_key == SCOPE and s.node.data in allocated:
            return [(allocated[s.node.data], s), *below]
        return below
    return []


def _plan(loop: S.For, allocation: S.Allocate, attr: S.AttrStmt) -> _Roll | None:
    value = attr.value
    buffer = allocation.buffer
    if type(value) is not E.Call or value.op.name != "tir.tvm_tuple" or buffer.strides:
        return None
    moving = [d for d, low in enumerate(value.args) if _moves(low, loop.loop_var)]
    if len(moving) != 1 or len(value.args) != buffer.ndim:
        return None
    dim = moving[0]
    minimum, rows = value.args[dim], const_int(buffer.shape[dim])
    parts = detect_linear_equation(minimum, [loop.loop_var], Analyzer())
    step = const_int(parts[0]) if parts else None
    if rows is None or step is None or not 0 < step < rows or not _independent(loop, attr):
        return None
    if any(_moves(d, loop.loop_var) for d in buffer.shape):
        return None
    return _Roll(allocation, attr, dim, minimum, rows, step)


def _moves(e: Any, var: E.Var) -> bool:
    return any(x is var for x in walk(e))


def _independent(loop: S.For, attr: S.AttrStmt) -> bool:
    """Whether a row has the same value whichever step of the loop computes it."""
    own = {x.buffer.data for x in walk(loop.body) if type(x) is S.Allocate}
    written = {x.buffer.data for x in walk(loop.body) if type(x) is S.BufferStore} - own
    for x in walk(attr.body):
        if type(x) is E.BufferLoad and x.buffer.data in written:
            return False
        if type(x) is S.Evaluate or (isinstance(x, E.Var) and x.dtype == "handle"):
            return False
    return True


class _Circular(Rewriter):
    """Puts rows at their place in the circle, and computes only those that are new."""

    def __init__(self, loop: S.For, rolls: list[_Roll]) -> None:
        self.loop = loop
        self.rolls = {r.allocation.buffer.data: r for r in rolls}
        self.filling: set[E.Var] = set()

    def _at(self, b: Buffer, indices: Any) -> Any:
        roll = self.rolls.get(b.data)
        if roll is None:
            return indices
        row = indices[roll.dim] + roll.minimum
        place = E.FloorMod(row, const(roll.rows, row.dtype))
        return (*indices[: roll.dim], place, *indices[roll.dim + 1 :])

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        return self.stmt(s.body) if s.buffer.data in self.rolls else super()._allocate(s)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == DOUBLED and s.node.data in self.rolls:
            return self.stmt(s.body)  # what the last step left would lie in the other copy
        if s.attr_key != SCOPE or s.node.data not in self.rolls:
            return super()._attr(s)
        self.filling.add(s.node.data)
        body = self.stmt(s.body)
        self.filling.discard(s.node.data)
        return body

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        new = super()._load(e)
        at = self._at(e.buffer, new.indices)
        return new if at is new.indices else E.BufferLoad(new.buffer, at, new.predicate)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        new = super()._store(s)
        roll = self.rolls.get(s.buffer.data)
        if roll is None:
            return new
        moved = S.BufferStore(new.buffer, new.value, self._at(s.buffer, new.indices), new.predicate)
        if s.buffer.data not in self.filling:
            return moved
        row, var = new.indices[roll.dim], self.loop.loop_var
        first = E.EQ(var, self.loop.min)
        return S.IfThenElse(logical_or(first, row >= roll.fresh), moved)
