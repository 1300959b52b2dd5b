"""How reductions pass their adjoint on to the elements that they reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir import op as tir
from ..loopir.expr import PrimExpr, Var, const
from ..loopir.iter import IterVar, Range, Reduce
from ..loopir.operators import binary
from . import reduce as R
from .derivative import adjoints, where
from .op import ComputeOp, domain
from .shared import substitute
from .tensor import Tensor


class Source:
    """An expression over `axes` together with the adjoint of its value."""

    __slots__ = ("adjoint", "axes", "expr")

    def __init__(self, axes: Sequence[IterVar], expr: PrimExpr, adjoint: PrimExpr) -> None:
        self.axes = tuple(axes)
        self.expr = expr
        self.adjoint = adjoint


def reduction_sources(
    op: ComputeOp, body: Reduce, seed: PrimExpr, is_leaf: Callable[[Any], bool]
) -> list[Source]:
    """The elements reduced (and start values) with their adjoints; `seed` is the result's."""
    kind = R.builtin_kind(body.combiner)
    if kind is E.Add:
        return _of_sum(op, body, seed)
    if kind in (E.Min, E.Max):
        return _of_extremum(op, body, seed, kind)
    return _of_any(op, body, seed, is_leaf)


def _held(body: Reduce, value: PrimExpr) -> PrimExpr:
    return value if E.is_const(body.condition, 1) else where(body.condition, value)


def _of_sum(op: ComputeOp, body: Reduce, seed: PrimExpr) -> list[Source]:
    sources = [Source((*op.axis, *body.axis), body.source[0], _held(body, seed))]
    return sources + [Source(op.axis, e, seed) for e in body.init]


def _of_extremum(op: ComputeOp, body: Reduce, seed: PrimExpr, kind: type) -> list[Source]:
    """All goes to the first of the elements that reach the extremum."""
    place = _winner(op, body, kind)(*(a.var for a in op.axis))
    won = place.equal(_flat_index(body.axis))
    sources = [Source((*op.axis, *body.axis), body.source[0], _held(body, where(won, seed)))]
    return sources + [Source(op.axis, e, where(place.equal(-1), seed)) for e in body.init]


def _flat_index(axes: Sequence[IterVar]) -> PrimExpr:
    flat: PrimExpr = const(0)
    for a in axes:
        dom = domain(a)
        flat = flat * dom.extent + (a.var - dom.min)
    return E.cast("int32", flat)


def _renewed(axes: Sequence[IterVar]) -> tuple[list[IterVar], dict[Var, Var]]:
    """New axes of the same domains, and the old variables' new ones."""
    new = [IterVar(a.dom, Var(a.var.name, a.var.dtype), a.iter_type) for a in axes]
    return new, {a.var: b.var for a, b in zip(axes, new)}


def _winner(op: ComputeOp, body: Reduce, kind: type) -> Tensor:
    """The flat index of the reduced element that is the extremum; -1 where the start value is."""
    largest = kind is E.Max

    def combine(x: Any, y: Any) -> tuple[PrimExpr, PrimExpr]:
        ahead = x[1] > y[1] if largest else x[1] < y[1]
        first = tir.any(ahead, tir.all(x[1].equal(y[1]), x[0] < y[0]))
        return tir.select(first, x[0], y[0]), binary(kind, x[1], y[1])

    def identity(index: str, value: str) -> tuple[PrimExpr, PrimExpr]:
        worst = R.least_value(value) if largest else R.greatest_value(value)
        return tir.max_value(index), worst

    reducer = R.comm_reducer(combine, identity, "arg_extremum")
    outer, rename = _renewed(op.axis)
    inner, more = _renewed(body.axis)
    rename.update(more)
    pair = (_flat_index(inner), substitute(body.source[0], rename))
    start = (const(-1), substitute(body.init[0], rename)) if body.init else None
    condition = substitute(body.condition, rename)
    result = reducer(pair, axis=inner, where=condition, init=start)
    return ComputeOp(f"{op.name}.arg", "", None, outer, result).output(0)


def _of_any(
    op: ComputeOp, body: Reduce, seed: PrimExpr, is_leaf: Callable[[Any], bool]
) -> list[Source]:
    """By the definition: the combiner's derivative at the element and the result of all others."""
    for e in body.init:
        if is_leaf(e):
            raise TilewrightError(
                f"Derivative of this op is not implemented: the start value of the reduction {op!r}"
            )
    axes = (*op.axis, *body.axis)
    others = _others(op, body)
    place = [a.var for a in op.axis] + [a.var - domain(a).min for a in body.axis]
    values = {
        **dict(zip(body.combiner.lhs, (t(*place) for t in others))),
        **dict(zip(body.combiner.rhs, body.source)),
    }
    operands = set(body.combiner.rhs)
    sources = []
    for v, slope in adjoints(
        body.combiner.result[body.value_index], seed, lambda node: node in operands
    ):
        element = body.source[body.combiner.rhs.index(v)]
        if parse(element.dtype).is_float:
            sources.append(Source(axes, element, _held(body, substitute(slope, values))))
    return sources


def _others(op: ComputeOp, body: Reduce) -> tuple[Tensor, ...]:
    """For each place and each reduced index: the reduction of all other elements."""
    outer, rename = _renewed(op.axis)
    inner, more = _renewed(body.axis)
    rename.update(more)
    left_out = [
        IterVar(Range(0, domain(a).extent), Var(f"{a.var.name}_out", a.var.dtype), IterVar.DataPar)
        for a in body.axis
    ]
    differs = tir.any(
        *((a.var - domain(a).min).equal(b.var).__invert__() for a, b in zip(inner, left_out))
    )
    condition = tir.all(substitute(body.condition, rename), differs)
    source = [substitute(e, rename) for e in body.source]
    init = [substitute(e, rename) for e in body.init]
    results = [Reduce(body.combiner, source, inner, condition, i, init) for i in range(len(source))]
    return ComputeOp(f"{op.name}.others", "", None, [*outer, *left_out], results).outputs
