"""One ONNX node, compiled and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilewright import graph

Array = np.ndarray[Any, Any]


def node_model(
    kind: str,
    inputs: Sequence[Any],
    weights: Sequence[Any] = (),
    *,
    outputs: int = 1,
    opset: int | None = None,
    **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node: arrays `inputs`, then `weights` (None: left out) as its inputs; and the
    arrays by name."""
    given = {f"x{k}": np.asarray(a) for k, a in enumerate(inputs)}
    known = {f"w{k}": np.asarray(a) for k, a in enumerate(weights) if a is not None}
    names = [*given, *("" if a is None else f"w{k}" for k, a in enumerate(weights))]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(kind, names, results, name="node", **attrs)
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in given.items()
    ]
    body = helper.make_graph(
        [node],
        "test",
        infos,
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(a, k) for k, a in known.items()],
    )
    newest = onnx.defs.onnx_opset_version()
    opsets = [helper.make_opsetid("", newest if opset is None else opset)]
    model = helper.make_model(body, opset_imports=opsets)
    return onnx.shape_inference.infer_shapes(model), given


def run_node(kind: str, inputs: Sequence[Any], weights: Sequence[Any] = (), **how: Any) -> Any:
    """The result of one node, or the list of its results."""
    model, given = node_model(kind, inputs, weights, **how)
    found = list(graph.compile(graph.load_onnx(model)).run(given).values())
    return found[0] if len(found) == 1 else found
