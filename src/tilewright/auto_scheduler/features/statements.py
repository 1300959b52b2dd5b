"""The statements of a skeleton: what each stores and reads, and in which order they run.

One statement stands for each buffer that is stored to. The store that gives a reduction its first
value has none of its own: it is a small part of the reduction, and says nothing that the
reduction's own statement does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...base.dtype import parse
from ...loopir.iter import ProducerLoad, Reduce
from ...loopir.subst import substitute
from ...loopir.visit import post_order_visit
from ...schedule.placement import attach_point
from ...tensor.op import ComputeOp
from .columns import OPERATIONS
from .index import Sum
from .nest import Nest
from .operations import count_operations
from .program import Slot
from .stage_nest import StageNest
from .value import Loop

READ, WRITE, READ_WRITE = 0, 1, 2


class BufferInfo:
    """A tensor's memory: what is in it is `shape` long (slots) in each dimension."""

    __slots__ = ("element", "packed", "shape", "stage")

    def __init__(self, stage: Any, element: int, shape: list[Slot], packed: bool) -> None:
        self.stage, self.element, self.shape, self.packed = stage, element, shape, packed


class Access:
    """What one statement does with one buffer; `indices` of each place that it touches."""

    __slots__ = ("buffer", "indices", "kind")

    def __init__(self, buffer: BufferInfo, kind: int) -> None:
        self.buffer = buffer
        self.kind = kind
        self.indices: list[list[Sum | None]] = []

    def touch(self, kind: int, indices: list[Sum | None]) -> None:
        if kind != self.kind:
            self.kind = READ_WRITE
        if not any(_key(indices) == _key(known) for known in self.indices):
            self.indices.append(indices)


def _key(indices: list[Sum | None]) -> list[Any]:
    return [i.key() if i is not None else None for i in indices]


class Statement:
    """One store, the loops around it, and what it does."""

    __slots__ = ("accesses", "counts", "name", "nest", "path", "target")

    def __init__(self, name: str, nest: StageNest, path: list[Loop], target: BufferInfo) -> None:
        self.name, self.nest, self.path, self.target = name, nest, path, target
        self.accesses: list[Access] = []
        self.counts = dict.fromkeys(OPERATIONS, 0)


class Reader:
    """Collects the statements of a nest."""

    def __init__(self, nest: Nest, packed: Mapping[int, int]) -> None:
        self.nest = nest
        self.packed = packed
        self.buffers: dict[Any, BufferInfo] = {}
        self.inside: dict[tuple[int, int], list[Any]] = {}

    def statements(self) -> list[Statement]:
        """All statements, in the order in which they run."""
        roots = []
        for stage in self.nest.schedule.stages:
            if stage.id not in self.nest.stages:
                continue
            point = attach_point(stage)
            if point is None:
                roots.append(stage)
            else:
                self.inside.setdefault((point[0].id, id(point[1])), []).append(stage)
        return [s for stage in roots for s in self._stage(stage)]

    def _stage(self, stage: Any) -> Iterator[Statement]:
        stack = [(stage, self._children(stage))]
        while stack:
            current, waiting = stack[-1]
            child = next(waiting, None)
            if child is not None:
                stack.append((child, self._children(child)))
                continue
            stack.pop()
            yield from self._stores(current)

    def _children(self, stage: Any) -> Iterator[Any]:
        for leaf in stage.leaf_iter_vars:
            yield from self.inside.get((stage.id, id(leaf)), ())

    def _stores(self, stage: Any) -> Iterator[Statement]:
        op, nest = stage.op, self.nest.stages[stage.id]
        point = [a.var for a in op.axis]
        for k in range(op.num_outputs):
            t = op.output(k)
            name = t.op.name if op.num_outputs == 1 else f"{t.op.name}.v{k}"
            statement = Statement(name, nest, nest.path, self.buffer(t))
            value = _stored(op, k, point)
            self._touch(statement, t, WRITE, point)
            self._read(statement, value)
            statement.counts = count_operations(value)
            yield statement

    def _read(self, statement: Statement, value: Any) -> None:
        def visit(e: Any) -> None:
            if isinstance(e, ProducerLoad):
                self._touch(statement, e.producer, READ, e.indices)

        post_order_visit(value, visit)

    def _touch(self, statement: Statement, t: Any, kind: int, indices: Any) -> None:
        buffer = self.buffer(t)
        access = next((a for a in statement.accesses if a.buffer is buffer), None)
        if access is None:
            access = Access(buffer, kind)
            statement.accesses.append(access)
        access.touch(kind, [self.nest.indices.parse(i) for i in indices])

    def buffer(self, t: Any) -> BufferInfo:
        known = self.buffers.get(t)
        if known is not None:
            return known
        stage = self.nest.schedule.stage_of[t.op]
        own = self.nest.stages.get(stage.id)
        packed = self.nest.packed_shape(stage)
        if packed is not None:
            shape = packed
        elif own is None or stage.is_output:
            shape = [self.nest.slot(d) for d in t.shape]
        else:
            shape = [own.axes[a.var].room for a in stage.op.axis]
        bits = parse(t.dtype).bits * parse(t.dtype).lanes
        info = BufferInfo(stage, max(1, bits // 8), shape, stage.id in self.packed)
        self.buffers[t] = info
        return info


def _stored(op: ComputeOp, k: int, point: Any) -> Any:
    """The value that a stage stores: of a reduction, that of one step."""
    body = op.body[k]
    if not isinstance(body, Reduce):
        return body
    table: dict[Any, Any] = {}
    for n, (left, right) in enumerate(zip(body.combiner.lhs, body.combiner.rhs)):
        table[left] = ProducerLoad(op.output(n), point)
        table[right] = body.source[n]
    return substitute(body.combiner.result[k], table)
