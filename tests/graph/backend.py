"""onnx's own node tests: models of single operators with the outputs that the format expects."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tilewright import graph
from tilewright.graph.onnx.load import CONVERTERS

KNOWN_TYPES = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16}


@cache
def node_cases() -> dict[str, Any]:
    """All of the suite's cases, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, from the suite's own generators
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    return {c.name: c for c in found if c.model is not None}


@cache
def cases() -> dict[str, Any]:
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


def data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Pairs of inputs and expected outputs, as arrays."""
    for inputs, outputs in case.data_sets:
        yield [as_array(x) for x in inputs], [as_array(x) for x in outputs]


def as_array(x: Any) -> Any:
    """A value of a case: an array, a list of them, or None."""
    if isinstance(x, (list, tuple)):
        return [as_array(item) for item in x]
    if x is None or isinstance(x, dict):
        return x
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


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
