"""Buffers that a loop fills ahead of their use: shared by double buffers and pipelines.

AttrStmt "double_buffer_scope" marks the statement that fills a buffer. Where the filling for a
later step of a loop does not depend on what steps before it do, the buffer can have several slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ..base.deep import recursive
from ..base.dtype import parse
from ..base.errors import InternalError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import Folder, fresh_copy, times
from ..loopir.expr import const, const_int
from ..loopir.iter import THREAD_KEYS
from ..loopir.rewrite import handles
from ..loopir.visit import children, uses_var, walk

SCOPE = "double_buffer_scope"
_POINTER = "tir.tvm_access_ptr"
_ALIGNMENT = 32  # bytes: what loads of matrix fragments need


class Fill:
    """Buffers that one statement fills (several for a stage with several outputs): their
    allocations, the outermost attribute, and the statement in the innermost."""

    __slots__ = ("allocations", "attr", "body")

    def __init__(self, allocations: list[S.Allocate], attr: S.AttrStmt, body: S.Stmt) -> None:
        self.allocations, self.attr, self.body = allocations, attr, body

    @property
    def buffers(self) -> list[Buffer]:
        return [a.buffer for a in self.allocations]


def fills_of(loop: S.For) -> list[Fill]:
    """The fillings that run in each step of a loop and may run ahead of it. A buffer that is filled
    piece by piece, as a rolling one is in loops that were written out, is none of them."""
    found: list[Fill] = []
    _find(loop.body, {}, found)
    times = Counter(b.data for f in found for b in f.buffers)
    whole = [f for f in found if all(times[b.data] == 1 for b in f.buffers)]
    return [f for f in whole if _fixed_size(f, loop) and _independent(f, loop)]


@recursive
def _find(s: S.Stmt, allocated: dict[E.Var, S.Allocate], found: list[Fill]) -> None:
    if type(s) is S.SeqStmt:
        for part in s.seq:
            _find(part, allocated, found)
    elif type(s) is S.Allocate:
        _find(s.body, {**allocated, s.buffer.data: s}, found)
    elif type(s) is S.AttrStmt and s.attr_key == SCOPE:
        nodes, body = [s.node], s.body
        while type(body) is S.AttrStmt and body.attr_key == SCOPE:
            nodes.append(body.node)
            body = body.body
        filled = [node.data if isinstance(node, Buffer) else node for node in nodes]
        own = [allocated[data] for data in filled if data in allocated]
        if len(own) == len(nodes):
            found.append(Fill(own, s, body))  # what is filled for this filling is a part of it
        else:
            _find(body, allocated, found)
    elif type(s) is S.AttrStmt and s.attr_key not in THREAD_KEYS:
        _find(s.body, allocated, found)  # threads launched in the loop cannot fill before it


def _fixed_size(fill: Fill, loop: S.For) -> bool:
    """Whether memory for the filling can be allocated outside of the loop."""
    return not any(uses_var(e, loop.loop_var.same_as) for b in fill.buffers for e in b.shape)


def _independent(fill: Fill, loop: S.For) -> bool:
    """Whether filling for the next step gives the same before and after the present one."""
    inside = {id(x) for x in walk(fill.body)}
    filled = {b.data for b in fill.buffers}
    read: set[E.Var] = set()
    for x in walk(fill.body):
        if type(x) is E.BufferLoad:
            read.add(x.buffer.data)
        elif type(x) is S.Evaluate or (isinstance(x, E.Var) and x.dtype == "handle"):
            return False
    read -= filled
    for x in _uses(loop.body, filled):
        if id(x) in inside:
            continue
        if type(x) is S.BufferStore and x.buffer.data in read:
            return False
        if isinstance(x, E.Var) and (x in read or x in filled):
            return False
    return True


def _uses(body: S.Stmt, filled: set[E.Var]) -> Iterator[Any]:
    """All nodes, but for the memory in pointers through which a callee reads `filled` ones."""
    stack: list[Any] = [body]
    while stack:
        x = stack.pop()
        yield x
        below = list(children(x))
        if type(x) is E.Call and x.op.name == _POINTER and const_int(x.args[4]) == 1:
            below = [c for c in below if not (isinstance(c, E.Var) and c in filled)]
        stack.extend(below)


class Ahead:
    """Fillings of one loop, and their buffers with `count` slots each.

    `sizes`: elements from one slot to the next, by data variable; `grown`: the buffers with all
    their slots. `aligned`: slots of shared memory start at multiples of 32 bytes.
    """

    def __init__(self, fills: list[Fill], count: int, aligned: bool = False) -> None:
        self.fills = fills
        self.count = count
        self.of_attr = {id(f.attr): f for f in fills}
        buffers = [b for f in fills for b in f.buffers]
        self.sizes: dict[Any, Any] = {b.data: _pitch(b, aligned) for b in buffers}
        self.grown = {b: b.with_(shape=(times(self.sizes[b.data], count),)) for b in buffers}

    def allocated(self, body: S.Stmt) -> S.Stmt:
        """`body` within the allocations of all slots."""
        for a in [a for f in reversed(self.fills) for a in reversed(f.allocations)]:
            body = S.Allocate(self.grown[a.buffer], body, a.annotations)
        return body

    def fill(self, f: Fill, slot: Any, step: E.Var, at: Any) -> S.Stmt:
        """What fills slot `slot` for step `at`, where `step` is the loop's variable."""
        body: S.Stmt = Slots(self, slot, _nested).stmt(f.body)
        return fresh_copy(body, {step: at})

    def use(
        self, body: S.Stmt, slot: Any, step: E.Var, at: Any, refill: Callable[[Fill], S.Stmt]
    ) -> S.Stmt:
        """The body of the loop in step `at` on slot `slot`, fillings replaced by `refill`'s."""
        body = Slots(self, slot, refill).stmt(body)
        return fresh_copy(body, {step: at})


def _nested(f: Fill) -> S.Stmt:
    raise InternalError(f"a filling of {f.buffers[0].name} within another")


class Slots(Folder):
    """Moves accesses of buffers to a slot of them, and replaces fillings by what `refill` says."""

    def __init__(self, ahead: Ahead, slot: Any, refill: Callable[[Fill], S.Stmt]) -> None:
        self.ahead = ahead
        self.sizes = ahead.sizes
        self.slot = slot
        self.refill = refill

    def buffer(self, b: Buffer) -> Buffer:
        return self.ahead.grown.get(b, b)

    def _at(self, data: Any, index: Any) -> Any:
        shift = self.slot * self.sizes[data]
        if type(index) is E.Ramp:
            return E.Ramp(index.base + shift, index.stride, index.lanes)
        return index + shift

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        new = super()._load(e)
        if e.buffer.data not in self.sizes:
            return new
        index = self._at(e.buffer.data, new.indices[0])
        return E.BufferLoad(new.buffer, (index,), new.predicate)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        new = super()._store(s)
        if s.buffer.data not in self.sizes:
            return new
        index = self._at(s.buffer.data, new.indices[0])
        return S.BufferStore(new.buffer, new.value, (index,), new.predicate)

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        new = super()._call(e)
        if e.op.name != _POINTER or e.args[1] not in self.sizes:
            return new
        a = new.args
        return E.Call(e.dtype, e.op, (a[0], a[1], self._at(a[1], a[2]), a[3], a[4]))

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        return self.stmt(s.body) if s.buffer.data in self.sizes else super()._allocate(s)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        f = self.ahead.of_attr.get(id(s))
        return super()._attr(s) if f is None else self.refill(f)


def _pitch(b: Buffer, aligned: bool) -> Any:
    """Elements from one slot to the next."""
    size = const_int(b.shape[0])
    if not aligned or size is None or not b.scope().startswith("shared"):
        return b.shape[0]
    t = parse(b.dtype)
    unit = max(_ALIGNMENT // max(t.nbytes * t.lanes, 1), 1)
    return const((size + unit - 1) // unit * unit)
