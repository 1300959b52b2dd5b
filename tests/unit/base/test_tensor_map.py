"""What tensor maps may say, by the documentation of cuTensorMapEncodeTiled."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.base.tensor_map import TensorMap

GOOD: dict[str, Any] = {
    "dtype": "float16",
    "dims": (1000, 197),
    "strides": (2000,),
    "box": (64, 128),
}


def test_a_good_map_and_the_bytes_of_its_box() -> None:
    for swizzle in (0, 128):
        described = TensorMap(**GOOD, swizzle=swizzle)
        assert described.problem() == "" and described.box_bytes == 128 * 128


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dims": (), "strides": (), "box": ()}, "it has 0 dimensions, not 1 to 5"),
        ({"dims": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, "it has 6 dimensions"),
        ({"strides": (2000, 16)}, "2 dimensions have 2 strides"),
        ({"box": (64,)}, "2 dimensions have 1 strides and a box of (64,)"),
        ({"dims": (1000, 0)}, "dimensions are 1 to 2^32 elements, not (1000, 0)"),
        ({"strides": (2008,)}, "a stride of 2008 bytes is no multiple of 16"),
        ({"strides": (1 << 40,)}, "is no multiple of 16 below 2^40"),
        ({"box": (64, 257)}, "a box has 1 to 256 elements along a dimension, not (64, 257)"),
        ({"box": (4, 64)}, "a row of the box has 8 bytes, no multiple of 16"),
        ({"swizzle": 16}, "there is no swizzle of 16 bytes"),
        ({"swizzle": 64}, "a row of the box has 128 bytes, more than the swizzle of 64"),
    ],
)
def test_what_the_driver_refuses(changes: dict[str, object], text: str) -> None:
    assert text in TensorMap(**{**GOOD, **changes}).problem()
