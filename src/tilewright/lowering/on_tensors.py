"""Loops on buffers as loops on tensors (ProducerStore, ProducerLoad, ProducerRealize), and back:
between the two, TVM's users look at what `te.schedule.ScheduleOps` gives, and rewrite it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arith.analyzer import Analyzer
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.iter import ProducerLoad, Range
from ..loopir.realize import ProducerRealize, ProducerStore
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import walk
from ..tensor.tensor import Tensor
from .stage_memory import Place

Homes = Mapping[E.Var, tuple[Tensor, Place]]


def on_tensors(body: S.Stmt, homes: Homes, outputs: Sequence[Tensor]) -> S.Stmt:
    """The loops with stores and loads of tensors in place of those of their buffers. `homes`: the
    tensor and place of a buffer's variable; `outputs` are realized around everything.

    Buffers that are more than arrays of their tensor's elements stay buffers: those in a layout,
    with strides, whose address is taken, or of which something is said by an AttrStmt.
    """
    kept = _addressed(body)
    plain = {v: h for v, h in homes.items() if v not in kept and _is_plain(*h)}
    made: S.Stmt = _OnTensors(plain).stmt(body)
    for tensor in outputs:
        if any(t is tensor for t, _ in plain.values()):
            whole = [Range.from_min_extent(0, d) for d in tensor.shape]
            made = ProducerRealize(tensor, whole, True, made, "")
    return made


def _is_plain(tensor: Tensor, place: Place) -> bool:
    b = place.buffer
    apart = b.strides and not b.buffer_kind  # strides of arguments are the caller's
    return not (apart or place.layout or place.repeated) and b.ndim == len(tensor.shape)


def _addressed(body: S.Stmt) -> set[E.Var]:
    """Variables of memory that stand for more than loads and stores of it."""
    found: set[E.Var] = set()
    for x in walk(body):
        if isinstance(x, E.Var):
            found.add(x)
        elif type(x) is S.AttrStmt and isinstance(x.node, (Buffer, E.Var)):
            found.add(x.node.data if isinstance(x.node, Buffer) else x.node)
        elif type(x) in (E.BufferLoad, S.BufferStore) and x.predicate is not None:
            found.add(x.buffer.data)
    return found


class _OnTensors(Rewriter):
    def __init__(self, homes: Homes) -> None:
        self.homes = homes
        self.analyzer = Analyzer()

    def _places(self, home: tuple[Tensor, Place], indices: Any) -> list[Any]:
        low = home[1].minima
        given = self.exprs(indices)
        if low is None:
            return list(given)
        return [self.analyzer.simplify(i + m) for i, m in zip(given, low)]

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        home = self.homes.get(e.buffer.data)
        if home is None:
            return Rewriter.table[E.BufferLoad](self, e)
        return ProducerLoad(home[0], self._places(home, e.indices))

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        home = self.homes.get(s.buffer.data)
        if home is None:
            return Rewriter.table[S.BufferStore](self, s)
        return ProducerStore(home[0], self.expr(s.value), self._places(home, s.indices))

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        home = self.homes.get(s.buffer.data)
        if home is None:
            return Rewriter.table[S.Allocate](self, s)
        low = home[1].minima or [E.const(0)] * s.buffer.ndim
        box = [Range.from_min_extent(m, d) for m, d in zip(low, s.buffer.shape)]
        return ProducerRealize(home[0], box, True, self.stmt(s.body), s.buffer.scope_name)


def on_buffers(body: S.Stmt, known: Mapping[Tensor, Buffer]) -> S.Stmt:
    """The loops with buffers in place of tensors: those `known`, and for each tensor that is
    realized a new one of its box."""
    if not any(type(x) in (ProducerStore, ProducerRealize, ProducerLoad) for x in walk(body)):
        return body
    made: S.Stmt = _OnBuffers(known).stmt(body)
    return made


class _OnBuffers(Rewriter):
    def __init__(self, known: Mapping[Tensor, Buffer]) -> None:
        self.known = known
        self.homes: dict[Tensor, tuple[Buffer, list[E.PrimExpr] | None]] = {}
        self.analyzer = Analyzer()

    def _home(self, tensor: Any, indices: Any) -> tuple[Buffer, list[Any]] | None:
        given = list(self.exprs(indices))
        if tensor in self.known:
            return self.known[tensor], given
        found = self.homes.get(tensor)
        if found is None:
            return None
        buffer, low = found
        if low is not None:
            given = [self.analyzer.simplify(i - m) for i, m in zip(given, low)]
        return buffer, given

    @handles(ProducerLoad)
    def _load(self, e: Any) -> Any:
        home = self._home(e.producer, e.indices)
        return Rewriter.table[ProducerLoad](self, e) if home is None else E.BufferLoad(*home)

    @handles(ProducerStore)
    def _store(self, s: ProducerStore) -> Any:
        home = self._home(s.producer, s.indices)
        if home is None:
            return Rewriter.table[ProducerStore](self, s)
        return S.BufferStore(home[0], self.expr(s.value), home[1])

    @handles(ProducerRealize)
    def _realize(self, s: ProducerRealize) -> Any:
        tensor = s.producer
        if tensor in self.known or not E.is_const(s.condition, 1):
            return self.stmt(s.body)
        sizes = [self.expr(r.extent) for r in s.bounds]
        buffer = Buffer(sizes, tensor.dtype, tensor.name, scope=s.storage_scope)
        low = [self.expr(r.min) for r in s.bounds]
        outer = self.homes.get(tensor)
        self.homes[tensor] = buffer, None if all(E.is_const(m, 0) for m in low) else low
        body = self.stmt(s.body)
        if outer is not None:
            self.homes[tensor] = outer
        return S.Allocate(buffer, body)
