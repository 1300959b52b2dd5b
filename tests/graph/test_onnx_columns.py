"""Columns added up to images: windows with and without strides, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.graph.ort import compare, model_of, ours
from tilewright.topi.nn.windows import conv_extent

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "no strides": ((7, 5), (3, 2), {}),
    "windows side by side": ((8, 12), (4, 3), {"strides": [4, 3]}),
    "overlaps": ((9, 11), (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "uneven overlaps": ((13, 10), (5, 3), {"strides": [3, 2], "pads": [2, 0, 1, 1]}),
    "gaps": ((17, 9), (2, 1), {"strides": [5, 3], "pads": [1, 0, 0, 0]}),
    "elements behind the last window": ((11, 6), (3, 4), {"strides": [4, 3]}),
    "strides in one dimension": ((9, 8), (3, 3), {"strides": [1, 2]}),
    "lines": ((23,), (6,), {"strides": [4], "pads": [3, 2]}),
    "lines by ones": ((7,), (1,), {"strides": [3]}),
    "volumes": ((5, 6, 7), (2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 1, 1, 1, 0]}),
    "dilated": ((9, 9), (3, 2), {"strides": [2, 2], "dilations": [2, 3]}),
    "one window": ((3, 4), (3, 4), {"strides": [2, 2]}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch, channels", [(1, 1), (2, 3)])
def test_columns(name: str, batch: int, channels: int) -> None:
    image, block, attrs = CASES[name]
    rank = len(image)
    pads = attrs.get("pads", [0] * 2 * rank)
    given = (image, block, attrs.get("strides", [1] * rank), pads[:rank], pads[rank:],
             attrs.get("dilations", [1] * rank))  # fmt: skip
    count = int(np.prod([conv_extent(*one) for one in zip(*given)]))
    x = np.random.default_rng(1).standard_normal((batch, channels * int(np.prod(block)), count))
    inputs = {"x": x.astype(np.float32)}
    weights = {"image": np.array(image), "block": np.array(block)}
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **attrs)
    compare(model_of([node], inputs, ["y"], weights, opset=18), inputs, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_other_types_and_no_windows(dtype: Any) -> None:
    x = np.arange(2 * 6 * 4).reshape(2, 6, 4).astype(dtype)
    weights = {"image": np.array([5, 6]), "block": np.array([3, 2])}
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], strides=[2, 3])
    for count, inputs in ((2, {"x": x}), (0, {"x": x[:0]})):
        made = model_of([node], inputs, ["y"], weights, opset=18)
        found = ours(made, inputs)["y"]
        assert found.shape == (count, 1, 5, 6)
        np.testing.assert_array_equal(found, _added(inputs["x"]))


def _added(x: Any) -> Any:
    out = np.zeros((len(x), 1, 5, 6), x.dtype)
    for k in range(4):
        top, left = k // 2 * 2, k % 2 * 3
        out[:, 0, top : top + 3, left : left + 2] += x[:, :, k].reshape(-1, 3, 2)
    return out
