"""Copies in im2col mode in simt: columns of pixels against an im2col matrix that NumPy makes, and
what is found in kernels that ask for what there is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.interp import im2col_kit as kit
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.base.tensor_map import Pixels, TensorMap
from tilewright.interp.simt import SimtArray, SimtMap
from tilewright.loopir import hopper_calls as H

# of 8 channels, 2 images of 5 x 4 (H x W), padded by 1 on each side, for a filter of 3 x 3
IMAGES = TensorMap(
    "float32", (8, 4, 5, 2), (32, 128, 640), (8, 32), 0, Pixels((-1, -1), (-1, -1), (1, 1))
)
NUMBERS = np.arange(1, 321, dtype=np.float32).reshape(2, 5, 4, 8)


@pytest.mark.parametrize("seed", range(40))
def test_columns_by_chance(seed: int) -> None:
    case = kit.draw(seed, 2048)
    assert case.described().problem() == ""
    found, report = kit.run_column(case.described(), case.memory(), case.corner, case.offsets)
    np.testing.assert_array_equal(found[0, 0], case.expected())
    assert report.findings == []
    assert report.async_copies == case.box[0] * case.box[1]


def test_what_is_drawn_has_all_there_is() -> None:
    cases = [kit.draw(seed, 2048) for seed in range(40)]
    assert {c.dtype for c in cases} == {"float16", "int8", "float32"}
    assert {(len(c.windows), c.swizzle) for c in cases} == {
        (k, s) for k in (1, 2, 3) for s in (0, 128)
    }
    ends = [(c.start, c.start + c.box[1]) for c in cases]
    lines = [c.windows[0].out for c in cases]
    image = [c.outs // c.images for c in cases]
    seen: list[list[Any]] = [
        [a % w and a // w != (b - 1) // w for (a, b), w in zip(ends, lines)],
        [a // n != (b - 1) // n and b <= c.outs for (a, b), n, c in zip(ends, image, cases)],
        [a < c.outs < b for (a, b), c in zip(ends, cases)],
        [a >= c.outs for (a, _), c in zip(ends, cases)],
        [c.channel + c.box[0] > c.channels for c in cases],
        [c.gap > 0 for c in cases],
        *([getattr(w, name) > n for c in cases for w in c.windows]
          for name, n in (("step", 1), ("dilation", 1), ("before", 0), ("taps", 1))),
        [any(c.offsets) for c in cases],
    ]  # fmt: skip
    assert all(map(any, seen))


@pytest.mark.parametrize("seed", range(20))
def test_pixels_are_those_of_loops_from_any_place_of_the_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = 1 + seed % 3
    places = rng.integers(3, 8, k)
    low, high = rng.integers(-3, 3, k), rng.integers(-2, 4, k)
    high = np.maximum(high, low + 1 - places)  # two places at the least
    steps = rng.integers(1, 5, k)
    dims = (4, *places.tolist(), 3)
    sizes = np.cumprod([16, *places])
    pixels = Pixels(tuple(low.tolist()), tuple(high.tolist()), tuple(steps.tolist()))
    described = TensorMap("float32", dims, tuple(sizes.tolist()), (4, 100), 0, pixels)
    assert described.problem() == ""
    corners = np.zeros((5, k + 2), np.int64)
    corners[:, 1:-1] = rng.integers(low, places + high, (5, k))
    corners[:, -1] = rng.integers(-1, 4, 5)
    found = SimtMap(np.zeros(dims[::-1], np.float32), described).pixels(corners)
    assert found.shape == (5, k + 2, 100) and (found[:, 0] == 0).all()
    for one, corner in zip(found, corners.tolist()):
        assert [*map(tuple, one[1:].T.tolist())] == kit.walked(described, corner, 100)


def test_the_examples_of_the_document() -> None:
    """PTX ISA, "im2col mode", examples 1 to 3: W = 9 (8 with a step of 2), H = 14; from W = 4 (5),
    H = 7 of image 7 on."""
    for w, low, high, step, corner, first, after in (
        (9, -1, -1, 1, 4, 7 - 4 + 1, (-1, 8)),
        (9, 0, -2, 1, 4, 6 - 4 + 1, (0, 8)),
        (8, -1, -1, 2, 5, 1, (-1, 9)),
    ):
        pixels = Pixels((low, low), (high, high), (step, step))
        strides = (128, 128 * w, 128 * w * 14)
        described = TensorMap("float16", (64, w, 14, 64), strides, (8, 64), 0, pixels)
        assert described.problem() == ""
        (found,) = SimtMap(np.zeros(0), described).pixels(np.array([[0, corner, 7, 7]]))
        assert (found[2, :first] == 7).all() and tuple(found[1:3, first]) == after
        line = (w - 1 + high - low) // step + 1
        lines = (14 - 1 + high - 7) // step  # below the first one
        last = first + line * lines
        assert tuple(found[1:, last]) == (low, low, 8) and (found[3, :last] == 7).all()


def test_copies_to_blocks_of_a_cluster() -> None:
    found, report = kit.run_column(IMAGES, NUMBERS, (0, 2, 1, 0), (1, 2), 2)
    assert report.findings == []
    for block in range(2):
        for rank in range(2):
            want = _column((0, 2, 1, rank), (1, 2))
            np.testing.assert_array_equal(found[block, rank], want)


def _column(corner: Any, offsets: Any) -> np.ndarray:
    """Of IMAGES, an element at a time."""
    made = np.zeros(IMAGES.box[::-1], np.float32)
    for row, (w, h, n) in zip(made, kit.walked(IMAGES, corner, len(made))):
        x, y = w + offsets[0], h + offsets[1]
        if 0 <= x < 4 and 0 <= y < 5 and 0 <= n < 2:
            row[:] = NUMBERS[n, y, x]
    return made


def _kinds(corner: Any, offsets: Any, memory: Any = NUMBERS, described: TensorMap = IMAGES) -> Any:
    _, report = kit.run_column(described, memory, corner, offsets)
    return [(f.kind, f.message) for f in report.findings]


def test_a_column_begins_within_the_bounding_box() -> None:
    for corner in ((0, -1, -1, 0), (0, 2, 3, 1), (0, 0, 0, 2), (-3, 0, 0, -1)):
        assert _kinds(corner, (0, 0)) == []
    for corner in ((0, -2, 0, 0), (0, 3, 0, 0), (0, 0, -2, 0), (0, 0, 4, 1)):
        ((kind, text),) = _kinds(corner, (0, 0))
        at = f"from {corner[1:-1]}, outside of the bounding box from (-1, -1) to (2, 3)"
        assert kind == "out of bounds" and text.endswith(f"copies pixels of IN {at}")


def test_offsets_that_the_instruction_has_no_bits_for() -> None:
    assert _kinds((0, 0, 0, 0), (255, 255)) == []  # nothing but zeros
    for offsets in ((256, 0), (0, -1)):
        ((kind, text),) = _kinds((0, 0, 0, 0), offsets)
        assert kind == "out of bounds" and "of which each is from 0 to 255" in text


def test_pixels_that_nobody_has_written() -> None:
    memory = SimtArray(NUMBERS.reshape(-1).view(np.uint8).copy())
    memory.written[:] = True
    memory.written[640 + 3 * 128 :][:32] = False  # image 1, line 3, the first pixel
    begin = (0, -1, -1, 0)  # 32 pixels: up to line 1 of image 1
    assert _kinds(begin, (0, 0), memory) == [] == _kinds(begin, (2, 2), memory)
    (found,) = kit.run_column(IMAGES, memory, begin, (0, 2))[1].findings
    assert (found.kind, found.count) == ("unwritten memory", 8)
    assert "copies elements of IN that nobody has written" in found.message


def test_a_column_of_a_map_of_boxes_and_a_box_of_one_of_columns() -> None:
    boxes = replace(IMAGES, box=(8, 4, 1, 1), pixels=None)
    with pytest.raises(
        TilewrightError, match="IN is a tensor map of boxes, a copy by it takes col"
    ):
        kit.run_column(boxes, NUMBERS, (0, 0, 0, 0), (0, 0))
    kernel = kit.column_kernel(IMAGES, (0, 0, 0, 0), (0, 0))
    assert H.COPIES[True, False] in str(kernel)
    with pytest.raises(ArgumentError, match="there is no such tensor map: steps are 1 to 8"):
        SimtMap(NUMBERS, replace(IMAGES, pixels=Pixels((0, 0), (0, 0), (9, 1))))
