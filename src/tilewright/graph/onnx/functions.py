"""Operators that ONNX defines by others: the nodes of such a definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .rename import body_of_call, graphs_of, with_free_names

_OUTSIDE = "outside of the node: "


@dataclass(frozen=True)
class Body:
    """Nodes that compute what one node computes, with the operator sets that they are written for,
    by domain: not always those of the model.

    Where the node holds graphs, which are in the model's operator sets, so is all: such definitions
    use operators that have not changed.
    """

    nodes: list[Any]
    opsets: dict[str, int]


def standard_body(
    onnx: Any, node: Any, opset: Mapping[str, int], input_types: Sequence[Any | None]
) -> Body | None:
    """The nodes by which the standard defines an operator, or None where it does not.

    `opset` has the operator sets of the model by domain, `input_types` a TypeProto for each input,
    None where it is left out: some definitions differ by type. Nodes of the definition may be such
    operators again.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opset.get(domain, opset.get("ai.onnx", 1) if domain == "" else 1)
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    found = _definition(onnx, schema, node, version, input_types)
    if found is None or not found.node:
        return None
    first = next((name for name in node.output if name), node.name)
    defaults = {
        name: a.default_value
        for name, a in schema.attributes.items()
        if a.default_value.type != onnx.AttributeProto.UNDEFINED
    }
    nodes = body_of_call(
        onnx, found, node, f"{first}/{node.op_type}/", defaults, lambda n: n.removeprefix(_OUTSIDE)
    )
    imports = {o.domain: o.version for o in found.opset_import}
    holds_graphs = next(graphs_of(onnx, node), None) is not None
    return Body(nodes, {**imports, **opset} if holds_graphs else {**opset, **imports})


def has_body(onnx: Any, node: Any, opset: Mapping[str, int]) -> bool:
    """Whether the standard defines an operator by others."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        schema = onnx.defs.get_schema(node.op_type, opset.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.function_opset_versions or schema.context_dependent_function_opset_versions)


def _definition(
    onnx: Any, schema: Any, node: Any, version: int, input_types: Sequence[Any | None]
) -> Any | None:
    """The FunctionProto of an operator: the newest one that the model's operator set knows, or,
    where it was written down later than that, the oldest one."""
    for versions, by_types in (
        (schema.function_opset_versions, False),
        (schema.context_dependent_function_opset_versions, True),
    ):
        if not versions:
            continue
        chosen = max((v for v in versions if v <= version), default=min(versions))
        if by_types:
            # graphs of the node are copied into the definition, which has names of its own
            apart = with_free_names(onnx, node, lambda n: _OUTSIDE + n)
            types = [b"" if t is None else t.SerializeToString() for t in input_types]
            data = schema.get_context_dependent_function_with_opset_version(
                chosen, apart.SerializeToString(), types
            )
        else:
            data = schema.get_function_with_opset_version(chosen)
        return onnx.FunctionProto.FromString(data)
    return None
