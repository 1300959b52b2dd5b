"""What sketch rules ask of a computation: who reads whom and how, where data is used again.

`Access` answers for the present operations of a schedule, in which cache_write, rfactor and others
may have put new ones. An index is *plain* if it is a constant or an axis of the reader, possibly
shifted by a constant; the predicates are those of Ansor (Zheng et al., OSDI 2020, section 4.1).
Steps of a scan, externs and tensor intrinsics are opaque: no predicate holds for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, lru_cache
from math import prod
from typing import Any

from ..loopir.expr import Add, Call, IntImm, PrimExpr, Select, StringImm, Sub, Var, const_int
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.visit import nodes
from ..tensor.analysis import scan_body
from ..tensor.op import ComputeOp, Operation, PlaceholderOp, ScanOp, domain

CONST_TENSOR_ATTR = "auto_scheduler_simplify_const_tensor_indices"
_CHEAP_CALLS = frozenset(
    f"tir.{name}"
    for name in (
        "if_then_else likely reinterpret sqrt rsqrt fabs floor ceil round trunc nearbyint fma "
        "isnan isinf isfinite popcount clz copysign bitwise_and bitwise_or bitwise_xor bitwise_not "
        "shift_left shift_right q_multiply_shift"
    ).split()
)
_RFACTOR_SPACE_PER_CORE = 16


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
            used = {x for r in loads for i in r.indices for x in nodes(i) if isinstance(x, Var)}
            missing += not needed <= used
        return missing >= (1 if self.op.reduce_axis else 2)

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """How many elements there are, and how many steps the reduction of each takes."""
        reduce = [const_int(domain(a).extent) for a in self.op.reduce_axis]
        return prod(n or 0 for n in self.extents), prod(n or 0 for n in reduce)

    def common_outer(self, producer: Operation) -> int:
        """How many first dimensions of `producer` are read at the same first axes only."""
        reads = self.places.get(producer, [])
        shape = [const_int(n) for n in producer.output_shape(0)]
        count = 0
        for own, theirs in zip(self.extents, shape):
            if own != theirs or not all(_is_axis(r[count], count) for r in reads):
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


def _is_axis(place: Place | None, number: int) -> bool:
    return place is not None and place.axis == number


def _ascends(read: list[Place | None]) -> bool:
    """Whether axes stand in a read in their order, each once at most."""
    axes = [p.axis for p in read if p is not None and p.axis is not None]
    return all(a < b for a, b in zip(axes, axes[1:]))


def _is_costly(e: Any) -> bool:
    """A choice, or a call that takes many instructions (exp) or unknown ones."""
    if isinstance(e, Call):
        return e.op.name == "tir.if_then_else" or e.op.name not in _CHEAP_CALLS
    return isinstance(e, Select)


@lru_cache(maxsize=1024)
def facts_of(op: ComputeOp) -> Facts:
    """Facts about an operation; operations are immutable and compared by identity."""
    return Facts(op)


class Access:
    """Predicates over operations in the order of computation; `outputs` are those to be kept.

    Operations in `inlined` are looked through where readers and sources are asked for.
    """

    def __init__(
        self,
        ops: Iterable[Operation],
        outputs: Iterable[Operation],
        inlined: Iterable[Operation] = (),
    ) -> None:
        self.ops = list(ops)
        self.outputs = set(outputs)
        self.inlined = set(inlined)
        self._position = {op: n for n, op in enumerate(self.ops)}
        self._readers: dict[Operation, list[Operation]] = {op: [] for op in self.ops}
        for op in self.ops:
            for source in dict.fromkeys(t.op for t in op.input_tensors):
                if source in self._readers:
                    self._readers[source].append(op)
        self._opaque: set[Operation] = set()
        for op in self.ops:
            if isinstance(op, ScanOp):
                self._opaque |= scan_body(op)

    # -- one operation

    def is_placeholder(self, op: Operation) -> bool:
        return isinstance(op, PlaceholderOp)

    def is_compute(self, op: Operation) -> bool:
        """Whether the operation is given element by element, and not as a step of a scan."""
        return isinstance(op, ComputeOp) and op not in self._opaque

    def is_output(self, op: Operation) -> bool:
        """Whether the values are among the results, or nobody reads them."""
        if isinstance(op, PlaceholderOp):
            return False
        return op in self.outputs or not self._readers[op]

    def _facts(self, op: Operation) -> Facts | None:
        return facts_of(op) if isinstance(op, ComputeOp) and op not in self._opaque else None

    def is_simple_access(self, op: Operation) -> bool:
        """Whether all reads are at plain indices."""
        facts = self._facts(op)
        return facts is not None and facts.is_simple

    def is_strictly_inlineable(self, op: Operation) -> bool:
        """Whether computing the elements where they are read costs next to nothing.

        Plain indices, axes in their order and none twice, no reduction, no branch, no expensive
        function (exp and its like). Always so for an operation that reads nothing.
        """
        facts = self._facts(op)
        return facts is not None and facts.is_strict

    def needs_multi_level_tiling(self, op: Operation) -> bool:
        """Whether elements of inputs are used many times: at least two inputs each lack some axis
        of the result (longer than 1), with a reduction at least one."""
        facts = self._facts(op)
        return facts is not None and facts.reuses

    needs_tiling = needs_multi_level_tiling

    def lengths(self, op: Operation) -> tuple[int, int]:
        """Elements of the result, and steps of the reduction behind each (1 without one)."""
        facts = self._facts(op)
        return (0, 0) if facts is None else facts.lengths

    def needs_rfactor(self, op: Operation, cores: int) -> bool:
        """Whether there is more to do in parallel along the reduction than across elements.

        Where data is reused: the reduction is at least as long as there are elements, and those are
        16 a core at most. Elsewhere: it is longer than there are cores.
        """
        space, reduce = self.lengths(op)
        if not getattr(op, "reduce_axis", ()):
            return False
        if self.needs_multi_level_tiling(op):
            return space <= reduce and space <= _RFACTOR_SPACE_PER_CORE * cores
        return reduce > 1 and reduce > cores

    def needs_cross_thread_reduction(
        self, op: Operation, max_threads_per_block: int, warp_size: int
    ) -> bool:
        """Whether the threads of a block should share each reduction.

        Where data is reused: there are fewer elements than steps and at most a block's threads.
        Elsewhere: the reduction is longer than a warp.
        """
        space, reduce = self.lengths(op)
        if not getattr(op, "reduce_axis", ()):
            return False
        if self.needs_multi_level_tiling(op):
            return space <= max_threads_per_block and space < reduce
        return reduce > 1 and reduce > warp_size

    # -- several operations

    def _ordered(self, ops: Collection[Operation]) -> list[Operation]:
        return sorted(ops, key=self._position.__getitem__)

    def get_direct_producers(self, op: Operation) -> list[Operation]:
        """The operations that `op` reads, inlined or not."""
        found = {t.op for t in op.input_tensors}
        return self._ordered([p for p in found if p in self._position])

    def get_direct_consumers(self, op: Operation) -> list[Operation]:
        """The operations that read `op`, inlined or not."""
        return list(self._readers[op])

    def get_producers(self, op: Operation) -> list[Operation]:
        """The operations that `op` reads, with those that inlined ones read in their place."""
        return self._ordered(set(self._through(op, self.get_direct_producers)))

    def get_consumers(self, op: Operation) -> list[Operation]:
        """The operations that read `op`, with the readers of inlined ones in their place."""
        return self._ordered(set(self._through(op, self.get_direct_consumers)))

    def _through(self, op: Operation, step: Any) -> Iterator[Operation]:
        stack, seen = list(step(op)), set()
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            if item in self.inlined:
                stack.extend(step(item))
            else:
                yield item

    def elementwise_match(self, op: Operation, target: Operation) -> bool:
        """Whether `target` reads `op`, alone and perhaps through others, element by element: each
        element of the shape that both have at its own place."""
        while op is not target:
            readers = self._readers[op]
            if len(readers) != 1 or self.is_output(op):
                return False
            own, facts = self._facts(op), self._facts(readers[0])
            if own is None or facts is None or own.extents != facts.extents:
                return False
            for read in facts.places[op]:
                if not all(_is_axis(p, n) and p.shift == 0 for n, p in enumerate(read) if p):
                    return False
                if not all(read):
                    return False
            op = readers[0]
        return True

    def get_num_common_outer_iterator(self, op: Operation, target: Operation) -> int:
        """How many outermost axes `op` and `target` have in common along every way from one to the
        other; 0 where there is none."""
        first = len(op.output_shape(0))
        best: dict[Operation, int] = {target: first}
        start = self._position[op]
        for item in reversed(self.ops[start : self._position[target]]):
            found = [
                min(best[reader], facts.common_outer(item))
                for reader in self._readers[item]
                if reader in best and (facts := self._facts(reader)) is not None
            ]
            if found:
                best[item] = min(found)
        return best.get(op, 0)


def has_cross_thread_reduction(stage: Any) -> bool:
    """Whether a reduction loop of a schedule's stage is bound to threads."""
    return any(
        a.iter_type == IterVar.CommReduce and stage.attr(a).bind_thread is not None
        for a in stage.leaf_iter_vars
    )


def attr_names(op: Operation, key: str) -> tuple[str, ...]:
    """Names of axes that an attribute of the operation lists."""
    value = op.attrs.get(key, ())
    items = [value] if isinstance(value, (str, StringImm)) else value
    return tuple(str(getattr(item, "value", item)) for item in items)


def has_flag(op: Operation, key: str) -> bool:
    """Whether an attribute of the operation is there and not zero or empty."""
    value = op.attrs.get(key, False)
    return bool(getattr(value, "value", value))


def const_tensor_indices(op: Operation) -> tuple[str, ...]:
    """Names of the axes that index constant tensors, as the operation's attribute says."""
    return attr_names(op, CONST_TENSOR_ATTR)
