"""Group nodes into kernels.

A group has at most one anchor (an expensive operation). Element-wise nodes that follow a group's
last node, with its shape, and are its only reader, join it: they are computed on the anchor's
tiles. Cheap nodes with one reader join that reader's group where they are inlined.
"""

from __future__ import annotations

from ..ir import Graph, Node, Value
from ..ops import ANCHOR, ELEMWISE, INJECTIVE, OPAQUE, OPS, REARRANGED


class Group:
    """Nodes that become one kernel, in order; the last one's output is the kernel's."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

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

    @property
    def kinds(self) -> set[str]:
        return {OPS[n.op].kind for n in self.nodes}


def fuse_nodes(graph: Graph) -> list[Group]:
    """The groups of a graph, in an order in which they can run."""
    readers = graph.consumers()
    outputs = set(graph.outputs)
    group_of: dict[Node, Group] = {}
    groups: list[Group] = []
    for node in graph.nodes:
        home = _group_before(node, readers, outputs, group_of)
        if home is None:
            home = Group([])
            groups.append(home)
        else:
            groups.remove(home)
            groups.append(home)  # runs where its last node stands
        home.nodes.append(node)
        group_of[node] = home
    return groups


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
        if group.output is not v or OPAQUE in group.kinds:
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
