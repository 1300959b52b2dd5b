"""What is read off one compute operation: its reads, their indices, where data is used again.

An index is *plain* if it is a constant or an axis of the reader, possibly shifted by a constant.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod
from typing import Any

from ..loopir.expr import Add, Call, IntImm, PrimExpr, Select, Sub, Var, const_int
from ..loopir.iter import ProducerLoad
from ..loopir.op_table import CHEAP
from ..loopir.visit import nodes
from ..tensor.op import ComputeOp, Operation, domain


class Place:
    """A plain index: axis number `axis` of the reader (None: a constant) plus `shift`."""

    __slots__ = ("axis", "shift")

    def __init__(self, axis: int | None, shift: int) -> None:
        self.axis, self.shift = axis, shift


class Facts:
    """What is read off one compute operation, when it is asked for."""

    def __init__(self, op: ComputeOp) -> None:
        self.op = op
        self.extents = [const_int(domain(a).extent) for a in op.axis]

    @cached_property
    def _nodes(self) -> list[Any]:
        """The distinct parts of the elements; results of one reduction share theirs."""
        reads = self.op.body[:1] if self.op.reduce_axis else self.op.body
        seen: dict[int, Any] = {}
        for e in reads:
            for x in nodes(e):
                seen.setdefault(id(x), x)
        return list(seen.values())

    @cached_property
    def reads(self) -> dict[Operation, list[ProducerLoad]]:
        """All reads, by the operation that is read."""
        found: dict[Operation, list[ProducerLoad]] = {}
        for x in self._nodes:
            if isinstance(x, ProducerLoad):
                found.setdefault(x.producer.op, []).append(x)
        return found

    @cached_property
    def places(self) -> dict[Operation, list[list[Place | None]]]:
        """The indices of the reads; None where an index is not plain."""
        numbers = {a.var: n for n, a in enumerate(self.op.axis)}
        return {
            producer: [[_place(i, numbers) for i in load.indices] for load in loads]
            for producer, loads in self.reads.items()
        }

    @cached_property
    def is_simple(self) -> bool:
        return all(p is not None for reads in self.places.values() for r in reads for p in r)

    @cached_property
    def is_strict(self) -> bool:
        """See Access.is_strictly_inlineable."""
        if self.op.reduce_axis:
            return False
        if not self.reads:
            return True
        if not self.is_simple or any(map(_is_costly, self._nodes)):
            return False
        return all(_ascends(read) for reads in self.places.values() for read in reads)

    @cached_property
    def reuses(self) -> bool:
        """See Access.needs_multi_level_tiling."""
        needed = {a.var for a, n in zip(self.op.axis, self.extents) if n is None or n > 1}
        missing = 0
        for loads in self.reads.values():
            used = [{x for i in r.indices for x in nodes(i) if isinstance(x, Var)} for r in loads]
            if self.op.reduce_axis:
                # reads count one by one: A[i, k] * A[j, k] uses each element often
                missing += not all(needed <= u for u in used)
            else:
                missing += not needed <= set().union(*used)
        return missing >= (1 if self.op.reduce_axis else 2)

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """How many elements there are, and how many steps the reduction of each takes."""
        reduce = [const_int(domain(a).extent) for a in self.op.reduce_axis]
        return prod(n or 0 for n in self.extents), prod(n or 0 for n in reduce)

    def reads_elementwise(self, producer: Operation) -> bool:
        """Whether `producer`, of this one's shape, is read at this one's own place only."""
        shape = [const_int(n) for n in producer.output_shape(0)]
        return shape == self.extents and all(
            p is not None and p.axis == n and p.shift == 0
            for read in self.places.get(producer, [])
            for n, p in enumerate(read)
        )

    def common_outer(self, producer: Operation) -> int:
        """How many first dimensions of `producer` are read at the same first axes only."""
        reads = self.places.get(producer, [])
        shape = [const_int(n) for n in producer.output_shape(0)]
        count = 0
        for own, theirs in zip(self.extents, shape):
            if own != theirs or not all((p := r[count]) and p.axis == count for r in reads):
                break
            count += 1
        return count


def _place(index: PrimExpr, numbers: dict[Var, int]) -> Place | None:
    if isinstance(index, IntImm):
        return Place(None, index.value)
    sign, a, b = 1, index, None
    if isinstance(index, (Add, Sub)):
        sign = -1 if isinstance(index, Sub) else 1
        a, b = index.a, index.b
        if sign > 0 and isinstance(a, IntImm):
            a, b = b, a
    number = numbers.get(a) if isinstance(a, Var) else None
    if number is None or not (b is None or isinstance(b, IntImm)):
        return None
    return Place(number, 0 if b is None else sign * b.value)


def _ascends(read: list[Place | None]) -> bool:
    """Whether axes stand in a read in their order, each once at most."""
    axes = [p.axis for p in read if p is not None and p.axis is not None]
    return all(a < b for a, b in pairwise(axes))


def _is_costly(e: Any) -> bool:
    """A choice, or a call that takes many instructions (exp) or unknown ones."""
    if isinstance(e, Call):
        return e.op.row.cost > CHEAP or e.op.name == "tir.if_then_else"
    return isinstance(e, Select)


@lru_cache(maxsize=1024)
def facts_of(op: ComputeOp) -> Facts:
    """Facts about an operation; operations are immutable and compared by identity."""
    return Facts(op)
