"""Let buffers that do not live at the same time share memory, and allocate outside loops."""

from __future__ import annotations

from typing import Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import walk_stmts
from ..loopir.expr import const_int
from ..loopir.hopper_calls import Described
from ..loopir.iter import THREAD_KEYS
from ..loopir.operators import factors
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import CHILDREN, walk
from .in_place import may_write_over
from .options import LowerOptions
from .usage import buffer_bytes

SMALL_BYTES = 2048
SCALAR_BYTES = 4
GROWTH = 16
_REGISTERS = ("local", "warp", "wmma", "m16n8k8")


def rewrite_storage(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Move allocations to the start of the function, or of the body of the parallel loop or thread
    that owns them, and give buffers with disjoint lifetimes one memory.

    Sharing buffers have the same scope and type, and sizes that are constant within a factor of 16
    or equal expressions. A buffer lives from its first to its last use; a use in a loop or a launch
    of threads inside its scope counts for all of that. Allocations of at most 2048 bytes stay where
    they are: they become registers or stack slots, which sharing would tie together. So do those
    whose size is computed inside.

    Needs flat buffers. Stands after vectorize_loops, inject_virtual_threads and
    inject_double_buffer, which enlarge buffers, and before unroll_loops, which would multiply
    allocations.
    """
    if options.disable_storage_rewrite:
        return func
    return _rewritten(func, SMALL_BYTES)


def rewrite_all_storage(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`rewrite_storage` of small allocations too, as TVM does it: they move, but share nothing if
    they are of at most 4 bytes or in registers (scopes "local", "warp" and those of fragments,
    unless they name a memory of their own, as "local.L0A"). A result that is computed element by
    element from an operand that is not used later takes its memory."""
    return _rewritten(func, 0)


def _rewritten(func: S.PrimFunc, small: int) -> S.PrimFunc:
    if not any(type(x) is S.Allocate for x in walk_stmts(func.body)):
        return func
    return func.with_body(_region(func.body, small))


def _region(body: S.Stmt, small: int) -> S.Stmt:
    """`body` with the allocations that it owns planned together, but those of `small` bytes."""
    plan = _Plan(body, small)
    body = _Apply(plan).stmt(body)
    for slot in reversed(plan.slots):
        body = S.Allocate(slot.buffer, body, slot.annotations)
    return body


def _owns_threads(s: Any) -> bool:
    """Whether the body of `s` runs once a thread, so that its allocations stay in it."""
    if type(s) is S.For:
        return s.kind in (S.ForKind.PARALLEL, S.ForKind.THREAD_BINDING)
    if type(s) is not S.AttrStmt or s.attr_key not in THREAD_KEYS:
        return False
    return not (type(s.body) is S.AttrStmt and s.body.attr_key == "thread_extent")


class _Life:
    """One allocation of a region and when it is used."""

    __slots__ = ("begin", "depth", "end", "first", "last", "stmt")

    def __init__(self, stmt: S.Allocate, depth: int) -> None:
        self.stmt = stmt
        self.depth = depth
        self.first = -1
        self.last = -1
        self.begin: Any = None  # the loop or store of its scope that uses it first
        self.end: Any = None  # ... and last


def _names_memory(scope: str) -> bool:
    """Whether a scope of registers is followed by the name of a memory."""
    return scope.startswith(("local.", "warp."))


class _Slot:
    """Memory for one or several buffers."""

    def __init__(self, life: _Life) -> None:
        self.buffer = life.stmt.buffer
        self.annotations = life.stmt.annotations
        self.last = life.last
        self.latest = life

    def fits(self, life: _Life, in_place: bool) -> bool:
        new, own = life.stmt.buffer, self.buffer
        if new.dtype != own.dtype or new.scope_name != own.scope_name:
            return False
        if self.last >= life.first and not (in_place and self._over(life)):
            return False
        if life.stmt.annotations or self.annotations:
            return False
        if own.scope_name.startswith(_REGISTERS) and not _names_memory(own.scope_name):
            return False
        if any(buffer_bytes(b) in range(1, SCALAR_BYTES + 1) for b in (new, own)):
            return False
        size, have = const_int(new.shape[0]), const_int(own.shape[0])
        if size is not None and have is not None:
            return max(size, have) <= GROWTH * min(size, have)
        if size is not None or have is not None:
            return False
        return sorted(map(str, factors(new.shape[0]))) == sorted(map(str, factors(own.shape[0])))

    def _over(self, life: _Life) -> bool:
        """Whether a buffer may be written over the one that is there, by its first statement."""
        old, size = self.latest, const_int(life.stmt.buffer.shape[0])
        return (
            old.end is life.begin is not None
            and old.depth == life.depth
            and size is not None
            and size == const_int(old.stmt.buffer.shape[0]) == const_int(self.buffer.shape[0])
            and may_write_over(life.begin, life.stmt.buffer.data, old.stmt.buffer.data)
        )

    def take(self, life: _Life) -> None:
        size, have = const_int(life.stmt.buffer.shape[0]), const_int(self.buffer.shape[0])
        if size is not None and have is not None and size > have:
            self.buffer = self.buffer.with_(shape=(size,))
        self.last = life.last
        self.latest = life


class _Loop:
    __slots__ = ("start", "stmt", "used")

    def __init__(self, start: int, stmt: Any) -> None:
        self.start = start
        self.stmt = stmt
        self.used: set[_Life] = set()


class _Plan(Recursive):
    """Lifetimes of a region's allocations on one clock, and the slots they get."""

    recursive = ("_scan",)

    def __init__(self, body: S.Stmt, small: int) -> None:
        self.small = small
        self.clock = 0
        self.loops: list[_Loop] = []
        self.store: Any = None  # the store that is being looked at
        self.lives: dict[E.Var, _Life] = {}
        self.described = Described()
        self.defined: set[E.Var] = set()
        self.slots: list[_Slot] = []
        self.moved: dict[E.Var, _Slot] = {}
        self._scan(body, owned=True)
        self._assign()

    def _scan(self, s: Any, owned: bool) -> None:
        """Visit `s`; `owned` is false inside a nested region, whose allocations are not ours."""
        kind = type(s)
        self.clock += 1
        if kind is S.Allocate:
            if owned and self._liftable(s.buffer):
                self.lives[s.buffer.data] = _Life(s, len(self.loops))
            self._touch_exprs(s.buffer.shape)
            self._scan(s.body, owned)
        elif kind is S.For or kind is S.While:
            self._scan_repeated(s, owned)
        elif kind in (S.LetStmt, S.AttrStmt, S.AssertStmt):
            self._scan_scope(s, owned)
        else:
            self.store = s if kind is S.BufferStore else None
            if kind is S.BufferStore:
                self._touch(s.buffer.data)
            for part in CHILDREN[kind](s):
                if isinstance(part, S.Stmt):
                    self._scan(part, owned)
                else:
                    self._touch_exprs((part,))

    def _scan_scope(self, s: Any, owned: bool) -> None:
        if type(s) is S.LetStmt:
            self.defined.add(s.var)
        elif type(s) is S.AttrStmt:
            if isinstance(s.node, Buffer):
                self._touch(s.node.data)
            elif isinstance(s.node, E.Var):
                self._touch(s.node)
        if type(s) is S.AttrStmt and s.attr_key in THREAD_KEYS:
            self._scan_repeated(s, owned)  # one thread may have ended before another one starts
            return
        self._touch_exprs(CHILDREN[type(s)](s)[:-1])
        self._scan(s.body, owned)

    def _scan_repeated(self, s: Any, owned: bool) -> None:
        """What runs once for each of several values: a loop, or a launch of threads."""
        if type(s) is S.For:
            self.defined.add(s.loop_var)
        loop = _Loop(self.clock, s)
        self.loops.append(loop)
        self._touch_exprs(CHILDREN[type(s)](s)[:-1])
        self._scan(s.body, owned and not _owns_threads(s))
        self.loops.pop()
        self.clock += 1
        for life in loop.used:
            life.last = self.clock

    def _liftable(self, buffer: Buffer) -> bool:
        if len(buffer.shape) != 1 or buffer.strides:
            return False
        size = const_int(buffer.shape[0])
        if size is not None:
            return buffer_bytes(buffer) > self.small
        own = self.defined
        return not any(
            type(x) is E.BufferLoad or type(x) is E.Call or x in own
            for x in walk(buffer.shape[0])
            if not isinstance(x, E.BinaryOp)
        )

    def _touch_exprs(self, exprs: Any) -> None:
        for e in exprs:
            for x in walk(e):
                if type(x) is E.BufferLoad:
                    self._touch(x.buffer.data)
                elif type(x) is E.Var and x in self.lives:
                    self._touch(x)
                for data in self.described.used(x):
                    self._touch(data)

    def _touch(self, data: E.Var) -> None:
        life = self.lives.get(data)
        if life is None:
            return
        at, life.end = self.clock, self.store
        if len(self.loops) > life.depth:
            loop = self.loops[life.depth]
            loop.used.add(life)
            at, life.end = loop.start, loop.stmt
        if life.first < 0:
            life.first, life.begin = at, life.end
        life.last = self.clock

    def _assign(self) -> None:
        used = [life for life in self.lives.values() if life.first >= 0]
        for life in sorted(used, key=lambda x: x.first):
            slot = next((s for s in self.slots if s.fits(life, not self.small)), None)
            if slot is None:
                slot = _Slot(life)
                self.slots.append(slot)
            else:
                slot.take(life)
            self.moved[life.stmt.buffer.data] = slot


class _Apply(Rewriter):
    """Drops the planned allocations and redirects accesses to the slots."""

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.buffers: dict[Buffer, Buffer] = {}

    def buffer(self, b: Buffer) -> Buffer:
        slot = self.plan.moved.get(b.data)
        if slot is None:
            return b
        new = self.buffers.get(b)
        if new is None:
            same = b.ndim == 1 and b.dtype == slot.buffer.dtype and not b.strides
            new = slot.buffer if same else b.with_(data=slot.buffer.data)
            self.buffers[b] = new
        return new

    @handles(E.Var)
    def _var(self, e: E.Var) -> Any:
        slot = self.plan.moved.get(e)
        return e if slot is None else slot.buffer.data

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        if s.buffer.data in self.plan.moved:
            return self.stmt(s.body)
        return super()._allocate(s)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        node = s.node
        if isinstance(node, Buffer):
            node = self.buffer(node)
        elif isinstance(node, E.Var):
            node = self._var(node)
        value, body = self.expr(s.value), self.stmt(s.body)
        if _owns_threads(s):
            body = _region(body, self.plan.small)
        return s.with_parts(node=node, value=value, body=body)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        new = super()._for(s)
        return new.with_parts(body=_region(new.body, self.plan.small)) if _owns_threads(s) else new
