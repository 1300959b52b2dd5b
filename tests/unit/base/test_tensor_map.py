"""What tensor maps may say, by the documentation of cuTensorMapEncodeTiled and
cuTensorMapEncodeIm2col."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.base.tensor_map import Pixels, TensorMap, most_offset

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


def images(*places: int, lower: Any = None, upper: Any = None, steps: Any = None) -> TensorMap:
    """Of 64 channels and 8 images of so many places along W, H, D; zeros and steps of 1 but for
    what is given."""
    dims = (64, *places, 8)
    strides = [128]
    for n in places:
        strides.append(strides[-1] * n)
    k = len(places)
    pixels = Pixels(lower or (0,) * k, upper or (0,) * k, steps or (1,) * k)
    return TensorMap("float16", dims, tuple(strides), (64, 128), 128, pixels)


def test_a_good_map_of_images() -> None:
    padded = images(14, 9, lower=(-1, -1), upper=(-1, -1), steps=(2, 1))
    assert padded.problem() == "" and padded.box_bytes == 64 * 128 * 2
    assert padded.pixels is not None and padded.pixels.last(padded.dims) == (12, 7)
    one = images(1, 1, 3, lower=(0, 0, 2))  # a box of one place
    assert one.problem() == ""
    tall = replace(padded, box=(8, 1024), swizzle=0)
    assert tall.problem() == "" and tall.box_bytes == 16 << 10


@pytest.mark.parametrize(
    ("rank", "least", "most"), [(3, -(1 << 15), (1 << 15) - 1), (4, -128, 127), (5, -16, 15)]
)
def test_how_far_corners_and_offsets_go(rank: int, least: int, most: int) -> None:
    wide = [{3: 1 << 16, 4: 512, 5: 64}[rank]] * (rank - 2)
    for lower, upper in ((least, least), (most, most)):
        corners = {"lower": (lower,) * (rank - 2), "upper": (upper,) * (rank - 2)}
        assert images(*wide, **corners).problem() == ""
    for name, value in (("lower", least - 1), ("upper", most + 1)):
        wrong = images(*wide, **{name: (*[0] * (rank - 3), value)}).problem()
        assert wrong.startswith(f"a corner of a map of rank {rank} is of {least} to {most}, not (")
    assert most_offset(rank) == most - least


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dims": (64, 8), "strides": (128,)}, "images have 3 to 5 dimensions"),
        ({"box": (64, 14, 9, 1)}, "4 dimensions have 3 strides and a box of (64, 14, 9, 1)"),
        ({"box": (64, 1025)}, "1 to 256 channels of 1 to 1024 pixels, not (64, 1025)"),
        ({"box": (64, 0)}, "1 to 256 channels of 1 to 1024 pixels, not (64, 0)"),
        ({"box": (264, 8), "swizzle": 0}, "1 to 256 channels of 1 to 1024 pixels, not (264, 8)"),
        ({"box": (68, 8), "swizzle": 0}, "a row of the box has 136 bytes, no multiple of 16"),
        ({"box": (128, 8)}, "a row of the box has 256 bytes, more than the swizzle of 128"),
        ({"pixels": Pixels((0,), (0,), (1,))}, "4 dimensions have corners of 2 numbers"),
        ({"pixels": Pixels((0, 0), (0, 0), (1, 9))}, "steps are 1 to 8 pixels, not (1, 9)"),
        ({"pixels": Pixels((0, 0), (0, 0), (0, 1))}, "steps are 1 to 8 pixels, not (0, 1)"),
        ({"pixels": Pixels((0, 5), (0, -4), (1, 1))}, "the bounding box from (0, 5) to (13, 4) is"),
        ({"strides": (136, 1792, 16128)}, "a stride of 136 bytes is no multiple of 16"),
    ],
)  # fmt: skip
def test_what_the_driver_refuses_of_images(changes: dict[str, Any], text: str) -> None:
    assert text in replace(images(14, 9), **changes).problem()
