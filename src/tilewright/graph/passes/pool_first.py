"""Average before a convolution of single elements, not behind it.

Such a convolution mixes channels and an average mixes places, so that their order is free: the mean
of (x * w + b) over a window is (mean of x) * w + b. Behind the average there are fewer places to
multiply at: a quarter of them in DenseNet's transitions.
"""

from __future__ import annotations

from math import prod

from ..ir import Graph, Node
from ..ops import node_of
from ..shapes import is_open

_POOLS = ("pool2d", "global_pool", "adaptive_pool")


def pool_first(graph: Graph) -> Graph:
    """Exchange them where that leaves less to compute."""
    readers, outputs = graph.consumers(), set(graph.outputs)

    def instead(node: Node) -> list[Node] | None:
        chain = _chain(node) if node.op in _POOLS and node.attrs["type"] == "avg" else []
        alone = all(len(readers[n.output]) == 1 and n.output not in outputs for n in chain)
        return _exchanged(node, chain) if chain and alone and _pays(node, chain[-1]) else None

    return graph.rewrite(instead)


def _chain(pool: Node) -> list[Node]:
    """The bias, if any, and the convolution that an average follows, from the last one on; nothing
    where the average cannot stand before them."""
    node = pool.inputs[0].producer
    found = []
    if node is not None and node.op == "bias_add" and node.attrs["axis"] == 1:
        if not _sums_to_one(pool):
            return []
        found.append(node)
        node = node.inputs[0].producer
    if node is None or node.op != "conv2d" or is_open(pool.output.shape):
        return []
    single = all(d == 1 for d in node.inputs[1].shape[2:]) and "float" in node.output.dtype
    single = single and not any(node.attrs["padding"]) and set(node.attrs["strides"]) == {1}
    return [*found, node] if single else []


def _sums_to_one(pool: Node) -> bool:
    """Whether the average of what is the same everywhere is that: padding does not count in it."""
    if pool.op != "pool2d" or not pool.attrs["count_include_pad"]:
        return True
    return not any(pool.attrs["padding"]) and not pool.attrs["ceil_mode"]


def _pays(pool: Node, conv: Node) -> bool:
    """Whether sums and products get fewer."""
    filters, depth = conv.inputs[1].shape[:2]
    before, after = (prod(v.shape[2:]) for v in (pool.inputs[0], pool.output))
    window = before if pool.op != "pool2d" else after * prod(pool.attrs["kernel"])
    less = 2 * depth * filters * (before - after)
    return bool(less > window * (conv.inputs[0].shape[1] - filters))


def _exchanged(pool: Node, chain: list[Node]) -> list[Node]:
    """The same nodes, the average first; the last one gives the result under its name."""
    data = chain[-1].inputs[0]
    found: list[Node] = []
    for node in (pool, *reversed(chain[1:])):
        inputs, name = [data, *node.inputs[1:]], f"{node.output.name}.pooled"
        found.append(node_of(node.op, inputs, node.name, node.attrs, name))
        data = found[-1].output
    last = chain[0]
    return [*found, Node(last.op, last.name, [data, *last.inputs[1:]], pool.outputs, last.attrs)]
