"""What the loops of a schedule touch, as numbers: the features of loop variables of AutoTVM.

Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018. For each loop, from the outermost
inwards: its length, its depth, the iterations of the loops around it and inside of it, how it runs;
and for each access inside of it, which is named after its buffer (`A_0`, `A_1`): the stride with
which the loop moves it, how many elements the loop makes it touch and how often each, and the same
over one thread of those around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..driver.lower import schedule_to_func
from ..loopir import expr as E
from ..loopir.stmt import AttrStmt, BufferStore, For, ForKind, SeqStmt, Stmt
from ..loopir.visit import children, nodes
from ..lowering.flatten_buffers import flatten_buffers
from ..lowering.options import LowerOptions
from ..lowering.simplify_statements import simplify_in_loops
from ..target.target import Target

_THREADS = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
)  # fmt: skip
UNROLLED, VECTORIZED, PARALLEL, SERIAL, VIRTUAL, KINDS = 6, 7, 8, 9, 10, 11
_LOOPS: dict[int, int] = {
    ForKind.UNROLLED: UNROLLED,
    ForKind.VECTORIZED: VECTORIZED,
    ForKind.PARALLEL: PARALLEL,
}


_ARITHMETIC: dict[type, int] = {E.Add: 0, E.Sub: 0, E.Mul: 1, E.Div: 2, E.Mod: 2}


class Touch:
    """How a loop moves an access. `stride` 0: not at all."""

    __slots__ = ("count", "mod", "reuse", "stride", "thread_count", "thread_reuse")

    def __init__(self, stride: int = 0) -> None:
        self.stride, self.mod, self.count, self.reuse = stride, -1, 1, 1
        self.thread_count: float = 0
        self.thread_reuse: float = 0

    def numbers(self) -> list[float]:
        return [
            self.stride, self.mod, self.count, self.reuse, self.thread_count, self.thread_reuse,
        ]  # fmt: skip


class LoopFeature:
    """One loop. `arithmetic`: additions, multiplications and divisions of floats right inside."""

    __slots__ = ("ann", "arithmetic", "bottomup", "length", "level", "topdown", "touches", "var")

    def __init__(self, var: Any, length: int, level: int, ann: int, topdown: int) -> None:
        self.var, self.length, self.level, self.ann = var, length, level, ann
        self.topdown, self.bottomup = topdown, -1
        self.arithmetic = [0, 0, 0]
        self.touches: dict[str, Touch] = {}

    @property
    def parallel_level(self) -> int:
        """2 for blocks, 1 for threads, 0 for loops."""
        return 2 if self.ann < 3 else 1 if self.ann < 6 or self.ann == VIRTUAL else 0


def ana_lower(sch: Any, args: Sequence[Any], binds: Any = None, simple_mode: bool = True) -> Stmt:
    """The loops of a schedule with all its axes: none is unrolled, vectorized or left out, buffers
    have one dimension. `binds`: buffers of tensors. TilewrightError unless `simple_mode`."""
    if not simple_mode:
        raise TilewrightError("ana_lower gives the loops before any pass: simple_mode=True")
    target = Target.current(allow_none=True) or Target("llvm")
    options = LowerOptions.current(target, True, ())
    func = schedule_to_func(sch, args, binds=binds, keep_single=True)
    func = flatten_buffers(func, options)
    return simplify_in_loops(func, options).body


def loop_features(sch: Any, args: Sequence[Any]) -> list[LoopFeature]:
    """The loops of a schedule, in the order in which they begin."""
    found = _Extractor()
    found.run(ana_lower(sch, args))
    return found.loops


class _Extractor:
    def __init__(self) -> None:
        self.loops: list[LoopFeature] = []
        self._stack: list[LoopFeature] = []
        self._product = 1
        self._names: dict[str, int] = {}

    def run(self, body: Any) -> None:
        """Every node once, outer ones first; without a recursion, since programs may be deep."""
        left: list[Any] = [body]
        while left:
            node = left.pop()
            if node is None:
                self._leave()
                continue
            found = self._loop(node)
            if found is not None:
                if not any(f.var is found[0] for f in self._stack):  # a virtual thread comes twice
                    self._enter(*found)
                    left.append(None)
                left.append(node.body)
                continue
            self._note(node)
            parts = _without_first_values(node.seq) if isinstance(node, SeqStmt) else children(node)
            left += reversed(parts)

    def _loop(self, node: Any) -> tuple[Any, int, int] | None:
        if isinstance(node, For):
            ann = _LOOPS.get(node.kind, SERIAL)
            return node.loop_var, E.const_int(node.extent) or -1, ann
        if isinstance(node, AttrStmt) and node.attr_key in ("thread_extent", "virtual_thread"):
            tag = str(node.node.thread_tag)
            ann = _THREADS.index(tag) if tag in _THREADS else VIRTUAL
            return node.node.var, E.const_int(node.value) or -1, ann
        return None

    def _enter(self, var: Any, length: int, ann: int) -> None:
        self._product *= length
        loop = LoopFeature(var, length, len(self._stack) + 1, ann, self._product)
        self._stack.append(loop)
        self.loops.append(loop)

    def _leave(self) -> None:
        loop = self._stack[-1]
        for name, touch in loop.touches.items():
            for around in self._stack:
                seen = around.touches[name]
                if touch.stride:
                    seen.count *= loop.length
                else:
                    seen.reuse *= loop.length
        self._stack.pop()
        self._product //= loop.length
        loop.bottomup = max((t.count * t.reuse for t in loop.touches.values()), default=-1)
        level = loop.parallel_level
        if self._stack and self._stack[-1].parallel_level == level + 1:
            for name, touch in loop.touches.items():  # what one thread does, below 0 for now
                for around in self._stack:
                    if around.parallel_level == level + 1:
                        around.touches[name].thread_count = -touch.count
                        around.touches[name].thread_reuse = -touch.reuse
        for touch in loop.touches.values():
            if touch.thread_count < 0:
                touch.thread_count = touch.count / -touch.thread_count
                touch.thread_reuse = touch.reuse / -touch.thread_reuse

    def _note(self, node: Any) -> None:
        if isinstance(node, (BufferStore, E.BufferLoad)):
            self._access(node.buffer, node.indices)
        elif self._stack and type(node) in _ARITHMETIC and parse(node.dtype).is_float:
            self._stack[-1].arithmetic[_ARITHMETIC[type(node)]] += 1

    def _access(self, buffer: Any, indices: Sequence[Any]) -> None:
        base = buffer.data.name
        number = self._names[base] = self._names.get(base, -1) + 1
        strides = _strides(indices)
        for loop in self._stack:
            loop.touches[f"{base}_{number}"] = Touch(strides.get(id(loop.var), 0))


def _without_first_values(parts: Sequence[Any]) -> list[Any]:
    """Statements without those that give a reduction its first value, which say nothing that the
    reduction does not."""
    kept = []
    for n, part in enumerate(parts):
        store = part
        while isinstance(store, (For, AttrStmt)):
            store = store.body
        plain = isinstance(store, BufferStore) and not any(map(_is_load, nodes(store.value)))
        later = (node for other in parts[n + 1 :] for node in nodes(other)) if plain else ()
        if not any(_is_load(x) and x.buffer.data is store.buffer.data for x in later):
            kept.append(part)
    return kept


def _is_load(node: Any) -> bool:
    return isinstance(node, E.BufferLoad)


def _strides(indices: Sequence[Any]) -> dict[int, int]:
    """The factor of each variable of a flat index, where it stands first."""
    found: dict[int, int] = {}
    factor = 1
    left: list[Any] = list(reversed(indices))
    while left:
        node = left.pop()
        if isinstance(node, E.Var):
            if id(node) not in found:
                found[id(node)], factor = factor, 1
            continue
        if isinstance(node, E.Mul) and isinstance(node.a, E.Var) and isinstance(node.b, E.IntImm):
            factor = int(node.b.value)
        left += reversed(children(node))
    return found


def flat(loops: Sequence[LoopFeature], take_log: bool) -> list[float]:
    """All numbers of all loops, in one list."""
    found: list[float] = []
    for loop in loops:
        for name, numbers in rows_of(loop, take_log):
            del name
            found += numbers
    return found


def rows_of(loop: LoopFeature, take_log: bool) -> list[tuple[str, list[float]]]:
    """The numbers of a loop under their names: `_attr_`, `_arith_` and its accesses."""

    def scaled(values: Sequence[float]) -> list[float]:
        return [_log(v) for v in values] if take_log else list(values)

    kind = [float(k == loop.ann) for k in range(KINDS)]
    products = scaled([loop.topdown, loop.bottomup])
    attributes = [*scaled([loop.length]), float(loop.level), *products, *kind]
    touches = [(name, scaled(loop.touches[name].numbers())) for name in sorted(loop.touches)]
    return [("_attr_", attributes), ("_arith_", scaled(loop.arithmetic)), *touches]


def _log(value: float) -> float:
    return math.log2(value + 1) if value >= 0 else -math.log2(1 - value)


def curves(loops: Sequence[LoopFeature], sample_n: int) -> list[float]:
    """Relations of what each buffer's innermost access touches, over the loops around it, sampled
    at `sample_n` places: for each buffer four curves of two numbers a place."""
    depth = max((loop.level for loop in loops), default=0)
    chosen: dict[str, str] = {}
    for loop in reversed(loops):
        for name in sorted(loop.touches) if loop.level == depth else ():
            chosen.setdefault(name.rpartition("_")[0].partition(".")[0], name)
    found: list[float] = []
    for name in sorted(chosen.values()):
        around = [loop for loop in loops if name in loop.touches]
        touches = [loop.touches[name] for loop in around]
        count = [0.0, *sorted(math.log2(t.count) for t in touches)]
        reuse = [0.0, *sorted(math.log2(t.reuse) for t in touches)]
        topdown = [0.0, *sorted(math.log2(max(1, loop.topdown)) for loop in around)]
        for x, y in ((count, reuse), (reuse, count), (count, topdown), (topdown, count)):
            for place in range(sample_n):
                at = max(k for k, value in enumerate(x) if value <= place + 1e-6)
                found += [y[at], place - x[at]]
    return found
