"""An ONNX model as it is read: its graph, its functions, its operator sets, where its files lie."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ...base.aligned import Array
from ...base.errors import ImportModelError
from ..ir import Value, constant
from ..limits import Budget
from .file import attributes, carried, dense, subgraphs, weight

Opsets = Mapping[str, int]
"""Which version of each domain's operators a node is of."""


def standard(domain: str) -> bool:
    return domain in ("", "ai.onnx")


def kind_of(node: Any) -> str:
    """The name under which an operator is known here: of other domains with them in front."""
    op_type, domain = text(node.op_type), text(node.domain)
    return op_type if standard(domain) else f"{domain}.{op_type}"


def text(name: Any) -> str:
    """A name of the file; protobuf gives bytes where it is no UTF-8, which is an error here."""
    return name.decode() if isinstance(name, bytes) else name


@dataclass
class Model:
    """What all parts of one model share."""

    onnx: Any
    proto: Any
    folder: Path | None
    budget: Budget
    weights: Sequence[Array | None] = ()
    """The bytes of the graph's initializers, of each where the message does not have them."""
    functions: dict[tuple[str, str, str], Any] = field(init=False)
    calls: int = 0
    """Of functions that were written out: each call's values get names of their own."""

    def __post_init__(self) -> None:
        self.functions = {(f.domain, f.name, f.overload): f for f in self.proto.functions}

    @property
    def opsets(self) -> dict[str, int]:
        return opsets_of(self.proto.opset_import)

    def initializers(
        self, graph: Any, noted: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> tuple[dict[str, Value], dict[str, Any]]:
        """The weights of a graph, or of a subgraph: those that compiled code can read, and others
        (text). Each is read within `noted()`, which may keep errors for later."""
        apart = self.weights if graph is self.proto.graph else ()
        data: dict[str, Any] = {}
        for t, there in zip_longest(graph.initializer, apart):
            with noted():
                data[t.name] = weight(self.onnx, t, there, self.folder)
        for t in graph.sparse_initializer:
            with noted():
                data[t.values.name] = dense(self.onnx, t, self.folder)
        known = {name: constant(name, x) for name, x in data.items() if carried(x.dtype)}
        return known, {name: x for name, x in data.items() if name not in known}

    def function(self, node: Any) -> Any:
        """The model's own function that a node calls, or None."""
        return self.functions.get((node.domain, node.op_type, node.overload))


def weights_of(graph: Any) -> list[Any]:
    """The tensors that a graph brings, dense and sparse ones."""
    return [*graph.initializer, *(t.values for t in graph.sparse_initializer)]


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in imports:
        if not standard(item.domain) <= item.version < 1 << 31:
            raise ImportModelError(f"the model names operator set {item.version}")
        found["" if standard(item.domain) else item.domain] = item.version
    return found


class Pending:
    """A node that is still to be computed.

    `on_host`: Python computes it. `asked`: of its inputs, those whose values decide what is
    compiled for it.
    """

    def __init__(
        self,
        model: Model,
        node: Any,
        opsets: Opsets,
        on_host: bool = False,
        asked: frozenset[str] = frozenset(),
    ) -> None:
        self.model = model
        self.node = node
        self.opsets = opsets
        self.on_host = on_host
        self.asked = asked
        self.kind = kind_of(node)
        self.name = node.name or (node.output[0] if node.output else node.op_type)
        self.graphs = subgraphs(model.onnx, node)
        self.inputs = tuple(node.input)
        self.outputs = tuple(node.output)
        self.reads = tuple(dict.fromkeys(_reads(model.onnx, node)))
        self.parts: dict[Any, Any] = {}
        """The programs of its subgraphs, once they are made."""
        self.memory: dict[str, Any] = {}
        """What its host operator made of the attributes."""

    def left_to_host(self, asked: Iterable[str] = ()) -> Pending:
        """The same node, which Python computes."""
        other = copy.copy(self)
        other.on_host, other.asked = True, frozenset(asked)
        return other

    @property
    def opset(self) -> int:
        """The version of its own domain's operators."""
        domain = "" if standard(self.node.domain) else self.node.domain
        return self.opsets.get(domain, 1)

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        return attributes(self.model.onnx, self.node, self.model.folder)


def pending_nodes(model: Model, nodes: Sequence[Any], opsets: Opsets) -> list[Pending]:
    return [Pending(model, node, opsets) for node in nodes]


def _reads(onnx: Any, node: Any) -> Iterator[str]:
    """The names that a node reads: its inputs, and what its subgraphs take from around them."""
    yield from filter(None, node.input)
    for graph in subgraphs(onnx, node).values():
        yield from captured(onnx, graph)


def captured(onnx: Any, graph: Any) -> list[str]:
    """The names of values that a subgraph reads and does not have itself."""
    mine = {v.name for v in graph.input} | {t.name for t in weights_of(graph)}
    found: dict[str, None] = {}
    for node in graph.node:
        found.update((name, None) for name in _reads(onnx, node) if name not in mine)
        mine.update(node.output)
    found.update((v.name, None) for v in graph.output if v.name not in mine)
    return list(found)
