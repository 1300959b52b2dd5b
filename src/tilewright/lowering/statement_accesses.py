"""The accesses of memory of a block's threads that a statement makes: of shared arrays, and of
arrays of the device that the kernel both writes and reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const, const_int
from ..loopir.hopper_calls import COPIES, DESCRIPTOR
from ..loopir.subst import substitute
from ..loopir.visit import children, nodes, walk
from .thread_accesses import Access
from .vector_lanes import lane_of

SYNC = "tir.tvm_storage_sync"
ASYNC_SCOPES = ("async_scope", "pragma_async_scope")
_MATRIX = ("tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync")
_ROWS_OF_LANES, _MATRIX_ROWS, _ROW_BYTES = "tir.ptx_ldmatrix", 8, 16
_OWN_ORDER = (
    *COPIES.values(),
    "tir.ptx_cp_async_bulk",
    "tir.ptx_cluster_load",
)
_BLOCK_SCOPES = ("shared", "shared.dyn", "global")


def is_barrier(s: Any) -> bool:
    """Whether a statement is a barrier of all threads of a block."""
    if type(s) is not S.Evaluate or type(s.value) is not E.Call or s.value.op.name != SYNC:
        return False
    scope = s.value.args[0]
    return isinstance(scope, E.StringImm) and scope.value in _BLOCK_SCOPES


class StatementAccesses:
    """Finds accesses; the answers for one statement under the same guards are always the same
    objects."""

    def __init__(self, body: S.Stmt, threads: Sequence[tuple[E.Var, Any]] = ()) -> None:
        """`threads`: variables and extents of the block, x first."""
        self.lane: Any = const(0)
        stride: Any = const(1)
        for var, extent in threads:
            self.lane, stride = self.lane + var * stride, stride * extent
        self.vector = E.Var("lane", "int32")  # of a vector
        self.scopes: dict[E.Var, str] = {}
        self.lets: dict[E.Var, Any] = {}
        self.global_ = _written_and_read(body)
        self.late: set[int] = set()
        stored: set[E.Var] = set()
        described: set[E.Var] = set()
        for s in nodes(body):
            if type(s) is S.BufferStore:
                stored.add(s.buffer.data)
            elif type(s) is E.Call and s.op.name == DESCRIPTOR:
                described.update(x for x in nodes(s.args[0]) if isinstance(x, E.Var))
            elif type(s) is S.Allocate:
                self.scopes[s.buffer.data] = s.buffer.scope()
            elif type(s) is S.LetStmt:
                self.lets[s.var] = self.inline(s.value)
            elif type(s) is S.AttrStmt and s.attr_key in ASYNC_SCOPES:
                self.late.update(id(x) for x in nodes(s.body) if type(x) is S.BufferStore)
        # what products of warp groups read that threads store: what copies bring they order by
        # barriers of their own
        self.multiplied = stored & described
        self.touching: dict[int, tuple[Any, bool]] = {}
        self.found: dict[tuple[int, ...], tuple[Any, list[Access]]] = {}
        # unrolled code reads the same elements again and again
        self.alike: dict[Any, Access] = {}

    def inline(self, e: Any) -> Any:
        """An expression with the values of lets in the place of their variables."""
        return substitute(e, self.lets) if self.lets else e

    def touches(self, s: Any) -> bool:
        """Whether a statement accesses such memory or has a barrier."""
        known = self.touching.get(id(s))
        if known is None:
            below = [c for c in children(s) if isinstance(c, S.Stmt)]
            known = (s, is_barrier(s) or bool(self._collect(s)) or any(map(self.touches, below)))
            self.touching[id(s)] = known
        return known[1]

    def of(self, s: S.Stmt, guards: tuple[Any, ...]) -> list[Access]:
        """Accesses of a statement without statements in it: reads first."""
        # one statement may stand in several places, in branches that exclude each other
        key = (id(s), *map(id, guards))
        known = self.found.get(key)
        if known is None:
            known = self.found[key] = ((s, guards), self._collect(s, guards))
        return known[1]

    of_values = of  # of a statement with a body: those in its own expressions

    def _collect(self, s: Any, guards: tuple[Any, ...] = ()) -> list[Access]:
        out = list(self._reads((c for c in children(s) if not isinstance(c, S.Stmt)), guards))
        if type(s) is S.BufferStore and self._tracked(s.buffer):
            lanes = (parse(s.value.dtype).lanes, parse(s.buffer.dtype).lanes)
            store = self._element(s.buffer, s.indices, s.predicate, lanes, True, guards)
            out.append(replace(store, late=True) if id(s) in self.late else store)
        return out

    def _shared(self, b: Buffer) -> bool:
        return b.scope().startswith("shared")

    def _tracked(self, b: Buffer) -> bool:
        return self._shared(b) or b.data in self.global_

    def _reads(self, exprs: Iterable[Any], guards: tuple[Any, ...]) -> Iterable[Access]:
        for root in exprs:
            for e in nodes(root):
                kind = type(e)
                if kind is E.BufferLoad and self._tracked(e.buffer):
                    lanes = (parse(e.dtype).lanes, parse(e.buffer.dtype).lanes)
                    yield self._element(e.buffer, e.indices, e.predicate, lanes, False, guards)
                elif kind is E.Call:
                    yield from self._pointed(e, guards)

    def _element(
        self,
        b: Buffer,
        indices: tuple[Any, ...],
        predicate: Any,
        lanes: tuple[int, int],
        write: bool,
        guards: tuple[Any, ...],
    ) -> Access:
        index: Any = self.inline(indices[0]) if len(indices) == 1 else None
        mask = None if predicate is None else self.inline(predicate)
        wide = index is not None and parse(index.dtype).lanes > 1
        stride, count = 1, lanes[0] // lanes[1]
        nbytes = parse(b.dtype).nbytes * parse(b.dtype).lanes
        shared = b.data not in self.global_
        key = (b.data, write, _key(index), _key(mask), nbytes, count, *map(id, guards))
        known = self.alike.get(key)
        if known is not None:
            return known
        loops: tuple[Any, ...] = ()
        step = const_int(index.stride) if mask is None and type(index) is E.Ramp else None
        if step is not None:
            index, stride = index.base, step
        elif wide:
            loops = ((self.vector, const(0), const(count)),)
            index, count = lane_of(index, self.vector), 1
            mask = None if mask is None else lane_of(mask, self.vector)
        if mask is not None:
            guards = (*guards, mask)
        made = Access(b.data, write, index, nbytes, count, stride, guards, loops, False, shared)
        self.alike[key] = made
        return made

    def _pointed(self, call: E.Call, guards: tuple[Any, ...]) -> Iterable[Access]:
        """What a callee may do through pointers to shared memory."""
        name = call.op.name
        if name == "tir.tvm_access_ptr" or name in _OWN_ORDER:
            return  # what its callee does with it counts; or barriers of its own order it
        if name == DESCRIPTOR:
            for x in nodes(call.args[0]):  # any element: it does not say how many
                if isinstance(x, E.Var) and x in self.multiplied:
                    yield Access(x, False, None, 0, guards=guards)
            return
        atomic = "atomic" in name or (
            name in ("tir.call_extern", "tir.call_pure_extern")
            and isinstance(call.args[0], E.StringImm)
            and "atomic" in call.args[0].value
        )
        for arg in call.args:
            if type(arg) is not E.Call:
                if isinstance(arg, E.Var) and self.scopes.get(arg, "").startswith("shared"):
                    yield from self._both(arg, guards)
                continue
            if arg.op.name == "tir.address_of" and type(arg.args[0]) is E.BufferLoad:
                load = arg.args[0]
                if self._shared(load.buffer):
                    if atomic:
                        a = self._element(load.buffer, load.indices, None, (1, 1), True, guards)
                        yield Access(a.data, True, a.index, a.nbytes, guards=guards, atomic=True)
                    else:
                        yield from self._both(load.buffer.data, guards)
            elif arg.op.name == "tir.tvm_access_ptr" and isinstance(arg.args[1], E.Var):
                found = self._range(arg, guards)
                if name in _MATRIX:
                    found = self._rows(call, found)
                elif name == _ROWS_OF_LANES:
                    found = self._rows_of_lanes(call, found)
                yield from found

    def _both(self, data: E.Var, guards: tuple[Any, ...]) -> Iterable[Access]:
        for write in (False, True):
            yield Access(data, write, None, 0, guards=guards)

    def _rows(self, call: E.Call, found: Iterable[Access]) -> Iterable[Access]:
        """The tile of a fragment that is loaded or stored: rows that may lie apart."""
        fragment, *sizes = call.args[:4]
        m, n, k = (const_int(x) for x in sizes)
        role = self.scopes.get(fragment, "") if isinstance(fragment, E.Var) else ""
        shape = {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n)}.get(role, (m, n))
        rows, columns = shape[::-1] if getattr(call.args[7], "value", "") == "col_major" else shape
        for a in found:
            if a.index is None or rows is None or columns is None:
                yield a
                continue
            row = E.Var("row", "int32")
            index = a.index + row * self.inline(call.args[6])
            # each element is stored by one lane, the same for all fragments of a shape: here as if
            # by that of its row; which lanes load it is another matter
            own = (E.EQ(E.FloorMod(self.lane, const(32)), row),) if a.write else ()
            loop = (row, const(0), const(rows))
            a = replace(a, index=index, lanes=columns, guards=(*a.guards, *own), loops=(loop,))
            yield replace(a, together="fragment" if a.write else "")

    def _rows_of_lanes(self, call: E.Call, found: Iterable[Access]) -> Iterable[Access]:
        """The rows of 16 bytes whose addresses the first lanes of a warp give, eight for a matrix;
        other lanes get their elements."""
        count = const_int(call.args[1])
        for a in found:
            if a.index is None or count is None:
                yield a
                continue
            lane = E.FloorMod(self.lane, const(32))
            given = () if count * _MATRIX_ROWS >= 32 else (E.LT(lane, const(count * _MATRIX_ROWS)),)
            index, each = a.index + self.inline(call.args[6]), _ROW_BYTES // a.nbytes
            row = replace(a, index=index, lanes=each, guards=(*a.guards, *given))
            yield replace(row, together="rows of lanes")

    def _range(self, pointer: E.Call, guards: tuple[Any, ...]) -> Iterable[Access]:
        kind, data, offset, extent, mask = pointer.args
        assert isinstance(data, E.Var)
        if not self.scopes.get(data, "").startswith("shared"):
            return
        count, access = const_int(extent), const_int(mask)
        index = None if count is None else self.inline(offset)
        nbytes = parse(kind.dtype).nbytes * parse(kind.dtype).lanes
        for bit, write in ((1, False), (2, True)):
            if access is None or access & bit:
                yield Access(data, write, index, nbytes, count or 1, 1, guards)


def _written_and_read(body: S.Stmt) -> set[E.Var]:
    """Data variables of arrays on the device that a kernel stores to, and loads from or stores to
    in another statement."""
    uses: dict[E.Var, int] = {}
    written: set[E.Var] = set()
    for x in nodes(body):
        if type(x) in (E.BufferLoad, S.BufferStore) and x.buffer.scope() == "global":
            uses[x.buffer.data] = uses.get(x.buffer.data, 0) + 1
            if type(x) is S.BufferStore:
                written.add(x.buffer.data)
    return {v for v in written if uses[v] > 1}


def _key(index: Any) -> tuple[Any, ...]:
    """Equal for two expressions that are built alike of the same variables."""
    parts: list[Any] = []
    for x in () if index is None else walk(index):
        if isinstance(x, E.Var):
            parts.append(id(x))
        elif isinstance(x, (E.IntImm, E.FloatImm, E.StringImm)):
            parts.append((x.value,))
        elif type(x) is E.Call:
            parts += [x.op.name, len(x.args)]
        else:
            parts.append(x.buffer.data if type(x) is E.BufferLoad else type(x))
    return tuple(parts)
