"""ONNX Runtime as a reference, and short ways to make models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tilewright import graph

Array = np.ndarray[Any, Any]


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A checked model; shapes and types of its outputs are inferred."""
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in inputs.items()
    ]
    body = helper.make_graph(
        list(nodes),
        "test",
        infos,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), k) for k, a in (weights or {}).items()],
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(inferred)
    return inferred


def reference(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by ONNX Runtime."""
    ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs))))


def ours(model: Any, inputs: Mapping[str, Array], **options: Any) -> dict[str, Array]:
    """Outputs by tilewright."""
    return graph.compile(graph.load_onnx(model, **options)).run(inputs)


def compare(model: onnx.ModelProto, inputs: Mapping[str, Array], rtol: float = 1e-4) -> None:
    """All outputs agree, relative to the largest value of each."""
    expected = reference(model, inputs)
    results = ours(model, inputs)
    assert list(results) == list(expected)
    for name, wanted in expected.items():
        got = results[name]
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), name
        scale = float(np.abs(wanted.astype(np.float64)).max()) if wanted.size else 1.0
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=rtol * (scale or 1.0)
        )
