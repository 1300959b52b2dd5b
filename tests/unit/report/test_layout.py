"""Boxes of graphs stand below what they read, none on another."""

from __future__ import annotations

import numpy as np

from tilewright.report.layout import STEP_X, STEP_Y, place_boxes
from tilewright.report.page import Box


def box(*reads: int) -> Box:
    return Box("b", "n", 0, None, 0.0, reads)


def test_a_chain_with_a_shortcut() -> None:
    found = place_boxes([box(), box(0), box(1), box(0, 2)], "the time")
    assert [b.y for b in found.boxes] == sorted(b.y for b in found.boxes)
    assert len({b.y for b in found.boxes}) == 4 and len({b.x for b in found.boxes}) == 1


def test_random_graphs() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        count = int(rng.integers(1, 40))
        boxes = [
            box(*sorted({int(rng.integers(0, k)) for _ in range(rng.integers(0, 4))} if k else ()))
            for k in range(count)
        ]
        found = place_boxes(boxes, "the time")
        places = {(b.x, b.y) for b in found.boxes}
        assert len(places) == count
        for b in found.boxes:
            assert 0 <= b.x <= found.width - STEP_X + 60 and 0 <= b.y < found.height
            for r in b.reads:
                assert found.boxes[r].y <= b.y - STEP_Y


def test_no_boxes() -> None:
    assert place_boxes([], "the time").boxes == []
