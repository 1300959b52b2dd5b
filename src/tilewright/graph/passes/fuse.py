"""Group nodes into kernels.

A group has at most one anchor (an expensive operation). Element-wise nodes that follow a group's
last node, with its shape, and are its only reader, join it: they are computed on the anchor's
tiles. Cheap nodes with one reader join that reader's group where they are inlined.

So a group is a chain, and its kernel one expression, in which a value stands as often as it is
read. Groups end before that expression becomes large; compilation stays linear in the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Graph, Node, Value
from ..ops import ANCHOR, ELEMWISE, INJECTIVE, OPAQUE, OPS, REARRANGED

MOST = 64
"""Operations and reads in the expression of a group."""


class Group:
    """Nodes that become one kernel, in order; the last one's output is the kernel's."""

    __slots__ = ("kinds", "nodes", "size")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: list[Node] = []
        self.kinds: set[str] = set()
        self.size = 0
        for node in nodes:
            self.append(node)

    def append(self, node: Node) -> None:
        """Let a node join that reads the group's output, or the first one."""
        self.size = self.size_with(node)
        self.nodes.append(node)
        self.kinds.add(OPS[node.op].kind)

    def size_with(self, node: Node) -> int:
        """Operations and reads in the expression that the group becomes with a further node."""
        inner = self.output if self.nodes else None
        return 1 + sum(self.size if v is inner else 1 for v in node.inputs)

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
        home = _group_before(node, readers, outputs, group_of) or Group([])
        home.append(node)
        group_of[node] = home
        last[home] = k
    return sorted(last, key=lambda g: last[g])


def _group_before(
    node: Node,
    readers: dict[Value, list[Node]],
    outputs: set[Value],
    group_of: dict[Node, Group],
) -> Group | None:
    """The group that a node can join: that of the input which is computed last."""
    kind = OPS[node.op].kind
    if kind in (ANCHOR, OPAQUE, REARRANGED):
        return None
    candidates = []
    for v in dict.fromkeys(node.inputs):
        producer = v.producer
        if producer is None or v.is_constant or v in outputs or len(readers[v]) != 1:
            continue
        group = group_of[producer]
        if group.output is not v or OPAQUE in group.kinds or group.size_with(node) > MOST:
            continue
        if kind == INJECTIVE and group.kinds != {INJECTIVE} and group.kinds != {ELEMWISE}:
            continue
        if kind == ELEMWISE and v.shape != node.output.shape:
            continue
        candidates.append(group)
    if not candidates:
        return None
    anchored = [g for g in candidates if g.kinds & {ANCHOR, REARRANGED}]
    return (anchored or candidates)[-1]
