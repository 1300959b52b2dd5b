"""Group nodes into kernels.

A group has at most one anchor (an expensive operation). A reduction computes the element-wise nodes
before it as it reads their elements. Element-wise nodes that follow a group's
last node, with its shape, and are its only reader, join it: they are computed on the anchor's
tiles. Cheap nodes with one reader join that reader's group where they are inlined.

So a group is a chain, and its kernel one expression, in which a value stands as often as it is
read. Groups end before that expression becomes large; compilation stays linear in the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir import Graph, Node, Value
from ..ops import ANCHOR, ELEMWISE, INJECTIVE, OPAQUE, OPS, REARRANGED

MOST = 64
"""Operations and reads in the expression of a group."""


@dataclass(frozen=True)
class Lying:
    """How an array lies in a larger one: steps from element to element of each dimension, and
    elements before the first, counted from where its memory is said to be."""

    strides: tuple[int, ...]
    offset: int = 0


class Group:
    """Nodes that become one kernel, in order; the last one's output is the kernel's. `lying`:
    inputs that are read as parts of larger arrays; others are compact."""

    __slots__ = ("kinds", "lying", "nodes", "sizes")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: list[Node] = []
        self.kinds: set[str] = set()
        self.sizes: dict[Value, int] = {}
        self.lying: dict[Value, Lying] = {}
        for node in nodes:
            self.append(node)

    def append(self, node: Node) -> None:
        """Let a node join that reads values of the group, or the first one."""
        self.sizes[node.output] = self.size_with(node)
        self.nodes.append(node)
        self.kinds.add(OPS[node.op].kind)

    def size_with(self, node: Node) -> int:
        """Operations and reads in the expression that the group becomes with a further node."""
        return 1 + sum(self.sizes.get(v, 1) for v in node.inputs)

    @property
    def output(self) -> Value:
        return self.nodes[-1].output

    @property
    def inputs(self) -> list[Value]:
        """What the group reads from outside, each once."""
        inner = {n.output for n in self.nodes}
        found: dict[Value, None] = {}
        for node in self.nodes:
            found.update((v, None) for v in node.inputs if v not in inner)
        return list(found)

    @property
    def name(self) -> str:
        return "_".join(n.op for n in self.nodes)


def fuse_nodes(graph: Graph) -> list[Group]:
    """The groups of a graph, in an order in which they can run."""
    readers = graph.consumers()
    outputs = set(graph.outputs)
    group_of: dict[Node, Group] = {}
    last: dict[Group, int] = {}  # a group runs where its last node stands
    for k, node in enumerate(graph.nodes):
        found = _groups_before(node, readers, outputs, group_of)
        home = found[0] if found else Group([])
        for other in found[1:]:
            alike = OPS[node.op].kind == ELEMWISE and _is_pointwise(other)
            if alike and _fits(home, other, node):
                for n in other.nodes:
                    home.append(n)
                    group_of[n] = home
                del last[other]
        home.append(node)
        group_of[node] = home
        last[home] = k
    groups = sorted(last, key=lambda g: last[g])
    return _joined_at_places(groups, readers, outputs)


def _joined_at_places(
    groups: Iterable[Group], readers: dict[Value, list[Node]], outputs: set[Value]
) -> list[Group]:
    """Let element-wise groups join the one before them of whose output they are the only reader, if
    at several places: as an activation reads its argument twice, or what that is converted to."""
    found: list[Group] = []
    joined: set[Group] = set()
    made_by: dict[Value, Group] = {}
    for group in groups:
        while group.kinds == {ELEMWISE}:
            before = _only_read_by(group, made_by, readers, outputs)
            if before is None:
                break
            joined.add(before)
            group = Group([*before.nodes, *group.nodes])
        found.append(group)
        if group.kinds == {ELEMWISE} or (
            ANCHOR in group.kinds and not group.kinds & {OPAQUE, REARRANGED}
        ):
            made_by[group.output] = group
    return [g for g in found if g not in joined]


def _only_read_by(
    group: Group,
    made_by: dict[Value, Group],
    readers: dict[Value, list[Node]],
    outputs: set[Value],
) -> Group | None:
    """A group before of whose output an element-wise one is the only reader, and with which it is
    no large expression; what nodes make of parts of it is another array."""
    for v in group.inputs:
        before = made_by.get(v)
        if before is None or v in outputs or v.shape != group.output.shape:
            continue
        alone = all(reader in group.nodes for reader in readers[v])
        if alone and Group([*before.nodes, *group.nodes]).sizes[group.output] <= MOST:
            return before
    return None


def _is_pointwise(group: Group) -> bool:
    """Whether a group computes each element from one of each input, of parts of these in order."""
    return all(n.op == "slice" or OPS[n.op].kind == ELEMWISE for n in group.nodes)


def _fits(home: Group, other: Group, node: Node) -> bool:
    """Whether a group can take in another one of the same shape, which a node reads beside it."""
    same = other.output.shape == node.output.shape
    return same and home.size_with(node) + other.sizes[other.output] <= MOST


def _groups_before(
    node: Node,
    readers: dict[Value, list[Node]],
    outputs: set[Value],
    group_of: dict[Node, Group],
) -> list[Group]:
    """The groups that a node can join: first that of the input which is computed last."""
    spec = OPS[node.op]
    kind = spec.kind
    if kind in (ANCHOR, OPAQUE, REARRANGED) and not spec.reads_computed:
        return []
    candidates = []
    for v in dict.fromkeys(node.inputs):
        producer = v.producer
        if producer is None or v.is_constant or v in outputs or len(readers[v]) != 1:
            continue
        group = group_of[producer]
        if group.output is not v or OPAQUE in group.kinds or group.size_with(node) > MOST:
            continue
        if kind == ANCHOR and group.kinds != {ELEMWISE}:
            continue
        if kind == INJECTIVE and group.kinds != {INJECTIVE} and group.kinds != {ELEMWISE}:
            continue
        if kind == ELEMWISE and v.shape != node.output.shape:
            continue
        candidates.append(group)
    if not candidates:
        return []
    anchored = [g for g in candidates if g.kinds & {ANCHOR, REARRANGED}]
    home = (anchored or candidates)[-1]
    return [home, *(g for g in dict.fromkeys(candidates) if g is not home)]
