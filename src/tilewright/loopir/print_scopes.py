"""Where the printer declares each buffer that no signature or allocation names: in the innermost
block around all its uses, before the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import expr as E
from . import realize as R
from . import stmt as S
from .buffer import Buffer
from .visit import CHILDREN, children, free_vars, statements


class Scope:
    """A block of the text: the body of `owner`, which stands in `parent`."""

    __slots__ = ("depth", "owner", "parent")

    def __init__(self, parent: Scope | None, owner: S.Stmt | None) -> None:
        self.parent = parent
        self.owner = owner
        self.depth: int = 0 if parent is None else parent.depth + 1


class _Use:
    """The innermost scope around the uses seen so far, and the statement of it with the first."""

    __slots__ = ("anchor", "scope")

    def __init__(self, scope: Scope, anchor: S.Stmt) -> None:
        self.scope = scope
        self.anchor = anchor

    def climb(self) -> None:
        assert self.scope.parent is not None and self.scope.owner is not None
        self.anchor, self.scope = self.scope.owner, self.scope.parent

    def widen(self, scope: Scope) -> None:
        """Include a use in `scope`."""
        other: Scope | None = scope
        while other is not self.scope:
            assert other is not None
            if other.depth > self.scope.depth:
                other = other.parent
            elif other.depth < self.scope.depth:
                self.climb()
            else:
                other = other.parent
                self.climb()


_NAMED = (R.DeclBuffer, R.BufferRealize)
_BODIES: dict[type, tuple[str, ...]] = {
    S.For: ("body",),
    S.While: ("body",),
    S.LetStmt: ("body",),
    S.AttrStmt: ("body",),
    S.AssertStmt: ("body",),
    S.Allocate: ("body",),
    R.ProducerRealize: ("body",),
    R.BufferRealize: ("body",),
    R.DeclBuffer: ("body",),
    R.AllocateConst: ("body",),
    S.IfThenElse: ("then_case", "else_case"),
}


def place_buffers(root: S.Stmt, declared: Iterable[Buffer]) -> dict[int, list[Buffer]]:
    """For statements (by id), the buffers to declare right before them, in order of first use."""
    known = {id(b) for b in declared}
    uses: dict[Buffer, _Use] = {}

    def use(buffer: Buffer, scope: Scope, anchor: S.Stmt) -> None:
        if id(buffer) in known:
            return
        found = uses.get(buffer)
        if found is None:
            uses[buffer] = _Use(scope, anchor)
        else:
            found.widen(scope)

    known.update(id(s.buffer) for s in statements(root) if isinstance(s, _NAMED))
    stack: list[tuple[S.Stmt, Scope]] = [(root, Scope(None, None))]
    while stack:
        s, scope = stack.pop()
        if isinstance(s, S.SeqStmt):
            stack.extend((x, scope) for x in reversed(s.seq))
            continue
        for buffer in _own_buffers(s):
            use(buffer, scope, s)
        bodies = [getattr(s, name) for name in _BODIES.get(type(s), ())]
        stack.extend((b, Scope(scope, s)) for b in reversed(bodies) if b is not None)
    return _anchors(uses)


def _anchors(uses: dict[Buffer, _Use]) -> dict[int, list[Buffer]]:
    placed: dict[int, list[Buffer]] = {}
    for buffer, found in uses.items():
        needs = {buffer.data}
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            needs.update(free_vars(e))
        in_grid = isinstance(found.anchor, S.For) and _in_head(found.anchor, buffer)
        while found.scope.owner is not None:
            owner = found.scope.owner
            if isinstance(owner, S.LetStmt) and owner.var not in needs:
                in_grid = False
            elif not (in_grid and isinstance(owner, S.For) and owner.body is found.anchor):
                break
            found.climb()
        placed.setdefault(id(found.anchor), []).append(buffer)
    return placed


def _in_head(loop: S.For, buffer: Buffer) -> bool:
    return any(b is buffer for b in _own_buffers(loop))


def _own_buffers(s: S.Stmt) -> list[Buffer]:
    """Buffers that stand in a statement itself, not in the statements below it; in order."""
    found: list[Buffer] = []
    if isinstance(s, (S.BufferStore, S.Prefetch)):
        found.append(s.buffer)
    elif isinstance(s, S.AttrStmt) and isinstance(s.node, Buffer):
        found.append(s.node)
    parts: tuple[Any, ...] = s.buffer.shape if isinstance(s, S.Allocate) else children(s)
    stack = [e for e in reversed(parts) if not isinstance(e, S.Stmt)]
    table, load = CHILDREN, E.BufferLoad
    while stack:
        e = stack.pop()
        kind = type(e)
        if kind is load:
            found.append(e.buffer)
        below = table[kind](e)
        if below:
            stack.extend(below[::-1])
    return found
