"""What is wrong with a model, all of it in one error: found before any work is done on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .check import UNCHECKED
from .control import CONTROL
from .converters import CONVERTERS
from .faults import Faults
from .file import subgraphs
from .functions import has_body
from .host import HOST
from .model import Model, Opsets, Pending, kind_of, opsets_of, standard, text


def check_nodes(model: Model, nodes: Sequence[Pending], faults: Faults) -> None:
    """Nodes, those of functions, branches and loops too: operators that nothing computes, and what
    the specification of an operator does not allow: counts of inputs and outputs, attributes."""
    missing: dict[str, list[str]] = {}
    for k, (node, opsets) in enumerate(_all_nodes(model, nodes)):
        kind = kind_of(node)
        if _is_computed(model, node, kind, opsets):
            for fault in _faults_of(model, node, opsets):
                faults.add(f"{kind} node {node.name or f'#{k}'!r}: {fault}")
        else:
            missing.setdefault(kind, []).append(node.name or f"#{k}")
    if missing:
        lines = [
            f"  {kind}: {', '.join(names)}" for kind, names in sorted(missing.items(), key=str)
        ]
        faults.add(
            "the model has operators that are not supported (operator: nodes):\n" + "\n".join(lines)
        )


def _is_computed(model: Model, node: Any, kind: str, opsets: Opsets) -> bool:
    if kind in CONVERTERS or kind in HOST or kind in CONTROL or model.function(node):
        return True
    return bool(has_body(model.onnx, node, opsets))


def _all_nodes(model: Model, nodes: Sequence[Pending]) -> Iterator[tuple[Any, Opsets]]:
    """Nodes, those of their subgraphs, and of the functions that they call; each with the versions
    that it is of."""
    called = set()
    stack = [(p.node, p.opsets) for p in reversed(nodes)]
    while stack:
        node, opsets = stack.pop()
        for name in (node.name, *node.input, *node.output):
            text(name)
        yield node, opsets
        for graph in subgraphs(model.onnx, node).values():
            stack.extend((n, opsets) for n in reversed(graph.node))
        function = model.function(node)
        if function is not None and id(function) not in called:
            called.add(id(function))
            for name in (*function.input, *function.output):
                text(name)
            inner = {**opsets, **opsets_of(function.opset_import)}
            stack.extend((n, inner) for n in reversed(function.node))


def check_functions(model: Model, faults: Faults) -> None:
    """No function of the model may call itself, through others or not."""
    done: set[int] = set()
    for function in model.functions.values():
        way: list[Any] = []  # the functions that are being read, each called by the one before
        stack = [(function, False)]
        while stack:
            f, left = stack.pop()
            if left:
                done.add(id(way.pop()))
            elif any(f is g for g in way):
                faults.add(f"function {f.domain}.{f.name} calls itself")
            elif id(f) not in done:
                way.append(f)
                stack.append((f, True))
                stack += [(g, False) for n in _nodes_in(model, f.node) if (g := model.function(n))]


def _nodes_in(model: Model, nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes and those of their subgraphs."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        for graph in subgraphs(model.onnx, node).values():
            stack += graph.node


_FIELDS = (
    "", "f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs", "sparse_tensor",
    "sparse_tensors", "tp", "type_protos",
)  # fmt: skip
"""The fields of an AttributeProto, by the number of the type that has its value there."""


def _faults_of(model: Model, node: Any, opsets: Opsets) -> Iterator[str]:
    names = [text(a.name) for a in node.attribute]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        yield f"attribute {twice[0]!r} is given twice"
    kinds = {number: name for name, number in model.onnx.AttributeProto.AttributeType.items()}
    for a in node.attribute:
        used = {f.name for f, _ in a.ListFields()} & {*_FIELDS}
        if a.type not in kinds or not used <= {_FIELDS[a.type]}:
            yield f"attribute {a.name!r} says it is {kinds.get(a.type, a.type)}, and is not"
    domain = "" if standard(node.domain) else node.domain
    version = opsets.get(domain, 1)
    defs = model.onnx.defs
    local = domain == "" and node.op_type in UNCHECKED
    if local or model.function(node) or not defs.has(node.op_type, domain):
        return
    try:
        schema = defs.get_schema(node.op_type, version, domain)
    except defs.SchemaError:
        return
    yield from _arity("input", node.input, schema.min_input, schema.max_input)
    yield from _arity("output", node.output, schema.min_output, schema.max_output)
    for name, known in schema.attributes.items():
        if known.required and name not in names:
            yield f"attribute {name!r} is missing"
    for a in node.attribute:
        name = text(a.name)
        if name not in schema.attributes:
            if not name.startswith("__"):  # those of a runtime's own
                yield f"the operator has no attribute {name!r}"
        elif a.type in kinds and a.type != schema.attributes[name].type.value:
            wanted = schema.attributes[name].type.name
            yield f"attribute {name!r} is {kinds[a.type]}, expected {wanted}"


def _arity(what: str, names: Sequence[str], least: int, most: int) -> Iterator[str]:
    if not least <= len(names) <= most:
        expected = least if least == most else f"{least} to {most}"
        yield f"{len(names)} {what}s are given, {expected} expected"


def check_names(
    nodes: Sequence[Pending], given: Iterable[str], outputs: Iterable[Any], faults: Faults
) -> None:
    """Every name that is read must be computed before, and by one node."""
    there = set(given)
    writers: dict[str, Pending] = {}
    for p in nodes:
        for name in filter(None, p.node.output):
            if name in writers:
                faults.add(f"{_who(p)} writes {name!r}, as {_who(writers[name])} does")
            elif name in there:
                faults.add(f"{_who(p)} writes {name!r}, which is an input or a weight")
            writers.setdefault(name, p)
    for p in nodes:
        for name in p.reads:
            if name not in there and name in writers:
                faults.add(f"{_who(p)} reads {name!r} before {_who(writers[name])} computes it")
            elif name not in there:
                faults.add(f"{_who(p)} reads {name!r}, which nothing computes")
        there.update(filter(None, p.node.output))
    for item in outputs:
        if item.name not in there:
            faults.add(f"output {item.name!r} is computed by no node")


def _who(p: Pending) -> str:
    return f"{p.kind} node {p.node.name!r}"
