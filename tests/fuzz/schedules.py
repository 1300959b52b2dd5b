"""Random schedules: a handful of primitives, each drawn among those that could apply.

Draws may be illegal: then the primitive must raise ScheduleError and leave the schedule alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tilewright import te
from tilewright.base.errors import ScheduleError
from tilewright.loopir.expr import IntImm
from tilewright.loopir.iter import IterVar
from tilewright.tensor.op import ComputeOp, PlaceholderOp

from .tensorize import intrin_for

FACTORS = (1, 2, 3, 4, 5, 7, 8, 16, 40)
Action = Callable[[random.Random, Any], None]


class NotApplicable(Exception):
    """A primitive has nothing to work on here."""


def pick(rng: random.Random, items: Any) -> Any:
    if not items:
        raise NotApplicable
    return rng.choice(items)


def _stages(s: Any) -> list[Any]:
    return [x for x in s.stages if isinstance(x.op, ComputeOp)]


def _stage(rng: random.Random, s: Any) -> Any:
    return pick(rng, _stages(s))


def _axis(rng: random.Random, stage: Any) -> Any:
    return pick(rng, stage.leaf_iter_vars)


def split(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    key = rng.choice(("factor", "factor", "nparts"))
    stage.split(_axis(rng, stage), **{key: rng.choice(FACTORS)})


def fuse(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    leaves = stage.leaf_iter_vars
    if rng.random() < 0.05:
        stage.fuse()
        return
    if not leaves:
        raise NotApplicable
    at = rng.randrange(len(leaves))
    stage.fuse(*leaves[at : at + rng.choice((1, 2, 2, 3))])


def reorder(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    leaves = list(stage.leaf_iter_vars)
    rng.shuffle(leaves)
    stage.reorder(*leaves[: rng.randint(min(1, len(leaves)), len(leaves))])


def tile(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    axes = list(stage.op.axis)
    if len(axes) < 2:
        return split(rng, s)
    x, y = rng.sample(axes, 2)
    stage.tile(x, y, rng.choice(FACTORS), rng.choice(FACTORS))
    return None


def compute_at(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    readers = s.consumers()
    direct = [r for t in stage.op.outputs for r in readers.get(t, [])]
    near = [r for r in direct if isinstance(r.op, ComputeOp)]
    parent = rng.choice(near) if near and rng.random() < 0.9 else _stage(rng, s)
    stage.compute_at(parent, _axis(rng, parent))


def compute_inline(rng: random.Random, s: Any) -> None:
    _stage(rng, s).compute_inline()


def compute_root(rng: random.Random, s: Any) -> None:
    _stage(rng, s).compute_root()


def cache_read(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    inputs = stage.op.input_tensors
    if inputs:
        s.cache_read(rng.choice(inputs), rng.choice(("global", "local")), [stage.op])


def cache_write(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    tensors = list(stage.op.outputs)
    scope = rng.choice(("global", "local"))
    s.cache_write(tensors if len(tensors) > 1 else tensors[0], scope)


def rfactor(rng: random.Random, s: Any) -> None:
    with_reduction = [x for x in _stages(s) if x.op.reduce_axis]
    stage = rng.choice(with_reduction) if with_reduction else _stage(rng, s)
    leaves = [a for a in stage.leaf_iter_vars if a.iter_type == IterVar.CommReduce]
    axis = rng.choice(leaves) if leaves else _axis(rng, stage)
    if leaves and rng.random() < 0.5:
        _, axis = stage.split(axis, factor=rng.choice(FACTORS))
    s.rfactor(stage.op.output(0), axis, rng.choice((0, 0, -1, 1)))


def vectorize(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    axis = pick(rng, stage.leaf_iter_vars[-1:]) if rng.random() < 0.6 else _axis(rng, stage)
    if rng.random() < 0.6:
        _, axis = stage.split(axis, factor=rng.choice((2, 4, 8, 16)))
    stage.vectorize(axis)


def unroll(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    axis = _axis(rng, stage)
    if rng.random() < 0.6:
        _, axis = stage.split(axis, factor=rng.choice((2, 3, 4)))
    stage.unroll(axis)


def parallel(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    stage.parallel(pick(rng, stage.leaf_iter_vars[:1]) if rng.random() < 0.7 else _axis(rng, stage))


def bind(rng: random.Random, s: Any) -> None:
    """Virtual threads run on CPUs as well."""
    stage = _stage(rng, s)
    axis = _axis(rng, stage)
    if rng.random() < 0.7:
        axis, _ = stage.split(axis, nparts=rng.choice((2, 3)))
    stage.bind(axis, te.thread_axis("vthread", name="vt"))


def pragma(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    key, value = rng.choice(
        (
            ("auto_unroll_max_step", 8),
            ("auto_unroll_max_step", 64),
            ("unroll_explicit", 1),
            ("unroll_explicit", 0),
            ("loop_partition_hint", 1),
            ("tree_reduce", 1),
        )
    )
    stage.pragma(_axis(rng, stage), key, value)


def set_scope(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    if not stage.is_output:
        stage.set_scope(rng.choice(("global", "local")))


def storage_align(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    axes = stage.op.axis
    if axes:
        stage.storage_align(rng.choice(axes), rng.choice((2, 4, 16)), rng.choice((0, 1)))


def double_buffer(rng: random.Random, s: Any) -> None:
    _stage(rng, s).double_buffer()


def rolling_buffer(rng: random.Random, s: Any) -> None:
    _stage(rng, s).rolling_buffer()


def roll(rng: random.Random, s: Any) -> None:
    """A rolling buffer where there is one: in a loop of a stage that reads neighbours."""
    readers = s.consumers()
    pairs = [
        (x, r)
        for x in _stages(s)
        if not x.is_output
        for r in readers.get(x.op.output(0), [])
        if isinstance(r.op, ComputeOp) and r is not x and r.leaf_iter_vars
    ]
    stage, reader = pick(rng, pairs)
    stage.compute_at(reader, rng.choice(reader.leaf_iter_vars[:2]))
    stage.rolling_buffer()


def transform_layout(rng: random.Random, s: Any) -> None:
    stages = [x for x in _stages(s) if not x.is_output]
    stage = rng.choice(stages) if stages else _stage(rng, s)
    if stage.is_output:
        return split(rng, s)
    stage.transform_layout(layout_map(rng, list(stage.op.output(0).shape)))
    return None


def layout_map(rng: random.Random, shape: list[Any]) -> Callable[..., list[Any]]:
    """An affine map of the indices of a tensor, or one with digits of them."""
    factor = rng.choice((2, 4))
    way = rng.choice(("reversed", "blocked", "blocked", "blocked", "flat", "shifted", "mirrored"))
    way = rng.choice((way, way, "spread", "skewed", "rotated"))
    if not shape or (way in ("skewed", "flat") and len(shape) < 2):
        way = "reversed"

    def layout(*i: Any) -> list[Any]:
        *head, last = i or (None,)
        maps = {
            "reversed": lambda: list(reversed(i)),
            "blocked": lambda: [*head, te.floordiv(last, factor), te.floormod(last, factor)],
            "flat": lambda: [*i[:-2], i[-2] * shape[-1] + last],
            "shifted": lambda: [*head, last + factor],
            "mirrored": lambda: [*head, shape[-1] - 1 - last if factor == 2 else -last],
            "spread": lambda: [*head, last * factor],
            "skewed": lambda: [*head, last + i[0]],
            "rotated": lambda: [last, *head],
        }
        return maps[way]()

    return layout


def prefetch(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    inputs = [t for t in stage.op.input_tensors if isinstance(t.op, PlaceholderOp)]
    if inputs:
        stage.prefetch(rng.choice(inputs), _axis(rng, stage), rng.choice((0, 1, 2)))
    else:
        unroll(rng, s)


def set_store_predicate(rng: random.Random, s: Any) -> None:
    """A condition that always holds."""
    stage = _stage(rng, s)
    if stage.op.axis:
        axis = rng.choice(stage.op.axis)
        stage.set_store_predicate(axis.var >= axis.dom.min)


def tensorize(rng: random.Random, s: Any) -> None:
    """An intrinsic made of the stage itself, for a tile that divides an innermost axis."""
    stage = _stage(rng, s)
    inner = pick(rng, [a for a in stage.leaf_iter_vars if _extent(a) > 0])
    roots = [*stage.op.axis, *stage.op.reduce_axis]
    if inner not in roots:
        raise NotApplicable
    extent = _extent(inner)
    width = rng.choice([f for f in (1, 2, 3, 4, 5, 8, 16, extent) if extent % f == 0])
    intrin = intrin_for(stage.op, inner, width, rng.random() < 0.5)
    if intrin is None:
        raise NotApplicable
    if width < extent:
        _, inner = stage.split(inner, factor=width)
    rest = [a for a in stage.leaf_iter_vars if a is not inner]
    stage.reorder(*rest, inner)
    stage.tensorize(inner, intrin)


def _extent(axis: Any) -> int:
    known = axis.dom is not None and isinstance(axis.dom.extent, IntImm)
    return int(axis.dom.extent) if known else 0


def create_group(rng: random.Random, s: Any) -> None:
    stage = _stage(rng, s)
    inputs = stage.op.input_tensors
    group = s.create_group(stage.op.output(0), list(inputs), include_inputs=rng.random() < 0.2)
    readers = [r for t in stage.op.outputs for r in s.consumers().get(t, [])]
    parents = [r for r in readers if isinstance(r.op, ComputeOp)]
    if parents and rng.random() < 0.5:
        parent = rng.choice(parents)
        group.compute_at(parent, _axis(rng, parent))


ACTIONS: dict[str, Action] = {
    f.__name__: f
    for f in (
        split, fuse, reorder, tile, compute_at, compute_inline, compute_root, cache_read,
        cache_write, rfactor, vectorize, unroll, parallel, bind, pragma, set_scope, storage_align,
        double_buffer, rolling_buffer, transform_layout, prefetch, set_store_predicate,
        tensorize, create_group, roll,
    )
}  # fmt: skip

# Draws that fail often, or are needed for others to matter, are drawn more often.
WEIGHTS = {
    **dict.fromkeys(ACTIONS, 4),
    "split": 8, "compute_at": 9, "fuse": 6, "reorder": 6, "vectorize": 7, "rfactor": 13,
    "transform_layout": 11, "double_buffer": 11, "rolling_buffer": 10, "create_group": 7,
    "compute_inline": 8, "roll": 6, "set_scope": 7, "tile": 7, "bind": 6, "tensorize": 14,
}  # fmt: skip


def apply_random(rng: random.Random, s: Any, counts: Counter[str], illegal: Counter[str]) -> None:
    """Apply some primitives. `illegal` counts draws that were refused."""
    names, weights = list(ACTIONS), [WEIGHTS[n] for n in ACTIONS]
    for _ in range(rng.choice((2, 4, 6, 7, 8, 9, 10, 12))):
        name = rng.choices(names, weights)[0]

        text = [step.primitive for step in s.steps]
        try:
            ACTIONS[name](rng, s)
        except NotApplicable:
            continue
        except ScheduleError:
            illegal[name] += 1
            assert [step.primitive for step in s.steps[: len(text)]] == text, name
    counts.update({step.primitive for step in s.steps})
    counts["schedules"] += 1
    counts["primitives"] += len(s.steps)
