"""Networks that cannot be imported, compiled or run, and what the errors say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tilewright import graph
from tilewright.base.errors import ArgumentError, CompileError, ImportModelError, TargetError
from tilewright.graph.onnx.load import load_tensor

FLOAT = TensorProto.FLOAT


def tensor(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: Any, inputs: Any, outputs: Any, weights: Any = (), opset: int = 13) -> Any:
    body = helper.make_graph(list(nodes), "net", list(inputs), list(outputs), list(weights))
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(kind: str, inputs: str, output: str, **attrs: Any) -> Any:
    return helper.make_node(kind, inputs.split(), output.split(), name=f"{output}_node", **attrs)


def relu(shape: Any = (2, 3)) -> Any:
    return model([node("Relu", "x", "y")], [tensor("x", shape)], [tensor("y", None)])


def with_weight() -> Any:
    weight = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    return model([node("MatMul", "x w", "y")], [tensor("x", (2, 3))], [tensor("y", None)], [weight])


def refuse(source: Any, text: str, **options: Any) -> str:
    with pytest.raises(ImportModelError) as caught:
        graph.load_onnx(source, **options)
    assert text in str(caught.value)
    return str(caught.value)


def test_file_cut_off_anywhere(tmp_path: Path) -> None:
    whole = with_weight().SerializeToString()
    assert graph.load_onnx(whole).inputs[0].shape == (2, 3)
    for size in range(len(whole)):
        with pytest.raises(ImportModelError):
            graph.load_onnx(whole[:size])
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    message = refuse(path, f"is no ONNX model, or the file is cut off ({len(whole) // 2} bytes)")
    assert str(path) in message


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n" * 9, b"hello world", b"\x00" * 64])
def test_file_that_is_no_onnx(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "photo.onnx"
    path.write_bytes(data)
    refuse(path, f"{path} is no ")


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    refuse(tmp_path / "none.onnx", "cannot read")
    refuse(tmp_path, "cannot read")


def test_model_without_operator_set() -> None:
    proto = relu()
    del proto.opset_import[:]
    refuse(proto.SerializeToString(), "it names no operator set")


def test_unsupported_operators_are_listed_at_once() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("NonMaxSuppression", "a a", "b"),
        helper.make_node("Frobnicate", ["b"], ["c"], name="mine", domain="com.example"),
        node("Whirl", "c c c", "d"),
        helper.make_node("Whirl", ["d", "d", "d"], ["e"]),
    ]
    message = refuse(model(nodes, [tensor("x", (1,))], [tensor("e", None)]), "not supported")
    assert message.splitlines()[1:] == [
        "  Whirl: d_node, #4",
        "  com.example.Frobnicate: mine",
    ]


def external(folder: Path, location: str, **entries: str) -> Path:
    """A model in `folder` whose weight lies at `location`."""
    proto = with_weight()
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The model's folder; beside it lies a file that it must not read."""
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("location", ["../secret.bin", "a/../../secret.bin", ""])
def test_external_data_outside_the_folder(home: Path, location: str) -> None:
    refuse(external(home, location), "is outside the model's folder")


def test_external_data_at_an_absolute_path(home: Path) -> None:
    refuse(external(home, str(home.parent / "secret.bin")), "is outside the model's folder")
    (home / "own.bin").write_bytes(bytes(48))
    refuse(external(home, str(home / "own.bin")), "is outside the model's folder")


def test_external_data_behind_a_link(home: Path) -> None:
    (home / "link.bin").symlink_to(home.parent / "secret.bin")
    refuse(external(home, "link.bin"), "is outside the model's folder")
    (home / "sub").symlink_to(home.parent)
    refuse(external(home, "sub/secret.bin"), "is outside the model's folder")


def test_external_data_cut_off(home: Path) -> None:
    path = external(home, "w.bin")
    refuse(path, "cannot read")
    (home / "w.bin").write_bytes(bytes(47))
    refuse(path, "weight 'w': w.bin has 47 bytes, 48 are needed: the file is cut off")
    (home / "w.bin").write_bytes(bytes(48))
    assert graph.load_onnx(path).inputs[0].shape == (2, 3)
    refuse(external(home, "w.bin", offset="4"), "52 are needed: the file is cut off")
    refuse(external(home, "w.bin", offset="-4"), "the file is cut off")
    refuse(external(home, "w.bin", offset="x"), "offset or length is no number")
    refuse(external(home, "w.bin", length="40"), "has 48 bytes, the model says 40")


def test_external_data_of_a_model_without_a_path(home: Path) -> None:
    (home / "w.bin").write_bytes(bytes(48))
    refuse(external(home, "w.bin").read_bytes(), "load the model by its path")


def test_damaged_weight() -> None:
    proto = with_weight()
    proto.graph.initializer[0].raw_data = b"abc"
    refuse(proto, "weight 'w' is damaged")
    proto.graph.initializer[0].data_type = 0
    refuse(proto, "weight 'w' has elements of type UNDEFINED, which is not supported")


def test_element_types() -> None:
    proto = relu()
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    refuse(proto, "X typestr: T, has unsupported type: tensor(string)")
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.COMPLEX64
    refuse(proto, "X typestr: T, has unsupported type: tensor(complex64)")
    proto.graph.input[0].type.tensor_type.elem_type = 99
    refuse(proto, "input 'x' has elements of type 99, which is not supported")
    cast = model([node("Cast", "x", "y", to=17)], [tensor("x", (2,))], [tensor("y", (2,))])
    refuse(cast, "output has unsupported type tensor(float8e4m3fn)")  # not in operator set 17
    sequence = helper.make_tensor_sequence_value_info("x", FLOAT, None)
    proto.graph.input[0].CopyFrom(sequence)
    refuse(proto, "not valid ONNX")


def test_open_dimensions() -> None:
    refuse(relu(("N", "C", 4)), "input 'x': dimension 1 (C) is open; give shapes={'x': (...)}")
    refuse(relu((1, None)), "input 'x': dimension 1 (?) is open")
    refuse(relu(None), "input 'x' has no shape; give shapes={'x': (...)}")
    assert graph.load_onnx(relu(("N", 4))).inputs[0].shape == (1, 4)
    refuse(relu(("N", 4)), "has 2 dimensions, got shape [4]", shapes={"x": (4,)})
    refuse(relu(("N", 4)), "dimension 1 is 4 in the model, got 5", shapes={"x": (1, 5)})
    refuse(relu(("N", 4)), "extents must not be negative", shapes={"x": (-1, 4)})
    assert graph.load_onnx(relu((-1, 4))).inputs[0].shape == (1, 4)
    refuse(relu(("N", 4)), "no input 'q' to shape; inputs: x", shapes={"q": (1, 4)})


def test_graphs_that_do_not_hang_together() -> None:
    x, y = tensor("x", (2, 3)), tensor("y", None)
    refuse(model([node("Add", "x z", "y")], [x], [y]), "reads 'z', which nothing computes")
    refuse(model([node("Relu", "x", "z")], [x], [y]), "output 'y' is computed by no node")


@pytest.mark.parametrize(
    "made, shape, text",
    [
        (node("Add", "x b", "y"), (2, 3), "Incompatible broadcast dims"),
        (node("Clip", "x x", "y"), (2, 3), "a limit is one number, got 6"),
        (node("Reshape", "x b", "y"), (2, 3), "reshape of 6 elements to"),
        (node("MaxPool", "x", "y", kernel_shape=[2] * 3), (1, 1, 4, 4), "with a window of extents"),
        (node("Softmax", "x", "y z"), (1, 1, 4), "2 outputs are given, 1 expected"),
        (node("Conv", "x", "y"), (1, 1, 4, 4), "1 inputs are given, 2 to 3 expected"),
        (node("Reshape", "x i", "y"), (2, 3), "copies a dimension that x: float32[2, 3] does not"),
        (node("Unsqueeze", "x i", "y"), (2, 3), "axes [0, 0, 0] name a dimension of 5 twice"),
        (node("Squeeze", "x i", "y"), (1, 1), "axes [0, 0, 0] name a dimension of 2 twice"),
        (node("ReduceSum", "x i", "y"), (2, 3), "axes [0, 0, 0] name a dimension of 2 twice"),
        (node("ReduceSum", "x b", "y"), (2, 3), "axis 2 of 2 dimensions"),
        (node("Slice", "x i i i", "y"), (2, 3), "axes [0, 0, 0] name a dimension of 2 twice"),
        (node("Slice", "x i b", "y"), (2, 3), "input 2 must be a list of 3, got [1, 2, 3, 4, 5]"),
        (node("Pad", "x i", "y"), (2, 3), "input 1 must be a list of 4, got [0, 0, 0]"),
        (node("Gather", "x i", "y", axis=2), (2, 3), "axis 2 of 2 dimensions"),
        (node("MaxPool", "x", "y", kernel_shape=[2], pads=[1]), (1, 1, 4), "list of 2, got [1]"),
        (node("MaxPool", "x", "y", kernel_shape=[2], strides=[0]), (1, 1, 4), "must be 1 or more"),
        (node("ConstantOfShape", "n", "y"), (2,), "input 0 must be a list of numbers, got 0"),
    ],
)
def test_nodes_that_cannot_be_imported(made: Any, shape: Any, text: str) -> None:
    weight = numpy_helper.from_array(np.arange(1, 6), "b")
    if made.op_type == "Add":
        weight = numpy_helper.from_array(np.ones(5, np.float32), "b")
    zeros = numpy_helper.from_array(np.zeros(3, np.int64), "i")
    zero = numpy_helper.from_array(np.int64(0), "n")
    outputs = [tensor(name, None) for name in made.output]
    weights = [weight, zeros, zero]
    message = refuse(model([made], [tensor("x", shape)], outputs, weights), text)
    assert f"{made.op_type} node {made.name!r}" in message


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("opset", [7, 11, 22])
def test_windows_in_the_padding(kind: str, opset: int) -> None:
    x, y = tensor("x", (1, 1, 6, 6)), tensor("y", None)
    for pads in ([2, 0, 0, 0], [0, 0, 0, 2]):
        for ceil in [{}, {"ceil_mode": 1}] if opset > 10 else [{}]:
            made = node(kind, "x", "y", kernel_shape=[2, 2], pads=pads, **ceil)
            refuse(model([made], [x], [y], opset=opset), f"pads {pads} must be less than")
    if opset > 20:  # as far as a window with holes reaches
        made = node(kind, "x", "y", kernel_shape=[2, 2], dilations=[2, 2], pads=[2] * 4)
        graph.load_onnx(model([made], [x], [y], opset=opset))


SHAPES = "the model is not valid ONNX: [ShapeInferenceError]"
WEIGHT = [numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")]
SEVEN = numpy_helper.from_array(np.ones(7, np.float32), "b")


@pytest.mark.parametrize(
    "made, weights, text",
    [
        (node("Conv", "x w", "y", dilations=[0, 0]), WEIGHT, "must be 1 or more"),
        (node("Conv", "x w", "y", kernel_shape=[5, 5]), WEIGHT, "not valid ONNX"),
        (node("Conv", "x w", "y", strides=[0, 0]), WEIGHT, "Conv node 'y_node'"),
        (node("Conv", "x w", "y", group=1.5), WEIGHT, "Conv node 'y_node'"),
        (node("Conv", "x w b", "y"), [*WEIGHT, SEVEN], "the bias"),
        (node("BatchNormalization", "x b b b b", "y"), [SEVEN], "does not fit the channels of"),
        (node("Clip", "x b", "y"), [SEVEN], "a limit is one number, got 7"),
        (node("MaxPool", "x", "y", kernel_shape=[0, 0]), [], "must be 1 or more"),
        (node("Concat", "x x", "y", axis=9), [], "axis 9 of 4 dimensions"),
        (node("Concat", "x x", "y"), [], "attribute 'axis' is missing"),
        (node("Softmax", "x", "y", axis=7), [], "axis 7 of 4 dimensions"),
        (node("Flatten", "x", "y", axis=9), [], SHAPES),
        (node("ReduceMean", "x", "y", axes=[9]), [], "axis 9 of 4 dimensions"),
        (node("Relu", "x", "y", slope=2.0), [], "the operator has no attribute 'slope'"),
        (node("Relu", "x x", "y"), [], "Relu node 'y_node'"),
        (node("Transpose", "x", "y", perm=[0, 0, 1, 2]), [], "Transpose node 'y_node'"),
    ],
)
def test_nodes_that_mean_nothing(made: Any, weights: Any, text: str) -> None:
    refuse(model([made], [tensor("x", (1, 3, 8, 8))], [tensor("y", None)], weights), text)


def test_models_that_mean_nothing() -> None:
    x, y = tensor("x", (2, 3)), tensor("y", None)
    twice = [node("Relu", "x", "y"), node("Neg", "x", "y")]
    refuse(model(twice, [x], [y]), "writes 'y', as Relu node 'y_node' does")
    refuse(model([node("Relu", "x", "y")], [x], []).SerializeToString(), "has no outputs")
    refuse(model([node("Relu", "x", "y")], [x], [y], opset=999), "operator set 999; the onnx pack")
    refuse(model([node("Relu", "x", "y")], [x], [y], opset=0), "names operator set 0")
    sparse = model([node("Relu", "x", "y")], [x], [y])
    sparse.graph.sparse_initializer.add()
    refuse(sparse, "weight '' has elements of type UNDEFINED, which is not supported")
    proto = with_weight()
    proto.graph.initializer[0].dims[0] = -3
    refuse(proto, "not valid ONNX")
    junk: list[Any] = [3, None, ["m.onnx"], {}]
    for wrong in junk:
        refuse(wrong, f"a model is a path, bytes or a ModelProto, got {wrong!r}")


def test_damaged_bytes_anywhere() -> None:
    names = [node("Conv", "x w", "a", pads=[1] * 4), node("Relu", "a", "y")]
    whole = model(names, [tensor("x", (1, 3, 8, 8))], [tensor("y", None)], WEIGHT)
    data = whole.SerializeToString()
    loaded = 0
    for place in range(0, len(data), 3):
        for value in (0, 0x80, 0xFF):
            try:
                graph.load_onnx(data[:place] + bytes([value]) + data[place + 1 :])
                loaded += 1
            except ImportModelError:
                continue
    assert 0 < loaded < len(data), "bytes of weights may be anything, others may not"


def test_arguments_of_a_network() -> None:
    net = graph.compile(graph.load_onnx(relu()))
    good = np.ones((2, 3), np.float32)
    cases: list[tuple[Any, str]] = [
        ({}, "net: input 'x' is missing; inputs: x: float32[2, 3]"),
        ({"x": good, "z": good}, "net has no input 'z'; inputs: x: float32[2, 3]"),
        ({"x": good[:, :2]}, "net: input 'x' has shape (2, 2), expected (2, 3)"),
        ({"x": good.astype(np.float64)}, "net: input 'x' is float64, expected float32"),
        ({"x": 1.0}, "net: input 'x' has shape (), expected (2, 3)"),
    ]
    for inputs, text in cases:
        with pytest.raises(ArgumentError) as caught:
            net.run(inputs)
        assert text in str(caught.value)
    np.testing.assert_array_equal(net.run({"x": good.T.copy().T})["y"], good)


def test_targets() -> None:
    imported = graph.load_onnx(relu())
    with pytest.raises(TargetError, match="unknown target kind 'abacus'"):
        graph.compile(imported, "abacus")
    with pytest.raises(CompileError, match="targets, not 'c'"):
        graph.compile(imported, "c")


def test_tensor_files(tmp_path: Path) -> None:
    path = tmp_path / "t.pb"
    for data, text in [(b"", "holds no ONNX tensor"), (b"\xff\xff\xff", "cannot read an ONNX")]:
        path.write_bytes(data)
        with pytest.raises(ImportModelError, match=text):
            load_tensor(path)
    with pytest.raises(ImportModelError, match="cannot read an ONNX tensor from"):
        load_tensor(tmp_path / "none.pb")


@pytest.mark.parametrize("where", ["attribute", "operator", "name", "value"])
def test_text_that_is_none(where: str) -> None:
    """Every string of a file may be damaged."""
    pool = node("MaxPool", "x", "y", kernel_shape=[2, 2], auto_pad="VALIDVALID")
    data = model([pool], [tensor("x", (1, 1, 4, 4))], [tensor("y", None)]).SerializeToString()
    word = {"attribute": b"VALIDVALID", "operator": b"MaxPool", "name": b"y_node", "value": b"x"}
    broken = data.replace(word[where], b"\xd9" * len(word[where]))
    assert broken != data
    with pytest.raises(ImportModelError):
        graph.load_onnx(broken)


def test_only_graphs_are_compiled_as_such() -> None:
    with pytest.raises(CompileError, match=r"takes a Graph, .* not str; tilewright.compile takes"):
        graph.compile("model.onnx")


@pytest.mark.parametrize(
    "nodes, text",
    [
        ([node("Add", "x nothing", "y")], "reads 'nothing', which nothing computes"),
        ([node("Frobnicate", "x", "y")], "operators that are not supported"),
    ],
)
def test_open_sizes_do_not_put_off_what_is_wrong_for_all(nodes: Any, text: str) -> None:
    """Where a file is right for some sizes only, each is compiled when it occurs."""
    with pytest.raises(ImportModelError, match=text):
        tilewright.compile(model(nodes, [tensor("x", ("n", 3))], [tensor("y", None)]))
