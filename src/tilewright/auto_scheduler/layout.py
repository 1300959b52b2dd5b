"""The order of an operand's elements in memory that suits the loops that read it.

An operand whose every dimension is read at one loop of its reader (possibly reversed or shifted)
can be laid out in the order in which the reader's tiles run through it: dimension by dimension the
loop was split into digits; sorted by the places of their loops, outermost first, the digits are the
new dimensions. The innermost loop that touches the operand then walks it with stride one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arith import Analyzer
from ..loopir.expr import IntImm, PrimExpr, Var, const, const_int
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.visit import post_order_visit
from ..schedule.relations import Fuse, Split, pass_down_extents
from ..target.target import Target
from ..tensor.op import ComputeOp
from ..tensor.tensor import Tensor
from ..topi.schedules.decisions import Decisions
from ..topi.schedules.machine import Machine
from ..topi.schedules.panels import panels_of


class Digit:
    """Part of a dimension: index // `below` % `extent` (the outermost without %). `axis`: the
    reader's part of an axis that walks it, where loops were asked."""

    __slots__ = ("axis", "below", "dim", "extent", "outermost", "place")

    def __init__(
        self, dim: int, axis: IterVar | None, extent: Any, below: Any, outermost: bool, place: Any
    ) -> None:
        self.dim, self.axis, self.extent, self.below = dim, axis, extent, below
        self.outermost, self.place = outermost, place


class PackOrder:
    """Digits of all dimensions in the order of the reader's loops; `every`: those of one value
    too."""

    __slots__ = ("digits", "every", "rank", "signs")

    def __init__(
        self, digits: list[Digit], signs: list[tuple[int, int]], every: bool = False
    ) -> None:
        self.digits = sorted(digits, key=lambda d: d.place)
        self.signs, self.every = signs, every
        self.rank = len(signs)

    def kept(self) -> list[Digit]:
        """The digits of more than one value: the new dimensions."""
        if self.every:
            return self.digits
        return [d for d in self.digits if const_int(d.extent) != 1] or self.digits[:1]

    def is_identity(self) -> bool:
        """Whether memory stays as it is."""
        kept = self.kept()
        in_order = [d.dim for d in kept] == sorted(d.dim for d in kept)
        return in_order and all(sign > 0 and shift == 0 for sign, shift in self.signs)

    def mapping(self) -> Callable[..., list[Any]]:
        """The map for transform_layout; the digits' extents have to be constants."""
        kept = self.kept()

        def order(*indices: Any) -> list[Any]:
            result: list[Any] = []
            for d in kept:
                sign, shift = self.signs[d.dim]
                i = indices[d.dim] - shift if sign > 0 else shift - indices[d.dim]
                below = const_int(d.below)
                i = i if below == 1 else i // below
                result.append(i if d.outermost else i % const_int(d.extent))
            return result

        return order


def pack_order(reader: Any, tensor: Tensor) -> PackOrder | None:
    """How `reader` (a stage) runs through `tensor`; None where it does not read it loop by loop."""
    op = reader.op
    if not isinstance(op, ComputeOp):
        return None
    loads: list[ProducerLoad] = []

    def collect(e: Any) -> None:
        if isinstance(e, ProducerLoad) and e.producer == tensor:
            loads.append(e)

    for e in op.body:
        post_order_visit(e, collect)
    if not loads or any(not _same(x, loads[0]) for x in loads[1:]):
        return None
    axes = {a.var: a for a in op.root_iter_vars()}
    found: list[IterVar] = []
    signs: list[tuple[int, int]] = []
    for index, extent in zip(loads[0].indices, tensor.shape):
        plain = _plain_index(index)
        if plain is None:
            if const_int(index) == 0 and const_int(extent) == 1:
                continue
            return None
        var, sign, shift = plain
        axis = axes.get(var)
        if axis is None or axis in found or axis.dom is None:
            return None
        if const_int(axis.dom.extent) != const_int(extent):
            return None
        found.append(axis)
        signs.append((sign, shift))
    if len(found) != len(tensor.shape):
        return None
    digits = [d for n, axis in enumerate(found) for d in _digits(reader, axis, n)]
    return PackOrder(digits, signs)


def _same(a: ProducerLoad, b: ProducerLoad) -> bool:
    return all(str(i) == str(j) for i, j in zip(a.indices, b.indices))


def _plain_index(e: PrimExpr) -> tuple[Var, int, int] | None:
    """(variable, sign, shift) of `shift + sign * variable`."""
    if isinstance(e, Var):
        return e, 1, 0
    name = type(e).__name__
    a, b = getattr(e, "a", None), getattr(e, "b", None)
    if name == "Sub" and isinstance(a, IntImm) and isinstance(b, Var):
        return b, -1, a.value
    if name == "Add" and isinstance(a, Var) and isinstance(b, IntImm) and b.value == 0:
        return a, 1, 0
    return None


def _digits(reader: Any, axis: IterVar, dim: int) -> list[Digit]:
    """The parts that splits made of an axis, with the places of their loops."""
    roots = {a: a.dom.extent for a in reader.op.root_iter_vars() if a.dom is not None}
    extent = pass_down_extents(reader.relations, roots, Analyzer())
    splits = {r.parent: r for r in reader.relations if isinstance(r, Split)}
    parts: list[IterVar] = []

    def walk(a: IterVar) -> None:
        relation = splits.get(a)
        if relation is None:
            parts.append(a)
        else:
            walk(relation.outer)
            walk(relation.inner)

    walk(axis)
    digits: list[Digit] = []
    below: Any = 1
    for i, part in reversed(list(enumerate(parts))):
        digits.append(Digit(dim, part, extent[part], below, i == 0, _place(reader, part)))
        below = extent[part] * below if not isinstance(below, int) or below != 1 else extent[part]
    return digits


def _place(reader: Any, axis: IterVar) -> tuple[int, ...]:
    """Sorts parts of axes by their loops, those within one fused loop by their order in it."""
    inside: list[int] = []
    for relation in reader.relations:
        if isinstance(relation, Fuse) and axis in relation.parents:
            inside.insert(0, int(relation.inner is axis))
            axis = relation.fused
    for n, leaf in enumerate(reader.leaf_iter_vars):
        if leaf is axis:
            return (n, *inside)
    return (len(reader.leaf_iter_vars), *inside)


def free_layouts(state: Any) -> list[tuple[Any, Any]]:
    """(stage, reader) of the inputs whose layout is free and that one stage reads loop by loop.

    None under the default schedule, which copies what it wants in another order.
    """
    if state.is_default:
        return []
    found = []
    consumers = state.schedule.consumers()
    for op in state.dag.layout_free:
        readers = consumers.get(op.output(0), [])
        if len(readers) == 1 and pack_order(readers[0], op.output(0)) is not None:
            found.append((state.schedule.find(op), readers[0]))
    return found


def free_orders(state: Any) -> dict[Tensor, PackOrder]:
    """How the inputs of free layout are laid out ahead of time; those that stay as they are not
    among them."""
    if state.is_default:
        return _panel_orders(state)
    orders: dict[Tensor, PackOrder] = {}
    for source, reader in free_layouts(state):
        tensor = source.op.output(0)
        order = pack_order(reader, tensor)
        if order is not None and not order.is_identity():
            orders[tensor] = order
    return orders


def _panel_orders(state: Any) -> dict[Tensor, PackOrder]:
    """The panels into which the default schedule would copy the vector side of sums of products."""
    target, decisions = Target(state.rows[-1][1]), Decisions(state.decisions)
    orders: dict[Tensor, PackOrder] = {}
    if "gpu" in target.keys:
        return orders
    constants = {op.output(0) for op in state.dag.layout_free}
    for op in state.dag.ops:
        panels = panels_of(op, constants, Machine.of(target, decisions))
        if panels is None or len(state.dag.access.get_direct_consumers(panels.tensor.op)) != 1:
            continue
        first = {dim: place for place, (dim, _, _) in reversed(list(enumerate(panels.parts)))}
        digits = [
            Digit(dim, None, const(extent), const(below), first[dim] == place, place)
            for place, (dim, extent, below) in enumerate(panels.parts)
        ]
        orders[panels.tensor] = PackOrder(digits, [(1, 0)] * len(panels.tensor.shape), every=True)
    return orders
