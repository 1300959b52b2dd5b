"""Whole networks against ONNX Runtime and their own files."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.ort import compare, model_of, ours, reference
from tests.narrow import as_a
from tilewright import graph
from tilewright.base.aligned import is_aligned
from tilewright.graph.onnx.load import load_tensor
from tools.make_networks import make

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RNG = np.random.default_rng(11)


def floats(*shape: int, scale: float = 1.0) -> Any:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


@pytest.mark.parametrize("name", ["lenet", "squeezenet", "resnet50"])
def test_network_agrees_with_onnx_runtime(name: str) -> None:
    model = make(name, seed=3)
    net = graph.compile(graph.load_onnx(model))
    shape = net.inputs[0].shape
    logits = []
    for _ in range(2):
        x = {"input": floats(*shape)}
        expected = reference(model, x)["logits"]
        got = net.run(x)["logits"]
        assert np.abs(got - expected).max() <= 1e-3 * np.abs(expected).max()
        logits.append(got)
    distance = np.abs(logits[0] - logits[1]).max()
    assert distance > 0.05 * np.abs(logits[0]).max(), "logits depend on the input"


@pytest.mark.parametrize("name", ["light_resnet50", "light_squeezenet"])
def test_light_networks_import_and_run(name: str) -> None:
    """The graphs of the real files, with constant weights: their expected outputs are uniform."""
    net = graph.compile(graph.load_onnx(LIGHT / f"{name}.onnx"))
    expected = load_tensor(LIGHT / f"{name}_output_0.pb")
    x = {v.name: floats(*v.shape) for v in net.inputs}
    (got,) = net.run(x).values()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-3)


def node(kind: str, inputs: str, output: str, **attrs: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], name=output, **attrs)


def test_residual_block() -> None:
    nodes = [
        node("Conv", "x w1", "c1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c1 g b m v", "n1"),
        node("Relu", "n1", "r1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c2 g b m v", "n2"),
        node("Add", "n2 x", "s"),
        node("Relu", "s", "y"),
    ]
    for c in (16, 12, 5):
        weights = {"w1": floats(c, c, 3, 3, scale=0.2), "w2": floats(c, c, 3, 3, scale=0.2)}
        weights.update(g=floats(c), b=floats(c), m=floats(c), v=np.abs(floats(c)) + 0.5)
        x = {"x": floats(2, c, 7, 9)}
        compare(model_of(nodes, x, ["y"], weights), x)


def test_fire_module() -> None:
    nodes = [
        node("Conv", "x ws bs", "s"),
        node("Relu", "s", "sr"),
        node("Conv", "sr w1 b1", "e1"),
        node("Conv", "sr w3 b3", "e3", pads=[1, 1, 1, 1]),
        node("Concat", "e1 e3", "c", axis=1),
        node("Relu", "c", "y"),
    ]
    for squeeze, expand in ((16, 32), (12, 20), (3, 28)):
        weights = {
            "ws": floats(squeeze, 16, 1, 1), "bs": floats(squeeze),
            "w1": floats(expand, squeeze, 1, 1), "b1": floats(expand),
            "w3": floats(expand, squeeze, 3, 3), "b3": floats(expand),
        }  # fmt: skip
        x = {"x": floats(1, 16, 6, 11)}
        compare(model_of(nodes, x, ["y"], weights), x)


def test_padded_filters_do_not_leak() -> None:
    """28 filters are computed as 32: what stands in the other 4 must not reach the result."""
    nodes = [
        node("Conv", "x w1", "c"),
        node("Exp", "c", "e"),
        node("Div", "c e", "d"),
        node("Sigmoid", "c", "g"),
        node("Add", "d g", "s"),
        node("Conv", "g w2", "t"),
        node("GlobalAveragePool", "s", "y"),
        node("MaxPool", "t", "z", kernel_shape=[2, 2]),
    ]
    weights = {"w1": floats(28, 16, 1, 1, scale=0.1), "w2": floats(30, 28, 3, 3, scale=0.1)}
    x = {"x": floats(1, 16, 5, 5)}
    compare(model_of(nodes, x, ["y", "z", "c"], weights), x)


def test_outputs_that_are_inputs_weights_or_twice_the_same() -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("Identity", "x", "same"),
        node("Identity", "w", "weight"),
        node("Identity", "r", "again"),
    ]
    x = {"x": floats(3, 4)}
    compare(model_of(nodes, x, ["r", "same", "weight", "again"], {"w": floats(2)}), x)


def test_value_read_and_returned() -> None:
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Add", "c r", "y")]
    x = {"x": floats(1, 16, 4, 4)}
    compare(model_of(nodes, x, ["y", "c", "r"], {"w": floats(16, 16, 1, 1)}), x)


def test_open_batch_is_one_and_can_be_given() -> None:
    model = model_of([node("Relu", "x", "y")], {"x": floats(1, 3)}, ["y"])
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_param = "N"
    assert graph.load_onnx(model).inputs[0].shape == (1, 3)
    x = floats(5, 3)
    result = ours(model, {"x": x}, shapes={"x": (5, 3)})["y"]
    np.testing.assert_array_equal(result, np.maximum(x, 0))


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    weight, x = floats(16, 8), {"x": floats(3, 16)}
    model = model_of([node("MatMul", "x w", "y")], x, ["y"], {"w": weight})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=0)  # fmt: skip
    assert (tmp_path / "w.bin").stat().st_size >= weight.nbytes
    np.testing.assert_allclose(ours(tmp_path / "m.onnx", x)["y"], x["x"] @ weight, rtol=1e-5,
                               atol=1e-5)  # fmt: skip


def test_weights_lie_where_vectors_are_loaded_at_once(tmp_path: Path) -> None:
    """Of vectors that begin within a line of the caches each load takes two turns, and arrays begin
    anywhere, NumPy's and those in files. A table of which few rows are read stays in its file."""
    weights = {f"w{k}": floats(16 + k, 17 + k) for k in range(12)}
    table, ids = floats(300, 16), {"ids": np.arange(3)}
    nodes = [node("Gather", "table ids", "x0"), *(
        node("MatMul", f"x{k} w{k}", f"x{k + 1}") for k in range(12))]  # fmt: skip
    model = model_of(nodes, ids, ["x12"], {"pad": floats(3), "table": table, **weights})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=0)  # fmt: skip
    net = as_a(graph.Executable, graph.compile(graph.load_onnx(tmp_path / "m.onnx")))
    inside = [a for a in net.constants if a.shape == table.shape]
    assert [is_aligned(a) for a in inside] == [False]  # 12 bytes come before it
    assert sum(is_aligned(a) for a in net.constants) == len(weights)
    want = table[:3].astype("float64")
    for w in weights.values():
        want = want @ w
    np.testing.assert_allclose(net.run(ids)["x12"], want, rtol=1e-4, atol=1e-3 * abs(want).max())


def test_kernels_come_from_the_compile_cache() -> None:
    imported = graph.load_onnx(make("lenet", seed=1))
    first, second = (as_a(graph.Executable, graph.compile(imported)) for _ in range(2))
    assert [k.obj for k in first.kernels] == [k.obj for k in second.kernels]
    assert len(first.kernels) <= len(first.calls)
