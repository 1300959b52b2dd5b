"""The nodes that stand for one: of the model's own functions, and of the standard's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import ImportModelError
from .functions import standard_body
from .model import Pending, opsets_of, pending_nodes
from .rename import body_of_call

_NODE = 4096
"""Bytes that a node takes here beside what it takes in the file."""


def body_of(p: Pending, types: Sequence[Any]) -> list[Pending] | None:
    """The nodes by which the model, or else the standard, defines a node; None where neither does.

    `types` has a TypeProto for each input (None: left out). What bodies expand to is limited by the
    model's budget, which ends functions that call themselves.
    """
    model, node = p.model, p.node
    function = model.function(node)
    if function is not None:
        defaults = {a.name: a for a in function.attribute_proto}
        model.calls += 1
        prefix = f"{function.name}.{model.calls}/"
        nodes = body_of_call(model.onnx, function, node, prefix, defaults)
        opsets = {**p.opsets, **opsets_of(function.opset_import)}
    else:
        body = standard_body(model.onnx, node, p.opsets, types)
        if body is None:
            return None
        nodes, opsets = body.nodes, body.opsets
    size = sum(_NODE + n.ByteSize() for n in nodes)
    model.budget.spend(size, f"a call of function {node.op_type}", ImportModelError)
    return pending_nodes(model, nodes, opsets)
