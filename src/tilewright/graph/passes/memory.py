"""Give each intermediate value a place in one workspace; places are shared by values that never
live together.

Greedy by size, largest first, each at the lowest free offset (as in Pisarchyk and Lee: Efficient
memory management for deep neural net inference, 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import Graph, Value
from .fuse import Group

Steps = np.ndarray[Any, np.dtype[np.int64]]

ALIGN = 64
MANY = 4096  # values that live at once, from which on gaps between them are not looked for
DEVICE_ALIGN = 256  # what OpenCL devices ask of the start of a buffer within another


def views(
    graph: Graph, groups: Sequence[Group], of_inputs: bool = True
) -> tuple[list[Group], dict[Value, Value]]:
    """The groups without those that only reshape, and what each of their outputs is another view
    of: elements lie in the same order. Outputs of the graph are copied, and what is read from its
    inputs where not `of_inputs`."""
    kept: list[Group] = []
    same: dict[Value, Value] = {}
    fixed = set(graph.outputs) if of_inputs else {*graph.outputs, *graph.inputs}
    for group in groups:
        source = group.inputs[0] if group.inputs else None
        if (
            source is None
            or any(n.op != "reshape" for n in group.nodes)
            or source.is_constant
            or group.output in fixed
            or same.get(source, source) in fixed
        ):
            kept.append(group)
        else:
            same[group.output] = same.get(source, source)
    return kept, same


def plan_memory(
    graph: Graph,
    groups: Sequence[Group],
    align: int = ALIGN,
    same: Mapping[Value, Value] | None = None,
) -> tuple[dict[Value, int], int]:
    """Byte offset of every value between groups, and the size of the workspace. `same`: values that
    are views of others."""
    same = same or {}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    fixed = {*graph.inputs, *graph.outputs}
    for step, group in enumerate(groups):
        if group.output not in fixed:
            first[group.output] = last[group.output] = step
        for v in group.inputs:
            v = same.get(v, v)
            if v in first:
                last[v] = step
    steps = len(groups)
    dies, starts, ends = (np.full(steps, -1, np.int64) for _ in range(3))  # by the step of birth
    for v, step in first.items():
        dies[step] = last[v]
    classes = _by_lifetime({step: last[v] - step for v, step in first.items()})
    offsets: dict[Value, int] = {}
    for v in sorted(first, key=lambda x: (-x.nbytes, first[x])):
        born = first[v]
        size = -(-max(v.nbytes, 1) // align) * align
        near = np.concatenate([
            births[np.searchsorted(births, born - longest) : np.searchsorted(births, last[v] + 1)]
            for longest, births in classes.items()
        ])  # fmt: skip
        beside = near[(ends[near] > 0) & (dies[near] >= born)]
        offsets[v] = starts[born] = _lowest(starts[beside], ends[beside], size)
        ends[born] = starts[born] + size
    return {v: int(at) for v, at in offsets.items()}, int(ends.max(initial=0))


def _by_lifetime(lifetimes: dict[int, int]) -> dict[int, Steps]:
    """Steps of birth, sorted, of values that live at most 1, 2, 4, 8, ... steps: who lives at a
    step is then found by looking at not many more."""
    classes: dict[int, list[int]] = {}
    for step, lifetime in sorted(lifetimes.items()):
        classes.setdefault(1 << lifetime.bit_length(), []).append(step)
    return {longest: np.array(found) for longest, found in classes.items()}


def _lowest(starts: Steps, ends: Steps, size: int) -> int:
    """The lowest place of `size` bytes between others; above all of them where they are many."""
    if len(starts) > MANY:
        return int(ends.max())
    order = np.argsort(starts)
    free_from = np.concatenate(([0], np.maximum.accumulate(ends[order])))
    gaps = np.flatnonzero(starts[order] - free_from[:-1] >= size)
    return int(free_from[gaps[0] if len(gaps) else -1])
