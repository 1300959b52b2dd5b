"""Functions that a model defines itself: calls are replaced by their nodes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from ...base.errors import ImportModelError
from ..limits import Budget

_NODE = 4096
"""Bytes that a node takes here beside what it takes in the file."""


def inlined_nodes(onnx: Any, proto: Any, budget: Budget) -> list[Any]:
    """The nodes of a model's graph without calls of its own functions.

    Functions may call each other; how much they expand to is limited by `budget`, which ends those
    that call themselves too.
    """
    if not proto.functions:
        return list(proto.graph.node)
    functions = {(f.domain, f.name): f for f in proto.functions}
    opsets = {o.domain: o.version for o in proto.opset_import}
    for f in proto.functions:
        _same_operators(onnx, f, opsets)
    numbers = count()
    nodes: list[Any] = []
    pending = list(reversed(proto.graph.node))
    while pending:
        node = pending.pop()
        function = functions.get((node.domain, node.op_type))
        if function is None:
            nodes.append(node)
            continue
        body = list(_body(onnx, function, node, f"{function.name}.{next(numbers)}/"))
        size = sum(_NODE + n.ByteSize() for n in body)
        budget.spend(size, f"a call of function {function.name}", ImportModelError)
        pending += reversed(body)
    return nodes


def _same_operators(onnx: Any, function: Any, opsets: dict[str, int]) -> None:
    """ImportModelError where an operator means something else in the function than in the model,
    since the function imports another operator set."""
    for item in function.opset_import:
        mine = opsets.get(item.domain, item.version)
        for kind in {n.op_type for n in function.node if n.domain == item.domain}:
            try:
                found = {
                    onnx.defs.get_schema(kind, version, item.domain).since_version
                    for version in (mine, item.version)
                }
            except onnx.defs.SchemaError:
                continue  # a function, or unknown: found later
            if len(found) != 1:
                raise ImportModelError(
                    f"function {function.name!r} has {kind} of operator set {item.version}, the "
                    f"model has operator set {mine}, in which it is another"
                )


def _body(onnx: Any, function: Any, call: Any, prefix: str) -> Iterator[Any]:
    """The nodes of a function for one call."""
    if len(call.input) > len(function.input) or len(call.output) > len(function.output):
        raise ImportModelError(
            f"node {call.name!r} has {len(call.input)} inputs and {len(call.output)} outputs, its "
            f"function {function.name!r} {len(function.input)} and {len(function.output)}"
        )
    names = {"": ""}
    names.update(zip(function.input, [*call.input, *[""] * len(function.input)]))
    read = set(function.input)
    for inner, outer in zip(function.output, call.output):
        if inner in read:  # handed through
            yield onnx.helper.make_node("Identity", [names[inner]], [outer], name=prefix + inner)
        elif outer:
            names[inner] = outer
    given = {a.name: a for a in function.attribute_proto} | {a.name: a for a in call.attribute}
    for k, node in enumerate(function.node):
        copy = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
        copy.name = prefix + (node.name or str(k))
        copy.input.extend(names.get(n, prefix + n) for n in node.input)
        copy.output.extend(names.get(n, prefix + n) for n in node.output)
        for a in node.attribute:
            if not a.ref_attr_name:
                copy.attribute.append(a)
            elif a.ref_attr_name in given:
                copy.attribute.append(given[a.ref_attr_name])
                copy.attribute[-1].name = a.name
        yield copy
