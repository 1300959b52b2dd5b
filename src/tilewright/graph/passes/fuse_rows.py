"""Compute rows in one kernel: reductions along the last dimensions with what is done, element by
element, before and behind them.

So exporters write what their format has no operator for: RMS and layer norms, lengths and
deviations that data are divided by, a softmax. Each of these steps would go through memory, and
one that squares what is kept in half precision may leave its range. As one node, rows come from
memory once, and nothing is rounded in between; that is why the pass stands before values are kept
in narrow floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ..ir import Graph, Node, Value
from ..ops import ANCHOR, ELEMWISE, OPS, node_of
from ..shapes import is_open

MOST = 48  # steps of a node, and how many behind a reduction are looked at
FLOATS = frozenset(("float32", "float16", "bfloat16"))
REDUCTIONS = frozenset(("sum", "mean", "max", "min", "l1", "l2", "sum_square"))


def fuse_rows(graph: Graph) -> Graph:
    """Compute as one node several reductions of rows, or one and what it does to them."""
    readers, outputs = graph.consumers(), set(graph.outputs)
    order = {node: k for k, node in enumerate(graph.nodes)}
    taken: set[Node] = set()
    instead: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        rows = _rows_of(node) if node.op == "reduce" and node not in taken else None
        if rows is None:
            continue
        found = _Region(rows, readers, outputs, taken).around(node)
        if found:
            taken.update(found)
            found.sort(key=lambda n: order[n])
            instead[found[-1]] = _made(rows, found)
    return graph.rewrite(instead.get) if instead else graph


@dataclass(frozen=True)
class _Rows:
    """Rows of the last `run` dimensions of arrays of a shape, whose elements are of some types."""

    shape: tuple[int, ...]
    run: int
    types: frozenset[str]

    @property
    def lead(self) -> tuple[int, ...]:
        return self.shape[: -self.run]

    @property
    def results(self) -> tuple[int, ...]:
        """The shape of a number for each row."""
        return (*self.lead, *[1] * self.run)

    @property
    def flat(self) -> tuple[int, ...]:
        """The shape with rows of one dimension."""
        return (*self.lead, prod(self.shape[-self.run :]))

    def is_step(self, node: Node) -> bool:
        """Whether a node gives such rows, or a number for each, of the same row."""
        if not all(v.dtype in self.types for v in (*node.inputs, node.output)):
            return False
        shape, reads = node.output.shape, [v.shape for v in node.inputs]
        if node.op == "reduce":
            axes = {a % len(reads[0]) for a in node.attrs["axes"]}
            last = axes == set(range(len(self.shape) - self.run, len(self.shape)))
            return reads[0] == self.shape and last and node.attrs["type"] in REDUCTIONS
        if node.op == "reshape":
            return {shape, reads[0]} <= {self.results, self.lead}
        if node.op == "broadcast_to":
            return shape == self.shape and reads[0] == self.results
        if OPS[node.op].kind != ELEMWISE or "axis" in node.attrs or node.op == "trilu":
            return False
        if shape == self.lead:
            return all(s == shape or prod(s) == 1 for s in reads)
        return shape in (self.shape, self.results) and all(map(self._fits, reads))

    def _fits(self, shape: tuple[int, ...]) -> bool:
        """Whether an operand has whole rows, or one number for each."""
        whole = (*[1] * (len(self.shape) - len(shape)), *shape)
        return set(whole[-self.run :]) == {1} or whole[-self.run :] == self.shape[-self.run :]


def _rows_of(node: Node) -> _Rows | None:
    """The rows that a reduction is of; None where it is not along the last dimensions, or is of
    images, whose channels other passes may put last."""
    shape = node.inputs[0].shape
    run = len({a % len(shape) for a in node.attrs["axes"]}) if shape else 0
    if not 0 < run < len(shape) or is_open(shape) or 0 in shape or (run, len(shape)) == (2, 4):
        return None
    types = FLOATS if node.output.dtype in FLOATS else frozenset(("float64",))
    rows = _Rows(shape, run, types)
    return rows if rows.is_step(node) else None


@dataclass(frozen=True)
class _Region:
    """Looks for the steps that are computed together with a reduction."""

    rows: _Rows
    readers: dict[Value, list[Node]]
    outputs: set[Value]
    taken: set[Node]

    def around(self, node: Node) -> list[Node]:
        """The most steps of which others read only what one gives; none where no memory would be
        saved by having them together."""
        shapes = (self.rows.shape, self.rows.results, self.rows.lead)
        for end in reversed(self._behind(node)):
            if OPS[end.op].kind == ELEMWISE and end.output.shape in shapes:
                found = self._before(end)
                several = sum(n.op == "reduce" for n in found) > 1
                whole = any(v.shape == self.rows.shape for v in _outside(found))
                again = end.output.shape == self.rows.shape
                if node in found and whole and (several or again):
                    return found
        return []

    def _behind(self, node: Node) -> list[Node]:
        """Steps that need the result of one, those that are nearer first."""
        found = {node: None}
        todo = [node]
        for at in todo:
            for reader in self.readers.get(at.output, ()):
                if reader not in found and len(found) < MOST and self._joins(reader):
                    found[reader] = None
                    todo.append(reader)
        return todo[1:]

    def _joins(self, node: Node) -> bool:
        return node not in self.taken and self.rows.is_step(node)

    def _before(self, end: Node) -> list[Node]:
        """The steps that lead to one, but those whose result is read elsewhere."""
        found = {end: None}
        todo = [end]
        for at in todo:
            for v in at.inputs:
                p = v.producer
                if p is None or p in found or v in self.outputs or not self._joins(p):
                    continue
                if len(found) >= MOST:
                    return []
                if not any(self._follows_product(u) for u in p.inputs):
                    found[p] = None
                    todo.append(p)
        while True:
            left = [n for n in found if n is not end and not self._only_in(n, found)]
            if not left:
                return list(found)
            for n in left:
                del found[n]

    def _only_in(self, node: Node, found: dict[Node, None]) -> bool:
        return all(reader in found for reader in self.readers.get(node.output, ()))

    def _follows_product(self, v: Value) -> bool:
        """Whether a value comes out of a product's kernel, which what reads it can join."""
        todo = [v]
        for u in todo:
            node = u.producer
            if node is None or u in self.outputs or len(self.readers[u]) != 1 or len(todo) > MOST:
                continue
            if OPS[node.op].kind == ANCHOR and node.op != "reduce":
                return True
            if OPS[node.op].kind == ELEMWISE:
                todo.extend(node.inputs)
        return False


def _outside(found: list[Node]) -> list[Value]:
    """What nodes read of others."""
    inner = {n.output for n in found}
    return [v for n in found for v in n.inputs if v not in inner]


def _made(rows: _Rows, found: list[Node]) -> list[Node]:
    """The nodes that take the place of steps, the last of which has the output."""
    end, inner = found[-1], {n.output for n in found}
    reads = {n: [v if v in inner else _operand(rows, v, n) for v in n.inputs] for n in found}
    beside = [x for row in reads.values() for x in row if isinstance(x, tuple)]
    beside.sort(key=lambda x: x[1] != rows.flat)  # the type of the first is that of the result
    operands = {x: k for k, x in enumerate(dict.fromkeys(beside))}
    number: dict[Any, Any] = dict(operands)
    steps: list[Any] = []
    for node in found:
        inputs = tuple(x if isinstance(x, float) else number[x] for x in reads[node])
        if node.op in ("cast", "reshape"):  # the same numbers, in float32 all along
            number[node.output] = inputs[0]
            continue
        number[node.output] = len(operands) + len(steps)
        steps.append(_step(rows, node, inputs))
    nodes: list[Node] = []

    def shaped(v: Value, shape: tuple[int, ...]) -> Value:
        if v.shape != shape:
            nodes.append(node_of("reshape", [v], f"{v.name}.rows", {"shape": shape}))
        return v if v.shape == shape else nodes[-1].output

    arrays = [shaped(v, shape) for v, shape in operands]
    narrow = end.output.shape == rows.shape  # sums may be beyond the range of narrow floats
    alike = narrow and arrays[0].dtype == end.output.dtype
    attrs = {"steps": tuple(steps), "dtype": None if alike else end.output.dtype}
    made = node_of("rows", arrays, end.name, attrs)
    if made.output.shape == end.output.shape:
        return [*nodes, Node("rows", end.name, arrays, end.outputs, attrs)]
    back = {"shape": end.output.shape}
    return [*nodes, made, Node("reshape", f"{end.name}.shape", [made.output], end.outputs, back)]


def _operand(rows: _Rows, v: Value, node: Node) -> Any:
    """What a node reads of others: a number, or a value and the shape in which it is read."""
    if v.data is not None and v.data.size == 1:
        return float(v.data.reshape(()))
    shape = v.shape
    if shape == rows.lead and (node.output.shape == rows.lead or node.op == "reshape"):
        return (v, (*rows.lead, 1))
    if rows.run == 1:
        return (v, shape)
    whole = (*[1] * (len(rows.shape) - len(shape)), *shape)
    return (v, (*whole[: -rows.run], prod(whole[-rows.run :])))


def _step(rows: _Rows, node: Node, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A node as a step of ops.norm.rows_op."""
    attrs = dict(node.attrs)
    if node.op == "reduce":
        attrs |= {"axes": (len(rows.flat) - 1,), "keepdims": True}
    elif node.op == "broadcast_to":
        attrs["shape"] = rows.flat
    elif node.op == "power" and inputs[1] == 2.0:
        return ("multiply", (inputs[0], inputs[0]), ())
    return (node.op, inputs, tuple(sorted(attrs.items())))
