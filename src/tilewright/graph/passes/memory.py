"""Give each intermediate value a place in one workspace; places are shared by values that never
live together.

Greedy by size, largest first, each at the lowest free offset (as in Pisarchyk and Lee: Efficient
memory management for deep neural net inference, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Graph, Value
from .fuse import Group

ALIGN = 64
DEVICE_ALIGN = 256  # what OpenCL devices ask of the start of a buffer within another


def plan_memory(
    graph: Graph, groups: Sequence[Group], align: int = ALIGN
) -> tuple[dict[Value, int], int]:
    """Byte offset of every value between groups, and the size of the workspace."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    fixed = {*graph.inputs, *graph.outputs}
    for step, group in enumerate(groups):
        if group.output not in fixed:
            first[group.output] = last[group.output] = step
        for v in group.inputs:
            if v in first:
                last[v] = step
    placed: list[tuple[int, int, Value]] = []
    offsets: dict[Value, int] = {}
    for v in sorted(first, key=lambda x: (-x.nbytes, first[x])):
        size = -(-max(v.nbytes, 1) // align) * align
        at = 0
        for start, end, other in sorted(placed, key=lambda p: p[0]):
            if last[other] < first[v] or first[other] > last[v]:
                continue
            if at + size <= start:
                break
            at = max(at, end)
        offsets[v] = at
        placed.append((at, at + size, v))
    total = max((end for _, end, _ in placed), default=0)
    return offsets, total
