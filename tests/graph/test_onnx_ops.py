"""Operators of the importer against ONNX Runtime: shapes, attributes, operator set versions."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.graph.ort import compare, model_of

RNG = np.random.default_rng(7)


def floats(*shape: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def check(kind: str, inputs: list[Any], weights: Any = (), opset: int = 17, **attrs: Any) -> None:
    """One node: arrays `inputs`, then `weights` (None: left out) as its inputs."""
    given = {f"x{k}": np.asarray(a) for k, a in enumerate(inputs)}
    known = {f"w{k}": np.asarray(a) for k, a in enumerate(weights) if a is not None}
    names = [*given, *("" if a is None else f"w{k}" for k, a in enumerate(weights))]
    node = helper.make_node(kind, names, ["y"], name="node", **attrs)
    compare(model_of([node], given, ["y"], known, opset), given)


CONVOLUTIONS = [
    {},
    {"pads": [1, 1, 1, 1]},
    {"pads": [0, 1, 2, 3], "strides": [2, 1]},
    {"dilations": [2, 1], "pads": [2, 0, 1, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    {"auto_pad": "VALID"},
]


@pytest.mark.parametrize("attrs", CONVOLUTIONS)
@pytest.mark.parametrize("channels", [(3, 16, 1), (16, 32, 1), (20, 7, 1), (16, 40, 1), (8, 8, 8)])
def test_conv(channels: tuple[int, int, int], attrs: Any) -> None:
    cin, cout, group = channels
    data, kernel = floats(2, cin, 11, 13), floats(cout, cin // group, 3, 3)
    check("Conv", [data], [kernel, floats(cout)], group=group, **attrs)


@pytest.mark.parametrize("kernel", [(1, 1), (5, 1), (1, 4), (7, 7)])
def test_conv_kernels(kernel: tuple[int, int]) -> None:
    check("Conv", [floats(1, 16, 9, 10)], [floats(16, 16, *kernel)], strides=[2, 2])


def test_conv_with_weights_as_input() -> None:
    check("Conv", [floats(1, 4, 6, 5), floats(6, 2, 3, 3), floats(6)], group=2)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 2, 1]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [3, 2], "pads": [1, 1, 0, 0], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"kernel_shape": [2, 4], "auto_pad": "SAME_LOWER"},
        {"kernel_shape": [12, 1]},
    ],
)
def test_pool(kind: str, channels: int, attrs: Any) -> None:
    # positive data would hide a padding of zeros in a maximum
    check(kind, [-np.abs(floats(2, channels, 12, 13))], **attrs)


@pytest.mark.parametrize("ceil", [0, 1])
def test_average_that_counts_padding(ceil: int) -> None:
    check(
        "AveragePool",
        [floats(1, 2, 9, 8)],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        ceil_mode=ceil,
        count_include_pad=1,
        opset=19,
    )


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(1, 3, 7, 5), (2, 16, 1, 1), (2, 32, 13, 13), (1, 5, 9)])
def test_global_pool(kind: str, shape: tuple[int, ...]) -> None:
    check(kind, [floats(*shape)])


@pytest.mark.parametrize("shape", [(2, 5), (1, 4, 3, 3), (2, 16, 1, 7)])
def test_batch_norm(shape: tuple[int, ...]) -> None:
    c = shape[1]
    check("BatchNormalization", [floats(*shape)],
          [floats(c), floats(c), floats(c), np.abs(floats(c)) + 0.1], epsilon=1e-3)  # fmt: skip


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("m, n, k", [(1, 1000, 64), (5, 17, 3), (1, 1, 1), (33, 16, 20)])
def test_gemm(m: int, n: int, k: int, trans_a: int, trans_b: int) -> None:
    a = floats(*((k, m) if trans_a else (m, k)))
    b = floats(*((n, k) if trans_b else (k, n)))
    check("Gemm", [a], [b, floats(n)], transA=trans_a, transB=trans_b)
    check("Gemm", [a, b], [floats(m, 1)], transA=trans_a, transB=trans_b, alpha=0.5, beta=-2.0)
    check("Gemm", [a], [b], transA=trans_a, transB=trans_b)


@pytest.mark.parametrize(
    "left, right",
    [
        ((4, 5), (5, 7)), ((3, 4, 5), (5, 7)), ((2, 3, 4, 5), (2, 3, 5, 6)), ((5,), (5, 3)),
        ((3, 5), (5,)), ((5,), (5,)), ((5,), (2, 5, 3)), ((2, 4, 5), (5,)),
        ((2, 1, 4, 5), (3, 5, 2)), ((4, 5), (3, 5, 2)),
    ],
)  # fmt: skip
def test_matmul(left: Any, right: Any) -> None:
    check("MatMul", [floats(*left), floats(*right)])
    check("MatMul", [floats(*left)], [floats(*right)])


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", [(1, 1000), (3, 5), (2, 3, 4), (2, 33, 3, 2)])
def test_softmax(kind: str, shape: tuple[int, ...]) -> None:
    for axis in range(-1, len(shape)):
        check(kind, [floats(*shape) * 20], axis=axis)
        check(kind, [floats(*shape) * 20], axis=axis, opset=11)
    check(kind, [floats(*shape)])
    check(kind, [floats(*shape)], opset=9)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "Equal"])
@pytest.mark.parametrize(
    "left, right",
    [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (1, 4)), ((), (5,)), ((7,), ()),
     ((1, 16, 5, 5), (1, 16, 1, 1))],
)  # fmt: skip
def test_binary(kind: str, left: Any, right: Any) -> None:
    a, b = np.abs(floats(*left)) + 0.5, np.abs(floats(*right)) + 0.5
    check(kind, [a, b])
    check(kind, [a], [b])
    if kind not in ("Pow", "Div"):
        check(kind, [(a * 5).astype(np.int32), (b * 5).astype(np.int32)])


def test_integer_division_truncates() -> None:
    a, b = np.array([7, -7, 7, -7, 0], np.int64), np.array([2, 2, -2, -2, 5], np.int64)
    check("Div", [a, b])
    check("Div", [a.astype(np.int32), b.astype(np.int32)])


UNARY = ["Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Abs", "Neg", "Floor", "Ceil", "Sin", "Cos"]


@pytest.mark.parametrize("kind", [*UNARY, "Identity", "LeakyRelu", "Reciprocal"])
@pytest.mark.parametrize("shape", [(), (1,), (37,), (3, 1, 5)])
def test_unary(kind: str, shape: tuple[int, ...]) -> None:
    check(kind, [floats(*shape) * 3])


@pytest.mark.parametrize("kind", ["Log", "Sqrt"])
def test_unary_of_positive(kind: str) -> None:
    check(kind, [np.abs(floats(3, 17)) + 0.01])


@pytest.mark.parametrize("kind", ["Sum", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_inputs(kind: str, count: int) -> None:
    check(kind, [floats(3, 4) for _ in range(count)])


def test_clip() -> None:
    x = floats(4, 9) * 4
    low, high = np.float32(-1), np.float32(2)
    check("Clip", [x], [low, high])
    check("Clip", [x], [None, high])
    check("Clip", [x], [low])
    check("Clip", [x])
    check("Clip", [x], opset=7, min=0.0, max=6.0)


@pytest.mark.parametrize("to", [1, 6, 7, 9, 10, 11])
@pytest.mark.parametrize("source", ["float32", "int32", "int64", "float64", "uint8"])
def test_cast(source: str, to: int) -> None:
    check("Cast", [np.array([0, 1, 2, 3.7, 100]).astype(source)], to=to)


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("keep", [0, 1])
def test_reduce(kind: str, keep: int) -> None:
    x = floats(3, 5, 70)
    for axes in ([0], [1], [-1], [0, 2], [1, 2], [0, 1, 2]):
        check(kind, [x], axes=axes, keepdims=keep, opset=11)
        check(kind, [x], [np.array(axes, np.int64)], keepdims=keep, opset=18)
    check(kind, [x], keepdims=keep, opset=11)
    check(kind, [x], keepdims=keep, opset=18)
    check(kind, [x], keepdims=keep, opset=18, noop_with_empty_axes=1)


def test_where() -> None:
    check("Where", [floats(3, 4) > 0, floats(3, 4), floats(4)])


def test_movement() -> None:
    x = floats(2, 3, 4)
    check("Reshape", [x], [np.array([4, -1])])
    check("Reshape", [x], [np.array([0, 0, 2, 2])])
    check("Flatten", [x])
    for axis in (-1, 0, 2, 3):
        check("Flatten", [x], axis=axis)
    check("Transpose", [x])
    check("Transpose", [x], perm=[1, 2, 0])
    check("Squeeze", [floats(1, 3, 1)])
    check("Squeeze", [floats(1, 3, 1)], [np.array([-1])])
    check("Squeeze", [floats(1, 3, 1)], axes=[0], opset=11)
    check("Unsqueeze", [x], [np.array([0, -1])])
    check("Unsqueeze", [x], axes=[1, 3], opset=11)
    check("Expand", [floats(3, 1)], [np.array([2, 1, 4])])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int) -> None:
    shapes = {0: [(1, 3, 4), (2, 3, 4)], 1: [(2, 1, 4), (2, 5, 4)], -1: [(2, 3, 1), (2, 3, 6)]}
    check("Concat", [floats(*s) for s in shapes[axis]], axis=axis)
    check("Concat", [floats(2, 3, 4)], axis=axis)


def test_pad() -> None:
    x = floats(2, 3, 4)
    check("Pad", [x], [np.array([1, 0, 2, 0, 3, 1]), np.float32(1.5)])
    check("Pad", [x], [np.array([0, 0, 1, 0, 0, 1])])
    check("Pad", [x], pads=[0, 1, 0, 1, 0, 0], value=-2.0, opset=9)
    check("Pad", [x], [np.array([1, 2]), None, np.array([-1])], opset=18)
    check("Pad", [x.astype(np.int32)], [np.array([1, 0, 2, 0, 3, 1]), np.int32(7)])


def test_slice() -> None:
    x = floats(5, 6, 7)
    i = np.array
    check("Slice", [x], [i([1]), i([4])])
    check("Slice", [x], [i([1, -3]), i([100, -1]), i([0, 2]), i([2, 1])])
    check("Slice", [x], [i([-1, 5]), i([-100, 0]), i([0, 1]), i([-1, -2])])
    check("Slice", [x], starts=[1, 2], ends=[3, -1], axes=[0, 2], opset=9)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int) -> None:
    indices = np.array([[0, -1, 2], [1, 1, 0]])
    check("Gather", [floats(3, 4, 5)], [indices], axis=axis)
    check("Gather", [floats(3, 4, 5), indices.astype(np.int32)], axis=axis)


def test_shapes_are_computed_ahead() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "first_axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        helper.make_node("ConstantOfShape", ["shape0"], ["z"]),
    ]
    weights = {
        "first": np.array(0), "first_axis": np.array([0]), "rest": np.array([-1]),
        "shape0": np.array([2, 3]),
    }  # fmt: skip
    x = {"x": floats(2, 3, 4)}
    compare(model_of(nodes, x, ["y", "z"], weights), x)


def test_dropout_keeps_everything() -> None:
    check("Dropout", [floats(3, 4)])
    check("Dropout", [floats(3, 4)], ratio=0.3, opset=11)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_floats(dtype: str) -> None:
    x = {"x": floats(2, 9, dtype=dtype)}
    nodes = [
        helper.make_node("Add", ["x", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    rtol = 2e-3 if dtype == "float16" else 1e-12
    compare(model_of(nodes, x, ["y"], {"b": floats(9, dtype=dtype)}), x, rtol)


def test_empty_arrays() -> None:
    for shape, axis in [((1, 0), 0), ((1, 7, 0, 3), 1), ((3, 0, 4), 2)]:
        check("Flatten", [floats(*shape)], axis=axis)
        check("Unsqueeze", [floats(*shape)], [np.array([1])])
    check("Reshape", [floats(2, 0, 3)], [np.array([0, 0, 3, 1])])
    i = np.array
    check("Slice", [floats(5)], [i([-6]), i([-2]), i([0]), i([-3])])
    check("Slice", [floats(5)], [i([4]), i([1]), i([0]), i([1])])
    check("Slice", [floats(3)], [i([-9]), i([-(2**31)]), i([0]), i([-1])])
    check("Concat", [floats(2, 3), floats(0, 3)], axis=0)
    check("ReduceSum", [floats(2, 0)], [np.array([1])])


def test_scalars() -> None:
    scalar = np.array(2.5, np.float32)
    for weights in ([], [scalar]):
        inputs = [] if weights else [scalar]
        check("Expand", inputs, [*weights, np.array([2, 3])])
        check("Unsqueeze", inputs, [*weights, np.array([0])])
        check("Reshape", inputs, [*weights, np.array([1, 1])])
