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
        if group.output not in fixed:
            first[group.output] = last[group.output] = step
        for v in group.inputs:
            v = same.get(v, v)
            if v in first:
                last[v] = step
    return {v: (step, last[v]) for v, step in first.items()}
