"""Where the boxes of a graph stand: in layers, each below what it reads (Sugiyama et al., 1981)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .page import Box, NetworkGraph

STEP_X, STEP_Y, MARGIN = 270.0, 72.0, 20.0
_SWEEPS = 4


def place_boxes(boxes: Sequence[Box], measure: str) -> NetworkGraph:
    """A graph of boxes, given in an order in which they can run, in layers from top to bottom."""
    layer: list[int] = []
    for box in boxes:
        layer.append(1 + max((layer[r] for r in box.reads), default=-1))
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for k, at in enumerate(layer):
        rows[at].append(k)
    column = _ordered(boxes, rows)
    placed = [
        replace(b, x=MARGIN + STEP_X * column[k], y=MARGIN + STEP_Y * layer[k])
        for k, b in enumerate(boxes)
    ]
    width = 2 * MARGIN + STEP_X * (1 + max(column, default=0)) + 80
    return NetworkGraph(placed, width, 2 * MARGIN + STEP_Y * len(rows), measure)


def _ordered(boxes: Sequence[Box], rows: list[list[int]]) -> list[float]:
    """The column of each box: near the middle of what it reads and of what reads it."""
    readers: list[list[int]] = [[] for _ in boxes]
    for k, box in enumerate(boxes):
        for r in box.reads:
            readers[r].append(k)
    column = [0.0] * len(boxes)
    for row in rows:
        for at, k in enumerate(row):
            column[k] = float(at)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            near = {k: (boxes[k].reads if down else readers[k]) or [k] for k in row}
            row.sort(key=lambda k: sum(column[n] for n in near[k]) / len(near[k]))
            for at, k in enumerate(row):
                column[k] = float(at)
    return column
