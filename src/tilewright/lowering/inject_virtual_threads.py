"""Run virtual threads interleaved in one thread."""

from __future__ import annotations

from typing import Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import Folder, fresh_copy, times, walk_stmts
from ..loopir.expr import const, const_int
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import walk
from .options import LowerOptions

MAX_UNROLLED = 15


def inject_virtual_threads(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Replace AttrStmt "virtual_thread" by copies of the innermost statements that depend on it.

    A statement that depends on the virtual thread is repeated for each, in place: loops, conditions
    and barriers that do not depend on it stay single, so that the copies stand side by side.
    Buffers allocated in the scope whose content depends on it get one part a virtual thread, and
    all do where the thread's tag is no "vthread": what one of them computes is its own then. Up to
    15 copies of a statement without loops are written out, else a loop runs over them.

    Needs flat buffers and constant extents. Guarantees that no "virtual_thread" is left. Stands
    after vectorize_loops, so that what it repeats is vector code, and before rewrite_storage.
    """
    keys = (s for s in walk_stmts(func.body) if type(s) is S.AttrStmt)
    if not any(s.attr_key == "virtual_thread" for s in keys):
        return func
    return func.with_body(_Scopes().stmt(func.body))


class _Scopes(Rewriter):
    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        body = self.stmt(s.body)
        if s.attr_key != "virtual_thread":
            return s.with_parts(body=body)
        count = const_int(s.value)
        var: E.Var = s.node.var
        if count is None:
            loop = E.Var(var.name, var.dtype)
            copy = fresh_copy(body, {var: loop})
            return S.For(loop, const(0, var.dtype), s.value, S.ForKind.SERIAL, copy)
        shares = s.node.thread_tag.startswith("vthread")
        split = _dependent_buffers(var, body) if shares else _allocated(body)
        return _Injector(var, count, split).stmt(body)


def _allocated(body: S.Stmt) -> set[E.Var]:
    """Data variables of the buffers allocated in `body`."""
    return {x.buffer.data for x in walk_stmts(body) if type(x) is S.Allocate}


def _dependent_buffers(var: E.Var, body: S.Stmt) -> set[E.Var]:
    """Data variables of the buffers allocated in `body` whose content depends on `var`."""
    scan = _Scan()
    scan.statement(body, ())
    dependent: set[Any] = {var}
    changed = True
    while changed:
        changed = False
        for target, sources in scan.flows:
            if target not in dependent and not dependent.isdisjoint(sources):
                dependent.add(target)
                changed = True
    return {data for data in scan.allocated if data in dependent}


class _Scan(Recursive):
    """Which variables and buffers each buffer, let and loop variable of a statement is made
    from."""

    recursive = ("statement",)

    def __init__(self) -> None:
        self.flows: list[tuple[E.Var, frozenset[E.Var]]] = []
        self.allocated: list[E.Var] = []

    @staticmethod
    def _reads(*exprs: Any) -> list[E.Var]:
        found = []
        for e in exprs:
            for x in walk(e):
                if isinstance(x, E.Var):
                    found.append(x)
                elif type(x) is E.BufferLoad:
                    found.append(x.buffer.data)
        return found

    def statement(self, s: Any, outer: tuple[E.Var, ...]) -> None:
        kind = type(s)
        if kind is S.SeqStmt:
            for part in s.seq:
                self.statement(part, outer)
        elif kind is S.BufferStore:
            reads = self._reads(s.value, *s.indices)
            self.flows.append((s.buffer.data, frozenset((*outer, *reads))))
        elif kind is S.Evaluate:
            reads = self._reads(s.value)
            read_only = set(_read_only(s.value))
            pointers = [v for v in reads if v.dtype == "handle" and v not in read_only]
            self.flows.extend((p, frozenset((*outer, *reads))) for p in pointers)
        elif kind is S.For or kind is S.LetStmt:
            var = s.loop_var if kind is S.For else s.var
            parts = (s.min, s.extent) if kind is S.For else (s.value,)
            reads = self._reads(*parts)
            self.flows.append((var, frozenset(reads)))
            self.statement(s.body, (*outer, *reads) if kind is S.For else outer)
        elif kind is S.IfThenElse:
            inside = (*outer, *self._reads(s.condition))
            self.statement(s.then_case, inside)
            if s.else_case is not None:
                self.statement(s.else_case, inside)
        elif kind is S.While:
            self.statement(s.body, (*outer, *self._reads(s.condition)))
        else:
            if kind is S.Allocate:
                self.allocated.append(s.buffer.data)
            if kind in (S.Allocate, S.AttrStmt, S.AssertStmt):
                self.statement(s.body, outer)


def _read_only(e: Any) -> list[Any]:
    """Memory that a call is given by pointers to read from, and by none to write to."""
    masks: dict[Any, int] = {}
    for x in walk(e):
        if type(x) is E.Call and x.op.name == "tir.tvm_access_ptr":
            mask = const_int(x.args[4])
            masks[x.args[1]] = masks.get(x.args[1], 0) | (2 if mask is None else mask)
    return [data for data, mask in masks.items() if not mask & 2]


class _Injector(Folder):
    """Repeats what depends on one virtual thread, as deep inside as possible."""

    def __init__(self, var: E.Var, count: int, split: set[E.Var]) -> None:
        self.var, self.count, self.split = var, count, split
        self.bigger: dict[Buffer, Buffer] = {}
        self.parts: dict[E.Var, Any] = {}

    def depends(self, *exprs: Any) -> bool:
        """Whether an expression has another value in another virtual thread."""
        for e in exprs:
            for x in walk(e):
                if x is self.var or (isinstance(x, E.Var) and x in self.split):
                    return True
                if type(x) is E.BufferLoad and x.buffer.data in self.split:
                    return True
        return False

    def buffer(self, b: Buffer) -> Buffer:
        size = self.parts.get(b.data)
        if size is None:
            return b
        big = self.bigger.get(b)
        if big is None:
            total = times(size, self.count)
            big = b.with_(shape=(total,))
            self.bigger[b] = big
        return big

    def _at(self, b: Buffer, indices: Any) -> Any:
        size = self.parts.get(b.data)
        if size is None:
            return indices
        return (indices[0] + self.var * size,)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        new = super()._load(e)
        if e.buffer.data not in self.parts:
            return new
        return E.BufferLoad(new.buffer, self._at(e.buffer, new.indices), new.predicate)

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        new = super()._call(e)
        if e.op.name == "tir.tvm_access_ptr" and isinstance(data := e.args[1], E.Var):
            size = self.parts.get(data)
            if size is None:
                return new
            a = new.args
            start = a[2] + self.var * size
            return E.Call(e.dtype, e.op, (a[0], a[1], start, a[3], a[4]))
        return new

    def _repeat(self, s: S.Stmt) -> S.Stmt:
        """`s`, once for each virtual thread."""
        plain = _Plain(self).stmt(s)
        if self.count <= MAX_UNROLLED and not any(type(x) is S.For for x in walk(s)):
            dtype = self.var.dtype
            copies = [fresh_copy(plain, {self.var: const(i, dtype)}) for i in range(self.count)]
            return S.seq(copies)
        loop = E.Var(f"{self.var.name}.s", self.var.dtype)
        zero, count = const(0, loop.dtype), const(self.count, loop.dtype)
        return S.For(loop, zero, count, S.ForKind.SERIAL, fresh_copy(plain, {self.var: loop}))

    @handles(S.BufferStore, S.Evaluate)
    def _leaf_stmt(self, s: Any) -> Any:
        parts = (*s.indices, s.value) if type(s) is S.BufferStore else (s.value,)
        own = type(s) is S.BufferStore and s.buffer.data in self.split
        predicate = getattr(s, "predicate", None)
        if own or self.depends(*parts, *(() if predicate is None else (predicate,))):
            return self._repeat(s)
        return s

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        if self.depends(s.min, s.extent):
            return self._repeat(s)
        return s.with_parts(body=self.stmt(s.body))

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        return self._repeat(s) if self.depends(s.condition) else super()._if(s)

    @handles(S.LetStmt)
    def _let_stmt(self, s: S.LetStmt) -> Any:
        return self._repeat(s) if self.depends(s.value) else super()._let_stmt(s)

    @handles(S.While)
    def _while(self, s: S.While) -> Any:
        return self._repeat(s) if self.depends(s.condition) else super()._while(s)

    @handles(S.AssertStmt)
    def _assert(self, s: S.AssertStmt) -> Any:
        return self._repeat(s) if self.depends(s.condition) else super()._assert(s)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if self.depends(s.value):
            return self._repeat(s)
        body = self.stmt(s.body)
        node = self.buffer(s.node) if isinstance(s.node, Buffer) else s.node
        return s.with_parts(node=node, body=body)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        if s.buffer.data in self.split:
            self.parts[s.buffer.data] = s.buffer.shape[0]
        return S.Allocate(self.buffer(s.buffer), self.stmt(s.body), s.annotations)


class _Plain(Folder):
    """Redirects accesses to the enlarged buffers without repeating anything."""

    def __init__(self, injector: _Injector) -> None:
        self.injector = injector

    def buffer(self, b: Buffer) -> Buffer:
        return self.injector.buffer(b)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        return self.injector._load(e)

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        return self.injector._call(e)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        new = super()._store(s)
        if s.buffer.data not in self.injector.parts:
            return new
        at = self.injector._at(s.buffer, new.indices)
        return S.BufferStore(new.buffer, new.value, at, new.predicate)
