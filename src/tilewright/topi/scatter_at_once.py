"""Scattering on a device, where all updates are made at once.

Of updates that replace elements, the last of each place is found by the largest of their numbers,
and the place reads it. Sums, least and largest elements are made by atomic operations, in the order
in which threads happen to come: all but sums of floats come to the same in any. Products and means
of updates are taken in their order, by sorting their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..base.dtype import parse
from ..loopir import op as O
from ..loopir.calls import address_of, call_intrin
from ..loopir.expr import cast, const, const_int
from ..loopir.ir_builder import IRBuilder
from ..tensor.compute import compute
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .elemwise import cast as cast_all
from .lines import bisected, each, variable
from .sorting import argsort, rising
from .transform import INJECTIVE
from .utils import ravel_index, unravel_index


@dataclass(frozen=True)
class Scatter:
    """Which elements of `data` updates meet. `target(read, u)`: the place that update `u` writes
    to, with indices by `read`; only its first `depth` numbers come from these. Updates that differ
    behind their first `lead` indices meet different elements, at places that differ as they do.
    `number(u)` grows from update to update of a place, whose update of a number is at
    `source(place, number)`. Along the dimensions before `first` all updates do the same."""

    data: Tensor
    indices: Tensor
    target: Callable[[Any, Sequence[Any]], list[Any]]
    depth: int
    lead: int
    number: Callable[[Sequence[Any]], Any]
    source: Callable[[Sequence[Any], Any], Sequence[Any]]
    first: int = 0

    @property
    def places(self) -> list[Any]:
        """The extents of what indices choose from."""
        return list(self.data.shape[self.first : self.depth])

    def at(self, n: Sequence[Any], i: Sequence[Any]) -> list[Any]:
        """The update with indices `n`, of those that an element at `i` may meet."""
        return [*i[: self.first], *n, *i[self.depth :]]

    def place(self, index: Any, u: Sequence[Any]) -> tuple[list[Any], Any]:
        """The place of an update, and whether it is one."""
        to = self.target(lambda at: index[tuple(at)], u)
        sides = [(p >= 0, p < cast(p.dtype, d)) for p, d in zip(to, self.data.shape)]
        return to, O.all(const(1, "bool"), *(c for pair in sides for c in pair))


Combine = Callable[[Any, Any], Any]


def scatter_at_once(
    plan: Scatter, data: Tensor, updates: Tensor, reduction: str, combine: Combine, name: str
) -> Tensor:
    """`data` with updates, by kernels of many threads."""
    if reduction == "update":
        return _last(plan, data, updates, name)
    kind = parse(data.dtype)
    if reduction in ("mul", "mean") or kind.is_bool:
        return _in_turn(plan, data, updates, combine, name)
    return _atomically(plan, data, updates, reduction, name)


def _all(shape: Sequence[Any], n: Any) -> tuple[Any, ...]:
    return tuple(unravel_index(n, shape)) if shape else ()


def _number(i: Sequence[Any], shape: Sequence[Any]) -> Any:
    return ravel_index(i, shape) if shape else const(0)


def _last(plan: Scatter, data: Tensor, updates: Tensor, name: str) -> Tensor:
    shape, lead = plan.places, updates.shape[plan.first : plan.lead]
    start = [const(0)] * data.ndim
    if const_int(prod(lead)) == 1:
        return _one(plan, data, updates, name)

    def body(ins: Any, outs: Any) -> Any:
        ib = IRBuilder()
        index, last = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, prod(shape), prod(shape)) as n:
            last[_all(shape, n)] = const(-1)
        with each(ib, prod(lead), prod(lead)) as n:
            u = plan.at(_all(lead, n), start)
            to, inside = plan.place(index, u)
            with ib.if_scope(inside):
                at = address_of(last[tuple(to[plan.first : plan.depth])])
                number = cast("int32", plan.number(u))
                ib.emit(call_intrin("int32", "tir.atomic_max", at, number))
        return ib.get()

    last: Tensor = extern(shape, [plan.indices], body, f"{name}_last", "int32")

    def element(*i: Any) -> Any:
        which = last(*i[plan.first : plan.depth])
        return O.if_then_else(which >= 0, updates(*plan.source(i, which)), data(*i))

    result: Tensor = compute(data.shape, element, name, INJECTIVE)
    return result


def _one(plan: Scatter, data: Tensor, updates: Tensor, name: str) -> Tensor:
    """Where a single place is written, as that of a step's key in a cache: one kernel."""

    def element(*i: Any) -> Any:
        u = plan.at([const(0)] * (plan.lead - plan.first), i)
        to, inside = plan.place(_Read(plan.indices), u)
        mine = zip(to[plan.first : plan.depth], i[plan.first : plan.depth])
        hit = O.all(inside, *(p.equal(cast(p.dtype, j)) for p, j in mine))
        return O.if_then_else(hit, updates(*u), data(*i))

    result: Tensor = compute(data.shape, element, name, INJECTIVE)
    return result


def _atomically(plan: Scatter, data: Tensor, updates: Tensor, reduction: str, name: str) -> Tensor:
    """Of floats the least and the largest are those of integers in their order, which is that of
    the numbers, or the other way round: what is not a number counts in both."""
    dtype = data.dtype
    kind = parse(dtype)
    if kind.bits < 32:
        wide = "float32" if kind.is_float else "int32"
        both = cast_all(data, wide), cast_all(updates, wide)
        narrow: Tensor = cast_all(_atomically(plan, *both, reduction, name), dtype)
        return narrow
    ordered = kind.is_float and reduction != "add"
    own = f"int{kind.bits}" if ordered else dtype
    operation = "max" if ordered else reduction

    def key(x: Any) -> Any:
        return x if not ordered else rising(-x if reduction == "min" else x)

    def body(ins: Any, outs: Any) -> Any:
        ib = IRBuilder()
        old, index, new, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, prod(data.shape), prod(data.shape)) as n:
            i = _all(data.shape, n)
            out[i] = key(old[i])
        with each(ib, prod(updates.shape), prod(updates.shape)) as n:
            u = _all(updates.shape, n)
            to, inside = plan.place(index, u)
            with ib.if_scope(inside):
                at = address_of(out[tuple(to)])
                ib.emit(call_intrin(own, f"tir.atomic_{operation}", at, key(new[u])))
        return ib.get()

    inputs = [data, plan.indices, updates]
    found: Tensor = extern(data.shape, inputs, body, name, own)
    if not ordered:
        return found

    def element(*i: Any) -> Any:
        most, mine = O.max_value(own), found(*i)
        bits = O.select(mine < const(0, own), O.bitwise_xor(mine, most), mine)
        value = O.reinterpret(dtype, bits)
        value = -value if reduction == "min" else value
        return O.select(mine.equal(key(data(*i))), data(*i), value)

    result: Tensor = compute(data.shape, element, f"{name}_numbers", "elemwise")
    return result


def _in_turn(plan: Scatter, data: Tensor, updates: Tensor, combine: Combine, name: str) -> Tensor:
    """Every element takes its updates one after another, which sorting has put side by side."""
    shape, lead = plan.places, updates.shape[plan.first : plan.lead]
    places, count = prod(shape), prod(lead)
    start = [const(0)] * data.ndim

    def where(n: Any) -> Any:
        to, inside = plan.place(_Read(plan.indices), plan.at(_all(lead, n), start))
        number = _number([cast("int32", p) for p in to[plan.first : plan.depth]], shape)
        return O.if_then_else(inside, number, const(places))

    target: Tensor = compute((count,), where, f"{name}_places", "injective")
    order = argsort(target, dtype="int32")

    def body(ins: Any, outs: Any) -> Any:
        ib = IRBuilder()
        old, new, to, turns, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, prod(data.shape), prod(data.shape) * 32) as n:
            i = _all(data.shape, n)
            mine = ib.let("mine", _number(i[plan.first : plan.depth], shape))
            first = bisected(ib, 0, count, lambda turn: to[turns[turn]] < mine)
            turn = variable(ib, "int32", first, "turn")
            value = variable(ib, data.dtype, old[i], "value")
            last = O.min(turn[0], count - 1)
            there = O.if_then_else(turn[0] < count, to[turns[last]], const(-1))
            with ib.while_loop(there.equal(mine)):
                u = tuple(plan.at(_all(lead, turns[turn[0]]), i))
                value[0] = combine(value[0], new[u])
                turn[0] = turn[0] + 1
            out[i] = value[0]
        return ib.get()

    inputs = [data, updates, target, order]
    result: Tensor = extern(data.shape, inputs, body, name, data.dtype)
    return result


class _Read:
    """A tensor, read as buffers are."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __getitem__(self, at: tuple[Any, ...]) -> Any:
        return self.tensor(*at)
