"""Stages that reduce: over some axes, to one value or several, over windows; and scans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright import te, tir
from tilewright.base.dtype import parse

from .elements import between, zero

any_of = te.comm_reducer(lambda a, b: tir.any(a, b), lambda t: tir.const(False), name="any_of")
all_of = te.comm_reducer(lambda a, b: tir.all(a, b), lambda t: tir.const(True), name="all_of")


class _Axes:
    """The reduction axes of a stage, and the indices that it reads at."""

    def __init__(self, m: Any) -> None:
        self.x, self.axes = m.x, m.param("axes")
        self.ks = [te.reduce_axis((0, self.x.shape[d]), name=f"k{d}") for d in self.axes]
        self.shape = [e for d, e in enumerate(self.x.shape) if d not in self.axes]

    def indices(self, i: Any) -> list[Any]:
        data, running = iter(i), iter(self.ks)
        return [next(running) if d in self.axes else next(data) for d in range(len(self.x.shape))]

    def number(self) -> Any:
        """Which element it is of those that are reduced."""
        number: Any = tir.const(0)
        for k, d in zip(self.ks, self.axes):
            number = number * self.x.shape[d] + k
        return number


def sums(m: Any) -> bool:
    """Whether the order of a sum matters to nobody: integers wrap, and others are close."""
    kind = parse(m.x.dtype)
    return m.param("op") == "sum" and not kind.is_bool and not (kind.is_float and m.mode == "full")


def reduce(m: Any) -> Any:
    axes = _Axes(m)
    reducer: Callable[..., Any]
    if m.x.dtype == "bool":
        reducer = any_of if m.param("op") == "max" else all_of
    elif sums(m):
        reducer = te.sum
    else:
        reducer = te.min if m.param("op") == "min" else te.max

    def element(*i: Any) -> Any:
        more: dict[str, Any] = {}
        start = m.param("start")
        if start == "const":
            more["init"] = tir.const(1, m.x.dtype)
        elif start == "read" and len(m.reads) > 1 and m.reads[1].dtype == m.x.dtype:
            more["init"] = m.reads[1](*i)
        if m.param("where"):
            more["where"] = te.floormod(axes.number(), tir.const(3)) < 2
        return reducer(m.x(*axes.indices(i)), axis=axes.ks, **more)

    return te.compute(axes.shape, element, name=m.name)


def tuple_reduce(m: Any) -> Any:
    """Index and value of the largest element along the axes (the first of equals)."""
    axes = _Axes(m)

    def read(i: Any) -> Any:
        v = m.x(*axes.indices(i))
        if v.dtype == "bool":
            return v.astype("int8")
        # a NaN is in no order with others: which is found first would matter
        return tir.Select(te.isnan(v), zero(v), v) if parse(v.dtype).is_float else v

    def combine(a: Any, b: Any) -> Any:
        first = te.any(a[1] > b[1], te.all(a[1].equal(b[1]), a[0] < b[0]))
        return tir.Select(first, a[0], b[0]), tir.Select(first, a[1], b[1])

    best = te.comm_reducer(combine, lambda i, v: (tir.const(1 << 20, i), _least(v)), name="best")
    where, value = te.compute(
        axes.shape, lambda *i: best((axes.number(), read(i)), axis=axes.ks), name=m.name + "t"
    )
    modulus = tir.const(3)

    def both(*i: Any) -> Any:
        place = te.floormod(where(*i), modulus).astype(value.dtype)
        if parse(value.dtype).is_float and m.mode == "full":
            return tir.max(value(*i), place)
        return value(*i) + place

    return te.compute(axes.shape, both, name=m.name)


def _least(dtype: str) -> Any:
    return tir.const(-math.inf, dtype) if parse(dtype).is_float else te.min_value(dtype)


def _most(dtype: str) -> Any:
    return tir.const(math.inf, dtype) if parse(dtype).is_float else te.max_value(dtype)


def twice_reduce(m: Any) -> Any:
    """A count and the smallest and largest element at once: three results of different types."""
    axes = _Axes(m)

    def combine(a: Any, b: Any) -> Any:
        return a[0] + b[0], tir.min(a[1], b[1]), tir.max(a[2], b[2])

    def identity(n: Any, low: Any, high: Any) -> Any:
        return tir.const(0, n), _most(low), _least(high)

    three = te.comm_reducer(combine, identity, name="three")

    def element(*i: Any) -> Any:
        v = m.x(*axes.indices(i))
        v = v.astype("int8") if v.dtype == "bool" else v
        return three(((v > zero(v)).astype("int16"), v, v), axis=axes.ks)

    count, low, high = te.compute(axes.shape, element, name=m.name + "w")

    def all_three(*i: Any) -> Any:
        return tir.Select(te.floormod(count(*i), tir.const(2, "int16")).equal(0), low(*i), high(*i))

    return te.compute(axes.shape, all_three, name=m.name)


def window(m: Any) -> Any:
    x = m.x
    d, width, stride = (m.param(k) for k in ("axis", "width", "stride"))
    k = te.reduce_axis((0, width), name="w")
    out = te.floordiv(x.shape[d] - width, stride) + 1
    shape = [*x.shape[:d], out, *x.shape[d + 1 :]]
    reducer = any_of if x.dtype == "bool" else te.max
    return te.compute(
        shape,
        lambda *i: reducer(x(*i[:d], i[d] * stride + k, *i[d + 1 :]), axis=k),
        name=m.name,
    )


def scan(m: Any) -> Any:
    """Along the first axis: the largest so far, what was read last, or two states at once."""
    x, op = m.x, m.param("op")

    def joined(a: Any, b: Any) -> Any:
        if a.dtype == "bool":
            return tir.any(a, b)
        return tir.max(a, b) if op == "max" else tir.min(between(a, -50, 50), b)

    def state(n: int) -> Any:
        return te.placeholder(x.shape, x.dtype, name=f"{m.name}s{n}")

    def first(n: int) -> Any:
        return te.compute((1, *x.shape[1:]), lambda *i: x(0, *i[1:]), name=f"{m.name}i{n}")

    if op != "states":
        s = state(0)
        step = te.compute(x.shape, lambda t, *i: joined(s(t - 1, *i), x(t, *i)), name=m.name + "u")
        return te.scan(first(0), step, s, inputs=[x], name=m.name)
    a, b = state(0), state(1)
    new_a = te.compute(x.shape, lambda t, *i: joined(b(t - 1, *i), x(t, *i)), name=m.name + "u")
    new_b = te.compute(
        x.shape, lambda t, *i: tir.Select(te.floormod(t, 2).equal(0), a(t - 1, *i), x(t, *i)),
        name=m.name + "v",
    )  # fmt: skip
    one, two = te.scan([first(0), first(1)], [new_a, new_b], [a, b], inputs=[x], name=m.name + "n")
    return te.compute(x.shape, lambda *i: joined(one(*i), two(*i)), name=m.name)
