"""Operators on boxes on GPUs: a block goes over those that wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi import launches
from tests.unit.topi.test_gpu_search import results
from tilewright import te, topi
from tilewright.topi import vision

Array = np.ndarray[Any, Any]


def corners(rng: Any, *shape: int) -> Array:
    """Corners that are small integers, on which shares are rounded once."""
    start = rng.integers(0, 30, (*shape, 2))
    return np.concatenate([start, start + rng.integers(1, 15, (*shape, 2))], -1).astype(np.float32)


def share(a: Array, b: Array, one: int = 0) -> np.float32:
    inner = [max(min(a[d + 2], b[d + 2]) - max(a[d], b[d]) + one, 0) for d in (0, 1)]
    areas = [(x[2] - x[0] + one) * (x[3] - x[1] + one) for x in (a, b)]
    common = np.float32(inner[0] * inner[1])
    return np.float32(common / np.float32(areas[0] + areas[1] - common))


def greedy(boxes: Array, order: Any, near: Any, most: int | None = None) -> list[int]:
    kept: list[int] = []
    for j in order:
        if (most is None or len(kept) < most) and not any(near(j, k) for k in kept):
            kept.append(int(j))
    return kept


@pytest.mark.parametrize(
    ("n", "target"), [(1, "cuda"), (70, "cuda"), (3001, "cuda"), (9001, "opencl")]
)
@pytest.mark.parametrize("id_index", [0, -1])
def test_boxes_that_count(n: int, target: str, id_index: int) -> None:
    data = np.random.default_rng(0).integers(-2, 9, (2, n, 6)).astype(np.float32)
    (counts, out, places), _ = results(
        lambda t: vision.get_valid_counts(t, 2, id_index, 1), [data], target
    )
    for b in range(2):
        holds = (data[b, :, 1] > 2) & ((data[b, :, 0] >= 0) | (id_index < 0))
        (want,) = np.nonzero(holds)
        assert counts[b] == len(want)
        np.testing.assert_array_equal(places[b, : len(want)], want)
        np.testing.assert_array_equal(out[b, : len(want)], data[b, want])
        assert (out[b, len(want) :] == -1).all() and (places[b, len(want) :] == -1).all()


def test_a_threshold_may_be_a_tensor() -> None:
    data = np.random.default_rng(0).integers(-2, 9, (2, 70, 6)).astype(np.float32)
    least = np.array([3], np.float32)
    (counts, *_), _ = results(lambda t, s: vision.get_valid_counts(t, s, -1, 1), [data, least])
    np.testing.assert_array_equal(counts, (data[:, :, 1] > 3).sum(1))


HOWS: list[Any] = [
    {},
    {"force_suppress": True, "iou_threshold": 0.3},
    {"id_index": -1, "max_output_size": 7},
    {"top_k": 50},
    {"iou_threshold": 0.0},
]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("n", "target"), [(1, "cuda"), (64, "cuda"), (200, "cuda"), (500, "opencl")]
)
def test_boxes_that_do_not_overlap(n: int, target: str, how: Any) -> None:
    rng = np.random.default_rng(1)
    data = np.empty((2, n, 6), np.float32)
    data[:, :, 0] = rng.integers(0, 3, (2, n))
    data[:, :, 1] = rng.integers(-2, 20, (2, n))  # some are equal, some no more than zero
    data[:, :, 2:] = corners(rng, 2, n)
    counts = np.array([n, n // 2], np.int32)
    names = np.arange(2 * n, dtype=np.int32).reshape(2, n)
    arrays = [data, counts, names]
    (out, total), _ = results(
        lambda a, b, c: vision.non_max_suppression(a, b, c, **how), arrays, target
    )
    (front,), _ = results(
        lambda a, b, c: [vision.non_max_suppression(
            a, b, c, return_indices=False, invalid_to_bottom=True, **how
        )], arrays, target,
    )  # fmt: skip
    (there,), _ = results(
        lambda a, b, c: [vision.non_max_suppression(a, b, c, return_indices=False, **how)],
        arrays,
        target,
    )
    least = np.float32(how.get("iou_threshold", 0.5))
    for b in range(2):
        box = data[b]

        def near(j: Any, k: Any, box: Array = box) -> bool:
            other = "id_index" not in how and "force_suppress" not in how
            if least <= 0 or (other and box[j, 0] != box[k, 0]):
                return False
            return bool(share(box[j, 2:], box[k, 2:]) >= least)

        order = np.argsort(-box[: counts[b], 1], kind="stable")[: how.get("top_k")]
        kept = set(
            greedy(box, [j for j in order if box[j, 1] > 0], near, how.get("max_output_size"))
        )
        stays = [int(j) for j in order if j in kept or box[j, 1] <= 0]
        assert total[b, 0] == len(stays)
        np.testing.assert_array_equal(out[b, : len(stays)], names[b, stays])
        assert (out[b, len(stays) :] == -1).all()
        np.testing.assert_array_equal(front[b, : len(stays)], box[stays])
        assert (front[b, len(stays) :] == -1).all()
        want = np.full_like(box, -1)
        for at, j in enumerate(order):
            if j in stays:
                want[at] = box[j]
        np.testing.assert_array_equal(there[b], want)


@pytest.mark.parametrize("form", ["onnx", "tensorflow"])
@pytest.mark.parametrize(
    ("batch", "classes", "n", "most", "target"),
    [(1, 1, 1, 3, "cuda"), (2, 3, 150, 20, "cuda"), (2, 2, 700, 700, "opencl")],
)
def test_each_class_by_itself(
    batch: int, classes: int, n: int, most: int, target: str, form: str
) -> None:
    rng = np.random.default_rng(2)
    boxes = corners(rng, batch, n)
    scores = rng.integers(0, 100, (batch, classes, n)).astype(np.float32)
    found, _ = results(
        lambda b, s: vision.all_class_non_max_suppression(b, s, most, 0.4, 9, form),
        [boxes, scores],
        target,
    )
    rows = []
    for b, c in np.ndindex(batch, classes):
        order = np.argsort(-scores[b, c], kind="stable")
        order = order[scores[b, c, order] > 9]
        kept = greedy(
            boxes[b],
            order,
            lambda j, k, b=b: share(boxes[b, j], boxes[b, k]) >= np.float32(0.4),
            most,
        )
        rows += [[b, c, j] for j in kept]
    if form == "onnx":
        assert found[1][0] == len(rows)
        np.testing.assert_array_equal(
            found[0][: len(rows)].reshape(-1, 3), np.reshape(rows, (-1, 3))
        )
        assert (found[0][len(rows) :] == 0).all()
        return
    for b in range(batch):
        own = [r[1:] for r in rows if r[0] == b]
        assert found[2][b] == len(own)
        np.testing.assert_array_equal(
            found[0][b, : len(own)].reshape(-1, 2), np.reshape(own, (-1, 2))
        )
        np.testing.assert_array_equal(found[1][b, : len(own)], [scores[b, c, j] for c, j in own])
        assert (found[0][b, len(own) :] == 0).all() and (found[1][b, len(own) :] == 0).all()


@pytest.mark.parametrize("post", [3, 300])
def test_proposals(post: int) -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((2, 4, 9, 8)).astype(np.float32)
    moves = np.zeros((2, 8, 9, 8), np.float32)
    info = np.array([[200, 200, 1.0]] * 2, np.float32)
    how = ((1.0, 2.0), (1.0,), 16, 0.5, 100, post, 4, False)
    (found,), _ = results(
        lambda a, b, c: [vision.rcnn.proposal(a, b, c, *how)], [scores, moves, info]
    )
    # what a loop on a CPU finds, which other tests hold against written-down results
    (want,), _ = results(
        lambda a, b, c: [vision.rcnn.proposal(a, b, c, *how)], [scores, moves, info], "llvm"
    )
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("background", [False, True])
def test_the_best_class_of_boxes(background: bool) -> None:
    rng = np.random.default_rng(4)
    n = 333
    chances = rng.random((2, 4, n)).astype(np.float32)
    anchors = corners(rng, 1, n) / 40
    moves = rng.normal(size=(2, n * 4)).astype(np.float32)
    how: dict[str, Any] = {"threshold": 0.8, "keep_background": background}
    (found, counts), _ = results(
        lambda a, b, c: vision.ssd.multibox_transform_loc(a, b, c, **how), [chances, moves, anchors]
    )
    (want, many), _ = results(
        lambda a, b, c: vision.ssd.multibox_transform_loc(a, b, c, **how),
        [chances, moves, anchors],
        "llvm",
    )
    np.testing.assert_array_equal(counts, many)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_kernels_have_many_threads() -> None:
    shapes = [((1, 5000, 6), "float32"), ((1,), "int32"), ((1, 5000), "int32")]
    ins = [te.placeholder(s, t, f"in{n}") for n, (s, t) in enumerate(shapes)]
    with tw.target.Target(launches.SM80):
        outs = vision.non_max_suppression(ins[0], ins[1], ins[2])
        f = tw.build(topi.default_schedule(outs, launches.SM80), [*ins, *outs], launches.SM80)
    host: Any = f.entry_func
    sizes = [int(s[0]) * int(s[3]) for s in launches.LAUNCH.findall(host.text)]
    assert min(sizes) >= 256 and sizes.count(512) == 1


def test_few_threads_go_over_boxes_too() -> None:
    name = f"{launches.SM80} -max_threads_per_block=32"
    rng = np.random.default_rng(7)
    boxes = corners(rng, 1, 90)
    scores = rng.random((1, 1, 90)).astype(np.float32)
    (rows, total), _ = results(
        lambda b, s: vision.all_class_non_max_suppression(b, s, 90, 0.3, 0.1), [boxes, scores], name
    )
    turns = [j for j in np.argsort(-scores[0, 0]) if scores[0, 0, j] > np.float32(0.1)]
    kept = greedy(boxes[0], turns, lambda j, k: share(boxes[0, j], boxes[0, k]) >= np.float32(0.3))
    assert total[0] == len(kept)
    np.testing.assert_array_equal(rows[: len(kept), 2], kept)
