"""Products that read the same data, as one product whose weights are joined.

Queries, keys and values, the gate of an MLP beside what it weighs, the 1x1 convolutions that open
the branches of a block: each alone may be too small to fill a device, and each reads the data
anew. What follows all of them alike, biases and activations, is joined too. The results are slices,
which whoever reads them takes where they lie (passes/memory.py).

Two ways to write a network are compared by the clocks that their kernels take (topi/schedules/gpu/
clocks.py). For a merged product speak fewer launches and tiles that fill the device better; against
it what has to be a kernel of its own now: what followed one of the products only, and copies to
where a value must lie alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...base.mapped import give_back
from ...target.target import Target
from ...topi.elemwise import accumulator
from ...topi.schedules.gpu.clocks import kernel_clocks, moving_clocks, product_clocks
from ...topi.schedules.gpu.machine import VECTOR_BYTES, GpuMachine
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, INJECTIVE, OPAQUE, OPS, frozen, node_of
from .memory import Starts
from .strided import merged, regrouped

_PRODUCTS = {"dense": (0, -1), "matmul": (1, -1), "conv2d": (0, 1)}
"""Which axis of the weights, and of the result, counts what products may have different."""


@dataclass(eq=False)
class _Member:
    """A product, and the nodes that follow it one by one, each the only reader of what is before.
    `ends`: how many of these are joined with those of its siblings."""

    node: Node
    chain: list[Node]
    ends: int = 0

    @property
    def values(self) -> list[Value]:
        """What the product and these nodes give."""
        return [self.node.output, *(n.output for n in self.chain)]

    @property
    def end(self) -> Value:
        """What is a slice of the merged result."""
        return self.chain[self.ends - 1].output if self.ends else self.node.output

    @property
    def columns(self) -> int:
        return int(self.end.shape[_PRODUCTS[self.node.op][1]])

    @property
    def rest(self) -> list[Node]:
        """What follows, element by element, and has been in the product's kernel."""
        return [n for n in self.chain[self.ends :] if n.op != "reshape"]


def merge_siblings(graph: Graph, target: Target, dtype: str = "float32") -> Graph:
    """Merge the products of a device of which one takes less time; float32 ones are computed in
    `dtype`. Data and weights have known sizes, weights are constants that nobody else reads."""
    return _Siblings(graph, target, dtype).run()


class _Siblings:
    def __init__(self, graph: Graph, target: Target, dtype: str) -> None:
        self.graph, self.dtype = graph, dtype
        self.machine, self.starts = GpuMachine.of(target), Starts.of(target)
        self.order = {node: k for k, node in enumerate(graph.nodes)}
        self.readers = graph.consumers()
        self.outputs = set(graph.outputs)
        self.joined: dict[tuple[Any, ...], Value] = {}

    def run(self) -> Graph:
        """The graph, changed."""
        instead: dict[Node, list[Node]] = {}
        sets = [s for s in map(self._chosen, self._families()) if len(s) > 1]
        for members in self._alone(sets):
            nodes = self._merged(members)
            for m in members:
                for node in (m.node, *m.chain[: m.ends]):
                    instead[node] = []
            first = min((m.node for m in members), key=self.order.__getitem__)
            instead[first] = nodes
        if instead:
            nodes = self.graph.nodes
            self.graph.nodes = [new for n in nodes for new in instead.get(n, [n])]
            self.graph.drop_dead_nodes()
        return self.graph

    def _families(self) -> Iterable[list[_Member]]:
        """Products that differ in the number of their columns or filters only."""
        found: dict[Any, list[_Member]] = {}
        for node in self.graph.nodes:
            if node.op not in _PRODUCTS or not self._is_plain(node):
                continue
            data, weight = node.inputs
            shape = list(weight.shape)
            shape[_PRODUCTS[node.op][0]] = -1
            attrs = tuple((k, frozen(v)) for k, v in sorted(node.attrs.items()))
            key = (data, node.op, tuple(shape), weight.dtype, attrs)
            found.setdefault(key, []).append(_Member(node, self._chain(node)))
        return found.values()

    def _is_plain(self, node: Node) -> bool:
        """Whether a product is one of constant weights, in one group, of sizes that are known."""
        if len(node.inputs) != 2 or node.inputs[1].data is None or node.inputs[0].is_constant:
            return False
        sizes = [d for v in (*node.inputs, node.output) for d in v.shape]
        known = all(isinstance(d, int) and d > 0 for d in sizes)
        flat = node.op == "conv2d" or len(node.output.shape) == 2
        return known and flat and node.attrs.get("groups", 1) == 1

    def _chain(self, node: Node) -> list[Node]:
        """What follows a product in its kernel, and reshapes that keep its columns."""
        found: list[Node] = []
        v = node.output
        while (reader := self._only_reader(v)) is not None:
            same = reader.output.shape == v.shape and OPS[reader.op].kind == ELEMWISE
            kept = reader.op == "reshape" and node.op != "conv2d"
            if not same and not (kept and reader.output.shape[-1:] == v.shape[-1:]):
                break
            found.append(reader)
            v = reader.output
        return found

    def _chosen(self, members: list[_Member]) -> list[_Member]:
        """Those of a family that are worth to be one product, with what they have alike behind it,
        in an order in which each slice begins where vectors do."""
        sizes = [m.columns * self._nbytes(m.node.output) for m in members]
        even = [m for m, n in zip(members, sizes) if self.starts.fits(n)]
        last = [m for m, n in zip(members, sizes) if m not in even and n % VECTOR_BYTES == 0]
        left = self._with_ends([*even, *last[:1]])
        while len(left) > 1:
            lone = [m for m in left if self._must_be_alone(m)]
            if not lone:
                break
            left = self._with_ends([m for m in left if m not in lone])
        return left if len(left) > 1 and self._gain(left) > 0 else []

    def _with_ends(self, members: list[_Member]) -> list[_Member]:
        """Members with as many nodes behind them joined as are alike, reshapes not at the end."""
        for m in members:
            m.ends = 0
        for nodes in zip(*(m.chain for m in members)) if len(members) > 1 else ():
            if self._joined_step(members, nodes) is None:
                break
            for m in members:
                m.ends += 1
        for m in members:
            while m.ends and m.chain[m.ends - 1].op == "reshape":
                m.ends -= 1
        return members

    def _must_be_alone(self, m: _Member) -> bool:
        """Whether a result has a place of its own, so that a slice would be copied there: it is an
        output, or written where it is joined with others."""
        v = m.values[-1]
        if any(u in self.outputs for u in m.values):
            return True
        while (reader := self._only_reader(v)) is not None and reader.op == "reshape":
            v = reader.output
        return v in self.outputs or any(map(self._is_in_place, self.readers.get(v, ())))

    def _only_reader(self, v: Value) -> Node | None:
        readers = self.readers.get(v, ())
        return readers[0] if len(readers) == 1 and v not in self.outputs else None

    def _is_in_place(self, node: Node) -> bool:
        """Whether what a concatenation joins will be written there at once; of channels that come
        last (passes/channels_last.py) it never is."""
        if node.op != "concat":
            return False
        types = {self._kind(v) for v in node.inputs}
        last = any((t, accumulator(t)) in self.machine.products for t in types)
        before = node.output.shape[: node.attrs["axis"] % len(node.output.shape)]
        return all(d == 1 for d in before) and not (last and len(node.output.shape) == 4)

    def _alone(self, sets: list[list[_Member]]) -> list[list[_Member]]:
        """Sets of which nobody else reads a weight: there would be two copies of it. Layers that
        share all weights share the joined ones."""
        of = {m.node: tuple(m.node.inputs[1] for m in members) for members in sets for m in members}
        found = []
        for members in sets:
            mine = of[members[0].node]
            readers = [n for w in mine for n in self.readers[w]]
            if all(of.get(n) == mine for n in readers) and not self.outputs & {*mine}:
                found.append(members)
        return found

    # -- what it takes

    def _kind(self, v: Value) -> str:
        return self.dtype if v.dtype == "float32" else v.dtype

    def _nbytes(self, v: Value) -> int:
        return parse(self._kind(v)).nbytes

    def _gain(self, members: list[_Member]) -> float:
        """Clocks that one product takes less than several."""
        each = [self._clocks(m.node, m.columns) for m in members]
        whole = self._clocks(members[0].node, sum(m.columns for m in members))
        further = [m for m in members if m.rest]
        kernels = {m.rest[-1] for m in further}  # those that meet are one
        more = sum(kernel_clocks(0) for _ in kernels)
        for m in members:
            if not m.rest and self._is_copied(m):
                more += kernel_clocks(2 * prod(m.end.shape) * self._nbytes(m.end))
        more += moving_clocks(2 * sum(prod(m.end.shape) * self._nbytes(m.end) for m in further))
        return sum(each) - whole - more

    def _is_copied(self, m: _Member) -> bool:
        """Whether a reader of a slice cannot take it where it lies: the code of others, or a
        reshape of which a row would be in pieces, and which no kernel does as it reads."""
        shape = m.end.shape
        axis = _PRODUCTS[m.node.op][1] % len(shape)
        row = prod(shape[axis:])
        digits = [*merged([(prod(shape[:axis]), 2 * row)]), (row, 1)]  # of any longer rows

        def is_taken(reader: Node) -> bool:
            if reader.op != "reshape":
                return OPS[reader.op].kind != OPAQUE or reader.op == "concat"
            further = self.readers.get(reader.output, ())
            if regrouped(digits, reader.output.shape) is None:
                return len(further) == 1 and OPS[further[0].op].kind in (INJECTIVE, ELEMWISE)
            return all(map(is_taken, further))

        return not all(map(is_taken, self.readers.get(m.end, ())))

    def _clocks(self, node: Node, columns: int) -> float:
        data, weight = node.inputs
        kind = self._kind(data)
        sums = str(node.attrs.get("out_dtype", accumulator(kind)))
        axis = _PRODUCTS[node.op][0]
        steps = prod(weight.shape) // weight.shape[axis]
        rows = prod(node.output.shape) // weight.shape[axis]
        return product_clocks((rows, columns, steps), (kind, sums), self.machine)

    # -- what becomes of them

    def _joined_step(
        self, members: Sequence[_Member], nodes: Sequence[Node]
    ) -> tuple[dict[str, Any], list[Value | None]] | None:
        """Attributes and inputs, None for the one that is computed before, of the node that does
        what these do, each behind one of the members. None where there is no such node."""
        first = nodes[0]
        rank = len(first.output.shape)
        if any((n.op, len(n.inputs)) != (first.op, len(first.inputs)) for n in nodes):
            return None
        if first.op == "reshape":
            if any(n.output.shape[:-1] != first.output.shape[:-1] for n in nodes):
                return None
            total = sum(n.output.shape[-1] for n in nodes)
            return {"shape": (*first.output.shape[:-1], total)}, [None]
        if any(n.attrs != first.attrs for n in nodes) or first.op == "trilu":
            return None
        axis = _PRODUCTS[members[0].node.op][1] % rank
        inputs: list[Value | None] = []
        for given in zip(*(n.inputs for n in nodes)):
            if all(v in m.values for v, m in zip(given, members)):
                inputs.append(None)
                continue
            joined = _along(given, nodes, axis)
            if joined is None:
                return None
            inputs.append(joined)
        return {**first.attrs}, inputs

    def _merged(self, members: list[_Member]) -> list[Node]:
        """One product, what follows it, and a slice for each of the members."""
        first = members[0].node
        axis = _PRODUCTS[first.op][0]
        weight = self._joined([m.node.inputs[1] for m in members], axis)
        name = "+".join(m.node.name for m in members)
        made = [node_of(first.op, [first.inputs[0], weight], name, first.attrs)]
        for nodes in zip(*(m.chain[: m.ends] for m in members)):
            step = self._joined_step(members, nodes)
            assert step is not None, "it was joined before"
            attrs, inputs = step
            reads = [made[-1].output if v is None else v for v in inputs]
            name = "+".join(n.name for n in nodes)
            made.append(node_of(nodes[0].op, reads, name, attrs))
        whole = made[-1].output
        along = _PRODUCTS[first.op][1] % len(whole.shape)
        at = 0
        for m in members:
            begin, end = [0] * len(whole.shape), list(whole.shape)
            begin[along], end[along] = at, at + m.columns
            at += m.columns
            how = {"begin": begin, "end": end, "strides": [1] * len(begin)}
            made.append(Node("slice", m.end.name + ".part", [whole], [m.end], how))
        return made

    def _joined(self, weights: list[Value], axis: int) -> Value:
        """Weights side by side, once for each set of them."""
        key = tuple(weights)
        if key not in self.joined:
            data = [np.asarray(w.data) for w in weights]
            name = "+".join(w.name for w in weights)
            self.joined[key] = constant(name, np.concatenate(data, axis))
            for x in data:
                give_back(x)
        return self.joined[key]


def _along(given: Sequence[Value], nodes: Sequence[Node], axis: int) -> Value | None:
    """One constant for the operands of nodes whose results are side by side along an axis; None
    where some are not known, or such a one would need an element for each place."""
    data = [v.data for v in given]
    if any(x is None for x in data) or len({v.dtype for v in given}) != 1:
        return None
    known = [np.asarray(x) for x in data]
    if known[0].size == 1 and len({(x.shape, x.tobytes()) for x in known}) == 1:
        return given[0]
    found = []
    for x, node in zip(known, nodes):
        shape = node.output.shape
        place = node.attrs.get("axis")
        if place is not None:  # the operand has this dimension alone
            if x.ndim != 1 or place % len(shape) != axis:
                return None
        elif any(d != 1 for k, d in enumerate(x.shape, len(shape) - x.ndim) if k != axis):
            return None
        found.append(np.broadcast_to(x.reshape(-1), (shape[axis],)))
    joined = np.concatenate(found)
    if "axis" not in nodes[0].attrs:
        joined = joined.reshape(-1, *[1] * (len(nodes[0].output.shape) - axis - 1))
    return constant("+".join(v.name for v in given), joined)
