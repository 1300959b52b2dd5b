"""Copies from the device's memory to shared memory that threads do not wait for at once."""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const, const_int
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import nodes
from ..target.target import Target
from .software_pipeline import COMMIT_SCOPE, WAIT_SCOPE
from .statement_accesses import ASYNC_SCOPES, is_barrier
from .sync_threads import FENCE

COPY, COMMIT, WAIT = "tir.ptx_cp_async", "tir.ptx_commit_group", "tir.ptx_wait_group"
_SIZES = (4, 8, 16)  # bytes that the instruction copies


def inject_async_copy(func: S.PrimFunc, target: Target) -> S.PrimFunc:
    """Stores under the pragma "async_scope" become `cp.async`, and every barrier waits for them.

    `s[AA].pragma(s[AA].op.axis[0], "async_scope")` asks for it, for a stage that copies an array
    on the device to shared memory, element by element or in vectors, with zeros in the place of
    what a condition leaves out, which may be all of it. Together with `double_buffer` the copy of
    the next tile runs while this one is computed with; the pragma "software_pipeline_stages" says
    how many tiles are under way at once. Stores that are no such copies stay what they are, as do
    all where the target is not CUDA (OpenCL has no such copies; before sm_80 CUDA copies at once).

    Needs the barriers of sync_threads, which also separates a thread's own copies from its reads.
    Guarantees that a barrier stands behind a wait for the copies before it. Stands right
    after sync_threads.
    """
    marks = (*ASYNC_SCOPES, COMMIT_SCOPE, WAIT_SCOPE)
    if not any(type(s) is S.AttrStmt and s.attr_key in marks for s in nodes(func.body)):
        return func
    copies = _Copies(target.kind.name == "cuda")
    body = copies.stmt(func.body)
    return func.with_body(_Waits(copies.count > 0, copies.loose).stmt(body))


class _Copies(Rewriter):
    def __init__(self, able: bool) -> None:
        self.able = able
        self.inside = False
        self.read: dict[str, Buffer] = {}  # by dtype, an array that copies here read
        self.committed = False
        self.count = 0
        self.loose = False  # whether there are copies that no pipeline commits

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == COMMIT_SCOPE:
            self.committed = True
            new = super()._attr(s)
            self.committed = False
            return new
        if s.attr_key not in ASYNC_SCOPES:
            return super()._attr(s)
        if self.inside or not self.able:
            return self.stmt(s.body)
        self.inside = True
        self.read = {
            x.buffer.dtype: x.buffer
            for x in nodes(s.body)
            if type(x) is E.BufferLoad and x.buffer.scope() == "global"
        }
        body = self.stmt(s.body)
        self.inside = False
        return body

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        copy = (_copy(s) or self._zeros(s)) if self.inside else None
        if copy is None:
            return s
        self.count += 1
        self.loose = self.loose or not self.committed
        return copy

    def _zeros(self, s: S.BufferStore) -> S.Stmt | None:
        """The store of zeros, as a tile has beyond the edges, as a copy of nothing: from an array
        that is read here anyway."""
        source = self.read.get(s.buffer.dtype)
        if source is None or not _is_zero(s.value) or s.predicate is not None:
            return None
        return _copy_of(s, source, const(0), const(False, "bool"))


def _call(dtype: str, name: str, *args: Any) -> S.Stmt:
    return S.Evaluate(E.Call(dtype or "int32", name, args))


def _copy(s: S.BufferStore) -> S.Stmt | None:
    """The store as a copy, where it is one."""
    value, condition = s.value, None
    while type(value) is E.Call and value.op.name == "tir.if_then_else":
        inside, value, other = value.args
        if not _is_zero(other) or parse(inside.dtype).lanes > 1:
            return None
        condition = inside if condition is None else E.And(condition, inside)
    if type(value) is not E.BufferLoad or s.predicate is not None or value.predicate is not None:
        return None
    return _copy_of(s, value.buffer, _start(value.indices, parse(value.dtype).lanes), condition)


def _copy_of(s: S.BufferStore, read: Buffer, source: Any, condition: Any) -> S.Stmt | None:
    """What a store has, from a place in the array that it is `read` from, where that can be."""
    t = parse(s.value.dtype)
    size = t.nbytes * t.lanes
    to = _start(s.indices, t.lanes)
    alike = s.buffer.dtype == read.dtype == t.element
    places = s.buffer.scope().startswith("shared") and read.scope() == "global"
    if not alike or not places or size not in _SIZES or to is None or source is None:
        return None
    args = [_pointer(s.buffer, to, t.lanes, 2), const(0)]
    args += [_pointer(read, source, t.lanes, 1), const(0), const(size)]
    if condition is not None:
        args.append(condition)
    return _call(t.element, COPY, *args)


def _pointer(buffer: Buffer, start: Any, count: int, access: int) -> E.Call:
    pointee = const(0, buffer.dtype)
    args = (pointee, buffer.data, start, const(count), const(access))
    return E.Call("handle", "tir.tvm_access_ptr", args)


def _is_zero(e: Any) -> bool:
    if type(e) is E.Broadcast:
        e = e.value
    return isinstance(e, (E.IntImm, E.FloatImm)) and e.number == 0


def _start(indices: Any, lanes: int) -> Any:
    """The first element of an access to neighbours that is aligned to its size."""
    if len(indices) != 1:
        return None
    index = indices[0]
    if lanes == 1:
        return index if parse(index.dtype).lanes == 1 else None
    if type(index) is not E.Ramp or const_int(index.stride) != 1:
        return None
    rest = Analyzer().simplify(E.FloorMod(index.base, const(lanes, index.base.dtype)))
    return index.base if const_int(rest) == 0 else None


class _Waits(Rewriter):
    """Barriers wait for all copies under way that no pipeline commits; those of a pipeline for as
    many groups as it says. Where nothing is copied late, the attributes go."""

    def __init__(self, late: bool, loose: bool) -> None:
        self.late, self.loose = late, loose
        self.under_way = False  # whether copies may be that nobody has waited for
        self.committed = False

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key == COMMIT_SCOPE:
            self.committed = True
            body = self.stmt(s.body)
            self.committed = False
            return S.seq(body, _call("", COMMIT)) if self.late else body
        if s.attr_key == WAIT_SCOPE and type(s.body) is S.AttrStmt:
            barrier, most = s.body.body, s.body.value
            return S.seq(_call("", WAIT, most), barrier) if self.late else barrier
        return super()._attr(s)

    @handles(S.For, S.While)
    def _loop(self, s: Any) -> Any:
        before = self.under_way
        new = super()._for(s) if type(s) is S.For else super()._while(s)
        if self.under_way and not before:  # the next iteration begins with this one's copies
            new = super()._for(s) if type(s) is S.For else super()._while(s)
        self.under_way = self.under_way or before
        return new

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        before = self.under_way
        then_case = self.stmt(s.then_case)
        after, self.under_way = self.under_way, before
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        self.under_way = self.under_way or after
        same = then_case is s.then_case and else_case is s.else_case
        return s if same else S.IfThenElse(s.condition, then_case, else_case)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        if type(s.value) is E.Call and s.value.op.name == COPY and not self.committed:
            self.under_way = True
        # a fence lets others see what is there when it is passed
        last = is_barrier(s) or (type(s.value) is E.Call and s.value.op.name == FENCE.op.name)
        if self.loose and self.under_way and last:
            self.under_way = False
            return S.seq(_call("", COMMIT), _call("", WAIT, const(0)), s)
        return s
