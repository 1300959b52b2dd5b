"""Put basic statements in the place of those that only users make (loopir/realize.py).

Needs a function as users give it. Guarantees: none of ProducerStore, ProducerRealize,
BufferRealize, DeclBuffer and AllocateConst is left. It stands first, before the function is
verified.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..base.errors import CompileError
from ..loopir import realize as R
from ..loopir.buffer import Buffer
from ..loopir.equal import producer_key
from ..loopir.expr import BufferLoad, PrimExpr, const, is_const
from ..loopir.iter import ProducerLoad, Range
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import Allocate, AttrStmt, BufferStore, PrimFunc, seq
from ..loopir.visit import nodes

MOST_CONSTANTS = 4096
_KINDS = (
    R.ProducerStore,
    R.ProducerRealize,
    R.BufferRealize,
    R.DeclBuffer,
    R.AllocateConst,
    ProducerLoad,
)


def make_plain(func: PrimFunc) -> PrimFunc:
    """The function in basic statements; CompileError where one has no memory to speak of."""
    if not any(isinstance(n, _KINDS) for n in nodes(func.body)):
        return func
    return func.with_body(_Plain().stmt(func.body))


class _Plain(Rewriter):
    def __init__(self) -> None:
        self.tensors: dict[Any, tuple[Buffer, list[PrimExpr]]] = {}
        self.boxes: dict[Buffer, tuple[Buffer, list[PrimExpr]]] = {}

    def _box(self, bounds: Sequence[Range], condition: PrimExpr, what: str) -> Any:
        if not is_const(condition, 1):
            raise CompileError(f"{what} is realized under a condition, {condition}: use an if")
        ranges = self._ranges(bounds)
        return [r.extent for r in ranges], [r.min for r in ranges]

    def _moved(self, indices: Sequence[Any], low: Sequence[PrimExpr]) -> list[Any]:
        new = self.exprs(tuple(indices))
        return [i if is_const(m, 0) else i - m for i, m in zip(new, low, strict=True)]

    # -- tensors

    @handles(R.ProducerRealize)
    def _producer_realize(self, s: R.ProducerRealize) -> Any:
        t = s.producer
        extents, low = self._box(s.bounds, s.condition, t.name)
        buffer = Buffer(extents, t.dtype, t.name, scope=s.storage_scope)
        self.tensors[producer_key(t)] = (buffer, low)
        return Allocate(buffer, self.stmt(s.body))

    def _memory(self, t: Any) -> tuple[Buffer, list[PrimExpr]]:
        found = self.tensors.get(producer_key(t))
        if found is None:
            raise CompileError(
                f"tensor {t.name} is used where it is not realized: a PrimFunc reads and writes "
                "its arguments as buffers"
            )
        return found

    @handles(ProducerLoad)
    def _producer_load(self, e: ProducerLoad) -> Any:
        buffer, low = self._memory(e.producer)
        return BufferLoad(buffer, self._moved(e.indices, low))

    @handles(R.ProducerStore)
    def _producer_store(self, s: R.ProducerStore) -> Any:
        buffer, low = self._memory(s.producer)
        return BufferStore(buffer, self.expr(s.value), self._moved(s.indices, low))

    @handles(AttrStmt)
    def _attr(self, s: AttrStmt) -> Any:
        if s.attr_key == "realize_scope":
            return self.stmt(s.body)
        return Rewriter.table[AttrStmt](self, s)

    # -- buffers

    @handles(R.BufferRealize)
    def _buffer_realize(self, s: R.BufferRealize) -> Any:
        extents, low = self._box(s.bounds, s.condition, s.buffer.name)
        buffer = s.buffer.with_(shape=extents, strides=())
        self.boxes[s.buffer] = (buffer, low)
        return Allocate(buffer, self.stmt(s.body))

    @handles(BufferLoad)
    def _load(self, e: BufferLoad) -> Any:
        found = self.boxes.get(e.buffer)
        if found is None:
            return Rewriter.table[BufferLoad](self, e)
        return BufferLoad(found[0], self._moved(e.indices, found[1]), e.predicate)

    @handles(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        found = self.boxes.get(s.buffer)
        if found is None:
            return Rewriter.table[BufferStore](self, s)
        value = self.expr(s.value)
        return BufferStore(found[0], value, self._moved(s.indices, found[1]), s.predicate)

    @handles(R.DeclBuffer)
    def _decl_buffer(self, s: R.DeclBuffer) -> Any:
        return self.stmt(s.body)

    @handles(R.AllocateConst)
    def _allocate_const(self, s: R.AllocateConst) -> Any:
        values = s.values()
        if values.size > MOST_CONSTANTS:
            raise CompileError(
                f"{s.buffer_var.name} has {values.size} constants, more than {MOST_CONSTANTS}: "
                "make it an argument of the function"
            )
        buffer = Buffer(s.extents, s.dtype, s.buffer_var.name, data=s.buffer_var)
        stores = [
            BufferStore(buffer, const(values[at].item(), s.dtype), [const(i) for i in at])
            for at in itertools.product(*map(range, values.shape))
        ]
        return Allocate(buffer, seq(*stores, self.stmt(s.body)), s.annotations)
