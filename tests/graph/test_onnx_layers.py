"""Convolution, pooling and normalisation of the importer against ONNX Runtime, at ranks, strides
and operator sets that onnx's own cases do not have."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.ort import compare
from tests.graph.single import run_node
from tests.graph.test_onnx_ops import check, floats
from tilewright import graph
from tilewright.base.errors import ImportModelError


@pytest.mark.parametrize(
    "shape, kernel, attrs",
    [
        ((2, 3, 5, 6, 7), (4, 3, 2, 3, 1), {"pads": [1, 0, 0, 1, 2, 0], "strides": [2, 1, 3]}),
        ((1, 4, 4, 5, 6), (6, 2, 3, 3, 3), {"group": 2, "auto_pad": "SAME_UPPER"}),
        ((1, 8, 3, 4, 5), (8, 1, 2, 2, 2), {"group": 8, "dilations": [1, 2, 2]}),
        ((1, 3, 11), (5, 3, 4), {"strides": [3], "pads": [2, 1]}),
        ((0, 3, 5, 5, 5), (4, 3, 2, 2, 2), {}),
    ],
)
def test_convolution_of_other_ranks(shape: Any, kernel: Any, attrs: Any) -> None:
    if shape[0]:
        check("Conv", [floats(*shape)], [floats(*kernel), floats(kernel[0])], **attrs)
    else:
        node = helper.make_node("Conv", ["x", "w"], ["y"])
        model = _model([node], {"x": floats(*shape), "w": floats(*kernel)})
        (y,) = (
            graph.compile(graph.load_onnx(model))
            .run({"x": floats(*shape), "w": floats(*kernel)})
            .values()
        )
        assert y.shape == (0, 4, 4, 4, 4)


def _model(nodes: Any, inputs: Any, opset: int = 17, outputs: Any = ("y",)) -> onnx.ModelProto:
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in inputs.items()
    ]
    body = helper.make_graph(nodes, "t", infos, [onnx.ValueInfoProto(name=o) for o in outputs])
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=sets, ir_version=8)
    return model


TRANSPOSED = [
    ((2, 4, 5), (4, 3, 4), {"strides": [3], "pads": [1, 2], "output_padding": [1]}),
    ((2, 4, 5, 6), (4, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 4, 5, 6), (4, 2, 4, 2), {"strides": [2, 3], "group": 2}),
    ((1, 4, 5, 6), (4, 1, 3, 2), {"strides": [1, 1], "group": 4, "dilations": [2, 3]}),
    ((1, 3, 4, 3), (3, 5, 2, 3), {"strides": [3, 2], "dilations": [2, 1], "pads": [0, 1, 2, 0]}),
    ((1, 3, 4, 3), (3, 5, 3, 3), {"strides": [2, 2], "output_shape": [8, 6]}),
    ((1, 3, 4, 3), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 3, 2, 3, 4), (3, 2, 3, 2, 3), {"strides": [2, 1, 3], "pads": [1, 0, 1, 1, 0, 0]}),
    ((1, 2, 3, 3), (2, 2, 1, 1), {"strides": [2, 2]}),
    ((1, 4, 3, 5), (4, 32, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((2, 3, 2, 3), (3, 33, 5, 4), {"strides": [3, 2], "pads": [2, 1, 3, 0], "dilations": [1, 2]}),
    (
        (1, 3, 2, 2),
        (3, 32, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    ((2, 4, 1, 1), (4, 3, 4, 3), {}),
    ((1, 4, 1, 1), (4, 3, 4, 3), {"strides": [2, 3], "pads": [1, 0, 1, 2], "dilations": [2, 1]}),
    (
        (2, 4, 1, 1),
        (4, 3, 2, 2),
        {"strides": [3, 3], "output_padding": [2, 1], "pads": [1, 0, 0, 0]},
    ),
]


@pytest.mark.parametrize("shape, kernel, attrs", TRANSPOSED)
def test_transposed_convolution(shape: Any, kernel: Any, attrs: Any) -> None:
    bias = floats(kernel[1] * attrs.get("group", 1))
    check("ConvTranspose", [floats(*shape)], [floats(*kernel), bias], **attrs)
    check("ConvTranspose", [floats(*shape), floats(*kernel)], **attrs)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [2, 3, 2], "strides": [2, 2, 1], "pads": [0, 1, 1, 1, 0, 0]},
        {"kernel_shape": [3, 2, 2], "strides": [2, 2, 3], "ceil_mode": 1},
        {"kernel_shape": [2, 2, 2], "dilations": [2, 1, 2]},
        {"kernel_shape": [2, 1, 3], "auto_pad": "SAME_LOWER"},
    ],
)
def test_pooling_over_three_dimensions(kind: str, attrs: Any) -> None:
    if kind == "LpPool" and len(set(attrs).intersection(["dilations", "ceil_mode"])):
        attrs = {**attrs, "p": 3}
    x = [-np.abs(floats(2, 3, 6, 7, 5))]
    check(kind, x, opset=22 if kind != "MaxPool" else 17, **attrs)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 9), (2, 3, 7, 6), (1, 2, 5, 4, 6)])
def test_where_maxima_are(shape: Any, order: int) -> None:
    rank = len(shape) - 2
    x = {"x": np.round(floats(*shape) * 2).astype(np.float32)}  # some are equal
    attrs: Any = {"kernel_shape": [3] * rank, "strides": [2] * rank, "pads": [1] * (2 * rank)}
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], storage_order=order, **attrs)
    compare(_model([node], x, outputs=("y", "i")), x)


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pooling_of_three_dimensions(kind: str) -> None:
    check(kind, [floats(2, 3, 4, 5, 3)])


def test_maxima_put_back() -> None:
    x = floats(1, 2, 4, 6)
    y = {"x": x}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["m", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("MaxUnpool", ["m", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    compare(_model(nodes, y), y)


def test_regions() -> None:
    x = floats(2, 3, 9, 11)
    boxes = np.array([[0, 0, 1, 5, 7], [1, 2, 2, 9, 4], [0, 4, 3, 4, 3]], np.float32)
    check("MaxRoiPool", [x, boxes], pooled_shape=[3, 2], spatial_scale=0.9)
    images = np.array([0, 1, 0])
    for mode in ("avg", "max"):
        for samples in (0, 2):
            attrs = {"output_height": 3, "output_width": 2, "sampling_ratio": samples}
            check("RoiAlign", [x, boxes[:, 1:], images], mode=mode, spatial_scale=0.7, **attrs)


REGIONS = [  # inside, wider than the image, partly and wholly outside, of no area, turned round
    [1, 1, 5, 7], [-30, -9, 60, 200], [-4, 5, 3, 30], [40, 1, 50, 9], [3, 3, 3, 3], [8, 9, 2, 1],
]  # fmt: skip


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("way", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("channels, width", [(32, 11), (5, 1)])
def test_regions_of_any_size(mode: str, way: str, samples: int, channels: int, width: int) -> None:
    boxes = np.array(REGIONS, np.float32)
    attrs: dict[str, Any] = {"output_height": 3, "output_width": 4, "sampling_ratio": samples}
    attrs |= {"coordinate_transformation_mode": way, "mode": mode, "spatial_scale": 0.9}
    inputs = [floats(2, channels, 9, width), boxes, np.array([0, 1, 0, 1, 1, 0])]
    check("RoiAlign", inputs, **attrs)


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_layer_normalization(axis: int) -> None:
    x = floats(3, 5, 67)
    inner = x.shape[axis:]
    check("LayerNormalization", [x], [floats(*inner), floats(*inner)], axis=axis, epsilon=1e-3)
    check("LayerNormalization", [x, floats(*inner)], axis=axis)


@pytest.mark.parametrize("shape", [(2, 6, 35), (1, 6, 5, 7), (2, 6, 2, 3, 4), (3, 6, 1)])
def test_instances_and_groups(shape: Any) -> None:
    check("InstanceNormalization", [floats(*shape)], [floats(6), floats(6)])
    x = floats(*shape).astype(np.float64)
    for opset, count in ((18, 3), (21, 6)):
        scale, shift = floats(count), floats(count)
        node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)
        given = {"x": x.astype(np.float32), "s": scale, "b": shift}
        (got,) = graph.compile(graph.load_onnx(_model([node], given, opset))).run(given).values()
        rows = x.reshape(shape[0], 3, -1)
        flat = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
        each = [
            np.repeat(v, 6 // count).reshape(1, 6, *[1] * (len(shape) - 2)) for v in (scale, shift)
        ]
        np.testing.assert_allclose(got, flat.reshape(shape) * each[0] + each[1], atol=1e-5)


@pytest.mark.parametrize("size, beta", [(3, 0.75), (4, 0.5), (7, 1.0)])
def test_local_response(size: int, beta: float) -> None:
    if size % 2:
        check("LRN", [floats(2, 5, 4, 3)], size=size, beta=beta, alpha=0.1, bias=1.5)


def test_local_response_of_more_neighbours_than_there_are() -> None:
    """As fast as of all that there are, which are what it is of."""
    size = (1 << 40) + 1
    data = floats(2, 5, 4, 3)
    found = run_node("LRN", [data], size=size, alpha=0.1 * size / 9)
    np.testing.assert_allclose(found, run_node("LRN", [data], size=9, alpha=0.1), 1e-5)


MICROSOFT = [
    ("SkipLayerNormalization", [(2, 3, 16), (2, 3, 16), (16,), (16,), (16,)], 4),
    ("SkipLayerNormalization", [(2, 3, 16), (3, 16), (16,), (16,)], 1),
    ("SkipSimplifiedLayerNormalization", [(2, 3, 16), (2, 3, 16), (16,), (16,)], 4),
]


@pytest.mark.parametrize("kind, shapes, count", MICROSOFT)
def test_skip_connections(kind: str, shapes: Any, count: int) -> None:
    given = {f"x{k}": floats(*s) for k, s in enumerate(shapes)}
    outputs = ["y", "", "", "sum"] if count == 4 else ["y"]
    node = helper.make_node(kind, list(given), outputs, domain="com.microsoft", epsilon=1e-5)
    compare(_model([node], given, outputs=[o for o in outputs if o]), given)


def test_what_does_not_fit_is_said() -> None:
    x = floats(1, 4, 5, 5)
    cases: list[Any] = [
        ("ConvTranspose", {"x": x, "w": floats(3, 2, 3, 3)}, {}, "do not fit the data"),
        ("MaxPool", {"x": x}, {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}, "in the padding"),
        ("AveragePool", {"x": x}, {"kernel_shape": [2]}, "window of extents"),
        ("GroupNormalization", {"x": x, "s": floats(3), "b": floats(3)}, {"num_groups": 3},
         "do not divide into 3 groups"),
        ("LRN", {"x": x}, {"size": 0}, "must be 1 or more"),
    ]  # fmt: skip
    for kind, given, attrs, text in cases:
        node = helper.make_node(kind, list(given), ["y"], **attrs)
        with pytest.raises(ImportModelError, match=text):
            graph.load_onnx(_model([node], given, 21))
