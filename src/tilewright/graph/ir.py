"""Networks: values, nodes, graphs.

A `Graph` is a list of nodes in an order in which they can run. A value is a graph input, a
constant (weights: `data` is set) or the output of one node. Extents are numbers, or a `Size` where
they are known only when the network runs (sizes.py); a constant that holds such sizes has them as
objects. Passes change graphs in place and return them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.dtype import canonical, parse
from ..base.pictured import Shown
from .shapes import symbols_in
from .sizes import Size, Symbols


class Value:
    """An array that flows through a network. `recipe`: the node that a constant was computed by,
    from other constants. `default`: what an input of the network is that a call leaves out, if it
    may."""

    __slots__ = ("data", "default", "dtype", "name", "producer", "recipe", "shape")

    def __init__(
        self,
        name: str,
        shape: Iterable[Any],
        dtype: str,
        data: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self.name = name
        self.shape: tuple[Any, ...] = tuple(d if isinstance(d, Size) else int(d) for d in shape)
        self.dtype = dtype
        self.data = data
        self.default: np.ndarray[Any, Any] | None = None
        self.producer: Node | None = None
        self.recipe: Node | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the value is known before the network runs."""
        return self.data is not None

    @property
    def has_sizes(self) -> bool:
        """Whether this is a constant with sizes that are known only when the network runs."""
        return self.data is not None and self.data.dtype == object

    @property
    def nbytes(self) -> Any:
        """Its bytes: a number, or a `Size`."""
        size: Any = parse(self.dtype).nbytes
        for d in self.shape:
            size *= d
        return size

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.name}: {self.dtype}[{shape}]"


def constant(name: str, data: np.ndarray[Any, Any]) -> Value:
    """A value that is known; its data may have any strides."""
    data = np.asarray(data)
    return Value(name, data.shape, canonical(data.dtype), data)


def constant_sizes(name: str, data: np.ndarray[Any, Any], dtype: str = "int64") -> Value:
    """A value of whole numbers, some of which may be a `Size`."""
    data = np.asarray(data, object)
    if any(isinstance(d, Size) for d in data.flat):
        return Value(name, data.shape, dtype, data)
    return constant(name, data.astype(parse(dtype).numpy))


class Node:
    """One operation (`op`: a name of ops.OPS) with its inputs, outputs and attributes."""

    __slots__ = ("attrs", "inputs", "name", "op", "outputs")

    def __init__(
        self,
        op: str,
        name: str,
        inputs: Iterable[Value],
        outputs: Iterable[Value],
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.op = op
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.attrs = dict(attrs or {})
        for v in self.outputs:
            v.producer = self

    @property
    def output(self) -> Value:
        """The first result, of most nodes the only one."""
        return self.outputs[0]

    def __repr__(self) -> str:
        ins = ", ".join(v.name for v in self.inputs)
        outs = ", ".join(map(repr, self.outputs))
        return f"{outs} = {self.op}({ins})"


@dataclass(frozen=True)
class Rest:
    """What is left of a network when its graph has run, and the signature of the whole.

    `inputs`: tensors, whether the graph reads them or not; `objects`: names of inputs that are none
    (text, sequences); `outputs`: names of all outputs; `asked`: inputs whose values decide what is
    compiled, so that with them stored as weights more would be known. `finish` computes the outputs
    from all inputs, running graphs, the first one among them, by its second argument, which is one
    object for all calls (onnx/course.py, Execute).
    """

    inputs: Sequence[Value]
    objects: Sequence[str]
    outputs: Sequence[str]
    asked: frozenset[str]
    finish: Callable[[Mapping[str, Any], Any], list[Any]]


class Graph(Shown):
    """A network, or where it has a `rest`, what of it is known before it runs."""

    __slots__ = ("__weakref__", "inputs", "name", "nodes", "outputs", "rest")

    def __init__(
        self,
        name: str,
        inputs: Iterable[Value],
        outputs: Iterable[Value],
        nodes: Iterable[Node],
    ) -> None:
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.nodes = list(nodes)
        self.rest: Rest | None = None

    @property
    def signature(self) -> tuple[list[Value], list[str]]:
        """The tensors and the names of outputs of the whole network, its `rest` included."""
        if self.rest is not None:
            return list(self.rest.inputs), list(self.rest.outputs)
        return self.inputs, [v.name for v in self.outputs]

    @property
    def symbols(self) -> Symbols | None:
        """What extents are made of, where some are not known."""
        inputs = symbols_in([v.shape for v in self.inputs])
        if inputs is not None:
            return inputs
        return symbols_in([[v.shape for v in n.outputs] + [*n.attrs.values()] for n in self.nodes])

    def consumers(self) -> dict[Value, list[Node]]:
        """Which nodes read each value."""
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for v in dict.fromkeys(node.inputs):
                readers.setdefault(v, []).append(node)
        return readers

    def replace_nodes(self, instead: Callable[[Node], Value | None]) -> None:
        """Visit the nodes in order, and remove each for which `instead` gives a value: what reads
        its output reads that value. An output keeps its name."""
        new: dict[Value, Value] = {}
        kept: list[Node] = []
        for node in self.nodes:
            node.inputs = [new.get(v, v) for v in node.inputs]
            value = instead(node)
            if value is None:
                kept.append(node)
            else:
                new[node.output] = value
        self.nodes = kept
        fixed = {*self.inputs, *self.outputs}
        for v in self.outputs:
            if v in new and new[v] not in fixed:
                new[v].name = v.name
                fixed.add(new[v])
        self.outputs = [new.get(v, v) for v in self.outputs]

    def rewrite(self, instead: Callable[[Node], Sequence[Node] | None]) -> Graph:
        """Put what `instead` gives in the place of each node, None where it stays, and remove what
        nobody reads then."""
        self.nodes = [new for node in self.nodes for new in instead(node) or [node]]
        self.drop_dead_nodes()
        return self

    def drop_dead_nodes(self) -> None:
        """Remove nodes whose outputs nobody reads."""
        needed = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if any(v in needed for v in node.outputs):
                needed.update(node.inputs)
                kept.append(node)
        self.nodes = list(reversed(kept))

    def constants(self) -> list[Value]:
        """The constants that nodes or outputs read, in the order of first use."""
        found: dict[Value, None] = {}
        for node in self.nodes:
            found.update((v, None) for v in node.inputs if v.is_constant)
        found.update((v, None) for v in self.outputs if v.is_constant)
        return list(found)

    def __str__(self) -> str:
        lines = [f"graph {self.name}({', '.join(map(repr, self.inputs))})"]
        lines += [f"  {node!r}" for node in self.nodes]
        lines.append(f"  return {', '.join(v.name for v in self.outputs)}")
        return "\n".join(lines)
