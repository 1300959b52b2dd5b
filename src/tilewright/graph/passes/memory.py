"""Give each intermediate value a place in one workspace; places are shared by values that never
live together (rt/places.py).

Some values need no place of their own. A reshape is another view of what it reads. What is joined
by a concatenation lies in it one behind the other where the extents before its axis are 1, so that
whoever computes such a part can write it there at once: the concatenation itself is no kernel then.
A part of several concatenations, as in a dense block, has its place in the longest, of which the
shorter ones are mostly views themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ...base.aligned import ALIGNMENT
from ...rt.places import places_of
from ..ir import Graph, Node, Value
from .fuse import Group

DEVICE_ALIGN = 256  # what OpenCL devices ask of the start of a buffer within another


@dataclass(frozen=True)
class Part:
    """The bytes of another value from `at` on."""

    of: Value
    at: int = 0


Parts = Mapping[Value, Part]
"""Where values lie that have no place of their own."""


def views(
    graph: Graph, groups: Sequence[Group], align: int = ALIGNMENT
) -> tuple[list[Group], dict[Value, Part]]:
    """The groups without those that only give other views, and what their outputs, and what else
    is written where a view of it is needed, are parts of. Parts start at multiples of `align`.

    What an output of the graph is a reshape of is written there."""
    kept, same = _reshapes(graph, groups)
    joins = _Joins(graph, same, align)
    return joins.without(kept), joins.parts()


def _reshapes(graph: Graph, groups: Sequence[Group]) -> tuple[list[Group], dict[Value, Value]]:
    """The groups without those that only reshape, and what each of their outputs is a view of."""
    kept: list[Group] = []
    same: dict[Value, Value] = {}
    outputs = set(graph.outputs)
    for group in groups:
        source = group.inputs[0] if group.inputs else None
        root = None if source is None else same.get(source, source)
        if root is None or root.is_constant or any(n.op != "reshape" for n in group.nodes):
            kept.append(group)
        elif group.output not in outputs:
            same[group.output] = root
        elif root.producer is None or root in outputs:
            kept.append(group)
        else:
            same |= {v: group.output for v, of in same.items() if of is root}
            same[root] = group.output
    return kept, same


class _Joins:
    """Concatenations of which at least half of the bytes can be written in place."""

    def __init__(self, graph: Graph, same: Mapping[Value, Value], align: int) -> None:
        self.same = same
        self.align = align
        self.fixed = {*graph.inputs, *graph.outputs}
        self.within: dict[Value, Part] = {}

    def where(self, v: Value) -> Part:
        """The value that has a place, of which another one is a part."""
        v, at = self.same.get(v, v), 0
        while v in self.within:
            v, at = self.within[v].of, at + self.within[v].at
        return Part(v, at)

    def parts(self) -> dict[Value, Part]:
        return {v: self.where(v) for v in [*self.same, *self.within]}

    def without(self, groups: Sequence[Group]) -> list[Group]:
        """The groups without these concatenations; what else belongs in one is copied there. From
        the last to the first, as the longest of a dense block comes last."""
        kept: list[Group] = []
        for group in reversed(groups):
            starts = self._starts(group.nodes[0])
            copies = None if starts is None else self._joined(group.nodes[0], starts)
            kept += [group] if copies is None else copies[::-1]
        return kept[::-1]

    def _starts(self, node: Node) -> list[int] | None:
        """Where the inputs of a concatenation begin in its result, if they lie there whole."""
        if node.op != "concat" or self.where(node.output).of in self.fixed:
            return None
        known = all(isinstance(d, int) for v in (*node.inputs, node.output) for d in v.shape)
        if not known or any(d != 1 for d in node.output.shape[: node.attrs["axis"]]):
            return None
        *starts, _ = accumulate((v.nbytes for v in node.inputs), initial=0)
        return None if any(start % self.align for start in starts) else starts

    def _joined(self, node: Node, starts: Sequence[int]) -> list[Group] | None:
        """The kernels instead of a concatenation: copies of what cannot be computed where it
        belongs, mostly none. None where they would be more than half of it."""
        out, found = node.output, [self.where(v) for v in node.inputs]
        whole = found[0]
        alike = all(p == Part(whole.of, whole.at + start) for p, start in zip(found, starts))
        if alike and out not in self.within and whole.of not in self.fixed:
            self.within[out] = whole  # it stands in a longer one, as it would be here
            return []
        placed: dict[Value, Part] = {}
        copied: list[tuple[Value, Part]] = []
        for v, start in zip(node.inputs, starts):
            root, part = self.same.get(v, v), Part(out, start)
            free = root.producer is not None and root not in self.fixed
            if free and root not in self.within and root not in placed:
                placed[root] = part
            else:
                copied.append((v, part))
        if 2 * sum(v.nbytes for v in placed) < out.nbytes:
            return None
        self.within |= placed
        return [self._copy(v, part) for v, part in copied]

    def _copy(self, v: Value, part: Part) -> Group:
        copy = Value(f"{v.name}.in.{part.of.name}", v.shape, v.dtype)
        self.within[copy] = part
        return Group([Node("identity", copy.name, [v], [copy])])


def plan_memory(
    graph: Graph, groups: Sequence[Group], align: int = ALIGNMENT, same: Parts | None = None
) -> tuple[dict[Value, int], int]:
    """Byte offset of every value between groups, and the size of the workspace. `same`: values that
    are parts of others."""
    found = lifetimes(graph, groups, same)
    sizes = [v.nbytes for v in found]
    born, last = ([life[k] for life in found.values()] for k in (0, 1))
    places, size = places_of(sizes, born, last, align)
    return dict(zip(found, places)), size


def lifetimes(
    graph: Graph, groups: Sequence[Group], same: Parts | None = None
) -> dict[Value, tuple[int, int]]:
    """The first and last step at which each value between groups, or a part of it, is needed."""
    same = same or {}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    fixed = {*graph.inputs, *graph.outputs}

    def root(v: Value) -> Value:
        return same[v].of if v in same else v

    for step, group in enumerate(groups):
        made = root(group.output)
        if made not in fixed:
            first.setdefault(made, step)
            last[made] = step
        for v in map(root, group.inputs):
            if v in first:
                last[v] = step
    return {v: (step, last[v]) for v, step in first.items()}
