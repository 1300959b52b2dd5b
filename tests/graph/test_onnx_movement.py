"""Operators that move elements against ONNX Runtime and NumPy: uneven parts, modes, reductions,
indices from the end, empty tensors, old operator sets."""

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.graph.ort import compare, model_of, ours
from tests.graph.test_onnx_ops import check, floats
from tests.narrow import as_a
from tilewright import graph
from tilewright.base.errors import ImportModelError

i64 = np.int64


def _split(x: Any, count: int, weights: Any = None, opset: int = 18, **attrs: Any) -> None:
    names = [f"y{k}" for k in range(count)]
    node = helper.make_node("Split", ["x", *(weights or {})], names, **attrs)
    compare(model_of([node], {"x": x}, names, weights, opset), {"x": x})


def test_split() -> None:
    x = floats(3, 7, 2)
    _split(x, 3, axis=1, num_outputs=3)
    _split(x, 4, axis=1, num_outputs=4)
    _split(x, 3, {"s": np.array([5, 0, 2])}, axis=-2)
    _split(x, 2, axis=2, opset=13)
    _split(x, 2, axis=1, split=[3, 4], opset=11)
    _split(x, 3, opset=11)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_padding_by_the_data(mode: str) -> None:
    x = floats(3, 4, 5)
    for pads in ([1, 0, 2, 2, 3, 4], [2, 3, 0, 0, 0, 4]):
        check("Pad", [x], [np.array(pads)], opset=19, mode=mode)
    check("Pad", [x], [np.array([2, 3]), None, np.array([-1])], opset=19, mode=mode)


def test_padding_far_and_cropping() -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for mode in ("reflect", "wrap", "edge"):
        node = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
        pads = np.array([0, 9, 0, 11])
        got = ours(model_of([node], {"x": x}, ["y"], {"p": pads}, 19), {"x": x})["y"]
        np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (9, 11)), mode=mode))
    check("Pad", [x], [np.array([-1, 2, 0, -3])])
    check("Pad", [x, np.array([1, 2, 0, 1]), np.float32(3.5)][:1], [np.array([1, 2, 0, 1])])
    value = {"x": x, "v": np.array(2.5, np.float32)}
    node = helper.make_node("Pad", ["x", "p", "v"], ["y"])
    compare(model_of([node], value, ["y"], {"p": np.array([1, 2, 0, 1])}), value)


def test_tile_and_blocks() -> None:
    check("Tile", [floats(2, 3, 4)], [np.array([2, 1, 3])])
    check("Tile", [floats(2, 3)], [np.array([0, 2])])
    check("Tile", [np.arange(6).reshape(2, 3)], [np.array([1, 1])])
    for mode in ("DCR", "CRD"):
        check("DepthToSpace", [floats(2, 18, 2, 5)], blocksize=3, mode=mode)
    check("SpaceToDepth", [floats(2, 3, 4, 6)], blocksize=2)
    lengths = np.array([3, 1, 4])
    check("ReverseSequence", [floats(4, 3, 2), lengths])
    check("ReverseSequence", [floats(3, 4, 2), lengths], time_axis=1, batch_axis=0)


def test_gather() -> None:
    x = floats(3, 4, 5)
    index = np.array([[[0, -1], [2, 1]]])
    check("GatherElements", [x, index], axis=1)
    check("GatherElements", [x, index.astype(np.int32)], axis=-1)
    check("GatherND", [x, np.array([[0, -1], [2, 3]])])
    check("GatherND", [x, np.array([[[0], [4]], [[1], [-5]], [[2], [3]]])[:, :1]], batch_dims=1)
    check("GatherND", [x], [np.array([[[0, 1, 2]]])])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_scatter(reduction: str, dtype: str) -> None:
    x = (floats(4, 5) * 4).astype(dtype)
    index = np.array([[0, -1, 2], [3, 1, 0]])
    new = (floats(2, 3) * 4).astype(dtype)
    many = np.array([[1, 1, 1], [2, -3, 1]])  # of one place, some
    for axis in (0, 1):
        if reduction != "none":
            check("ScatterElements", [x, many, new], axis=axis, reduction=reduction, opset=18)
        check("ScatterElements", [x, index, new], axis=axis, reduction=reduction, opset=18)
        check("ScatterElements", [x], [index, new], axis=axis, reduction=reduction, opset=18)
    rows = np.array([[3], [-2]])
    check("ScatterND", [x, rows, (floats(2, 5) * 4).astype(dtype)], reduction=reduction, opset=18)
    check("ScatterND", [x, np.array([[0, 1], [3, -1]]), new[0, :2]], reduction=reduction, opset=18)
    if reduction == "none":
        check("Scatter", [x, index, new], opset=9)
        check("ScatterElements", [x, index, new], opset=11)


def test_sums_of_narrow_floats_are_rounded_once() -> None:
    x = {"x": np.full(1, 2048, np.float16), "u": np.ones(64, np.float16)}
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add")
    model = model_of([node], x, ["y"], {"i": np.zeros(64, i64)}, 18)
    assert ours(model, x)["y"] == [2112]


def test_the_last_update_counts_in_folding_too() -> None:
    weights = {"x": np.zeros(3, np.float32), "i": np.array([1, 1]), "u": floats(2)}
    node = helper.make_node("ScatterElements", list(weights), ["y"])
    loaded = graph.load_onnx(model_of([node], {}, ["y"], weights, 18))
    assert graph.compile(loaded).run({})["y"][1] == weights["u"][1]


RESIZES = [
    ({"mode": "nearest"}, [1, 1, 1.7, 0.6]),
    ({"mode": "nearest", "nearest_mode": "ceil"}, [1, 1, 2.3, 2]),
    ({"mode": "linear"}, [1, 1, 2, 3.1]),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [1, 1, 1.4, 0.5]),
    ({"mode": "cubic"}, [1, 1, 1.9, 0.7]),
    ({"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}, [1, 1, 2, 2]),
    ({"mode": "linear", "antialias": 1}, [1, 1, 0.37, 0.51]),
    ({"mode": "cubic", "antialias": 1}, [1, 1, 0.4, 0.6]),
    ({"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, [1, 1, 1.3, 2]),
    ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, [1, 1, 0.1, 2]),
]


@pytest.mark.parametrize("attrs, scales", RESIZES)
def test_resize(attrs: Any, scales: Any) -> None:
    x = {"x": floats(2, 3, 11, 13)}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **attrs)
    model = model_of([node], x, ["y"], {"s": np.array(scales, np.float32)}, 19)
    wanted: Any = as_a(list, ReferenceEvaluator(model).run(None, x))[0]
    np.testing.assert_allclose(ours(model, x)["y"], wanted, rtol=1e-5, atol=1e-5)


def test_resize_of_old_operator_sets() -> None:
    scales = np.array([1, 1, 2, 3], np.float32)
    for mode in ("nearest", "linear"):
        check("Resize", [floats(1, 2, 4, 5)], [scales], mode=mode, opset=10)
        check("Upsample", [floats(1, 2, 4, 5)], [scales], mode=mode, opset=9)
        check("Upsample", [floats(1, 2, 4, 5)], mode=mode, opset=7, scales=[1.0, 1.0, 2.0, 2.0])


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding: str) -> None:
    grid = np.random.default_rng(3).uniform(-1.5, 1.5, (2, 3, 4, 2)).astype(np.float32)
    for corners in (0, 1)[: 1 if mode == "cubic" else 2]:
        attrs: Any = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        check("GridSample", [floats(2, 3, 5, 6), grid], opset=20, **attrs)


def test_what_does_not_fit_is_said() -> None:
    x = floats(2, 3)
    cases: list[Any] = [
        ("Split", [x], [np.array([1, 1])], "do not make up the 3 elements", {"axis": 1}),
        ("GatherElements", [x], [np.array([[3]])], r"outside \[-2, 1\]", {}),
        ("ScatterND", [x], [np.array([[2]]), floats(1, 3)], r"outside \[-2, 1\]", {}),
        ("Pad", [x], [np.array([-2, 0, -1, 0])], "more away than there is", {}),
    ]  # fmt: skip
    for kind, inputs, weights, text, attrs in cases:
        given, known = {"x": inputs[0]}, {f"w{k}": w for k, w in enumerate(weights)}
        node = helper.make_node(
            kind, ["x", *known], ["y", "z"][: 2 if kind == "Split" else 1], **attrs
        )
        body = helper.make_graph(
            [node], "t", [helper.make_tensor_value_info("x", 1, given["x"].shape)],
            [helper.make_tensor_value_info("y", 1, None)],
            [helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(w.dtype), w.shape, w.ravel())
             for k, w in known.items()],
        )  # fmt: skip
        model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        with pytest.raises(ImportModelError, match=text):
            graph.load_onnx(model)


def test_what_depends_on_data_is_for_the_host() -> None:
    x = {"x": floats(4), "c": np.array([True, False, True, True])}
    node = helper.make_node("Compress", ["x", "c"], ["y"])
    network = graph.load_onnx(model_of([node], x, ["y"]))
    assert network.rest is not None
    np.testing.assert_array_equal(graph.compile(network).run(x)["y"], x["x"][x["c"]])
    check("Compress", [x["x"]], [x["c"]])
