"""Cases as ONNX models, with weights as initialisers, for ONNX Runtime and OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from benchmarks.ops_reference import Array
from benchmarks.ops_suite import Case

OPSET, IR_VERSION = 17, 8


def channels_first(x: Array) -> Array:
    """(batch, space..., channels) as (batch, channels, space...)."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def channels_last(x: Array) -> Array:
    """(batch, channels, space...) as (batch, space..., channels)."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def outward_weight(weight: Array, transposed: bool) -> Array:
    """(kernel..., in, out) as (out, in, kernel...), or (in, out, kernel...) if transposed."""
    kernel = range(weight.ndim - 2)
    ends = (-2, -1) if transposed else (-1, -2)
    return np.ascontiguousarray(weight.transpose(*(e % weight.ndim for e in ends), *kernel))


@dataclass
class Model:
    """An ONNX model of a case. `feeds`: its inputs in order, `shape` of its output Y, in its own
    layout; `case_shape` that of the case's output."""

    case: Case
    feeds: dict[str, Array]
    shape: tuple[int, ...]
    data: bytes
    spatial: bool = False
    case_shape: tuple[int, ...] = field(default=())

    def restore(self, y: Array) -> Array:
        """The output in the case's layout."""
        if not self.spatial:
            return y.reshape(self.case_shape)
        assert self.case.conv is not None
        return self.case.conv.restore(channels_last(y), self.case_shape)


def models(case: Case, inputs: list[Array]) -> dict[str, Model]:
    """The models that compute a case, by name."""
    if case.conv is not None:
        return {"conv": _convolution(case, inputs)}
    if case.op == "GMM":
        return {"matmul": _product(case, inputs)}
    if case.op == "NRM":
        return {"reduce": _norm(case, inputs), "dot": _norm_as_product(case, inputs)}
    return {"matmul": _scores(case, inputs)}


def _make(
    case: Case, feeds: dict[str, Array], nodes: list[Any], constants: dict[str, Array],
    shape: tuple[int, ...], spatial: bool = False,
) -> Model:  # fmt: skip
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "case",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape)
            for name, x in feeds.items()
        ],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    data = model.SerializeToString()
    return Model(case, feeds, shape, data, spatial, case.shapes()[-1])


def _convolution(case: Case, inputs: list[Array]) -> Model:
    from onnx import helper

    conv = case.conv
    assert conv is not None
    plain = conv.canonical(inputs)
    n, *space, channels = conv.plain_shape(case.shapes()[-1])
    constants = {"W": outward_weight(plain.weight, conv.transposed)}
    if plain.bias is not None:
        constants["B"] = plain.bias
    node = helper.make_node(
        "ConvTranspose" if conv.transposed else "Conv",
        ["X", *constants],
        ["C" if plain.relu else "Y"],
        strides=[conv.stride] * conv.rank,
        pads=[conv.padding] * 2 * conv.rank,
        dilations=[conv.dilation] * conv.rank,
        group=conv.groups,
    )
    nodes = [node] + ([helper.make_node("Relu", ["C"], ["Y"])] if plain.relu else [])
    feeds = {"X": channels_first(plain.x)}
    return _make(case, feeds, nodes, constants, (n, channels, *space), spatial=True)


def _product(case: Case, inputs: list[Array]) -> Model:
    from onnx import helper

    node = helper.make_node("MatMul", ["A", "B"], ["Y"])
    named = dict(zip("AB", inputs))
    constants = {"B": named.pop("B")} if case.constants else {}
    return _make(case, named, [node], constants, case.shapes()[-1])


def _norm(case: Case, inputs: list[Array]) -> Model:
    from onnx import helper

    node = helper.make_node("ReduceL2", ["X"], ["Y"], axes=[1, 2], keepdims=0)
    return _make(case, {"X": inputs[0]}, [node], {}, case.shapes()[-1])


def _norm_as_product(case: Case, inputs: list[Array]) -> Model:
    """The square root of the product of each matrix, as a row, with itself, as a column."""
    from onnx import helper

    n, size = len(inputs[0]), prod(inputs[0].shape[1:])
    constants = {"row": np.array([n, 1, size]), "column": np.array([n, size, 1])}
    nodes = [
        helper.make_node("Reshape", ["X", "row"], ["R"]),
        helper.make_node("Reshape", ["X", "column"], ["C"]),
        helper.make_node("MatMul", ["R", "C"], ["S"]),
        helper.make_node("Sqrt", ["S"], ["Y"]),
    ]
    return _make(case, {"X": inputs[0]}, nodes, constants, (n, 1, 1))


def _scores(case: Case, inputs: list[Array]) -> Model:
    from onnx import helper

    nodes = [
        helper.make_node("Transpose", ["Q"], ["QT"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["K"], ["KT"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["QT", "KT"], ["S"]),
        helper.make_node("Softmax", ["S"], ["Y"], axis=-1),
    ]
    return _make(case, dict(zip("QK", inputs)), nodes, {}, case.shapes()[-1])
