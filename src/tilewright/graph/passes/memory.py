"""Give each intermediate value a place in one workspace; places are shared by values that never
live together (rt/places.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...rt.places import places_of
from ..ir import Graph, Value
from .fuse import Group

ALIGN = 64
DEVICE_ALIGN = 256  # what OpenCL devices ask of the start of a buffer within another


def views(
    graph: Graph, groups: Sequence[Group], of_arrays: bool = True
) -> tuple[list[Group], dict[Value, Value]]:
    """The groups without those that only reshape, and what each of their outputs is another view
    of: elements lie in the same order. What an output of the graph is a reshape of is a view of
    that output, and written there at once. Inputs and outputs of the graph have views only where
    `of_arrays`."""
    kept: list[Group] = []
    same: dict[Value, Value] = {}
    outputs = set(graph.outputs)
    fixed = set() if of_arrays else {*graph.inputs, *graph.outputs}
    for group in groups:
        source = group.inputs[0] if group.inputs else None
        root = None if source is None else same.get(source, source)
        if root is None or root.is_constant or any(n.op != "reshape" for n in group.nodes):
            kept.append(group)
        elif group.output not in outputs:
            if root in fixed:
                kept.append(group)
            else:
                same[group.output] = root
        elif root.producer is None or root in outputs or not of_arrays:
            kept.append(group)
        else:
            same |= {v: group.output for v, of in same.items() if of is root}
            same[root] = group.output
    return kept, same


def plan_memory(
    graph: Graph,
    groups: Sequence[Group],
    align: int = ALIGN,
    same: Mapping[Value, Value] | None = None,
) -> tuple[dict[Value, int], int]:
    """Byte offset of every value between groups, and the size of the workspace. `same`: values that
    are views of others."""
    found = lifetimes(graph, groups, same)
    sizes = [v.nbytes for v in found]
    born, last = ([life[k] for life in found.values()] for k in (0, 1))
    places, size = places_of(sizes, born, last, align)
    return dict(zip(found, places)), size


def lifetimes(
    graph: Graph, groups: Sequence[Group], same: Mapping[Value, Value] | None = None
) -> dict[Value, tuple[int, int]]:
    """The first and last step at which each value between groups is needed."""
    same = same or {}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    fixed = {*graph.inputs, *graph.outputs}
    for step, group in enumerate(groups):
        if same.get(group.output, group.output) not in fixed:
            first[group.output] = last[group.output] = step
        for v in group.inputs:
            v = same.get(v, v)
            if v in first:
                last[v] = step
    return {v: (step, last[v]) for v, step in first.items()}
