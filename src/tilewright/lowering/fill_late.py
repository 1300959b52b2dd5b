"""Fillings in two halves, where nothing copies by itself: loads into registers, and stores later.

A thread that copies an element to shared memory waits for it between the load and the store. With
what the loop computes between the two, it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import fold_pair, fresh_copy
from ..loopir.effects import is_pure
from ..loopir.expr import const, const_int
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import nodes, walk
from ..target.target import Target
from .statement_accesses import ASYNC_SCOPES

_KNOWN = (S.For, S.IfThenElse, S.AttrStmt, S.SeqStmt, S.LetStmt, S.BufferStore)
_LOOPS = (S.ForKind.SERIAL, S.ForKind.UNROLLED)


def registers_for(target: Target | None) -> int:
    """Registers that a thread has for what is on its way to shared memory; 0 where copies need
    none, or it is not known what the code is for."""
    return 0 if target is None else target.capabilities.copying_registers


@dataclass(frozen=True)
class Halves:
    """What loads into `registers`, and what stores those where the filling does."""

    registers: list[Buffer]
    load: S.Stmt
    store: S.Stmt

    @staticmethod
    def of(fill: S.Stmt, most: int) -> Halves | None:
        """The halves of a filling of shared memory under the pragma "async_scope" from the device's
        memory, where it takes no more than so many registers."""
        if not most or not any(_is_late(x) for x in nodes(fill)):
            return None
        statements = [x for x in nodes(fill) if isinstance(x, S.Stmt)]
        if not all(isinstance(s, _KNOWN) for s in statements):
            return None
        split = _Split()
        load = split.stmt(fill)
        if not split.able or split.count > most:
            return None
        store = _Late(split.kept).stmt(fill)
        # loops and bindings of their own
        return Halves([k[0] for k in split.kept.values()], load, fresh_copy(store, {}))


def at_once(fill: S.Stmt) -> S.Stmt:
    """The filling, without the pragma that has copies come late."""
    stripped: S.Stmt = _AtOnce().stmt(fill)
    return stripped


def _is_late(x: Any) -> bool:
    return type(x) is S.AttrStmt and x.attr_key in ASYNC_SCOPES


class _AtOnce(Rewriter):
    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        return self.stmt(s.body) if _is_late(s) else super()._attr(s)


class _Split(_AtOnce):
    """Loads to registers of their own, one for each step of the loops around them. `kept`: by store
    those registers and the place there; `count`: how many there are; `able`: whether all is such
    that it may be loaded at one time and stored at another."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Buffer, Any]] = {}
        self.count = 0
        self.able = True
        self.loops: list[S.For] = []

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        alike = not self.loops or self.loops[0].loop_var.dtype == s.loop_var.dtype
        self.able = self.able and alike and s.kind in _LOOPS and bool(const_int(s.extent))
        self.loops.append(s)
        new = super()._for(s)
        self.loops.pop()
        return new

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        self.able = self.able and is_pure(s.condition)
        return super()._if(s)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        self.able = self.able and is_pure(s.value)
        return super()._let_stmt(s)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        read = [x.buffer.scope() for x in walk(s.value) if type(x) is E.BufferLoad]
        is_copy = set(read) == {"global"} and s.predicate is None and is_pure(s.indices[0])
        if not (self.able and is_copy and s.buffer.scope().startswith("shared")):
            self.able = False
            return s
        lanes = parse(s.value.dtype).lanes
        times, dtype = 1, self.loops[-1].loop_var.dtype if self.loops else "int32"
        place: Any = const(0, dtype)
        for loop in reversed(self.loops):
            step = fold_pair(E.Sub, loop.loop_var, loop.min)
            place = fold_pair(E.Add, place, fold_pair(E.Mul, step, const(times, dtype)))
            times *= const_int(loop.extent) or 0
        self.count += times * -(-lanes * parse(s.buffer.dtype).nbytes // 4)
        kept = Buffer((times * lanes,), s.buffer.dtype, f"{s.buffer.name}.next", scope="local")
        if lanes > 1:
            base = fold_pair(E.Mul, place, const(lanes, dtype))
            place = E.Ramp(base, const(1, dtype), lanes)
        self.kept[id(s)] = (kept, place)
        return S.BufferStore(kept, s.value, (place,))


class _Late(_AtOnce):
    """Stores of what was loaded."""

    def __init__(self, kept: dict[int, tuple[Buffer, Any]]) -> None:
        self.kept = kept

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        kept, place = self.kept[id(s)]
        return S.BufferStore(s.buffer, E.BufferLoad(kept, (place,)), s.indices, s.predicate)
