"""The features of a function of loops, as those of states are (`features_of`), read off its text.

Boxes that statements touch come from bounds of their indices: exact for sums of loops. A loop whose
extent is no constant counts as often as it runs in the first round of those around it. Where a
condition leaves a statement out, that is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...arith import Analyzer
from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.buffer import Buffer
from ...loopir.effects import CallEffectKind, effect_of
from ...loopir.iter import Range
from ...loopir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, LetStmt, PrimFunc
from ...loopir.visit import children
from .columns import (
    ACCESS_KINDS,
    ANNOTATIONS,
    BUFFER_COLUMNS,
    BUFFERS,
    COUNT,
    FLOAT_OPERATIONS,
    NO_REUSE,
    OPERATIONS,
    POSITIONS,
    REUSE_KINDS,
    SAMPLES,
    THREADS,
)  # fmt: skip

_KINDS = {"vec": ForKind.VECTORIZED, "unroll": ForKind.UNROLLED, "parallel": ForKind.PARALLEL}
_RANKS = {"global": 0, "shared": 1, "warp": 2, "local": 3}
_DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)
_WORK: dict[type, str] = {
    E.Add: "addsub", E.Sub: "addsub", E.Mul: "mul", E.Min: "cmp", E.Max: "cmp",
    **dict.fromkeys(_DIVISIONS, "divmod"),
}  # fmt: skip


@dataclass(eq=False)
class _Loop:
    """A loop or a thread axis. `kind`: of ForKind, None for threads; `tag`: of these."""

    var: E.Var
    extent: int
    kind: int | None = None
    tag: str = ""

    def keeps_apart(self, scope: str) -> bool:
        """Whether its threads share memory of a scope, which so is not one's own of each."""
        rank = _RANKS.get(scope.split(".")[0], 0)
        return bool(self.tag) and rank <= (0 if self.tag.startswith("blockIdx") else 1)


@dataclass(eq=False)
class _Access:
    """What a statement does with a buffer: "read", "write" or "read_write", at which indices, and
    the box that it touches of it for each level of loops, the outermost first."""

    buffer: Buffer
    kind: str
    indices: list[Sequence[Any]]
    boxes: list[list[int]] = field(default_factory=list)

    @property
    def element(self) -> int:
        dtype = parse(self.buffer.dtype)
        return max(1, dtype.bits * dtype.lanes // 8)

    @property
    def sizes(self) -> list[int]:
        """Elements that are touched, by level."""
        return [math.prod(box) for box in self.boxes]


@dataclass(eq=False)
class _Store:
    """A statement that stores, and what stands around it."""

    buffer: Buffer
    loops: list[_Loop]
    step: int
    on_gpu: bool
    work: dict[str, int]
    accesses: list[_Access]

    def trips(self, level: int = 0) -> int:
        """How often what stands at a level of the loops is run for one run of what is around."""
        return math.prod(loop.extent for loop in self.loops[level:])

    def bytes_at(self, level: int) -> int:
        return sum(a.sizes[level] * a.element for a in self.accesses)

    def level_of(self, loop: _Loop) -> int | None:
        return self.loops.index(loop) if loop in self.loops else None


class _Reader:
    """Collects the stores of a function, of several to a buffer the last."""

    def __init__(self, func: PrimFunc) -> None:
        self.stores: dict[Buffer, _Store] = {}
        self.allocated: dict[Buffer, list[_Loop]] = {}
        self._loops: list[_Loop] = []
        self._steps = [0]
        self._values: dict[E.Var, Any] = {}
        self._analyzer = Analyzer()
        self._statements(func.body)

    def _statements(self, body: Any) -> None:
        left: list[Any] = [body]
        while left:
            node = left.pop()
            if callable(node):  # what a scope ends with
                node()
            elif isinstance(node, BufferStore):
                self._store(node)
            elif not isinstance(node, E.PrimExpr):
                left += self._begin(node)
                left += reversed(children(node))

    def _begin(self, node: Any) -> list[Any]:
        """Enter a scope; what is to be done when it ends."""
        if isinstance(node, Allocate):
            self.allocated[node.buffer] = list(self._loops)
        if isinstance(node, LetStmt):
            self._values[node.var] = node.value
        if isinstance(node, AttrStmt) and node.attr_key == "pragma_auto_unroll_max_step":
            self._steps.append(E.const_int(node.value) or 0)
            return [self._steps.pop]
        loop = self._loop(node)
        if loop is None or loop.extent == 1:
            return []
        self._loops.append(loop)
        return [self._loops.pop]

    def _loop(self, node: Any) -> _Loop | None:
        if isinstance(node, For):
            loop = _Loop(node.loop_var, self._most(node.extent), node.kind)
        elif isinstance(node, AttrStmt) and node.attr_key in ("thread_extent", "virtual_thread"):
            real = node.attr_key == "thread_extent"
            tag = str(node.node.thread_tag) if real else "vthread"
            loop = _Loop(node.node.var, self._most(node.value), None, tag)
        else:
            return None
        low = node.min if isinstance(node, For) else E.const(0, loop.var.dtype)
        self._analyzer.bind(loop.var, Range.from_min_extent(low, E.const(1, low.dtype)))
        return loop

    def _most(self, extent: Any) -> int:
        """The greatest value of an extent in the first round of the loops around; 1 where it has no
        bound."""
        most = int(self._analyzer.const_int_bound(extent).max_value)
        return most if 1 <= most < 1 << 31 else 1

    def _store(self, node: BufferStore) -> None:
        work, loads = dict.fromkeys(OPERATIONS, 0), list(_loads(node.value, self._values))
        for operation in _operations(node.value, self._values):
            work[operation] += 1
        accesses: dict[Buffer, _Access] = {}
        for kind, buffer, indices in (
            ("write", node.buffer, node.indices), *(("read", x.buffer, x.indices) for x in loads)
        ):  # fmt: skip
            access = accesses.setdefault(buffer, _Access(buffer, kind, []))
            access.kind = kind if access.kind == kind else "read_write"
            access.indices.append(indices)
        for access in accesses.values():
            around = self.allocated.get(access.buffer, [])
            moving = [
                x for x in self._loops if x not in around or x.keeps_apart(access.buffer.scope_name)
            ]
            access.boxes = [
                self._box(access, [x for x in self._loops[level:] if x in moving])
                for level in range(len(self._loops) + 1)
            ]
        self.stores.pop(node.buffer, None)
        on_gpu = any(loop.tag for loop in self._loops)
        self.stores[node.buffer] = _Store(
            node.buffer, list(self._loops), self._steps[-1], on_gpu, work, list(accesses.values())
        )

    def _box(self, access: _Access, moving: Sequence[_Loop]) -> list[int]:
        """How far indices reach in each dimension while some loops run and others stand."""
        analyzer = Analyzer()
        for loop in self._loops:
            extent = loop.extent if loop in moving else 1
            analyzer.bind(loop.var, Range(0, extent))
        found = []
        for d, size in enumerate(access.buffer.shape):
            bounds = [analyzer.const_int_bound(indices[d]) for indices in access.indices]
            whole = self._most(size)
            reach = int(max(b.max_value for b in bounds)) - int(min(b.min_value for b in bounds))
            found.append(min(reach + 1, whole))
        return found


def _parts(e: Any, values: dict[E.Var, Any]) -> tuple[Any, ...]:
    if isinstance(e, E.Var):
        return (values[e],) if e in values else ()
    return () if isinstance(e, E.BufferLoad) else tuple(children(e))


def _loads(e: Any, values: dict[E.Var, Any]) -> Iterator[Any]:
    """The reads of an expression, and those in indices."""
    left: list[Any] = [e]
    while left:
        node = left.pop()
        if isinstance(node, E.BufferLoad):
            yield node
            left += node.indices
        left += reversed(_parts(node, values))


def _operations(e: Any, values: dict[E.Var, Any]) -> Iterator[str]:
    """The columns in which the operations of an expression count; arithmetic on indices is none."""
    left: list[Any] = [e]
    while left:
        node = left.pop()
        left += _parts(node, values)
        real = isinstance(node, E.PrimExpr) and parse(node.dtype).is_float
        number = "float" if real else "int"
        if type(node) in _WORK:
            if real or any(True for _ in _loads(node, values)):
                yield f"{number}_{_WORK[type(node)]}"
        elif isinstance(node, (E.And, E.Or, E.Not)):
            yield "bool_op"
        elif isinstance(node, E.CmpOp):
            yield "float_cmp" if parse(node.a.dtype).is_float else "int_cmp"
        elif isinstance(node, E.Select):
            yield "select_op"
        elif isinstance(node, E.Call) and node.op.name != "tir.likely":
            pure = effect_of(node.op) <= CallEffectKind.Pure
            chooses = node.op.name == "tir.if_then_else"
            yield "select_op" if chooses else f"{number}_{'math' if pure else 'other'}_func"


def features_of_function(func: PrimFunc, line: int = 64) -> np.ndarray[Any, Any]:
    """Rows float64 [stores, 164] of a function, numbers as they are: `features_of` gives their
    logarithms. `line`: bytes of a cache line."""
    reader = _Reader(func)
    stores = list(reader.stores.values())
    rows = [_row(s, stores[:k], reader.allocated, line) for k, s in enumerate(stores)]
    return np.array(rows, np.float64).reshape(len(rows), COUNT)


def _row(
    store: _Store, earlier: Sequence[_Store], allocated: dict[Buffer, list[_Loop]], line: int
) -> list[float]:
    row: list[float] = [store.work[name] * store.trips() for name in OPERATIONS]
    for name in ANNOTATIONS:
        extents = [x.extent for x in store.loops if x.kind == _KINDS[name]]
        row += [len(extents), math.prod(extents) if extents else 0, extents[-1] if extents else 0]
        where = "mixed" if extents else "none"
        row += [float(position == where) for position in POSITIONS]
    row.append(store.on_gpu)
    row += [math.prod(x.extent for x in store.loops if x.tag == tag) for tag in THREADS]
    accesses = sorted(
        (_access(store, a, earlier, line) for a in store.accesses), key=lambda c: (-c[5], -c[3])
    )
    numbers = [v for columns in accesses[:BUFFERS] for v in columns]
    row += numbers + [0.0] * (BUFFERS * len(BUFFER_COLUMNS) - len(numbers))
    row += _intensity(store)
    outer = allocated.get(store.buffer)
    if outer is None:
        row += [0.0] * 4
    else:
        size = math.prod(E.const_int(d) or 1 for d in store.buffer.shape)
        runs = math.prod(x.extent for x in outer)
        element = next(a.element for a in store.accesses if a.buffer is store.buffer)
        row += [size * element, runs, store.trips() / runs, size * runs]
    return [*row, store.trips(), len(store.loops), store.step]


def _access(store: _Store, access: _Access, earlier: Sequence[_Store], line: int) -> list[float]:
    """The columns of a buffer that a statement touches."""
    sizes, boxes, shape = (
        access.sizes,
        access.boxes,
        [E.const_int(d) or 1 for d in access.buffer.shape],
    )
    total, inner, stride, last = store.trips(), 1, 0.0, True
    for k in reversed(range(len(store.loops))):
        if sizes[k] > sizes[k + 1]:
            pace = _span(boxes[k], shape) - _span(boxes[k + 1], shape)
            stride, inner = pace / (store.loops[k].extent - 1), store.trips(k + 1)
            last = k == len(store.loops) - 1
            break
    run = 1
    for size, extent in zip(reversed(boxes[0]), reversed(shape)):
        run *= size
        if size < extent:
            break
    unique = sizes[0] * access.element
    base = [
        total * access.element,
        unique,
        max(1.0, total / inner * min(1.0, stride * access.element / line)),
        max(1.0, unique / min(run * access.element, line)),
    ]
    kind, distance, spread, times = _reuse(store, access, earlier)
    share = 1 / times if times > 0.5 else NO_REUSE
    return [
        *(float(access.kind == k) for k in ACCESS_KINDS), *base,
        *(float(kind == k) for k in REUSE_KINDS), distance, spread, times,
        *(v * share for v in base), stride if last else 0.0,
    ]  # fmt: skip


def _span(box: Sequence[int], shape: Sequence[int]) -> int:
    """How far the last element of a box lies behind its first."""
    flat = 0
    for size, extent in zip(box, shape):
        flat = flat * extent + size - 1
    return flat


def _reuse(
    store: _Store, access: _Access, earlier: Sequence[_Store]
) -> tuple[str, float, float, float]:
    """How a buffer is used again: by a loop that does not move it, or by a statement before; after
    how many iterations and bytes, and how often."""
    sizes = access.sizes
    for k in reversed(range(len(store.loops))):
        loop = store.loops[k]
        if sizes[k] == sizes[k + 1]:
            return "loop", store.trips(k + 1), _bytes_between(store, earlier, k + 1), loop.extent
        before = [
            other.sizes[level]
            for one in earlier
            if (level := one.level_of(loop)) is not None
            for other in one.accesses
            if other.buffer is access.buffer
        ]
        if before:
            least = min(sizes[k], *before)
            between = _bytes_between(store, earlier, k) / loop.extent
            return "serial", least / loop.extent, between, len(before)
    return "none", 0.0, 0.0, 0.0


def _bytes_between(store: _Store, earlier: Sequence[_Store], level: int) -> int:
    """Bytes that run through at a level of a statement's loops, by those before it too."""
    total = store.bytes_at(level)
    for other in earlier if level < len(store.loops) else ():
        there = other.level_of(store.loops[level])
        total += 0 if there is None else other.bytes_at(there)
    return total


def _intensity(store: _Store) -> list[float]:
    """Operations a byte along the loops, from the innermost outwards, at ten places."""
    operations = sum(store.work[name] for name in OPERATIONS[:FLOAT_OPERATIONS])
    if not operations:
        return [0.0] * SAMPLES
    levels = range(len(store.loops), -1, -1)
    x = [math.log2(operations * store.trips(k)) for k in levels]
    y = [work / math.log2(store.bytes_at(k) + 1) for work, k in zip(x, levels)]
    return [float(np.interp(x[-1] * (k + 1) / SAMPLES, x, y)) for k in range(SAMPLES)]
