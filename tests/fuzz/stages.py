"""The tensor of one stage, out of its Spec: operations on elements, and reads in another order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.base.dtype import parse

from . import stage_extern, stage_reduce
from .elements import between, binary, unary, zero
from .programs import Spec


@dataclass
class Making:
    """What a builder gets: the stage, the tensors it reads (those of `reads`, `x` the first of
    them, perhaps made small), its name, and the program's mode."""

    spec: Spec
    x: Any
    reads: list[Any]
    name: str
    mode: str
    rounding: str

    def param(self, key: str) -> Any:
        return self.spec.params[key]


def build_stage(m: Making) -> Any:
    """The tensor of one stage."""
    return BUILDERS[m.spec.kind](m)


def _unary(m: Making) -> Any:
    number = m.spec.params.get("number", 0)
    op = m.param("op")
    return te.compute(
        m.x.shape, lambda *i: unary(op, m.x(*i), m.mode, m.rounding, number), name=m.name
    )


def read(t: Any, indices: Any) -> Any:
    """An element of a tensor that is broadcast to the rank of `indices`."""
    tail = indices[len(indices) - len(t.shape) :]
    one = [tir.const(0) if _is_one(d) else i for i, d in zip(tail, t.shape)]
    return t(*one)


def _is_one(d: Any) -> bool:
    return getattr(d, "value", None) == 1


def _two(m: Making, i: Any) -> Any:
    """The operation on elements of the two tensors, brought to one type."""
    a, b = m.x(*i), read(m.reads[1], i)
    if a.dtype != b.dtype:
        plain = "bool" not in (a.dtype, b.dtype) and "bfloat16" not in (a.dtype, b.dtype)
        if m.param("promote") and plain:  # as Python's operators do it
            total = a + b
            a, b = a.astype(total.dtype), b.astype(total.dtype)
        else:
            b = b.astype(a.dtype)
    return binary(m.param("op"), a, b, m.mode, m.rounding)


def _binary(m: Making) -> Any:
    return te.compute(m.x.shape, lambda *i: _two(m, i), name=m.name)


def _pair(m: Making) -> Any:
    """Two outputs of one operation, of which both are read by the next."""
    first, second = te.compute(m.x.shape, lambda *i: (_two(m, i), m.x(*i)), name=m.name + "p")

    def largest(*i: Any) -> Any:
        a, b = first(*i), second(*i).astype(first.dtype)
        return tir.any(a, b) if a.dtype == "bool" else tir.max(a, b)

    return te.compute(m.x.shape, largest, name=m.name)


def _stencil(m: Making) -> Any:
    d, offsets, x = m.param("axis"), m.param("offsets"), m.x
    total_of = "max" if m.mode in ("exact", "full") else "add"

    def element(*i: Any) -> Any:
        total = zero(x)
        for o in offsets:
            at = i[d] + o
            inside = te.all(at >= 0, at < x.shape[d])
            value = te.if_then_else(inside, x(*i[:d], at, *i[d + 1 :]), zero(x))
            total = binary(total_of, total, value, m.mode, m.rounding)
        return total

    return te.compute(x.shape, element, name=m.name)


def _permute(m: Making) -> Any:
    order = m.param("order")

    def element(*i: Any) -> Any:
        back = [None] * len(order)
        for k, d in enumerate(order):
            back[d] = i[k]
        return m.x(*back)

    return te.compute([m.x.shape[d] for d in order], element, name=m.name)


def _cast(m: Making) -> Any:
    dtype = m.param("dtype")

    def element(*i: Any) -> Any:
        v = m.x(*i)
        if m.mode == "exact":  # keep every value small, whatever its type
            least = 0 if parse(dtype).is_uint else -50
            v = between(v, least, 50)
        return v.astype(dtype)

    return te.compute(m.x.shape, element, name=m.name)


def _select(m: Making) -> Any:
    choose = te.if_then_else if m.param("lazy") else tir.Select

    def element(*i: Any) -> Any:
        place = sum(i[1:], i[0]) if i else tir.const(0)
        v = m.x(*i)
        other = tir.Not(v) if v.dtype == "bool" else zero(v) - v
        return choose(te.floormod(place, m.param("modulus")).equal(0), v, other)

    return te.compute(m.x.shape, element, name=m.name)


def _gather(m: Making) -> Any:
    d, factor = m.param("axis"), m.param("factor")

    def element(*i: Any) -> Any:
        at = te.floormod(i[d] * factor + 1, m.x.shape[d])
        return m.x(*i[:d], at, *i[d + 1 :])

    return te.compute(m.x.shape, element, name=m.name)


def _take(m: Making) -> Any:
    """Elements at indices that are read; those that no input of indices gives are clamped."""
    d, index = m.param("axis"), m.reads[1]
    extent = m.x.shape[d]

    def element(*i: Any) -> Any:
        at = index(i[d])
        if not m.param("given"):
            last = extent - 1
            at = tir.max(tir.min(at.astype("int32"), last), tir.const(0))
        return m.x(*i[:d], at, *i[d + 1 :])

    shape = [*m.x.shape[:d], index.shape[0], *m.x.shape[d + 1 :]]
    return te.compute(shape, element, name=m.name)


def _merge(m: Making) -> Any:
    inner = m.x.shape[1]

    def element(i: Any, *rest: Any) -> Any:
        return m.x(te.floordiv(i, inner), te.floormod(i, inner), *rest)

    return te.compute((m.x.shape[0] * inner, *m.x.shape[2:]), element, name=m.name)


BUILDERS: dict[str, Callable[[Any], Any]] = {
    "unary": _unary,
    "binary": _binary,
    "pair": _pair,
    "stencil": _stencil,
    "permute": _permute,
    "cast": _cast,
    "select": _select,
    "gather": _gather,
    "take": _take,
    "merge": _merge,
    "reduce": stage_reduce.reduce,
    "tuple_reduce": stage_reduce.tuple_reduce,
    "twice_reduce": stage_reduce.twice_reduce,
    "window": stage_reduce.window,
    "scan": stage_reduce.scan,
    "extern": stage_extern.extern,
}
