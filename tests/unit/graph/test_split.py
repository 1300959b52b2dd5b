"""Weights apart from the model: the message is the same, its arrays are views of the file."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright import graph
from tilewright.base.errors import ImportModelError
from tilewright.graph.onnx.split import LARGE, split

SIDE = 211  # whose square of floats is above LARGE


def model(weights: dict[str, Any]) -> onnx.ModelProto:
    """The sum of an input and of all weights."""
    tensor = helper.make_tensor_value_info
    names = ["x", *weights]
    nodes = [helper.make_node("Sum", names, ["y"])]
    inits = [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()]
    shape = [SIDE, SIDE]
    x, y = (tensor(n, TensorProto.FLOAT, shape) for n in "xy")
    made = helper.make_graph(nodes, "sums", [x], [y], inits)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def weights() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    large = rng.integers(-9, 9, (2, SIDE, SIDE)).astype(np.float32)
    return {"a": large[0], "few": np.array([5], np.float32), "b": large[1]}


def test_the_rest_of_the_message_is_as_it_was() -> None:
    whole = model(weights())
    data = np.frombuffer(whole.SerializeToString(), np.uint8)
    slim, apart = split(data)
    assert [w is None for w in apart] == [False, True, False]
    assert len(slim) + sum(w.nbytes for w in apart if w is not None) == pytest.approx(
        len(data), abs=40
    )
    back = onnx.ModelProto()
    back.ParseFromString(slim)
    for tensor, bytes_apart in zip(back.graph.initializer, apart):
        if bytes_apart is not None:
            tensor.raw_data = bytes_apart.tobytes()
    assert back == whole


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sums.onnx"
    onnx.save(model(weights()), path)
    found = {v.name: v.data for v in graph.load_onnx(path).constants()}
    for name, expected in weights().items():
        data = found[name]
        assert data is not None
        np.testing.assert_array_equal(data, expected)
        assert lies_in_a_file(data) == (data.nbytes >= LARGE)
    x = np.ones((SIDE, SIDE), np.float32)
    y = graph.compile(graph.load_onnx(path)).run({"x": x})["y"]
    np.testing.assert_array_equal(y, x + 5 + weights()["a"] + weights()["b"])


def lies_in_a_file(data: np.ndarray[Any, Any]) -> bool:
    place: Any = data
    while isinstance(place, (np.ndarray, memoryview)):
        place = place.base if isinstance(place, np.ndarray) else place.obj
    return isinstance(place, mmap.mmap)


@pytest.mark.parametrize("turned", [0, 1])
def test_weights_of_products_are_views_however_they_lie(tmp_path: Path, turned: int) -> None:
    """Dense layers take rows of weights; MatMul, and Gemm without transB, have them as columns."""
    path = tmp_path / "product.onnx"
    rng = np.random.default_rng(5)
    w = rng.integers(-9, 9, (SIDE + 20, SIDE)[:: 1 - 2 * turned]).astype(np.float32)
    tensor = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["y"], transB=turned),
        *([] if turned else [helper.make_node("MatMul", ["x", "w"], ["z"])]),
    ]
    outputs = [tensor(n.output[0], TensorProto.FLOAT, [3, SIDE]) for n in nodes]
    x = tensor("x", TensorProto.FLOAT, [3, SIDE + 20])
    made = helper.make_graph(nodes, "product", [x], outputs, [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)]), path)
    model = graph.load_onnx(path)
    large = [v.data for v in model.constants() if v.data is not None and v.data.nbytes >= LARGE]
    assert large and all(map(lies_in_a_file, large))
    data = rng.integers(-9, 9, (3, SIDE + 20)).astype(np.float32)
    expected = data @ (w.T if turned else w)
    for result in graph.compile(model).run({"x": data}).values():
        np.testing.assert_array_equal(result, expected)


def test_of_bytes_and_of_a_proto_alike() -> None:
    whole = model(weights())
    for given in (whole, whole.SerializeToString()):
        data = {v.name: v.data for v in graph.load_onnx(given).constants()}
        np.testing.assert_array_equal(np.asarray(data["b"]), weights()["b"])


def test_other_types_are_read_by_onnx() -> None:
    half = np.arange(LARGE, dtype=np.float32).astype(ml_dtypes.bfloat16)
    nodes = [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [LARGE])
    made = helper.make_graph(nodes, "g", [], [y], [numpy_helper.from_array(half, "w")])
    made.initializer[0].raw_data = half.tobytes()
    whole = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    found = graph.compile(graph.load_onnx(whole.SerializeToString())).run({})["y"]
    np.testing.assert_array_equal(found, half.astype(np.float32))


@pytest.mark.parametrize("dims", [[SIDE, SIDE + 1], [SIDE, 1], [3], [-SIDE, -SIDE]])
def test_a_weight_of_another_size_is_refused(dims: list[int]) -> None:
    whole = model(weights())
    del whole.graph.initializer[0].dims[:]
    whole.graph.initializer[0].dims.extend(dims)
    with pytest.raises(ImportModelError, match=r"weight 'a' is damaged|not valid ONNX"):
        graph.load_onnx(whole.SerializeToString())


@pytest.mark.parametrize("at", [1, 2, 30, 100, 1000, LARGE, -5, -1])
def test_what_is_cut_off_is_left_to_the_parser(at: int) -> None:
    data = model(weights()).SerializeToString()[:at]
    with pytest.raises(ImportModelError):
        graph.load_onnx(data)
