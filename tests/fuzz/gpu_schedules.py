"""Random schedules for GPUs: a plan for every stage, and some primitives drawn without one.

Stages are placed from the output inwards: inlined, in a kernel of their own, or inside a kernel of
a reader; loops are bound to blocks, virtual threads and threads. What is drawn may be illegal: then
the primitive, or lowering, must say so, and nothing else may happen.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.narrow import some
from tilewright import te
from tilewright.base.errors import ScheduleError
from tilewright.loopir.iter import IterVar
from tilewright.schedule.placement import attach_path
from tilewright.tensor.op import ComputeOp, ScanOp

from . import schedules as cpu
from .legality import readers_of
from .schedules import NotApplicable, pick

SIZES = ((4, 8, 16, 32, 64), (1, 2, 3, 4, 8), (2, 3))
SCOPES = ("shared", "shared", "shared", "local", "local", "global", "warp", "shared.dyn")
DATA, REDUCTION = IterVar.DataPar, IterVar.CommReduce


class Kit:
    """What one schedule draws from: how many threads its kernels have, and their axes."""

    def __init__(self, rng: random.Random, s: Any, largest: int) -> None:
        self.rng, self.s = rng, s
        rank = rng.choice((1, 1, 2, 2, 3))
        self.sizes = [rng.choice(SIZES[d]) for d in range(rank)]
        if rng.random() < 0.15:
            self.sizes[0] = rng.choice((1, 5, 7, 13, 33))
        while self.sizes[0] * self.sizes[-1] > largest:
            self.sizes[0] //= 2
        self.own_axes = rng.random() < 0.5
        self.known: dict[tuple[str, int | None], Any] = {}

    def threads(self, tag: str, extent: int | None = None) -> Any:
        """A thread axis: one for all stages, or a new one for each."""
        if self.own_axes:
            return te.thread_axis((0, extent) if extent else None, tag)
        key = (tag, extent)
        if key not in self.known:
            self.known[key] = te.thread_axis((0, extent) if extent else None, tag)
        return self.known[key]

    def thread(self, d: int) -> Any:
        """threadIdx of a dimension, whose extent is said or follows from the loop."""
        return self.threads(f"threadIdx.{'xyz'[d]}", self.sizes[d] if d % 2 else None)

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def leaves(self, stage: Any, kind: int = DATA) -> list[Any]:
        return [a for a in stage.leaf_iter_vars if a.iter_type == kind]

    def is_bound(self, stage: Any, axis: Any) -> bool:
        return axis in stage.attrs and stage.attrs[axis].bind_thread is not None


def apply_random(
    rng: random.Random, s: Any, counts: Counter[str], illegal: Counter[str], largest: int = 256
) -> None:
    """A random schedule for a GPU. `illegal` counts draws that were refused."""
    kit = Kit(rng, s, largest)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        _draw(kit, rng.choice(STRUCTURE), illegal)
    placed: set[int] = set()
    for stage in reversed(list(s.stages)):
        for inner in [stage, *reversed(list(s.stages))]:  # primitives may add stages
            if inner.id not in placed:
                placed.add(inner.id)
                if not _draw(kit, lambda k, inner=inner: place(k, inner), illegal):
                    _draw(kit, lambda k, inner=inner: own_kernel(k, inner), illegal)
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        _draw(kit, rng.choice(DETAILS), illegal)
    if rng.random() < 0.08:
        _draw(kit, rng.choice(WILD), illegal)
    tags = [t for stage in s.stages for t in tags_of(stage)]
    counts.update({step.primitive for step in s.steps} | set(tags) | scopes_of(s))
    counts["schedules"] += 1
    counts["primitives"] += len(s.steps)


def tags_of(stage: Any) -> list[str]:
    """What a stage's loops are bound to."""
    bound = [a.bind_thread for a in stage.attrs.values() if a.bind_thread is not None]
    tags = [t.thread_tag for t in bound]
    over = [
        x
        for x, a in stage.attrs.items()
        if a.bind_thread is not None and x.iter_type == REDUCTION and x in stage.leaf_iter_vars
    ]
    return tags + (["cross-thread"] if over else [])


def scopes_of(s: Any) -> set[str]:
    found = {f"scope {stage.scope}" for stage in s.stages if stage.scope}
    for stage in s.stages:
        if stage.attach_ivar is not None and tags_of(stage) and stage.scope.startswith("shared"):
            found.add("cooperative")
    return found


def _draw(kit: Kit, action: Callable[..., None], illegal: Counter[str]) -> bool:
    before = len(kit.s.steps)
    try:
        action(kit)
    except NotApplicable:
        return False
    except ScheduleError as error:
        illegal[getattr(action, "__name__", "place")] += 1
        assert len(str(error)) > 20 and len(kit.s.steps) >= before
        return False
    return True


# ---- where stages stand


def place(kit: Kit, stage: Any) -> None:
    """Inline a stage, attach it to a reader, or give it a kernel of its own."""
    if isinstance(stage.op, ScanOp):
        return scan(kit, stage)
    if not isinstance(stage.op, ComputeOp) or tags_of(stage):
        raise NotApplicable
    if not stage.is_output:
        holds = any(x.attach_stage is stage for x in kit.s.stages)
        if not stage.op.reduce_axis and not holds and kit.maybe(0.2):
            return stage.compute_inline()
        readers = readers_of(kit.s, stage)
        if len(readers) == 1 or (readers and kit.maybe(0.15)):
            reader = kit.rng.choice(readers)
            inside = isinstance(reader.op, ComputeOp) and reader.group is stage.group
            if inside and kit.maybe(0.8):
                return attach(kit, stage, reader)
    return own_kernel(kit, stage)


def attach(kit: Kit, stage: Any, reader: Any) -> None:
    """Compute a stage inside a loop of a reader, mostly with memory that fits the place."""
    leaves = reader.leaf_iter_vars
    at = pick(kit.rng, leaves)
    stage.compute_at(reader, at)
    around = list(attach_path(stage))
    tags = {
        some(holder.attrs[a].bind_thread).thread_tag[:6]
        for holder, a in around
        if kit.is_bound(holder, a)
    }
    rng = kit.rng
    if not tags and kit.maybe(0.9):  # around the kernel
        stage.set_scope("global")
        return own_kernel(kit, stage)
    if "thread" in tags:
        scope = rng.choice(("", "", "local", "local", "local", "shared", "shared", "shared"))
        if kit.maybe(0.1) and kit.sizes[0] <= 32:
            scope = "warp"
    else:
        scope = rng.choice(("", "shared", "shared", "shared", "shared.dyn"))
    if kit.maybe(0.03):
        scope = rng.choice(("global", "warp", "local"))
    if stage.scope not in ("", "global") and kit.maybe(0.5):
        scope = stage.scope
    stage.set_scope(scope)
    private = scope == "local" or (not scope and "thread" in tags)
    if not private or kit.maybe(0.03):
        if kit.maybe(0.85):
            cooperate(kit, stage)
        if kit.maybe(0.15):
            stage.storage_align(
                pick(rng, list(stage.op.axis)), rng.choice((2, 4, 16)), rng.choice((0, 1))
            )
        if kit.maybe(0.25):
            stage.double_buffer()
    inner_loop(kit, stage)


def cooperate(kit: Kit, stage: Any) -> None:
    """All threads of the block compute the stage together."""
    data = kit.leaves(stage)
    if kit.maybe(0.75) or len(data) < len(kit.sizes):
        fused = stage.fuse(*data)
        vectors = kit.maybe(0.2)
        if vectors:
            fused, lane = stage.split(fused, factor=kit.rng.choice((2, 4)))
        for d, size in enumerate(kit.sizes):
            if d == 0 or kit.maybe(0.8):
                fused, inner = stage.split(fused, factor=size)
                stage.bind(inner, kit.thread(d))
        if vectors and kit.maybe(0.9):
            stage.vectorize(lane)
    else:
        for d, axis in enumerate(reversed(data[-len(kit.sizes) :])):
            _, inner = stage.split(axis, factor=kit.sizes[d])
            stage.bind(inner, kit.thread(d))
    if stage.op.reduce_axis and kit.maybe(0.7):
        rest = [a for a in stage.leaf_iter_vars if a.iter_type == REDUCTION]
        stage.reorder(*[a for a in stage.leaf_iter_vars if a not in rest], *rest)


def own_kernel(kit: Kit, stage: Any) -> None:
    """Bind loops of a stage at the root to blocks and threads."""
    if not isinstance(stage.op, ComputeOp) or tags_of(stage):
        raise NotApplicable
    if kit.maybe(0.02):
        return  # left to the host, which must be refused
    if stage.scope not in ("", "global") and kit.maybe(0.95):
        stage.set_scope("global")
    if stage.op.reduce_axis and kit.maybe(0.3):
        across(kit, stage)
    elif kit.maybe(0.5) or not kit.leaves(stage):
        fused_kernel(kit, stage)
    else:
        tiled_kernel(kit, stage)
    if kit.maybe(0.1) and len(stage.op.axis):
        axis = kit.rng.choice(stage.op.axis)
        stage.set_store_predicate(axis.var >= some(axis.dom).min)


def fused_kernel(kit: Kit, stage: Any) -> None:
    """All data axes as one, in blocks of threads."""
    data = kit.leaves(stage)
    first = data[0] if len(data) == 1 else stage.fuse(*data)
    rng = kit.rng
    inner = None
    if kit.maybe(0.35):
        first, inner = stage.split(first, factor=rng.choice((2, 3, 4)))
    first, thread = stage.split(first, factor=kit.sizes[0])
    stage.bind(thread, kit.thread(0))
    if len(kit.sizes) > 1 and kit.maybe(0.7):
        first, more = stage.split(first, factor=kit.sizes[1])
        stage.bind(more, kit.thread(1))
    if kit.maybe(0.2):
        first, virtual = stage.split(first, factor=rng.choice((2, 3)))
        stage.bind(virtual, te.thread_axis("vthread", name="vt"))
    if kit.maybe(0.25):
        outer, first = stage.split(first, nparts=rng.choice((1, 2, 4)))
        stage.bind(outer, kit.threads("blockIdx.x"))
        if kit.maybe(0.4):
            stage.bind(first, kit.threads("blockIdx.y"))
    elif kit.maybe(0.9):
        stage.bind(first, kit.threads("blockIdx.x"))
    inner_loop(kit, stage, inner)


def tiled_kernel(kit: Kit, stage: Any) -> None:
    """Each axis split into blocks, perhaps virtual threads, threads and a rest."""
    rng = kit.rng
    blocks, virtuals, threads, rests = [], [], [], []
    last = None
    data = list(reversed(kit.leaves(stage)))
    shift = rng.randrange(len(data))
    for number, axis in enumerate(data[shift:] + data[:shift]):
        if number >= len(kit.sizes) or number > 2:
            rests.append(axis)
            continue
        if kit.maybe(0.3):
            axis, last = stage.split(axis, factor=rng.choice((2, 3, 4)))
            rests.append(last)
        axis, thread = stage.split(axis, factor=kit.sizes[number])
        stage.bind(thread, kit.thread(number))
        threads.append(thread)
        if kit.maybe(0.2):
            axis, virtual = stage.split(axis, nparts=rng.choice((2, 3)))
            axis, virtual = (virtual, axis) if kit.maybe(0.5) else (axis, virtual)
            stage.bind(virtual, te.thread_axis("vthread", name="vt"))
            virtuals.append(virtual)
        if kit.maybe(0.8):
            stage.bind(axis, kit.threads(f"blockIdx.{'xyz'[number]}"))
        blocks.append(axis)
    reduced = []
    for axis in kit.leaves(stage, REDUCTION):
        if kit.maybe(0.5):
            reduced.extend(stage.split(axis, factor=rng.choice(cpu.FACTORS)))
        else:
            reduced.append(axis)
    inside = [*reduced, *rests]
    if kit.maybe(0.5):
        rng.shuffle(inside)
    if kit.maybe(0.9):
        stage.reorder(*reversed(blocks), *virtuals, *reversed(threads), *inside)
    if not reduced or inside[-1] is last:
        inner_loop(kit, stage, last if last is not None and inside[-1] is last else None)


def across(kit: Kit, stage: Any) -> None:
    """Reduce over threads, perhaps a factored part only; rows in blocks or in threads as well."""
    rng = kit.rng
    axes = kit.leaves(stage, REDUCTION)
    if len(axes) > 1 and kit.maybe(0.5):
        k = stage.fuse(*axes)
    else:
        k = rng.choice(axes)
    if kit.maybe(0.4):
        outer, k = stage.split(k, factor=kit.sizes[0])
        if kit.maybe(0.3):
            outer, k = k, outer
    else:
        outer, k = stage.split(k, nparts=kit.sizes[0])
        if kit.maybe(0.6):
            outer, k = k, outer
    if kit.maybe(0.4):
        partial = kit.s.rfactor(stage.op.output(0), k, rng.choice((0, 0, -1)))
        partial = partial[0] if isinstance(partial, (list, tuple)) else partial
        k = pick(rng, kit.leaves(stage, REDUCTION))
        if kit.maybe(0.9):
            kit.s[partial].compute_at(stage, k)
    thread = kit.threads("threadIdx.x", kit.sizes[0] if kit.maybe(0.3) else None)
    stage.bind(k, thread)
    data = kit.leaves(stage)
    if data:
        row = data[0] if len(data) == 1 or kit.maybe(0.3) else stage.fuse(*data)
        if len(kit.sizes) > 1 and kit.maybe(0.6):
            row, inner = stage.split(row, factor=kit.sizes[1])
            stage.bind(inner, kit.thread(1))
        if kit.maybe(0.9):
            stage.bind(row, kit.threads("blockIdx.x"))
    if kit.maybe(0.4):
        stage.set_store_predicate(thread.var.equal(0))


def inner_loop(kit: Kit, stage: Any, axis: Any = None) -> None:
    """Vectorise or unroll the innermost loop, or leave it."""
    if axis is None:
        axis = stage.leaf_iter_vars[-1] if stage.leaf_iter_vars else None
        if axis is None or kit.is_bound(stage, axis) or kit.maybe(0.7):
            return
        _, axis = stage.split(axis, factor=kit.rng.choice((2, 4)))
    way = kit.rng.choice(("vectorize", "unroll", "pragma", ""))
    if way == "vectorize" and axis.iter_type == DATA and stage.leaf_iter_vars[-1] is axis:
        stage.vectorize(axis)
    elif way == "unroll":
        stage.unroll(axis)
    elif way == "pragma":
        stage.pragma(axis, "auto_unroll_max_step", kit.rng.choice((4, 16, 64)))


def scan(kit: Kit, stage: Any) -> None:
    """Run a scan by threads that stay for all steps, or launch a kernel for each step."""
    op = stage.op
    own, blocks = kit.maybe(0.6), kit.maybe(0.5)
    thread, block = kit.threads("threadIdx.x", kit.sizes[0]), kit.threads("blockIdx.x")
    if own:
        stage.env_threads([block, thread] if blocks else [thread])
    for part in (kit.s[op.init[0]], kit.s[op.update[0]]):
        data = kit.leaves(part)
        row = data[-1] if len(data) == 1 or kit.maybe(0.5) else part.fuse(*data[-2:])
        row, inner = part.split(row, factor=kit.sizes[0])
        part.bind(inner, thread)
        if not own or blocks:
            part.bind(row, block)


# ---- primitives without a plan


def cache_read(kit: Kit) -> None:
    stage = cpu._stage(kit.rng, kit.s)
    tensor = pick(kit.rng, list(stage.op.input_tensors))
    kit.s.cache_read(tensor, kit.rng.choice(SCOPES), [stage.op])


def cache_write(kit: Kit) -> None:
    stage = cpu._stage(kit.rng, kit.s)
    tensors = list(stage.op.outputs)
    scope = kit.rng.choice(("local", "local", "local", "shared", "global", "warp"))
    kit.s.cache_write(tensors if len(tensors) > 1 else tensors[0], scope)


def _plain(action: cpu.Action) -> Callable[[Kit], None]:
    def run(kit: Kit) -> None:
        action(kit.rng, kit.s)

    run.__name__ = action.__name__
    return run


def bind_any(kit: Kit) -> None:
    """Any axis of any stage to any kind of thread."""
    stage = cpu._stage(kit.rng, kit.s)
    axis = cpu._axis(kit.rng, stage)
    tag = kit.rng.choice(("blockIdx.x", "blockIdx.z", "threadIdx.x", "threadIdx.y", "vthread"))
    stage.bind(axis, te.thread_axis(tag))


def scope_any(kit: Kit) -> None:
    stage = cpu._stage(kit.rng, kit.s)
    if not stage.is_output:
        stage.set_scope(kit.rng.choice(SCOPES))


def pragma(kit: Kit) -> None:
    stage = cpu._stage(kit.rng, kit.s)
    key, value = kit.rng.choice(
        (
            ("auto_unroll_max_step", 16),
            ("unroll_explicit", 0),
            ("async_scope", 1),
            ("loop_partition_hint", 1),
        )
    )
    stage.pragma(cpu._axis(kit.rng, stage), key, value)


STRUCTURE = [
    cache_read, cache_read, cache_write, cache_write, _plain(cpu.rfactor),
    _plain(cpu.transform_layout), _plain(cpu.split),
]  # fmt: skip
DETAILS = [
    pragma, pragma, _plain(cpu.storage_align), _plain(cpu.double_buffer), _plain(cpu.unroll),
    _plain(cpu.vectorize), _plain(cpu.split), _plain(cpu.set_store_predicate),
    _plain(cpu.tensorize), _plain(cpu.tensorize), _plain(cpu.prefetch), _plain(cpu.bind),
]  # fmt: skip
WILD = [
    bind_any, scope_any, _plain(cpu.compute_at), _plain(cpu.fuse), _plain(cpu.reorder),
    _plain(cpu.parallel), _plain(cpu.rolling_buffer), _plain(cpu.create_group),
]  # fmt: skip
