"""A PyTorch graph in parts: what is covered becomes networks, the rest stays PyTorch's.

Each call has a level: a part that is compiled reads what PyTorch computed on lower levels, and
PyTorch reads what parts of its own level or lower ones computed. So one part of each level is
enough, and they run level by level.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import ImportModelError, TilewrightError
from ..ir import Graph, Value
from ..limits import Budget
from ..sizes import Size
from .convert import order_in_memory
from .extents import fixed
from .importer import Importer, Meta, graph_of, is_ordered_check, type_name


@dataclass(frozen=True)
class Result:
    """A tensor that a part gives, seen with dimensions in `order`."""

    node: Any
    dtype: Any
    order: tuple[int, ...] | None


@dataclass(frozen=True)
class Part:
    """A network, the nodes whose tensors it reads, and what it gives."""

    graph: Graph
    reads: tuple[Any, ...]
    results: tuple[Result, ...]


@dataclass
class Plan:
    """Parts and calls of PyTorch in the order in which they run; tensors and numbers that are known
    already; and why calls are left to PyTorch."""

    steps: list[Any] = field(default_factory=list)
    constants: dict[Any, Any] = field(default_factory=dict)
    numbers: dict[Any, Any] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)


class _Known(dict[Any, Any]):
    """What a level knows of nodes; those of others become inputs of its part when first read."""

    def __init__(self, partition: Partition, level: int) -> None:
        super().__init__()
        self.partition = partition
        self.level = level
        self.inputs: dict[Any, Value] = {}

    def __missing__(self, node: Any) -> Any:
        value = self.partition.seen_from(node, self.level)
        if isinstance(value, Value) and not value.is_constant:
            self.inputs[node] = value
        self[node] = value
        return value


class Partition:
    """Divides one graph. `metas`: of each node; `weights`: values of placeholders that are known;
    `numbers`: of those that are numbers; `extent` makes a number or a Size of an extent."""

    def __init__(
        self,
        graph: Any,
        metas: Mapping[Any, Any],
        weights: Mapping[Any, Value],
        numbers: Mapping[Any, Any],
        extent: Callable[[Any], Any] = fixed,
    ) -> None:
        self.nodes = list(graph.nodes)
        self.metas = metas
        self.extent = extent
        self.weights = weights
        self.plan = Plan(numbers=dict(numbers))
        self.budget = Budget(sum(v.nbytes for v in weights.values()))
        self.levels: dict[int, Importer] = {}
        self.compiled: dict[Any, int] = {}
        self.eager: dict[Any, int] = {}
        self.viewed: dict[Any, int] = {}
        self.bases: set[Any] = set()

    def importer(self, level: int) -> Importer:
        if level not in self.levels:
            self.levels[level] = importer = Importer(self.budget, self.metas, self.extent)
            importer.known = _Known(self, level)
        return self.levels[level]

    def seen_from(self, node: Any, level: int) -> Any:
        """A node's value for a part on another level: known ones as they are."""
        if node in self.plan.numbers:
            return self.plan.numbers[node]
        if node in self.weights:
            return self.weights[node]
        other = self.compiled.get(node)
        if other is not None and other != level:
            value = self.levels[other].known[node]
            if not isinstance(value, Value) or value.is_constant:
                return value
        meta = self.metas[node]
        dtype = type_name(getattr(meta, "dtype", None))
        if dtype is None:
            raise ImportModelError(f"{node.name} is {getattr(meta, 'dtype', type(meta).__name__)}")
        return Value(node.name, tuple(map(self.extent, meta.shape)), dtype)

    def run(self) -> Plan:
        for node in self.nodes:
            if node.op == "call_function":
                self._place(node)
            elif node.op not in ("placeholder", "output") and node not in self.weights:
                self.eager[node] = 0
        self._view_outputs()
        self._order()
        return self.plan

    def _view_outputs(self) -> None:
        """Have PyTorch make the outputs that are views, of what they are views of: it takes from
        their strides and offsets which parts of an input, or of another output, they are."""
        for node in self.nodes[-1].all_input_nodes:
            chain = [node]
            while is_view(chain[-1]):
                chain.append(chain[-1].args[0])
            base = chain.pop()
            level = self._level_of(base)
            if chain and level is not None:
                self.bases.add(base)
                self.viewed.update(dict.fromkeys(chain, level))

    def _level_of(self, node: Any) -> int | None:
        """The level on which a tensor is there; None of those that are known ahead."""
        if node.op == "placeholder":
            return 0
        level = self.compiled.get(node)
        if level is None:
            return None if node in self.weights else self.eager.get(node)
        value = self.levels[level].known[node]
        return level if isinstance(value, Value) and not value.is_constant else None

    def _place(self, node: Any) -> None:
        reads = node.all_input_nodes
        after = max((self.compiled[n] for n in reads if n in self.compiled), default=0)
        held = max((self.eager[n] for n in reads if n in self.eager), default=-1)
        if node.target is operator.getitem and node.args[0] in self.eager:
            self.eager[node] = max(held, 0)
            return
        level = after if node.target is operator.getitem else max(after, held + 1)
        importer = self.importer(level)
        try:
            importer.convert(node)
        except TilewrightError as error:
            if str(node.target).startswith("aten.as_strided"):
                raise  # of what PyTorch itself laid out only
            if not is_ordered_check(node):
                self.plan.left.setdefault(str(node.target), []).append(str(error))
            self.eager[node] = max(after, held, 0)
            return
        found = importer.known[node]
        if found is None or isinstance(found, (int, float, bool, Size)):
            self.plan.numbers[node] = found
        else:
            self.compiled[node] = level

    def _order(self) -> None:
        """Steps, level by level, after it is known what each part has to give."""
        wanted: dict[int, dict[Any, None]] = {level: {} for level in self.levels}
        last = self.nodes[-1]
        returned = {*last.all_input_nodes, *self.bases}
        for node, level in self.compiled.items():
            if node in self.viewed:
                continue
            value = self.levels[level].known[node]
            if isinstance(value, list):
                self._check_list(node)
            elif any(u in self.viewed or self.compiled.get(u, -1) != level for u in node.users):
                if value.is_constant and not value.has_sizes:
                    self.plan.constants[node] = value
                else:
                    wanted[level][node] = None
        eager: dict[int, list[Any]] = {}
        there = {**self.eager, **self.viewed}
        for node in self.nodes:
            if node in there:
                eager.setdefault(there[node], []).append(node)
        for level in sorted({*wanted, *eager}):
            part = self._part(level, list(wanted.get(level, ())), returned)
            if part is not None:
                self.plan.steps.append(part)
            self.plan.steps.extend(eager.get(level, []))

    def _check_list(self, node: Any) -> None:
        """PyTorch reads results of a call one by one."""
        for user in node.users:
            if user.target is not operator.getitem:
                raise ImportModelError(f"{user.target} reads {node.name}, a list")

    def _part(self, level: int, nodes: Sequence[Any], returned: set[Any]) -> Part | None:
        if not nodes:
            return None
        importer = self.levels[level]
        known = importer.known
        assert isinstance(known, _Known)
        results, outputs = [], []
        for node in nodes:
            value = known[node]
            meta = Meta(self.metas[node], self.extent)
            order = order_in_memory(meta) if node in returned else None
            order = None if order == tuple(range(len(meta.shape))) else order
            if order is not None:
                value = importer.builder.add("transpose", [value], node.name, axes=order)
            back = None if order is None else tuple(order.index(k) for k in range(len(order)))
            results.append(Result(node, meta.dtype, back))
            outputs.append(value)
        graph = graph_of(f"torch_{level}", list(known.inputs.values()), outputs, importer.builder)
        read = {v for n in graph.nodes for v in n.inputs}
        kept = {node: v for node, v in known.inputs.items() if v in read}
        graph.inputs = list(kept.values())
        for k, v in enumerate(graph.inputs):
            v.name = f"input_{k}"
        return Part(graph, tuple(kept), tuple(results))


def is_view(node: Any) -> bool:
    """Whether a call gives a view of its first argument, or is one of several views."""
    if node.op == "call_function" and node.target is operator.getitem:
        node = node.args[0]
    return node.op == "call_function" and bool(getattr(node.target, "is_view", False))
