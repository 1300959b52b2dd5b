"""HybridOp: an operation whose outputs the loops of a hybrid script write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..loopir.buffer import Buffer
from ..loopir.expr import BufferLoad, const
from ..loopir.iter import IterVar, ProducerLoad, Range
from ..loopir.realize import ProducerRealize, ProducerStore
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import Allocate, BufferStore, For, ForKind, Stmt
from ..loopir.visit import walk
from .operations import ExternOp, PlaceholderOp
from .tensor import Tensor

_KINDS: dict[int, int] = {
    ForKind.SERIAL: IterVar.DataPar,
    ForKind.PARALLEL: IterVar.Parallelized,
    ForKind.VECTORIZED: IterVar.Vectorized,
    ForKind.UNROLLED: IterVar.Unrolled,
}


class HybridOp(ExternOp):
    """Loops of the user's own, which a schedule may split, fuse, reorder and annotate.

    `statement` is on buffers, as of an ExternOp; `body` the same on tensors, as TVM's users see it.
    `axis` holds one axis for each loop, from the outermost of the first nest on. Raises
    TilewrightError where tag is not text, or attrs is no dictionary.
    """

    __slots__ = ("_body", "axis", "statement")
    kind = "hybrid"

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        inputs: Sequence[Tensor],
        input_placeholders: Sequence[Buffer],
        output_placeholders: Sequence[Buffer],
        statement: Stmt,
        axis: Sequence[IterVar] | None = None,
    ) -> None:
        super().__init__(
            name, tag, attrs, inputs, input_placeholders, output_placeholders, statement
        )
        self.axis = tuple(_axes(statement) if axis is None else axis)

    def forget(self) -> None:
        super().forget()
        self._body: Stmt | None = None

    @property
    def body(self) -> Stmt:
        """The statement, with reads and writes of tensors."""
        if self._body is None:
            self._body = _OnTensors(self).stmt(self.statement)
        return self._body

    @body.setter
    def body(self, statement: Stmt) -> None:
        self.statement = statement

    def loops(self) -> Stmt:
        return self.statement

    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return self.axis


def _axes(statement: Stmt) -> list[IterVar]:
    return [
        IterVar(Range.from_min_extent(s.min, s.extent), s.loop_var, _KINDS[s.kind])
        for s in walk(statement)
        if isinstance(s, For)
    ]


class _OnTensors(Rewriter):
    """Buffers as tensors: inputs are those read, others placeholders of their names."""

    def __init__(self, op: HybridOp) -> None:
        self.tensors: dict[Buffer, Tensor] = dict(zip(op.input_placeholders, op.inputs))

    def tensor(self, b: Buffer) -> Tensor:
        found = self.tensors.get(b)
        if found is None:
            found = self.tensors[b] = PlaceholderOp(b.name, b.shape, b.dtype).output(0)
        return found

    @handles(BufferLoad)
    def _load(self, e: BufferLoad) -> Any:
        return ProducerLoad(self.tensor(e.buffer), self.exprs(e.indices))

    @handles(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        return ProducerStore(self.tensor(s.buffer), self.expr(s.value), self.exprs(s.indices))

    @handles(Allocate)
    def _allocate(self, s: Allocate) -> Any:
        tensor = self.tensor(s.buffer)
        bounds = [Range(0, d) for d in s.buffer.shape]
        body = self.stmt(s.body)
        return ProducerRealize(tensor, bounds, const(1, "bool"), body, s.buffer.scope_name)
