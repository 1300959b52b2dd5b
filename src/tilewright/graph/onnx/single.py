"""A model of one node: what benchmarks compare runtimes on, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def single_node(
    op: str,
    inputs: Sequence[str],
    feeds: Mapping[str, Array],
    known: Mapping[str, Array],
    attributes: Mapping[str, Any],
    outputs: int = 1,
    domain: str = "",
    opset: int = 21,
) -> bytes:
    """The file of a model that applies `op` to `inputs` ("" is one left out), arrays that are given
    at each call (`feeds`) or belong to the model (`known`), and gives y0, y1, ..."""
    import onnx
    from onnx import helper, numpy_helper

    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, inputs, results, name="node", domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in feeds.items()
    ]
    outs = [onnx.ValueInfoProto(name=name) for name in results]
    constants = [numpy_helper.from_array(a, k) for k, a in known.items()]
    graph = helper.make_graph([node], "case", infos, outs, constants)
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    if not domain:
        model = onnx.shape_inference.infer_shapes(model)
    return bytes(model.SerializeToString())
