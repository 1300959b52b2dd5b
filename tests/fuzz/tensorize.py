"""A tensor intrinsic that does what the innermost tile of a stage does, made of the stage itself.

Element-wise stages give an intrinsic over a tile of one axis; sums, minima and maxima one that
reduces a tile of a reduction axis, whole or as reset and update. Programs draw these by
`intrin_for`; what cannot be said so is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.loopir.equal import structural_equal
from tilewright.loopir.expr import BufferLoad, Var, const
from tilewright.loopir.iter import IterVar, ProducerLoad, Reduce
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.loopir.stmt import BufferStore, For, ForKind, seq
from tilewright.loopir.subst import substitute
from tilewright.loopir.visit import post_order_visit


def intrin_for(op: Any, axis: IterVar, width: int, in_parts: bool) -> Any:
    """An intrinsic for a tile of `width` of one data or reduction axis of `op`; None where reads
    of the tile are no simple boxes. `in_parts`: a reduction with reset and update."""
    if len(op.body) != 1 or not op.axis:
        return None
    body = op.body[0]
    source = body.source[0] if isinstance(body, Reduce) else body
    if isinstance(body, Reduce) and (len(body.source) > 1 or axis not in body.axis):
        return None
    if isinstance(body, Reduce) and any(isinstance(e, ProducerLoad) for e in body.init):
        return None
    reads = _reads(source, axis.var)
    if reads is None:
        return None
    tile = te.placeholder  # declared tensors have the rank of the stage's
    inputs = {
        t: tile([width if moving == d else 1 for d in range(len(t.shape))], t.dtype, t.op.name)
        for t, moving in reads.items()
    }
    if isinstance(body, Reduce):
        return _reduction(op, body, source, axis, width, inputs, reads, in_parts)
    at = list(op.axis).index(axis)
    shape = [width if d == at else 1 for d in range(len(op.axis))]
    want = te.compute(shape, lambda *i: _Tile(inputs, reads, i[at]).expr(source), name="tile")

    def body_of(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        j = Var("j", "int32")
        value = _Buffers(dict(zip(want.op.input_tensors, ins)), reads, inputs, j).expr(source)
        place = [j if d == at else const(0) for d in range(len(shape))]
        return For(j, 0, width, ForKind.SERIAL, BufferStore(outs[0], value, place))

    return _declare(want, inputs, body_of)


def _reduction(
    op: Any,
    body: Reduce,
    source: Any,
    axis: IterVar,
    width: int,
    inputs: dict[Any, Any],
    reads: dict[Any, int],
    in_parts: bool,
) -> Any:
    k = te.reduce_axis((0, width), "k")
    shape = [1] * len(op.axis)
    want = te.compute(
        shape,
        lambda *_: Reduce(
            body.combiner,
            [_Tile(inputs, reads, k.var).expr(source)],
            [k],
            const(True),
            init=body.init,
        ),
        name="tile",
    )
    combine = body.combiner

    def body_of(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        j = Var("j", "int32")
        value = _Buffers(dict(zip(want.op.input_tensors, ins)), reads, inputs, j).expr(source)
        place = [const(0)] * len(shape)
        pair = {combine.lhs[0]: BufferLoad(outs[0], place), combine.rhs[0]: value}
        total = substitute(combine.result[0], pair)
        start = [*body.init, *combine.identity_element][0]
        reset = BufferStore(outs[0], start, place)
        update = For(j, 0, width, ForKind.SERIAL, BufferStore(outs[0], total, place))
        return (seq(reset, update), reset, update) if in_parts else seq(reset, update)

    return _declare(want, inputs, body_of)


def _declare(want: Any, inputs: dict[Any, Any], body_of: Any) -> Any:
    tensors = [*want.op.input_tensors, want]
    if len(tensors) != len(inputs) + 1:
        return None
    binds = {
        t: tir.decl_buffer(
            t.shape,
            t.dtype,
            t.op.name,
            strides=[te.var(f"{t.op.name}_s{d}") for d in range(len(t.shape))],
            offset_factor=1,
        )
        for t in tensors
    }
    return te.decl_tensor_intrin(want.op, body_of, name="tile", binds=binds)


def _reads(source: Any, var: Var) -> dict[Any, int] | None:
    """The tensors read, with the dimension that `var` runs along (-1: none); None if `var` stands
    elsewhere, or a tensor is read in several ways."""
    found: dict[Any, int] = {}
    forms: dict[Any, Any] = {}
    loads = 0
    uses = 0

    def visit(e: Any) -> None:
        nonlocal loads, uses
        if isinstance(e, Var):
            uses += e is var
        if isinstance(e, ProducerLoad):
            known = forms.setdefault(e.producer, e)
            moving = [d for d, i in enumerate(e.indices) if i is var]
            if not structural_equal(known, e) or len(moving) > 1:
                loads += 1000
            found[e.producer] = moving[0] if moving else -1
            loads += len(moving)

    post_order_visit(source, visit)
    others: list[Any] = []
    post_order_visit(_Blank().expr(source), others.append)
    plain = not any(isinstance(e, Var) for e in others)
    return found if plain and found and loads == uses else None


class _Blank(Rewriter):
    """The expression around the reads."""

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        return const(0, e.dtype) if "float" not in e.dtype else const(0.0, e.dtype)


class _Tile(Rewriter):
    """A stage's expression on the declared tensors."""

    def __init__(self, inputs: dict[Any, Any], reads: dict[Any, int], index: Any) -> None:
        self.inputs, self.reads, self.index = inputs, reads, index

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        return ProducerLoad(self.inputs[e.producer], self._place(e))

    def _place(self, e: ProducerLoad) -> list[Any]:
        moving = self.reads[e.producer]
        return [self.index if d == moving else const(0) for d in range(len(e.indices))]


class _Buffers(_Tile):
    """A stage's expression on the buffers of the declared tensors."""

    def __init__(
        self, buffers: dict[Any, Any], reads: dict[Any, int], inputs: dict[Any, Any], index: Any
    ) -> None:
        super().__init__(inputs, reads, index)
        self.buffers = buffers

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        return BufferLoad(self.buffers[self.inputs[e.producer]], self._place(e))
