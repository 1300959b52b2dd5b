"""Quantised data against NumPy: types, blocks, limits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.graph.single import node_model, run_node
from tilewright.base.errors import ImportModelError
from tilewright.graph import load_onnx
from tilewright.graph.build import optimize
from tilewright.target.target import Target

RNG = np.random.default_rng(3)
NARROW = ["int8", "uint8", "int16", "uint16"]


def whole(*shape: int, dtype: str = "uint8") -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def quantized(x: Any, scale: Any, zero: Any, dtype: str) -> Any:
    info = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        ratio = np.asarray(x, np.float32) / np.asarray(scale, np.float32)
    ratio = np.asarray(np.rint(ratio), np.float64)
    return np.clip(ratio + np.asarray(zero, np.float64), info.min, info.max).astype(dtype)


@pytest.mark.parametrize("dtype", NARROW)
def test_quantization_saturates(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, -0.25, 0.25, 0.75, 1.25, 1e9, -1e9, np.inf, -np.inf, 3e38], np.float32)
    for zero in (info.min, info.max, 0, 3):
        z = np.array(zero, dtype)
        got = run_node("QuantizeLinear", [x, np.float32(0.5), z])
        np.testing.assert_array_equal(got, quantized(x, 0.5, zero, dtype))
        known = run_node("QuantizeLinear", [x], [np.float32(0.5), z])
        np.testing.assert_array_equal(known, got)
        back = run_node("DequantizeLinear", [got, np.float32(0.5), z])
        np.testing.assert_array_equal(back, (got.astype(np.float32) - np.float32(zero)) * 0.5)
    given = run_node("QuantizeLinear", [x, np.float32(0.5)], output_dtype=3 if info.min else 2)
    assert given.dtype == (np.int8 if info.min else np.uint8)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_along_an_axis(axis: int) -> None:
    x = (RNG.standard_normal((3, 4, 5)) * 20).astype(np.float32)
    scale = RNG.uniform(0.1, 1, (x.shape[axis],)).astype(np.float32)
    zero = whole(x.shape[axis], dtype="int8")
    shape = [1, 1, 1]
    shape[axis] = -1
    wanted = quantized(x, scale.reshape(shape), zero.reshape(shape), "int8")
    np.testing.assert_array_equal(run_node("QuantizeLinear", [x, scale, zero], axis=axis), wanted)
    got = run_node("DequantizeLinear", [wanted], [scale, zero], axis=axis)
    back = (wanted.astype(np.float32) - zero.reshape(shape)) * scale.reshape(shape)
    np.testing.assert_array_equal(got, back.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("axis, block", [(0, 2), (1, 3), (1, 7)])
def test_blocks(axis: int, block: int, dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = whole(5, 7, dtype="int8")
    shape = [5, 7]
    shape[axis] = -(-shape[axis] // block)
    scale = RNG.uniform(0.5, 1, shape).astype(kind)
    zero = whole(*shape, dtype="int8")
    wide, zeros = (np.repeat(v, block, axis).take(range(x.shape[axis]), axis)
                   for v in (scale, zero))  # fmt: skip
    wanted = (x.astype(np.float32) - zeros) * wide.astype(np.float32)
    got = run_node("DequantizeLinear", [x, scale, zero], axis=axis, block_size=block)
    np.testing.assert_array_equal(got, wanted.astype(kind))
    data = wanted.astype(np.float32)
    scales = [scale.astype(np.float32), zero]
    again = run_node("QuantizeLinear", [data], scales, axis=axis, block_size=block)
    np.testing.assert_array_equal(again, quantized(data, wide, zeros, "int8"))


def test_what_does_not_fit_is_refused() -> None:
    x, scale = np.zeros((2, 3), np.float32), np.ones(2, np.float32)
    with pytest.raises(ImportModelError, match=r"scales .* do not fit"):
        run_node("QuantizeLinear", [x, np.ones(5, np.float32)], axis=0, opset=21)
    with pytest.raises(ImportModelError, match="differ in shape"):
        run_node("QuantizeLinear", [x, scale], [np.zeros(3, np.uint8)], axis=0)


@pytest.mark.parametrize("x", [[0.0, 2, -3, 1.5], [1.0, 2.0], [-5.0, -1.0], [0.0, 0.0], [7.0]])
def test_dynamic_quantization(x: Any) -> None:
    data = np.array(x, np.float32)
    low, high = min(0, data.min()), max(0, data.max())
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255).astype(np.uint8)
    got, s, z = run_node("DynamicQuantizeLinear", [data], outputs=3)
    assert (s, z, z.dtype, s.shape) == (scale, zero, np.uint8, ())
    np.testing.assert_array_equal(got, quantized(data, scale, zero, "uint8"))


SHAPES = [
    ((3, 5), (5, 7)),
    ((2, 3, 5), (5, 7)),
    ((2, 3, 5), (2, 5, 7)),
    ((5,), (5, 7)),
    ((3, 5), (5,)),
]


@pytest.mark.parametrize("left, right", SHAPES)
@pytest.mark.parametrize("a", ["int8", "uint8"])
@pytest.mark.parametrize("b", ["int8", "uint8"])
def test_products_are_exact(left: Any, right: Any, a: str, b: str) -> None:
    x, y = whole(*left, dtype=a), whole(*right, dtype=b)
    x_zero, y_zero = whole(dtype=a), whole(dtype=b)
    wide = x.astype(np.int32), y.astype(np.int32)
    np.testing.assert_array_equal(run_node("MatMulInteger", [x, y]), wide[0] @ wide[1])
    wanted = (wide[0] - np.int32(x_zero)) @ (wide[1] - np.int32(y_zero))
    np.testing.assert_array_equal(run_node("MatMulInteger", [x, y, x_zero, y_zero]), wanted)
    np.testing.assert_array_equal(run_node("MatMulInteger", [x], [y, x_zero, y_zero]), wanted)


def test_zero_points_of_rows_and_columns() -> None:
    x, y = whole(3, 5), whole(5, 7)
    rows, columns = whole(3), whole(7)
    wanted = (x.astype(np.int32) - rows[:, None]) @ (y.astype(np.int32) - columns)
    np.testing.assert_array_equal(run_node("MatMulInteger", [x, y, rows, columns]), wanted)
    batch = whole(2, 3, 5)
    each = whole(2, 3, 1)
    wanted = (batch.astype(np.int32) - each) @ (y.astype(np.int32) - columns)
    np.testing.assert_array_equal(run_node("MatMulInteger", [batch, y, each, columns]), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantised_products(dtype: str) -> None:
    x, y = whole(3, 50, dtype=dtype), whole(50, 7, dtype=dtype)
    x_zero, y_zero, zero = (whole(dtype=dtype) for _ in range(3))
    x_scale, scale = np.float32(0.01), np.float32(1.3)
    for y_scale in (np.float32(0.02), RNG.uniform(0.01, 0.03, 7).astype(np.float32)):
        zeros = y_zero if y_scale.shape == () else np.full(7, y_zero)
        total = (x.astype(np.int32) - np.int32(x_zero)) @ (y.astype(np.int32) - np.int32(y_zero))
        ratio = np.rint(total * (x_scale * y_scale / scale)) + np.float64(zero)
        info = np.iinfo(dtype)
        wanted = np.clip(ratio, info.min, info.max)
        got = run_node("QLinearMatMul", [x, x_scale, x_zero, y, y_scale, zeros, scale, zero])
        assert got.dtype == dtype
        np.testing.assert_allclose(got.astype(int), wanted, atol=1)


@pytest.mark.parametrize("group", [1, 2])
def test_convolutions_pad_with_the_zero_point(group: int) -> None:
    x, w = whole(2, 4, 5, 6), whole(6, 4 // group, 3, 3)
    x_zero, w_zero = np.uint8(9), whole(6)
    how: dict[str, Any] = {"group": group, "pads": [1, 0, 1, 2], "strides": [1, 2]}
    padded = np.pad(x.astype(np.int64) - 9, [(0, 0), (0, 0), (1, 1), (0, 2)])
    kernel = w.astype(np.int64) - w_zero[:, None, None, None]
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, :, ::2]
    parts = [
        np.einsum("nchwyx,fcyx->nfhw", d, k)
        for d, k in zip(np.split(windows, group, 1), np.split(kernel, group, 0))
    ]
    total = np.concatenate(parts, 1)
    got = run_node("ConvInteger", [x, w, x_zero, w_zero], **how)
    np.testing.assert_array_equal(got, total)
    np.testing.assert_array_equal(run_node("ConvInteger", [x], [w, x_zero, w_zero], **how), total)
    scales = RNG.uniform(0.01, 0.02, 6).astype(np.float32)
    bias = RNG.integers(-999, 999, 6).astype(np.int32)
    ratio = (total + bias[:, None, None]) * (0.05 * scales[:, None, None] / 0.9)
    wanted = np.clip(np.rint(ratio) + 100, 0, 255)
    inputs = [x, np.float32(0.05), x_zero, w, scales, w_zero, np.float32(0.9), np.uint8(100), bias]
    got = run_node("QLinearConv", inputs, **how)
    np.testing.assert_allclose(got.astype(int), wanted, atol=1)


def _near_ties(scale: np.float32, count: int) -> Any:
    """Numbers whose quotient lies beside the middle of two whole numbers, or on it."""
    middle = RNG.integers(-300, 300, count) + 0.5
    x = (middle * np.float64(scale)).astype(np.float32)
    for _ in range(2):
        x = np.where(RNG.random(count) < 0.5, x, np.nextafter(x, np.float32(np.inf)))
        x = np.where(RNG.random(count) < 0.5, x, np.nextafter(x, np.float32(-np.inf)))
    return x


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("power", [0, -20, 20, -99, 99])
def test_division_by_known_scales_is_exact(dtype: str, power: int) -> None:
    """A known scale is multiplied by, inverted; the steps are those of division."""
    info = np.iinfo(dtype)
    for zero in (None, info.min, 3):
        scale = np.float32(RNG.uniform(1, 2) * 2.0**power)
        z = np.array(zero or 0, dtype)
        given = [scale] if zero is None else [scale, z]
        more = {"output_dtype": {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}[dtype]}
        wide = RNG.standard_normal(5000) * 200 * scale
        x = np.concatenate([_near_ties(scale, 20000), wide]).astype(np.float32)
        got = run_node("QuantizeLinear", [x], given, **({} if len(given) > 1 else more))
        np.testing.assert_array_equal(got, quantized(x, scale, z, dtype))


@pytest.mark.parametrize("scale, known", [(0.1, True), (1e-38, False), (-0.1, False)])
def test_scales_that_are_inverted(scale: float, known: bool) -> None:
    """Positive ones far from the ends of float32, where a target has fma."""
    model, _ = node_model(
        "QuantizeLinear", [np.zeros(4, np.float32)], [np.float32(scale), np.uint8(7)]
    )
    network = load_onnx(model)
    for target, has in (("llvm -mcpu=haswell", known), ("llvm -mcpu=x86-64-v2", False)):
        (node,) = optimize(network, Target(target)).nodes
        assert node.attrs.get("by_reciprocal", False) == has


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 0.1, 1e30, 3e38])
def test_quotients_beyond_floats_saturate(scale: float) -> None:
    x = np.array([3.4e38, -3.4e38, np.inf, -np.inf, 1e-40, -1e-40, 0, -0.0], np.float32)
    wanted = quantized(x, scale, 7, "uint8")
    for known in (True, False):
        given = [np.float32(scale), np.uint8(7)]
        got = run_node("QuantizeLinear", [x, *given] if not known else [x], given if known else [])
        np.testing.assert_array_equal(got, wanted)
    lost = run_node("QuantizeLinear", [np.full(3, np.nan, np.float32)], given)
    np.testing.assert_array_equal(lost, [0, 0, 0])  # the least, as vector instructions have it
