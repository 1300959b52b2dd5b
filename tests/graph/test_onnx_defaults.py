"""Initialisers that a model declares as inputs: constants, or defaults of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import tilewright
from tests.graph.ort import reference
from tilewright import graph
from tilewright.base.errors import ArgumentError, ImportModelError
from tilewright.cli.main import main

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
Array = np.ndarray[Any, Any]


def drawn(*shape: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


W, B = drawn(5, 7), drawn(7, seed=4)


def layer(batch: Any = 3, ir_version: int = 8, opset: int = 13) -> onnx.ModelProto:
    """y = x @ w + b, where w and b are inputs with values, and w comes first."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Add", ["t", "b"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("w", FLOAT, W.shape), value("x", FLOAT, [batch, 5]), value("b", FLOAT, [7])]
    weights = [numpy_helper.from_array(a, n) for n, a in (("w", W), ("b", B), ("spare", B))]
    body = helper.make_graph(nodes, "layer", inputs, [value("y", FLOAT, [batch, 7])], weights)
    sets = [helper.make_opsetid("", opset)]
    return helper.make_model(body, opset_imports=sets, ir_version=ir_version)


@pytest.mark.parametrize(("ir_version", "opset"), [(3, 7), (3, 8), (4, 9), (8, 13), (10, 21)])
@pytest.mark.parametrize("given", ["", "w", "b", "w b"])
def test_defaults_as_in_onnx_runtime(ir_version: int, opset: int, given: str) -> None:
    made = layer(ir_version=ir_version, opset=opset)
    net = tilewright.compile(made, overridable=["w", "b"])
    inputs = {"x": drawn(3, 5, seed=1)}
    inputs |= {n: {"w": W, "b": B}[n] * 2 for n in given.split()}
    made.ir_version = max(4, ir_version)  # below, ONNX Runtime takes none of them
    wanted = reference(made, inputs)["y"]
    np.testing.assert_allclose(net.run(inputs)["y"], wanted, rtol=1e-5, atol=1e-5)


def test_without_a_word_they_are_constants() -> None:
    net = tilewright.compile(layer(ir_version=3))
    assert [v.name for v in net.inputs] == ["x"]
    with pytest.raises(ArgumentError, match="has no input 'w'"):
        net(drawn(3, 5), w=W)


def test_positions_and_errors() -> None:
    net = tilewright.compile(layer(), overridable=["b"])
    x = drawn(3, 5)
    assert [v.name for v in net.inputs] == ["x", "b"]
    np.testing.assert_array_equal(net(x), net(x, B))
    np.testing.assert_allclose(net(x, B + 1), net(x) + 1, rtol=1e-5, atol=1e-5)
    for wrong, told in (({"b": B[:1]}, r"'b' has shape \(1,\)"), ({"c": B}, "no input 'c'")):
        with pytest.raises(ArgumentError, match=told):
            net.run({"x": x, **wrong})
    with pytest.raises(ArgumentError, match="input 'x' is missing"):
        net(b=B)


@pytest.mark.parametrize(
    ("name", "why"), [("x", "no initialiser of numbers"), ("spare", "no input of the model")]
)
def test_what_cannot_be_overridden(name: str, why: str) -> None:
    with pytest.raises(ImportModelError, match=f"{name!r} cannot be overridable: it is {why}"):
        graph.load_onnx(layer(), overridable=[name])
    with pytest.raises(ImportModelError, match=f"{name!r} cannot be overridable: it is {why}"):
        tilewright.compile(layer("n"), overridable=[name])


def test_only_onnx_files_have_them() -> None:
    with pytest.raises(ImportModelError, match="initialisers of ONNX files"):
        tilewright.compile(graph.load_onnx(layer()), overridable=["w"])


@pytest.mark.parametrize("names", [(), ("w",), ("b", "w")])
def test_saved(names: Sequence[str], tmp_path: Path) -> None:
    net = tilewright.compile(layer("n"), overridable=names)
    net.save(tmp_path / "net.tw")
    again = tilewright.load_network(tmp_path / "net.tw")
    for batch in (1, 4):
        x = drawn(batch, 5)
        np.testing.assert_array_equal(again(x), net(x))
        changed = {n: {"w": W, "b": B}[n] - 1 for n in names}
        np.testing.assert_array_equal(again(x, **changed), net(x, **changed))


def test_open_sizes_and_those_outside() -> None:
    net = tilewright.compile(layer("n"), overridable=["w"])
    for batch in (1, 6, 0):
        x = drawn(batch, 5)
        np.testing.assert_allclose(net(x), x @ W + B, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(net(x, w=-W), B - x @ W, rtol=1e-5, atol=1e-5)


def test_a_shape_that_may_be_given() -> None:
    """What is known of a constant is not known of an input: the rest waits for it."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "turn",
        [value("x", FLOAT, [2, 6]), value("s", INT64, [2])],
        [value("y", FLOAT, [None, None])],
        [numpy_helper.from_array(np.array([3, 4]), "s")],
    )
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = drawn(2, 6)
    assert tilewright.compile(made)(x).shape == (3, 4)
    net = tilewright.compile(made, overridable=["s"])
    assert net(x).shape == (3, 4)
    assert net(x, s=np.array([4, 3])).shape == (4, 3)


def test_the_command_takes_files_for_them(tmp_path: Path) -> None:
    onnx.save(layer(), tmp_path / "layer.onnx")
    x = drawn(3, 5)
    for name, array in (("x", x), ("b", B * 3), ("want", x @ W + B * 3)):
        np.save(tmp_path / f"{name}.npy", array)
    files = [f"--input={n}={tmp_path / n}.npy" for n in ("x", "b")]
    check = [f"--check={tmp_path / 'want.npy'}", "--rtol=1e-3", "--repeat=1"]
    result = CliRunner().invoke(main, ["run", str(tmp_path / "layer.onnx"), *files, *check])
    assert result.exit_code == 0, result.output
