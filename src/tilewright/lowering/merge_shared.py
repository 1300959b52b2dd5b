"""One piece of shared memory for arrays that are never needed at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.hopper_calls import COPIES, WGMMA, WGMMA_RS, Described
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import children, nodes
from .thread_loops import launch_thread_loops
from .unify_threads import is_launch

_ELSEWHERE = (WGMMA, WGMMA_RS, "tir.ptx_cp_async_bulk", *COPIES.values())
_MUCH = 16 << 10  # bytes, above which a multiprocessor has room for few such blocks


def merge_shared(func: S.PrimFunc) -> S.PrimFunc:
    """Let shared arrays take turns in one place.

    Loop partitioning repeats the body of a kernel for blocks at the edge and for the rest of a
    loop, with the arrays in it. Arrays in different branches share memory whatever their sizes;
    arrays that follow each other do where they are such copies of one (shared memory decides how
    many blocks run, and the barrier that this takes was there before the loop was partitioned),
    and where all together are so large that they decide it: what a product's results pass through
    lies where its tiles were. Merged arrays are allocated at the start of the kernel.

    Needs unify_threads. Stands before sync_threads, which sees the new neighbours.
    """
    func = launch_thread_loops(func)
    return func.with_body(_Kernels().stmt(func.body))


class _Kernels(Rewriter):
    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if not is_launch(s):
            return super()._attr(s)
        inner = self.stmt(s.body) if is_launch(s.body) else _merge(s.body)
        return s.with_parts(body=inner)


@dataclass
class _Life:
    """Where an array is used: positions in the order of the text, and the branches around all of
    its uses, by the identity of the conditional."""

    buffer: Buffer
    nbytes: int
    loops: int
    start: int = -1
    end: int = -1
    branches: dict[int, int] | None = None

    def excludes(self, other: _Life) -> bool:
        """Whether the two are used in different branches of one conditional."""
        mine, theirs = self.branches or {}, other.branches or {}
        return any(theirs.get(key, side) != side for key, side in mine.items())

    def allows(self, other: _Life, is_much: bool) -> bool:
        """Whether both may have one place; where there `is_much` shared memory, a barrier more is
        put up with."""
        mine, theirs = self.buffer, other.buffer
        alike = (mine.dtype, mine.scope()) == (theirs.dtype, theirs.scope())
        if alike and self.excludes(other):
            return True
        if not (self.end < other.start or other.end < self.start):
            return False
        copies = mine.name == theirs.name and self.nbytes == other.nbytes
        once = is_much and not self.loops and not other.loops and mine.scope() == theirs.scope()
        return (alike and copies) or once


@dataclass
class _Slot:
    members: list[_Life] = field(default_factory=list)


def _merge(body: S.Stmt) -> S.Stmt:
    lives = [x for x in _lives(body) if x.start >= 0]
    is_much = sum(x.nbytes for x in lives) > _MUCH and not any(map(_is_elsewhere, nodes(body)))
    slots: list[_Slot] = []
    for life in lives:
        for slot in slots:
            if all(life.allows(m, is_much) for m in slot.members):
                slot.members.append(life)
                break
        else:
            slots.append(_Slot([life]))
    shared = [slot for slot in slots if len(slot.members) > 1]
    if not shared:
        return body
    places: dict[E.Var, Buffer] = {}
    for slot in shared:
        largest = max(slot.members, key=lambda m: m.nbytes).buffer
        alignment = max(m.buffer.data_alignment for m in slot.members)
        if alignment > largest.data_alignment:
            largest = largest.with_(data_alignment=alignment)
        places.update((m.buffer.data, largest) for m in slot.members)
    merged: S.Stmt = _Merge(places).stmt(body)
    for slot in reversed(shared):
        merged = S.Allocate(places[slot.members[0].buffer.data], merged)
    return merged


def _is_elsewhere(x: Any) -> bool:
    """Whether shared memory is read or written by units of their own (TMA, wgmma), in an order that
    barriers among threads do not keep."""
    return type(x) is E.Call and x.op.name in _ELSEWHERE


def _lives(body: S.Stmt) -> list[_Life]:
    """The shared arrays of constant size, in the order of their allocations."""
    found: dict[E.Var, _Life] = {}
    position = 0
    loops: list[_Loop] = []
    branches: dict[int, int] = {}
    described = Described()
    stack: list[Any] = [body]
    while stack:
        item = stack.pop()
        if isinstance(item, _End):
            item.leave(loops, branches, position)
            continue
        position += 1
        kind = type(item)
        if kind is S.Allocate and item.buffer.scope().startswith("shared"):
            size = const_int(item.buffer.shape[0]) if len(item.buffer.shape) == 1 else None
            if size is not None and not item.annotations:
                t = parse(item.buffer.dtype)
                nbytes = size * t.nbytes * t.lanes
                found[item.buffer.data] = _Life(item.buffer, nbytes, len(loops))
        for data in (*_used(item), *described.used(item)):
            life = found.get(data)
            if life is not None:
                _use(life, position, loops, branches)
        if kind is S.IfThenElse:
            sides = [item.then_case] + ([] if item.else_case is None else [item.else_case])
            for side, case in reversed(list(enumerate(sides))):
                stack += [_End(id(item)), case, _End(id(item), side)]
            stack.append(item.condition)
            continue
        if kind in (S.For, S.While):
            loop = _Loop(position)
            stack += [_End(loop=loop), item.body]
            loops.append(loop)
            stack.extend(c for c in children(item) if not isinstance(c, S.Stmt))
            continue
        stack.extend(reversed(children(item)))
    return list(found.values())


class _Loop:
    __slots__ = ("lives", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.lives: list[_Life] = []


@dataclass
class _End:
    """Entering a branch (with `side`), leaving it, or leaving a loop."""

    key: int = 0
    side: int | None = None
    loop: _Loop | None = None

    def leave(self, loops: list[_Loop], branches: dict[int, int], position: int) -> None:
        if self.loop is not None:
            loops.pop()
            for life in self.loop.lives:
                life.end = max(life.end, position)
        elif self.side is not None:
            branches[self.key] = self.side
        else:
            branches.pop(self.key, None)


def _use(life: _Life, position: int, loops: list[_Loop], branches: dict[int, int]) -> None:
    """An array that is allocated outside of a loop lives through all of its iterations."""
    start = position
    if len(loops) > life.loops:
        outer = loops[life.loops]
        outer.lives.append(life)
        start = outer.start
    life.start = start if life.start < 0 else min(life.start, start)
    life.end = max(life.end, position)
    if life.branches is None:
        life.branches = dict(branches)
    else:
        life.branches = {k: v for k, v in life.branches.items() if branches.get(k) == v}


def _used(node: Any) -> list[E.Var]:
    kind = type(node)
    if kind is E.BufferLoad or kind is S.BufferStore:
        return [node.buffer.data]
    if isinstance(node, E.Var) and node.dtype == "handle":
        return [node]
    return []


class _Merge(Rewriter):
    """Puts arrays into their places, and their allocations away."""

    def __init__(self, places: dict[E.Var, Buffer]) -> None:
        self.places = places
        self.views: dict[Buffer, Buffer] = {}

    def buffer(self, b: Buffer) -> Buffer:
        place = self.places.get(b.data)
        if place is None or b is place:
            return b
        view = self.views.get(b)
        if view is None:
            same = b.dtype == place.dtype
            view = place if same else b.with_(data=place.data, name=place.name)
            self.views[b] = view
        return view

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        place = self.places.get(e)
        return e if place is None else place.data

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        if s.buffer.data in self.places:
            return self.stmt(s.body)
        return super()._allocate(s)
