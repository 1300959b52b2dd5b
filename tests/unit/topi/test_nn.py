"""Convolution, pooling, products, softmax against plain NumPy loops in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.run import check, floats
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.base.errors import TilewrightError
from tilewright.loopir.visit import children, walk
from tilewright.topi import nn

Array = np.ndarray[Any, Any]


def windows(x: Array, kernel: Any, strides: Any, pads: Any, dilation: Any, fill: float) -> Array:
    """(N, C, OH, OW, KH, KW), or with more dimensions: what each window sees."""
    rank = len(kernel)
    widths = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])]
    x = np.pad(x, widths, constant_values=fill)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + rank)))
    steps = (slice(None, None, n) for n in (*strides, *dilation))
    return view[(slice(None), slice(None), *steps)]


def convolve(x: Array, w: Array, strides: Any, pads: Any, dilation: Any, groups: int) -> Array:
    seen = windows(x.astype(np.float64), w.shape[2:], strides, pads, dilation, 0.0)
    parts = zip(np.split(seen, groups, 1), np.split(w.astype(np.float64), groups))
    out, taps = "hwd"[: w.ndim - 2], "yxz"[: w.ndim - 2]
    formula = f"nc{out}{taps},fc{taps}->nf{out}"
    return np.concatenate([np.einsum(formula, s, k) for s, k in parts], 1)


def blocked(x: Array, block: int) -> Array:
    """(N, C, ...) to (N, C / block, ..., block)."""
    apart = x.reshape(x.shape[0], -1, block, *x.shape[2:])
    return np.ascontiguousarray(np.moveaxis(apart, 2, -1))


SETTINGS = [
    ((1, 1), (0, 0, 0, 0), (1, 1)),
    ((2, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 3), (0, 2, 1, 0), (2, 1)),
]


@pytest.mark.parametrize("strides, pads, dilation", SETTINGS)
@pytest.mark.parametrize("cin, cout, groups", [(3, 8, 1), (1, 1, 1), (6, 4, 2), (5, 5, 5)])
def test_conv2d_nchw(
    cin: int, cout: int, groups: int, strides: Any, pads: Any, dilation: Any
) -> None:
    x, w = floats(2, cin, 9, 13), floats(cout, cin // groups, 3, 2)
    expected = convolve(x, w, strides, pads, dilation, groups).astype(np.float32)
    check(lambda a, b: nn.grouped_conv2d(a, b, strides, pads, dilation, groups), [x, w], expected)


@pytest.mark.parametrize("strides, pads, dilation", SETTINGS)
def test_conv_nchwc_with_a_reduction_in_parts(strides: Any, pads: Any, dilation: Any) -> None:
    x, w = floats(2, 1024, 9, 13), floats(32, 1024, 3, 2)
    plain = convolve(x, w, strides, pads, dilation, 1).astype(np.float32)
    h, v = plain.shape[2:]
    expected = np.maximum(plain.reshape(2, 2, 16, h, v).transpose(0, 1, 3, 4, 2), 0)
    blocks = x.reshape(2, 64, 16, 9, 13).transpose(0, 1, 3, 4, 2).copy()
    packed = w.reshape(2, 16, 64, 16, 3, 2).transpose(0, 2, 4, 5, 3, 1).copy()

    def function(a: Any, b: Any) -> Any:
        return nn.relu(nn.conv_nchwc(a, b, strides, pads, dilation))

    check(function, [blocks, packed], expected)
    tensors = [te.placeholder(a.shape, "float32", f"p{n}") for n, a in enumerate((blocks, packed))]
    with tw.target.Target("llvm -mcpu=skylake-avx512") as target:  # whatever runs the test
        s = topi.default_schedule(function(*tensors), target)
    assert any("rco_outer" in str(axis) for stage in s.stages for axis in stage.leaf_iter_vars)


@pytest.mark.parametrize("strides, pads, dilation", SETTINGS)
@pytest.mark.parametrize("cin, cb, fout", [(8, 4, 16), (3, 3, 32), (16, 16, 48), (1, 1, 16)])
def test_conv_nchwc(cin: int, cb: int, fout: int, strides: Any, pads: Any, dilation: Any) -> None:
    x, w = floats(1, cin, 9, 13), floats(fout, cin, 3, 2)
    plain = convolve(x, w, strides, pads, dilation, 1).astype(np.float32)
    n, f, h, v = plain.shape
    expected = plain.reshape(n, f // 16, 16, h, v).transpose(0, 1, 3, 4, 2)
    blocks = x.reshape(1, cin // cb, cb, 9, 13).transpose(0, 1, 3, 4, 2).copy()
    packed = w.reshape(fout // 16, 16, cin // cb, cb, 3, 2).transpose(0, 2, 4, 5, 3, 1).copy()
    check(lambda a, b: nn.conv_nchwc(a, b, strides, pads, dilation), [blocks, packed], expected)
    check(lambda t: nn.pack_kernel(t, cb, 16), [w], packed)


VOLUMES = [
    ((1, 1, 1), (1, 1, 1, 1, 1, 1), (1, 1, 1)),
    ((2, 1, 2), (0, 2, 1, 2, 0, 1), (1, 2, 1)),
]


@pytest.mark.parametrize("strides, pads, dilation", VOLUMES)
@pytest.mark.parametrize("lead", [False, True])
def test_convolutions_over_volumes(strides: Any, pads: Any, dilation: Any, lead: bool) -> None:
    """`lead`: data that is computed first, whose padding is copied."""
    x, w, k = floats(2, 16, 4, 5, 7), floats(32, 16, 2, 3, 3), floats(16, 1, 2, 3, 3)
    seen = np.maximum(x, 0) if lead else x
    expected = convolve(seen, w, strides, pads, dilation, 1).astype(np.float32)
    packed = w.reshape(2, 16, 2, 8, 2, 3, 3).transpose(0, 2, 4, 5, 6, 3, 1).copy()
    check(lambda t: nn.pack_kernel(t, 8, 16), [w], packed)

    def first(t: Any) -> Any:
        return nn.relu(t) if lead else t

    def all_channels(a: Any, b: Any) -> Any:
        return nn.relu(nn.conv_nchwc(first(a), b, strides, pads, dilation))

    wanted = blocked(np.maximum(expected, 0), 16)
    check(all_channels, [blocked(x, 8), packed], wanted)
    each = convolve(seen, k, strides, pads, dilation, 16).astype(np.float32)

    def one_by_one(a: Any, b: Any) -> Any:
        return nn.depthwise_nchwc(first(a), b, strides, pads, dilation)

    own = k.reshape(2, 8, 2, 3, 3).transpose(0, 2, 3, 4, 1).copy()
    check(lambda t: nn.pack_depthwise(t, 8), [k], own)
    check(one_by_one, [blocked(x, 8), own], blocked(each, 8))


def test_no_copy_is_made_of_data_with_its_padding() -> None:
    x, k = te.placeholder((1, 2, 14, 14, 16), "float32"), te.placeholder((2, 3, 3, 16), "float32")
    with tw.target.Target("llvm -mcpu=skylake-avx512") as target:
        out = nn.depthwise_nchwc(x, k, (1, 1), (1, 1, 1, 1))
        text = str(tw.lower(topi.default_schedule(out, target), [x, k, out]))
    assert "data_pad" not in text and "likely" not in text


def test_conv2d_with_what_follows_on_its_tiles() -> None:
    x, w, b, r = (
        floats(1, 2, 7, 7, 16),
        floats(3, 2, 3, 3, 16, 16),
        floats(3, 16),
        floats(1, 3, 5, 5, 16),
    )

    def network(t: Any, k: Any, bias: Any, other: Any) -> Any:
        return nn.relu(topi.add(nn.bias_add(nn.conv_nchwc(t, k), bias), other))

    plain = x.transpose(0, 1, 4, 2, 3).reshape(1, 32, 7, 7)
    kernel = w.transpose(0, 5, 1, 4, 2, 3).reshape(48, 32, 3, 3)
    y = convolve(plain, kernel, (1, 1), (0, 0, 0, 0), (1, 1), 1)
    y = y.reshape(1, 3, 16, 5, 5).transpose(0, 1, 3, 4, 2) + b[None, :, None, None] + r
    check(network, [x, w, b, r], np.maximum(y, 0).astype(np.float32))


POOLS = [
    ((2, 2), (2, 2), (0, 0, 0, 0)),
    ((3, 3), (2, 2), (1, 1, 1, 1)),
    ((3, 2), (1, 2), (1, 0, 2, 1)),
    ((9, 11), (1, 1), (0, 0, 0, 0)),
]


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pools_of_blocked_volumes(kind: str) -> None:
    x = floats(2, 16, 4, 5, 7, low=-3, high=-1)
    kernel, strides, pads = (2, 3, 3), (1, 2, 2), (1, 0, 1, 0, 1, 1)
    how = (kernel, strides, (1, 1, 1), pads, kind)
    if kind == "max":
        expected = windows(x, kernel, strides, pads, (1, 1, 1), -np.inf).max((5, 6, 7))
    else:
        expected = windows(x, kernel, strides, pads, (1, 1, 1), 0.0).mean((5, 6, 7))
    check(lambda t: nn.pool_nd(t, *how), [x], expected)
    check(lambda t: nn.pool_nd(t, *how), [blocked(x, 8)], blocked(expected, 8))


@pytest.mark.parametrize("kernel, strides, pads", POOLS)
@pytest.mark.parametrize("channels", [1, 16, 5])
def test_pool2d(channels: int, kernel: Any, strides: Any, pads: Any) -> None:
    x = floats(2, channels, 9, 11, low=-3, high=-1)
    seen = windows(x, kernel, strides, pads, (1, 1), -np.inf).max((4, 5))
    check(lambda t: nn.pool2d(t, kernel, strides, (1, 1), pads, "max"), [x], seen)
    total = windows(x, kernel, strides, pads, (1, 1), 0.0).sum((4, 5))
    count = windows(np.ones_like(x), kernel, strides, pads, (1, 1), 0.0).sum((4, 5))
    check(
        lambda t: nn.pool2d(t, kernel, strides, (1, 1), pads, "avg", count_include_pad=False),
        [x],
        total / count,
    )
    size = np.float32(kernel[0] * kernel[1])
    check(
        lambda t: nn.pool2d(t, kernel, strides, (1, 1), pads, "avg"),
        [x],
        total / size,
    )


@pytest.mark.parametrize("size, expected", [(6, 3), (7, 3), (8, 4), (5, 2)])
def test_ceil_mode_keeps_windows_that_start_inside(size: int, expected: int) -> None:
    x = floats(1, 1, size, size)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 2), (0, 2)), constant_values=-np.inf)
    seen = windows(padded, (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), 0.0).max((4, 5))
    check(
        lambda t: nn.pool2d(t, (3, 3), (2, 2), 1, 0, "max", True),
        [x],
        seen[:, :, :expected, :expected],
    )


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_pool2d_of_integers(dtype: str) -> None:
    x = np.full((1, 2, 4, 4), -5, dtype)
    check(
        lambda t: nn.pool2d(t, (3, 3), (2, 2), 1, (1,) * 4, "max"),
        [x],
        np.full((1, 2, 2, 2), -5, dtype),
    )


@pytest.mark.parametrize("shape", [(1, 3, 7, 5), (2, 16, 1, 1), (2, 2, 13, 13, 16)])
def test_global_pool(shape: Any) -> None:
    x = floats(*shape)
    check(lambda t: nn.global_pool(t, "max"), [x], x.max((2, 3), keepdims=True))
    mean = x.astype(np.float64).mean((2, 3), keepdims=True).astype(np.float32)
    check(lambda t: nn.global_pool(t, "avg"), [x], mean, rtol=1e-4)


SIZES = [(1, 1, 1), (1, 17, 33), (5, 16, 7), (13, 37, 64), (40, 48, 3)]


@pytest.mark.parametrize("m, n, k", SIZES)
def test_products(m: int, n: int, k: int) -> None:
    a, b = floats(m, k), floats(k, n)
    c = (a.astype(np.float64) @ b).astype(np.float32)
    check(nn.matmul, [a, b], c)
    check(lambda s, t: nn.matmul(s, t, transpose_a=True), [a.T.copy(), b], c)
    check(nn.dense, [a, b.T.copy()], c)
    batches = np.stack([a, -a, a * 2]), np.stack([b, b, b + 1])
    wanted = (batches[0].astype(np.float64) @ batches[1]).astype(np.float32)
    check(lambda s, t: nn.batch_matmul(s, t, transpose_b=False), list(batches), wanted)
    swapped = [batches[0], batches[1].transpose(0, 2, 1).copy()]
    check(nn.batch_matmul, swapped, wanted)
    if n % 16 == 0:
        packed = b.reshape(k, n // 16, 16).transpose(1, 0, 2).copy()
        check(nn.dense_packed, [a, packed], c.reshape(m, n // 16, 16))


@pytest.mark.parametrize("shape", [(1, 1000), (5,), (3, 1), (2, 33, 7), (9, 12), (6, 16), (4, 3)])
def test_softmax(shape: Any) -> None:
    x = floats(*shape, low=-30, high=30)
    for axis in range(-1, len(shape)):
        wide = x.astype(np.float64)
        power = np.exp(wide - wide.max(axis, keepdims=True))
        total = power.sum(axis, keepdims=True)
        check(lambda t, a=axis: nn.softmax(t, a), [x], (power / total).astype(np.float32))
        logs = wide - wide.max(axis, keepdims=True) - np.log(total)
        check(lambda t, a=axis: nn.log_softmax(t, a), [x], logs.astype(np.float32))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_computes_each_exponential_once(axis: int) -> None:
    """Along any dimension, and not again for each element of the output."""
    x = te.placeholder((16, 32, 48), "float32", "x")
    with tw.target.Target("llvm -mcpu=skylake-avx512") as target:
        out = nn.softmax(x, axis)
        func = tw.lower(topi.default_schedule(out, target), [x, out], simple_mode=True)["main"]
    steps: list[int] = []

    def visit(node: Any, trips: int) -> None:
        if isinstance(node, tw.tir.For):
            trips *= int(node.extent)
        if isinstance(node, tw.tir.Call) and node.op.name == "tir.exp":
            steps.append(trips * parse(node.dtype).lanes)
        for child in children(node):
            visit(child, trips)

    visit(func.body, 1)
    assert sum(steps) == 16 * 32 * 48


@pytest.mark.parametrize("n", [3, 8, 12, 15, 16])
@pytest.mark.parametrize("kind", ["softmax", "sum"])
def test_rows_shorter_than_a_vector_are_vectors(kind: str, n: int) -> None:
    x = te.placeholder((64, n), "float32", "x")
    with tw.target.Target("llvm -mcpu=skylake-avx512") as target:
        out = nn.softmax(x) if kind == "softmax" else topi.sum(x, axis=1)
        func = tw.lower(topi.default_schedule(out, target), [x, out], simple_mode=True)["main"]
    found = [e for e in walk(func.body) if isinstance(e, tw.tir.Call) and e.op.name == "tir.exp"]
    assert [parse(e.dtype).lanes for e in found] == ([n] if kind == "softmax" else [])
    loads = [
        e for e in walk(func.body) if isinstance(e, tw.tir.BufferLoad) and e.buffer.name == "x"
    ]
    # a run's lanes are half of it or more, of four at least
    assert max(parse(e.dtype).lanes for e in loads) > n // 2 or n < 4


def test_activations() -> None:
    x, c, d = floats(2, 5, 3, 7), floats(5), floats(5)
    check(nn.relu, [x], np.maximum(x, 0))
    check(lambda t: nn.leaky_relu(t, 0.01), [x], np.where(x > 0, x, x * np.float32(0.01)))
    check(nn.bias_add, [x, c], x + c[:, None, None])
    check(lambda t, b: nn.bias_add(t, b, -1), [x[:, :, :, :5].copy(), c], x[:, :, :, :5] + c)
    check(nn.scale_shift, [x, c, d], x * c[:, None, None] + d[:, None, None])


def test_errors() -> None:
    def data(*shape: int) -> Any:
        return te.placeholder(shape, "float32", "t")

    cases: list[tuple[Any, str]] = [
        (
            lambda: nn.conv2d_nchw(data(1, 4, 9, 9), data(8, 3, 3, 3), 1, 0, 1),
            "data has 4 channels",
        ),
        (
            lambda: nn.grouped_conv2d(data(1, 4, 9, 9), data(7, 2, 3, 3), groups=2),
            "7 filters do not",
        ),
        (lambda: nn.conv_nchwc(data(1, 2, 9, 9, 4), data(1, 3, 3, 3, 4, 4)), "channels of data"),
        (lambda: nn.matmul(data(2, 3), data(4, 5)), "reduced extents differ: 3 and 4"),
        (lambda: nn.pool2d(data(1, 1, 4, 4), (2, 2), 1, 1, 0, "sum"), "'max' or 'avg'"),
    ]
    for make, text in cases:
        with pytest.raises(TilewrightError, match=text):
            make()
