"""onnx's own node tests that become kernels as a whole."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from onnx import numpy_helper

from tests.graph.conformance import Conformance, node_cases
from tilewright import graph
from tilewright.graph.onnx.load import CONVERTERS

KNOWN_TYPES = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16}


@cache
def cases() -> dict[str, Conformance]:
    """The suite's cases whose operators and element types are supported, by name."""
    return {name: c for name, c in node_cases().items() if _supported(c.model)}


def _supported(model: onnx.ModelProto) -> bool:
    standard = all(
        n.op_type in CONVERTERS and n.domain in ("", "ai.onnx") for n in model.graph.node
    )
    values = [*model.graph.input, *model.graph.output]
    if any(v.type.WhichOneof("value") != "tensor_type" for v in values):
        return False
    types = {v.type.tensor_type.elem_type for v in values}
    casts = {a.i for n in model.graph.node if n.op_type == "Cast" for a in n.attribute
             if a.name == "to"}  # fmt: skip
    return standard and types | casts <= KNOWN_TYPES


def load_with_known_parameters(
    model: onnx.ModelProto, inputs: list[Any]
) -> tuple[graph.Graph, onnx.ModelProto]:
    """The network, with those inputs stored as weights whose values the importer asks for (axes,
    pads, ...)."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    given = {item.name: value for item, value in zip(model.graph.input, inputs)}
    while True:
        network = graph.load_onnx(model)
        asked = [] if network.rest is None else [n for n in network.rest.asked if n in given]
        if not asked:
            return network, model
        for name in asked:
            item = next(i for i in model.graph.input if i.name == name)
            model.graph.input.remove(item)
            model.graph.initializer.append(numpy_helper.from_array(given[name], name))
