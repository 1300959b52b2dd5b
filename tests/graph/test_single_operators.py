"""Single operators whose schedules or forms are their own, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.graph.ort import compare
from tests.graph.single import node_model

RNG = np.random.default_rng(11)


def same(kind: str, inputs: Any, weights: Any = (), **how: Any) -> None:
    model, given = node_model(kind, inputs, weights, opset=17, **how)
    model.ir_version = 8
    compare(model, given)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("stride, pads", [(2, [1, 1, 1, 1]), (1, [0, 2, 1, 0]), (3, [1, 0, 1, 0])])
def test_pools_of_padded_rows(kind: str, stride: int, pads: Any) -> None:
    how = {"kernel_shape": [3, 3], "strides": [stride] * 2, "pads": pads}
    same(kind, [floats(2, 5, 19, 43)], **how)
    same(kind, [floats(1, 3, 41)], kernel_shape=[3], strides=[stride], pads=[1, 1])


def test_dilated_pools() -> None:
    how = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "dilations": [2, 2]}
    same("MaxPool", [floats(4, 16, 21, 43)], **how)


@pytest.mark.parametrize("shape", [(1, 64, 11, 10, 10), (2, 3, 7, 7), (2, 16, 5, 5), (3, 2, 197)])
@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools(kind: str, shape: Any) -> None:
    same(kind, [floats(*shape)])


@pytest.mark.parametrize("m, k, n", [(1, 100, 65), (17, 40, 1), (9, 33, 2), (1, 5, 1), (40, 3, 17)])
def test_products_of_what_is_not_constant(m: int, k: int, n: int) -> None:
    same("MatMul", [floats(m, k), floats(k, n)])
    same("MatMul", [floats(m, k), floats(k)])
    same("Gemm", [floats(m, k), floats(k, n), floats(n)])
    same("Gemm", [floats(k, m), floats(n, k)], transA=1, transB=1)


@pytest.mark.parametrize("k", [1, 4, 5, 97, 98])
def test_products_of_bytes_of_odd_lengths(k: int) -> None:
    x = RNG.integers(0, 255, (2, 3, k)).astype("uint8")
    w = RNG.integers(-60, 60, (k, 19)).astype("int8")
    same("MatMulInteger", [x], [w, np.uint8(7)])
    same("MatMulInteger", [x, w, np.uint8(7)])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("groups, channels", [(1, 6), (2, 6), (6, 6)])
@pytest.mark.parametrize("zero", [0, 9])
def test_convolutions_of_bytes(groups: int, channels: int, zero: int, known: bool) -> None:
    x = RNG.integers(0, 255, (2, channels, 9, 8)).astype("uint8")
    w = RNG.integers(-60, 60, (12, channels // groups, 3, 3)).astype("int8")
    parts = [np.float32(0.02), np.uint8(zero)]
    rest = [w, np.full(12, 0.01, "float32"), np.zeros(12, "int8"), np.float32(0.5), np.uint8(3)]
    bias = RNG.integers(-900, 900, 12).astype("int32")
    how: Any = {"pads": [1, 0, 2, 1], "strides": [2, 1], "group": groups}
    inputs: Any
    weights: Any
    inputs, weights = ([x], [*parts, *rest, bias]) if known else ([x, *parts], [*rest, bias])
    model, given = node_model("QLinearConv", inputs, weights, opset=17, **how)
    model.ir_version = 8
    compare(model, given, rtol=1 / 255)  # a rounding of the last bit of a product
    inputs, weights = ([x], [w, np.uint8(zero)]) if known else ([x, w], [np.uint8(zero)])
    same("ConvInteger", inputs, weights, **how)
