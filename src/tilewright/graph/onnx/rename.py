"""The nodes of a function for one call of it: values renamed, attributes filled in."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from ...base.errors import ImportModelError

Names = MutableMapping[str, str]


def graphs_of(onnx: Any, node: Any) -> Iterator[Any]:
    """The graphs that a node holds: branches, bodies of loops."""
    for a in node.attribute:
        if a.type == onnx.AttributeProto.GRAPH:
            yield a.g
        elif a.type == onnx.AttributeProto.GRAPHS:
            yield from a.graphs


def body_of_call(
    onnx: Any,
    function: Any,
    call: Any,
    prefix: str,
    defaults: Mapping[str, Any],
    free: Callable[[str], str] | None = None,
) -> list[Any]:
    """The nodes of a function for one call.

    What the function names itself gets `prefix`, in the graphs of its nodes too. Attributes that
    the call does not have are taken from `defaults`, and are left out where neither has them.
    `free` gives the name of a value that nothing in the function computes: without it, a name that
    nothing else has, since a function of a model sees nothing of its caller.
    """
    if len(call.input) > len(function.input) or len(call.output) > len(function.output):
        raise ImportModelError(
            f"node {call.name!r} has {len(call.input)} inputs and {len(call.output)} outputs, its "
            f"function {function.name!r} {len(function.input)} and {len(function.output)}"
        )
    names: Names = {"": ""}
    names.update((o, prefix + o) for n in function.node for o in n.output if o)
    names.update(zip(function.input, [*call.input, *[""] * len(function.input)]))
    taken = set(function.input)
    again = []  # results that have a name already
    for inner, outer in zip(function.output, call.output):
        if inner in taken:
            again.append((inner, outer))
        elif outer:
            names[inner] = outer
            taken.add(inner)
    given = {**defaults, **{a.name: a for a in call.attribute}}
    renamer = _Renamer(onnx, prefix, free or (lambda name: prefix + name), given)
    nodes = [_copy(node) for node in function.node]
    renamer.rename(nodes, names)
    for inner, outer in again:
        if outer:
            same = onnx.helper.make_node("Identity", [names[inner]], [outer], name=prefix + inner)
            nodes.append(same)
    return nodes


def with_free_names(onnx: Any, node: Any, free: Callable[[str], str]) -> Any:
    """A copy of a node in whose graphs values that stand outside of them have other names."""
    copy = _copy(node)
    renamer = _Renamer(onnx, "", free, {})
    for graph in graphs_of(onnx, copy):
        renamer.rename_graph(graph, {"": ""})
    return copy


def with_own_names(onnx: Any, graph: Any, prefix: str) -> Any:
    """A copy of a graph in which what it computes and stores itself has `prefix`."""
    copy = _copy(graph)
    _Renamer(onnx, prefix, lambda name: name, {}).rename_graph(copy, {"": ""})
    return copy


def _copy(node: Any) -> Any:
    copy = type(node)()
    copy.CopyFrom(node)
    return copy


class _Renamer:
    """Renames values in nodes and in the graphs that they hold, in place."""

    def __init__(
        self, onnx: Any, prefix: str, free: Callable[[str], str], attrs: Mapping[str, Any]
    ) -> None:
        self.onnx = onnx
        self.prefix = prefix
        self.free = free
        self.attrs = attrs
        self.pending: list[tuple[Sequence[Any], Names]] = []

    def rename(self, nodes: Sequence[Any], names: Names) -> None:
        """`names` has the values that the nodes see and compute."""
        self.pending.append((nodes, names))
        while self.pending:  # no recursion: graphs may be nested
            inside, seen = self.pending.pop()
            for node in inside:
                self._node(node, seen)

    def rename_graph(self, graph: Any, names: Names) -> None:
        self._graph(graph, names)
        self.rename((), names)

    def _node(self, node: Any, names: Names) -> None:
        if node.name:
            node.name = self.prefix + node.name
        node.input[:] = [self._read(n, names) for n in node.input]
        node.output[:] = [names[n] for n in node.output]
        for graph in graphs_of(self.onnx, node):
            self._graph(graph, names)
        if not any(a.ref_attr_name for a in node.attribute):
            return
        attributes = [_copy(a) for a in node.attribute]
        del node.attribute[:]
        for a in attributes:
            if not a.ref_attr_name:
                node.attribute.append(a)
            elif a.ref_attr_name in self.attrs:  # as the caller has it: its graphs stay as they are
                node.attribute.append(self.attrs[a.ref_attr_name])
                node.attribute[-1].name = a.name

    def _graph(self, graph: Any, outer: Names) -> None:
        """Rename what a graph declares; its nodes are left for later."""
        sparse = [s.values for s in graph.sparse_initializer]
        declared = [x.name for x in (*graph.input, *graph.initializer, *sparse)]
        declared += [name for n in graph.node for name in n.output]
        own = {name: self.prefix + name for name in declared if name}
        names: Names = ChainMap(own, *(outer.maps if isinstance(outer, ChainMap) else [outer]))
        for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer, *sparse):
            item.name = self._read(item.name, names)
        for note in graph.quantization_annotation:
            note.tensor_name = self._read(note.tensor_name, names)
        self.pending.append((graph.node, names))

    def _read(self, name: str, names: Names) -> str:
        found = names.get(name)
        return self.free(name) if found is None else found
