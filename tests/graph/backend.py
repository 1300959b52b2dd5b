"""onnx's own node tests: models of single operators with the outputs that the format expects."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tilewright.graph.onnx.load import CONVERTERS

KNOWN_TYPES = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16}


@cache
def cases() -> dict[str, Any]:
    """The suite's cases whose operators and element types are supported, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, from the suite's own generators
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    return {c.name: c for c in found if c.model is not None and _supported(c.model)}


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
        yield [_array(x) for x in inputs], [_array(x) for x in outputs]


def _array(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


def with_known_parameters(model: onnx.ModelProto, inputs: list[Any]) -> onnx.ModelProto:
    """The model with inputs that fix shapes (axes, pads, ...) stored as weights.

    Networks are compiled for fixed shapes, so such inputs must be known to the importer.
    """
    model = onnx.ModelProto.FromString(model.SerializeToString())
    read = {
        name
        for node in model.graph.node
        for k, name in enumerate(node.input)
        if k >= FIXED.get(node.op_type, 99)
    }
    for item, value in zip(list(model.graph.input), inputs):
        if item.name in read:
            model.graph.input.remove(item)
            model.graph.initializer.append(numpy_helper.from_array(value, item.name))
    return model


FIXED = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Pad", "Slice", "Clip", "Expand"), 1),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), 1),
    **dict.fromkeys(("ConstantOfShape", "Dropout"), 0),
}
