"""Operators of images, detection and random numbers under TVM's signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.topi.cases import agree, compiled, floats
from tilewright import topi

image: Any = topi.image
vision: Any = topi.vision
ref: Any = topi.testing  # called with what lists hold


IMAGE = floats(1, 3, 7, 9)
MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
BOXES = np.array(
    [[[0, 0.8, 1, 20, 25, 45], [1, 0.7, 30, 60, 50, 80], [0, 0.4, 4, 21, 19, 40],
      [2, 0.9, 35, 61, 52, 79], [1, 0.5, 100, 60, 70, 110]]], "float32",
)  # fmt: skip
COUNT, PLACES = np.array([4], "int32"), np.array([[0, 1, 2, 3, 4]], "int32")
NOTHING = [[-1.0] * 6]


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.parametrize("mode", MODES)
def test_resize2d(method: str, mode: str) -> None:
    expected = ref.resize2d_python(IMAGE, (2, 3), "NCHW", method, mode)
    agree(
        lambda a: image.resize2d(a, (0.0,) * 4, (14, 27), "NCHW", method, mode), [IMAGE], expected
    )


def test_resize_in_one_and_three_dimensions() -> None:
    line, block = floats(2, 9, 3), floats(1, 2, 3, 4, 5)
    expected = ref.resize1d_python(line, (2,), "NWC", "linear", "align_corners")
    how: Any = ("linear", "align_corners")
    agree(lambda a: image.resize1d(a, (0.0,) * 2, (18,), "NWC", *how), [line], expected)
    expected = ref.resize3d_python(block, (2, 1, 3), "NCDHW", "linear", "half_pixel")
    how = ("linear", "half_pixel")
    agree(lambda a: image.resize3d(a, (0.0,) * 6, (6, 4, 15), "NCDHW", *how), [block], expected)


@pytest.mark.parametrize("method", ["bilinear", "nearest_neighbor"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_crop_and_resize(method: str, layout: str) -> None:
    x = floats(2, 3, 7, 9) if layout == "NCHW" else floats(2, 7, 9, 3)
    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [-0.1, 0, 1.2, 1], [0.9, 0.3, 0.2, 0.4]], "float32")
    which = np.array([1, 0, 1], "int32")
    expected = ref.crop_and_resize_python(x, boxes, which, (3, 4), layout, method, 5.0)
    agree(
        lambda *t: image.crop_and_resize(*t, (3, 4), layout, method, 5.0),
        [x, boxes, which], expected,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [True, False])
def test_grid_sample(method: str, padding: str, aligned: bool) -> None:
    grid = floats(1, 2, 4, 5) * np.float32(0.6)
    how: Any = (method, "NCHW", padding, aligned)
    expected = ref.grid_sample_python(IMAGE, grid, *how)
    agree(lambda a, b: image.grid_sample(a, b, *how), [IMAGE, grid], expected)


def test_affine_grid_and_dilation2d() -> None:
    theta, filters = floats(2, 2, 3), floats(3, 2, 2)
    expected = ref.affine_grid_python(theta, (5, 6))
    agree(lambda a: image.affine_grid(a, (5, 6)), [theta], expected)
    windows = np.lib.stride_tricks.sliding_window_view(IMAGE, (2, 2), (2, 3))
    wanted = (windows + filters[:, None, None]).max((-2, -1))
    agree(lambda a, b: image.dilation2d_nchw(a, b, 1, "VALID", 1), [IMAGE, filters], wanted)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("samples", [2, -1])
def test_regions(mode: str, samples: int) -> None:
    x = floats(2, 3, 8, 9)
    rois = np.array([[0, 1, 1, 6, 7], [1, 0, 2, 8, 5]], "float32")
    expected = ref.roi_align_nchw_python(x, rois, (3, 2), 0.9, samples, mode)
    agree(
        lambda a, b: vision.rcnn.roi_align_nchw(a, b, (3, 2), 0.9, mode, samples),
        [x, rois], expected,
    )  # fmt: skip
    expected = ref.roi_pool_nchw_python(x, rois, (3, 2), 0.5)
    agree(lambda a, b: vision.rcnn.roi_pool_nchw(a, b, (3, 2), 0.5), [x, rois], expected)


def test_reorg() -> None:
    x = floats(2, 8, 4, 6)
    agree(lambda a: vision.reorg(a, 2), [x], ref.reorg_python(x, 2))


def test_get_valid_counts() -> None:
    kept = [*BOXES[0, [0, 1, 3]].tolist(), *NOTHING * 2]
    agree(
        lambda a: vision.get_valid_counts(a, 0.6, 0, 1), [BOXES], [3], [kept], [[0, 1, 3, -1, -1]]
    )


@pytest.mark.parametrize(
    "how, kept",
    [
        ({"iou_threshold": 0.7, "force_suppress": True, "top_k": 2}, [3, 0]),
        ({"iou_threshold": 0.45}, [3, 0, 1]),
        ({"iou_threshold": 0.45, "force_suppress": True}, [3, 0]),
        ({"iou_threshold": 0.5}, [3, 0, 1, 2]),
        ({"max_output_size": 1}, [3]),
    ],
)
def test_non_max_suppression(how: Any, kept: list[int]) -> None:
    arrays = [BOXES, COUNT, PLACES]
    rows = [*BOXES[0, kept].tolist(), *NOTHING * (5 - len(kept))]
    agree(
        lambda *t: vision.non_max_suppression(
            *t, return_indices=False, invalid_to_bottom=True, **how
        ),
        arrays, [rows],
    )  # fmt: skip
    places = [*kept, *[-1] * (5 - len(kept))]
    agree(lambda *t: vision.non_max_suppression(*t, **how), arrays, [places], [[len(kept)]])


def test_all_class_non_max_suppression() -> None:
    boxes = np.array(
        [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 100, 1, 101]]],
        "float32",
    )
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.3], [0.1, 0.8, 0.2, 0.05, 0.06]]], "float32")
    found = compiled(
        lambda a, b: vision.all_class_non_max_suppression(a, b, 3, 0.5, 0.08), [boxes, scores]
    )
    rows = [[0, 0, 3], [0, 0, 0], [0, 0, 4], [0, 1, 1]]
    assert found[1].tolist() == [4] and found[0][:4].tolist() == rows
    how = (3, 0.5, 0.08, "tensorflow")
    found = compiled(lambda a, b: vision.all_class_non_max_suppression(a, b, *how), [boxes, scores])
    assert found[2].tolist() == [4] and found[0][0, :4].tolist() == [r[1:] for r in rows]
    np.testing.assert_allclose(found[1][0, :4], [0.95, 0.9, 0.3, 0.8])


def test_boxes_of_fixed_places() -> None:
    (found,) = compiled(
        lambda a: vision.ssd.multibox_prior(a, (0.5, 0.25), (1, 2)), [floats(1, 2, 2, 3)]
    )
    wanted = []
    for y, x in np.ndindex(2, 3):
        for s, r in ((0.5, 1), (0.25, 1), (0.5, 2)):
            w, h = s * 2 / 3 * r**0.5 / 2, s / r**0.5 / 2
            cy, cx = (y + 0.5) / 2, (x + 0.5) / 3
            wanted.append([cx - w, cy - h, cx + w, cy + h])
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)


def test_multibox_detection() -> None:
    probabilities = np.array([[[0.2, 0.5, 0.3], [0.7, 0.4, 0.1], [0.1, 0.1, 0.6]]], "float32")
    anchors = np.array([[[0.1, 0.1, 0.3, 0.3], [0.2, 0.2, 0.4, 0.5], [0.5, 0.5, 0.9, 0.8]]])
    anchors = anchors.astype("float32")
    moves = np.zeros((1, 12), "float32")
    moves[0, 8] = 1.0
    (found,) = compiled(
        lambda *t: vision.ssd.multibox_detection(*t, nms_threshold=0.4),
        [probabilities, moves, anchors],
    )
    third = np.array([0.5, 0.5, 0.9, 0.8]) + [0.04, 0, 0.04, 0]
    rows = [[0, 0.7, *anchors[0, 0]], [1, 0.6, *third], [0, 0.4, *anchors[0, 1]]]
    np.testing.assert_allclose(found[0], rows, rtol=1e-4)


def test_proposals_are_the_best_that_do_not_overlap() -> None:
    scores = np.zeros((1, 2, 2, 2), "float32")
    scores[0, 1] = [[0.1, 0.9], [0.5, 0.3]]
    info = np.array([[32, 32, 1.0]], "float32")
    (found,) = compiled(
        lambda *t: vision.rcnn.proposal(*t, (1.0,), (1.0,), 16, 0.5, 4, 3, 4, False),
        [scores, np.zeros((1, 4, 2, 2), "float32"), info],
    )
    rows = [[0, 16, 0, 31, 15], [0, 0, 16, 15, 31], [0, 16, 16, 31, 31]]
    np.testing.assert_allclose(found, rows, atol=1e-4)


def threefry(key: list[int], counter: list[int]) -> list[int]:
    """Twenty rounds, in Python's integers."""
    mask = 2**64 - 1
    turns = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ 0x1BD11BDAA9FC1A22]
    w = list(counter)
    for step in range(20):
        if step % 4 == 0:
            s = step // 4
            w = [(x + keys[(s + n) % 5] + (s if n == 3 else 0)) & mask for n, x in enumerate(w)]
        for pair, r in enumerate(turns[step % 8]):
            a, b = w[2 * pair], w[2 * pair + 1]
            a = (a + b) & mask
            w[2 * pair : 2 * pair + 2] = [a, a ^ ((b << r | b >> (64 - r)) & mask)]
        w = [w[0], w[3], w[2], w[1]]
    return w


def test_threefry() -> None:
    gen = np.array([1, 2, 3, 4, 0, 0, 0, 7, 1 << 63, 0], "uint64")
    new, words = compiled(lambda g: topi.random.threefry_generate(g, (2, 4)), [gen])
    key = [1, 2, 3, 4]
    want = [threefry(key, [n, n, n, 7 + n]) for n in range(2)]
    assert words.tolist() == want and new[7] == 15
    left, right = compiled(topi.random.threefry_split, [gen])
    assert left[8] == 1 << 62 and right[4] == 1 << 63 and left[4] == 0


def test_distributions() -> None:
    gen = np.array([1, 2, 3, 4, 0, 0, 0, 0, 1 << 63, 0], "uint64")
    low, high = np.array(-3, "float32"), np.array(5, "float32")
    _, flat = compiled(
        lambda g, a, b: topi.random.uniform(g, a, b, (1001,), "float32"), [gen, low, high]
    )
    assert flat.min() >= -3 and flat.max() < 5 and abs(flat.mean() - 1) < 0.3
    _, bell = compiled(
        lambda g, a, b: topi.random.normal(g, a, b, (1001,), "float32"), [gen, low, high]
    )
    assert abs(bell.mean() + 3) < 0.6 and abs(bell.std() - 5) < 0.5
    _, drawn = compiled(
        lambda g, p: topi.random.multinomial(g, p, 1000),
        [gen, np.array([0.1, 0.6, 0.3], "float32")],
    )
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 1000, [0.1, 0.6, 0.3], atol=0.06)


def test_sparse_shapes() -> None:
    places = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]], "int32")
    shape, wanted = np.array([2, 3, 6], "int32"), np.array([9, -1], "int32")
    agree(
        lambda a, b, c: topi.sparse_reshape(a, b, c, (5, 2), (2,)),
        [places, shape, wanted],
        [[0, 0], [0, 1], [1, 2], [4, 2], [8, 1]], [9, 4],
    )  # fmt: skip
    rows = np.array([[0, 1], [0, 3], [2, 0], [3, 1]], "int64")
    agree(
        lambda a, b, c, d: topi.sparse_fill_empty_rows(a, b, c, d, (6, 2), (6,), (5,)),
        [rows, np.array([1, 2, 3, 4], "int64"), np.array([5, 6], "int64"), np.array([10], "int64")],
        [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]], [1, 2, 10, 3, 4, 10],
        [False, True, False, False, True],
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_places_by_cubic_weights(padding: str, align: bool) -> None:
    x, grid = floats(2, 3, 6, 7), floats(2, 2, 4, 5)
    how: Any = ("bicubic", "NCHW", padding, align)
    expected = ref.grid_sample_python(x, grid, *how)
    agree(lambda a, b: image.grid_sample(a, b, *how), [x, grid], expected, rtol=1e-3)
