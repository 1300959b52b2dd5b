"""Titles of groups tell layers apart."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.graph.ir import Node, Value
from tilewright.graph.passes.fuse import Group
from tilewright.graph.tuned import title


@pytest.mark.parametrize(
    "op, attrs, expected",
    [
        ("conv_nchwc", {"strides": (2, 2)}, "conv2d 1x4x7x7x8 of 4x3x3x3x1x8 /2"),
        ("conv_nchwc", {"strides": (1, 1)}, "conv2d 1x4x7x7x8 of 4x3x3x3x1x8"),
        # a product in Winograd's form has the attributes of its convolution, of no dimensions
        ("winograd_product", {"strides": ()}, "winograd_product 1x4x7x7x8 of 4x3x3x3x1x8"),
        ("conv_nchwc", {}, "conv2d 1x4x7x7x8 of 4x3x3x3x1x8"),
    ],
)
def test_titles(op: str, attrs: dict[str, Any], expected: str) -> None:
    x = Value("x", (1, 3, 14, 14, 1), "float32")
    w = Value("w", (4, 3, 3, 3, 1, 8), "float32")
    node = Node(op, "n", [x, w], [Value("y", (1, 4, 7, 7, 8), "float32")], attrs)
    assert title(Group([node])) == expected
