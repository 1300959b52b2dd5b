"""Operators of networks under TVM's signatures, against the references of topi.testing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.topi.cases import agree, compiled, floats, ints
from tilewright import te, topi
from tilewright.base.errors import TilewrightError

nn: Any = topi.nn
ref: Any = topi.testing  # called with what lists hold


X, W, WG = floats(2, 6, 9, 11), floats(8, 6, 3, 3), floats(8, 3, 3, 3)
XH, WH, WGH = X.transpose(0, 2, 3, 1), W.transpose(2, 3, 1, 0), WG.transpose(2, 3, 1, 0)
X1, W1 = floats(2, 6, 15), floats(4, 6, 3)
X3, W3 = floats(1, 4, 5, 6, 7), floats(3, 4, 2, 3, 3)
WT, W1T, W3T = floats(6, 4, 3, 3), floats(6, 3, 4), floats(4, 3, 2, 3, 3)
WD = floats(6, 2, 3, 3)
G, B, M, V = floats(6), floats(6), floats(6), np.abs(floats(6)) + 0.5
WIDE = floats(2, 6, 16, 16)

CASES: dict[str, tuple[Any, list[Any], Any]] = {
    "conv2d_nchw": (
        lambda a, b: nn.conv2d_nchw(a, b, (2, 1), (1, 1), 1, "float32"),
        [X, W],
        lambda: ref.conv2d_nchw_python(X, W, (2, 1), 1),
    ),
    "group_conv2d_nchw": (
        lambda a, b: nn.group_conv2d_nchw(a, b, 1, 1, 1, 2),
        [X, WG],
        lambda: ref.conv2d_nchw_python(X, WG, 1, 1, 2),
    ),
    "conv2d": (
        lambda a, b: nn.conv2d(a, b, 2, "SAME", 1, "NHWC", "HWIO"),
        [XH, WH],
        lambda: ref.conv2d_nhwc_python(XH, WH, 2, "SAME"),
    ),
    "conv2d_hwcn": (
        lambda a, b: nn.conv2d_hwcn(a, b, 1, "VALID", 1),
        [X.transpose(2, 3, 1, 0), WH],
        lambda: ref.conv2d_hwcn_python(X.transpose(2, 3, 1, 0), WH, 1, "VALID"),
    ),
    "group_conv2d_nhwc": (
        lambda a, b: nn.group_conv2d_nhwc(a, b, 1, (1, 0, 1, 2), 1, 2),
        [XH, WGH],
        lambda: ref.conv2d_nhwc_python(XH, WGH, 1, (1, 0, 1, 2), 2),
    ),
    "conv1d_ncw": (
        lambda a, b: nn.conv1d_ncw(a, b, 2, 1, 2),
        [X1, W1],
        lambda: ref.conv1d_ncw_python(X1, W1, 2, 1, 2),
    ),
    "conv3d_ncdhw": (
        lambda a, b: nn.conv3d_ncdhw(a, b, 1, 1, 1, 1),
        [X3, W3],
        lambda: ref.conv3d_ncdhw_python(X3, W3, 1, 1),
    ),
    "conv3d_ndhwc": (
        lambda a, b: nn.conv3d_ndhwc(a, b, (1, 2, 1), (0, 1, 1), 1, 1),
        [X3.transpose(0, 2, 3, 4, 1), W3.transpose(2, 3, 4, 1, 0)],
        lambda: ref.conv3d_ncdhw_python(X3, W3, (1, 2, 1), (0, 1, 1)).transpose(0, 2, 3, 4, 1),
    ),
    "conv2d_transpose_nchw": (
        lambda a, b: nn.conv2d_transpose_nchw(a, b, (2, 2), (1, 1), "float32", (1, 0)),
        [X, WT],
        lambda: ref.conv2d_transpose_nchw_python(X, WT, 2, 1, (1, 0)),
    ),
    "group_conv2d_transpose_nchw": (
        lambda a, b: nn.group_conv2d_transpose_nchw(a, b, (2, 3), 1, "float32", (0, 0), 3),
        [X, WT],
        lambda: ref.conv2d_transpose_nchw_python(X, WT, (2, 3), 1, (0, 0), 3),
    ),
    "conv1d_transpose_ncw": (
        lambda a, b: nn.conv1d_transpose_ncw(a, b, (3,), (1,), "float32", (2,)),
        [X1, W1T],
        lambda: ref.conv1d_transpose_ncw_python(X1, W1T, 3, 1, 2),
    ),
    "conv3d_transpose_ncdhw": (
        lambda a, b: nn.conv3d_transpose_ncdhw(a, b, (1, 2, 2), (0, 1, 1), "float32", (0, 1, 0)),
        [X3, W3T],
        lambda: ref.conv3d_transpose_ncdhw_python(X3, W3T, (1, 2, 2), (0, 1, 1), (0, 1, 0)),
    ),
    "depthwise_conv2d_nchw": (
        lambda a, b: nn.depthwise_conv2d_nchw(a, b, 2, 1, 1),
        [X, WD],
        lambda: ref.depthwise_conv2d_python_nchw(X, WD, 2, 1),
    ),
    "depthwise_conv2d_nhwc": (
        lambda a, b: nn.depthwise_conv2d_nhwc(a, b, 2, 1, 1),
        [XH, WD.transpose(2, 3, 0, 1)],
        lambda: ref.depthwise_conv2d_python_nhwc(XH, WD.transpose(2, 3, 0, 1), 2, 1),
    ),
    "conv2d_winograd_nhwc": (
        lambda a, b: nn.conv2d_winograd_nhwc(a, b, 1, 1, 1, "float32"),
        [WIDE.transpose(0, 2, 3, 1), WH],
        lambda: ref.conv2d_nhwc_python(WIDE.transpose(0, 2, 3, 1), WH, 1, 1),
    ),
    "conv2d_winograd_nchw": (
        lambda a, b: nn.conv2d_winograd_nchw(a, b, 1, 1, 1, "float32"),
        [X, W],
        lambda: ref.conv2d_nchw_python(X, W, 1, 1),
    ),
    "correlation_nchw": (
        lambda a, b: nn.correlation_nchw(a, b, 3, 2, 1, 1, 2, True),
        [X, -X[::-1]],
        lambda: ref.correlation_nchw_python(X, -X[::-1], 3, 2, 1, 1, 2, True),
    ),
    "pool1d": (
        lambda a: nn.pool1d(a, 3, 2, 1, (1, 1), "max"),
        [X1],
        lambda: ref.poolnd_python(X1, [3], [2], [1], [1], [1], "max", False),
    ),
    "pool2d": (
        lambda a: nn.pool2d(a, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg", True, "NHWC", False),
        [XH],
        lambda: ref.poolnd_python(
            XH, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], "avg", False, True, layout="NHWC"
        ),
    ),
    "pool3d": (
        lambda a: nn.pool3d(a, (2, 2, 2), (2, 1, 2), (1, 2, 1), (0,) * 6, "avg"),
        [X3],
        lambda: ref.poolnd_python(X3, [2] * 3, [2, 1, 2], [1, 2, 1], [0] * 3, [0] * 3, "avg"),
    ),
    "adaptive_pool": (
        lambda a: nn.adaptive_pool(a, (4, 3), "avg"),
        [X],
        lambda: ref.adaptive_pool(X, (4, 3), "avg", "NCHW"),
    ),
    "adaptive_pool3d": (
        lambda a: nn.adaptive_pool3d(a, (2, 3, 7), "max"),
        [X3],
        lambda: ref.adaptive_pool(X3, (2, 3, 7), "max", "NCDHW"),
    ),
    "layer_norm": (
        lambda a, g, b: nn.layer_norm(a, g, b, [1]),
        [X, G, B],
        lambda: ref.layer_norm_python(X, G, B, [1]),
    ),
    "rms_norm": (
        lambda a, g: nn.rms_norm(a, g, [1]), [X, G], lambda: ref.rms_norm_python(X, G, [1]),
    ),
    "instance_norm": (
        lambda a, g, b: nn.instance_norm(a, g, b, [1]),
        [X, G, B],
        lambda: ref.instance_norm_python(X, G, B, [1]),
    ),
    "group_norm": (
        lambda a, g, b: nn.group_norm(a, g, b, 3, 3, [1, 2]),
        [XH, G, B],
        lambda: ref.group_norm_python(XH, G, B, 3, 3, [1, 2]),
    ),
    "lrn": (
        lambda a: nn.lrn(a, 3, 1, 0.5, 0.6, 1.5), [X],
        lambda: ref.lrn_python(X, 3, 1, 1.5, 0.5, 0.6),
    ),
    "l2_normalize": (
        lambda a: nn.l2_normalize(a, 1e-6, [1]), [X],
        lambda: ref.l2_normalize_python(X, 1e-6, [1]),
    ),
    "fast_softmax": (
        lambda a: nn.fast_softmax(a, 1), [X], lambda: ref.softmax_python(X, 1),
    ),
    "prelu": (
        lambda a, b: nn.prelu(a, b, 1), [X, G],
        lambda: np.where(X > 0, X, X * G[:, None, None]),
    ),
    "dilate": (
        lambda a: nn.dilate(a, [1, 2, 3], 7.0), [X1], lambda: ref.dilate_python(X1, [1, 2, 3], 7.0),
    ),
    "depth_to_space": (
        lambda a: nn.depth_to_space(a, 2, "NCHW", "CDR"),
        [WIDE[:, :4]], lambda: ref.depth_to_space_python(WIDE[:, :4], 2, "CDR"),
    ),
    "space_to_depth": (
        lambda a: nn.space_to_depth(a, 4), [WIDE], lambda: ref.space_to_depth_python(WIDE, 4),
    ),
    "space_to_batch_nd": (
        lambda a: nn.space_to_batch_nd(a, [2, 3], [0, 1], [0, 1], 5.0),
        [X[:, :, :7]],
        lambda: ref.space_to_batch_nd_python(X[:, :, :7], [2, 3], [0, 1], [0, 1], 5.0),
    ),
    "batch_to_space_nd": (
        lambda a: nn.batch_to_space_nd(a, [2, 3], [0, 1], [1, 0]),
        [floats(12, 3, 4, 2)],
        None,
    ),
    "mirror_pad": (
        lambda a: nn.mirror_pad(a, [0, 1, 2, 2], [0, 1, 0, 1]), [X],
        lambda: np.pad(X, [(0, 0), (1, 1), (2, 0), (2, 1)], mode="symmetric"),
    ),
    "fifo_buffer": (
        lambda a, b: nn.fifo_buffer(a, b, 2), [X1[:, :, :2], X1],
        lambda: np.concatenate([X1[:, :, 2:], X1[:, :, :2]], 2),
    ),
    "batch_matmul": (
        lambda a, b: nn.batch_matmul(a, b), [X1, W1[:2].transpose(0, 2, 1)[:, :, :6].repeat(5, 1)],
        None,
    ),
    "dense_pack": (
        lambda a, b: nn.dense_pack(a, b), [X1[0], floats(2, 15, 4)], None,
    ),
    "upsampling": (
        lambda a: nn.upsampling(a, 2, 3), [X], lambda: ref.upsampling_python(X, (2, 3)),
    ),
}  # fmt: skip


def wanted(name: str, arrays: list[Any]) -> Any:
    if name == "batch_to_space_nd":
        return ref.batch_to_space_nd_python(arrays[0], [2, 3], [0, 1], [1, 0])
    if name == "dense_pack":
        return arrays[0] @ arrays[1].transpose(1, 0, 2).reshape(15, 8)
    return ref.batch_matmul(arrays[0], arrays[1])


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference(name: str) -> None:
    function, arrays, expected = CASES[name]
    if name == "batch_matmul":
        arrays = [arrays[0], floats(2, 7, 15)]
    agree(function, arrays, expected() if expected else wanted(name, arrays), rtol=5e-4)


def test_blocked_convolutions() -> None:
    x, w, wd = X[:, :4], floats(8, 4, 3, 3), floats(4, 1, 3, 3)
    blocks = x.reshape(2, 2, 2, 9, 11).transpose(0, 1, 3, 4, 2)
    packed = w.reshape(2, 4, 2, 2, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    plain = ref.conv2d_nchw_python(x, w, 1, 1).reshape(2, 2, 4, 9, 11).transpose(0, 1, 3, 4, 2)
    layouts = ("NCHW2c", "NCHW4c")
    agree(lambda a, b: nn.conv2d_NCHWc(a, b, 1, 1, 1, *layouts), [blocks, packed], plain, rtol=5e-4)
    own = wd.reshape(2, 2, 1, 1, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    deep = ref.depthwise_conv2d_python_nchwc(blocks, own, 1, 1)
    agree(
        lambda a, b: nn.depthwise_conv2d_NCHWc(a, b, 1, 1, 1, "NCHW2c", "NCHW2c"),
        [blocks, own], deep, rtol=5e-4,
    )  # fmt: skip


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(training: bool) -> None:
    how = (1, 1e-3, True, True, training, 0.2)
    expected = ref.batch_norm(X, G, B, M, V, *how)
    agree(lambda *t: nn.batch_norm(*t, *how), [X, G, B, M, V], *expected, rtol=5e-4)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("counted", [True, False])
def test_pool_grad(kind: str, counted: bool) -> None:
    how = ([3, 3], [2, 2], [1, 1, 1, 1])
    shape = ref.poolnd_python(X, [3, 3], [2, 2], [1, 1], [1, 1], [1, 1], kind).shape
    grad = floats(*shape)
    expected = ref.pool_grad_nchw(X, grad, *how, kind, False, counted)
    agree(lambda g, a: nn.pool_grad(g, a, *how, kind, False, counted), [grad, X], expected)


def test_gradients_of_depthwise_convolutions() -> None:
    """By linearity: the sum of the result times a gradient is the inner product with each."""
    w = WD.transpose(2, 3, 0, 1)
    out = ref.depthwise_conv2d_python_nhwc(XH, w, 2, 1)
    grad = floats(*out.shape)
    how = (list(out.shape), list(XH.shape), [2, 2], [1, 1])
    (by_input,) = compiled(
        lambda f, g: nn.depthwise_conv2d_backward_input_nhwc(f, g, *how), [w, grad]
    )
    how = (list(out.shape), list(w.shape), [2, 2], [1, 1])
    (by_weight,) = compiled(
        lambda a, g: nn.depthwise_conv2d_backward_weight_nhwc(a, g, *how), [XH, grad]
    )
    total = float((out * grad).sum())
    np.testing.assert_allclose(float((by_input * XH).sum()), total, rtol=1e-3)
    np.testing.assert_allclose(float((by_weight * w).sum()), total, rtol=1e-3)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_nll_loss(reduction: str) -> None:
    scores, targets, weights = floats(4, 5, 3), ints(4, 3, low=0, high=5), np.abs(floats(5)) + 1
    expected = ref.nll_loss(scores, targets, weights, reduction, 2)
    how = (reduction, 2)
    agree(lambda a, b, c: nn.nll_loss(a, b, c, *how), [scores, targets, weights], expected)


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_lstm(projected: bool, reverse: bool) -> None:
    width = 2 if projected else 3
    arrays = [floats(4, 2, 5), floats(12, 5), floats(12, width), floats(12), floats(12)]
    names = ["Xs", "Wi", "Wh", "Bi", "Bh"]
    if projected:
        names.append("proj")
        arrays.append(floats(2, 3))
    given = dict(zip(names, arrays))
    expected = ref.lstm_python(**given, reverse=reverse, weight_layout="IOFG")
    agree(
        lambda *t: nn.lstm(**dict(zip(names, t)), reverse=reverse, weight_layout="IOFG"),
        arrays, *expected, rtol=5e-4,
    )  # fmt: skip


def test_numbers_of_few_bits() -> None:
    x, w = ints(3, 64, low=0, high=4, dtype="uint32"), ints(5, 64, low=0, high=2, dtype="uint32")
    plain = x.astype("int64") @ w.T.astype("int64")
    agree(lambda a, b: nn.bitserial_dense(a, b, 2, 1, "uint32", "int32", False), [x, w], plain)
    signs = x.astype("int64") @ (2 * w.T.astype("int64") - 1)
    agree(lambda a, b: nn.bitserial_dense(a, b, 2, 1, "uint32", "int32", True), [x, w], signs)
    a, b = floats(3, 64), floats(5, 64)
    agree(
        lambda p, q: nn.binary_dense(nn.binarize_pack(p), nn.binarize_pack(q)),
        [a, b], np.where(a >= 0, 1, -1) @ np.where(b >= 0, 1, -1).T,
    )  # fmt: skip
    image = ints(1, 32, 6, 7, low=0, high=4, dtype="uint32")
    kernel = ints(4, 32, 3, 3, low=0, high=2, dtype="uint32")
    expected = ref.conv2d_nchw_python(image.astype("int32"), kernel.astype("int32"), 1, 1)
    agree(
        lambda p, q: nn.bitserial_conv2d_nchw(p, q, 1, 1, 2, 1, "uint32", "int32", False),
        [image, kernel], expected,
    )  # fmt: skip


def test_sparse_products() -> None:
    dense = np.where(np.abs(floats(6, 8)) > 1.2, floats(6, 8), 0).astype("float32")
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype("int32")
    columns, values = np.nonzero(dense)[1].astype("int32"), dense[dense != 0]
    x = floats(5, 8)
    parts = [values, columns, starts]
    agree(lambda a, *t: nn.sparse_dense(a, *t), [x, *parts], x @ dense.T)
    agree(lambda a, *t: nn.sparse_dense(a, *t, sparse_lhs=True), [x, *parts], dense @ x.T)
    agree(lambda a, *t: nn.sparse_add(a, *t), [floats(6, 8) * 0 + 1, *parts], dense + 1)
    square = dense[:, :6]
    starts = np.concatenate([[0], np.cumsum((square != 0).sum(1))]).astype("int32")
    parts = [square[square != 0], np.nonzero(square)[1].astype("int32"), starts]
    new_values, new_columns, new_starts = compiled(nn.sparse_transpose, parts)
    back = np.zeros((6, 6), "float32")
    back[np.repeat(np.arange(6), np.diff(new_starts)), new_columns] = new_values
    np.testing.assert_array_equal(back, square.T)


def test_simulated_quantization() -> None:
    x, scale = floats(3, 4) * 40, np.array([0.5, 1, 2, 4], "float32")
    code = np.array(nn.SQNN_DTYPE_TO_CODE["int8"], "int32")
    expected = np.clip(np.rint(x / scale), -128, 127)
    agree(lambda a, c, s: nn.simulated_quantize(a, c, s, axis=1), [x, code, scale], expected)
    agree(lambda a, c, s: nn.simulated_dequantize(a, c, s, axis=1), [x, code, scale], x * scale)


def data(*shape: int) -> Any:
    return te.placeholder(shape, "float32", "t")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: nn.conv2d_nhwc(data(1, 4, 4, 3), data(3, 3, 2, 5), 1, 1, 1), "3 channels"),
        (lambda: nn.conv2d_nhwc(data(1, 4, 4, 3), data(3, 3, 3, 5), 1, "FULL", 1), "Unknown pad"),
        (
            lambda: nn.dense(data(2, 3), data(4, 3), None, None, "K2N"),
            "looks like .8i2j4i., got .K2N.",
        ),
        (
            lambda: nn.conv2d_transpose_nchw(
                data(1, 2, 3, 3), data(2, 2, 3, 3), 1, 0, "float32", (1, 1)
            ),
            "output_padding 1 is not below",
        ),
        (lambda: nn.conv2d_winograd_nchw(*[data(1, 1, 5, 5)] * 2, 2, 1, 1, None), "stride 1"),
        (lambda: nn.bitpack(data(3, 31), 1, 1, 1, "uint32"), "do not divide into words of 32"),
        (lambda: nn.nll_loss(*[data(3, 3)] * 3, "max", 0), "reduction is none, sum or mean"),
        (lambda: nn.dilate(data(3, 3), [1]), "size dismatch"),
        (lambda: topi.image.resize2d(data(1, 1, 3, 3), None, (2,)), "2 sizes are needed"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        call()
