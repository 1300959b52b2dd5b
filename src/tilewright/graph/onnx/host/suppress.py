"""NonMaxSuppression: of boxes that overlap, the one with the best score.

One kernel, lists (of a batch and a class) in parallel: the boxes with scores above the threshold
become a heap, the best is taken from it until there are enough, and each is compared with the boxes
kept so far, a vector of them at a time. At the end the lists are put one after another.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ....driver.build_module import build
from ....loopir import op as O
from ....loopir.buffer import Buffer
from ....loopir.expr import Var, cast, const
from ....loopir.ir_builder import IRBuilder, create
from ....schedule.api import create_schedule
from ....tensor.compute import placeholder
from ....tensor.extern import extern
from ....topi.lines import variable
from ....topi.sorting import rising
from ..node import HostNode
from .common import one, required

_LANES = 16
_SIDES = 5  # of what is kept of a box: its lower and its upper corner, its area


def non_max_suppression(node: HostNode) -> list[Any]:
    boxes, scores = required(node, 0), required(node, 1)
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape != (
        scores.shape[0], scores.shape[2], 4
    ):  # fmt: skip
        raise node.error(
            f"boxes of shape {list(boxes.shape)} and scores of shape {list(scores.shape)}"
        )
    overlap, least = one(node, 3, np.float32(0)), one(node, 4)
    if not 0 <= overlap <= 1:
        raise node.error(f"iou_threshold must be in 0 to 1, got {overlap}")
    lists, each = scores.shape[0] * scores.shape[1], scores.shape[2]
    room = min(int(one(node, 2, 0)), each)
    if room <= 0 or not lists:
        return [np.zeros((0, 3), np.int64)]
    limits = np.asarray([overlap, 0 if least is None else least], np.float32)
    how = np.asarray([node.get("center_point_box", 0), least is not None], np.int32)
    kept = np.empty((lists, _SIDES, -(-room // _LANES) * _LANES), np.float32)
    heap = np.empty((lists, 2, each), np.int32)
    chosen, count = np.empty((lists, room), np.int32), np.empty(lists, np.int32)
    rows, total = np.empty((lists * room, 3), np.int64), np.empty(1, np.int32)
    whole = (np.ascontiguousarray(x, np.float32) for x in (boxes, scores))
    _kernel()(*whole, limits, how, kept, heap, chosen, count, rows, total)
    found = rows[: total[0]]
    return [found if 2 * len(found) > len(rows) else found.copy()]


@cache
def _kernel() -> Any:
    """(boxes, scores, limits, how, kept, heap, chosen, count, rows, total): a function that fills
    all from the fifth on."""
    batches, classes, n, lists, room, wide, most = (Var(name) for name in "bcnlrwm")
    given = [
        placeholder((batches, n, 4), "float32", "boxes"),
        placeholder((batches, classes, n), "float32", "scores"),
        placeholder((2,), "float32", "limits"),
        placeholder((2,), "int32", "how"),
    ]
    shapes = [
        (lists, _SIDES, wide), (lists, 2, n), (lists, room), (lists,), (most, 3), (1,),
    ]  # fmt: skip
    dtypes = ["float32", "int32", "int32", "int32", "int64", "int32"]

    def body(ins: list[Buffer], outs: list[Buffer]) -> Any:
        ib = create()
        arrays = [ib.buffer_ptr(b) for b in (*ins, *outs)]
        chosen, count, rows, total = arrays[6:]
        with ib.for_range(0, lists, name="list", kind="parallel") as k:
            one_list = _List(ib, arrays, k, classes)
            one_list.collect(n)
            one_list.suppress(room)
        total[0] = 0
        with ib.for_range(0, lists, name="list") as k:
            with ib.for_range(0, count[k], name="row") as r:
                at = total[0] + r
                for column, value in enumerate((k // classes, k % classes, chosen[k, r])):
                    rows[at, column] = cast("int64", value)
            total[0] = total[0] + count[k]
        return ib.get()

    outs = extern(shapes, given, body, "suppress", dtypes)
    return build(create_schedule([outs[0].op]), [*given, *outs], "llvm", name="suppress")


class _List:
    """The statements for one list. The heap has the scores, as integers in their order, and the
    boxes' numbers; a box is before another one with a smaller score, or as large a one and a
    larger number."""

    def __init__(self, ib: IRBuilder, arrays: list[Any], k: Any, classes: Any) -> None:
        self.ib, self.k = ib, k
        self.boxes, self.scores, self.limits, self.how = arrays[:4]
        self.kept, self.heap, self.chosen, self.count = arrays[4:8]
        self.place = (k // classes, k % classes)
        self.size = variable(ib, "int32", 0, "size")

    def _entry(self, at: Any) -> tuple[Any, Any]:
        return self.heap[self.k, 0, at], self.heap[self.k, 1, at]

    def _put(self, at: Any, entry: tuple[Any, Any]) -> None:
        for part, value in enumerate(entry):
            self.heap[self.k, part, at] = value

    def collect(self, n: Any) -> None:
        """The boxes with scores above the threshold, as a heap."""
        ib, size = self.ib, self.size
        with ib.for_range(0, n, name="box") as box:
            score = ib.let("score", self.scores[(*self.place, box)])
            with ib.if_scope(O.any(score > self.limits[1], self.how[1].equal(0))):
                least = const(-(2**31))  # what is no number comes last
                self._put(size[0], (O.select(score.equal(score), rising(score), least), box))
                size[0] = size[0] + 1
        half = ib.let("half", size[0] // 2)
        with ib.for_range(0, half, name="node") as i:
            node = half - 1 - i
            self._sink(node, self._entry(node))

    def _sink(self, node: Any, entry: tuple[Any, Any]) -> None:
        """Put an entry at a node or below it, where both heaps below are in order."""
        ib, size = self.ib, self.size
        key, box = (ib.let(name, value) for name, value in zip(("key", "box"), entry))
        at, child = variable(ib, "int32", node, "at"), variable(ib, "int32", 0, "child")
        child[0] = node * 2 + 1
        with ib.while_loop(child[0] < size[0]):
            left = ib.let("left", child[0])
            right = ib.let("right", O.min(left + 1, size[0] - 1))
            with ib.if_scope(_before(self._entry(right), self._entry(left))):
                child[0] = right
            with ib.if_scope(_before(self._entry(child[0]), (key, box))):
                self._put(at[0], self._entry(child[0]))
                at[0] = child[0]
                child[0] = at[0] * 2 + 1
            with ib.else_scope():
                child[0] = size[0]
        self._put(at[0], (key, box))

    def suppress(self, most: Any) -> None:
        """Take the best one by one, and keep those that overlap none that is kept."""
        ib, size = self.ib, self.size
        found = variable(ib, "int32", 0, "found")
        with ib.while_loop(O.all(size[0] > 0, found[0] < most)):
            box = ib.let("best", self.heap[self.k, 1, 0])
            size[0] = size[0] - 1
            self._sink(const(0), self._entry(size[0]))
            sides = self._corners(box)
            area = ib.let("area", (sides[2] - sides[0]) * (sides[3] - sides[1]))
            with ib.if_scope(self._overlaps(sides, area, found[0]).equal(0)):
                for d, side in enumerate((*sides, area)):
                    self.kept[self.k, d, found[0]] = side
                self.chosen[self.k, found[0]] = box
                found[0] = found[0] + 1
        self.count[self.k] = found[0]

    def _corners(self, box: Any) -> list[Any]:
        """The lower and the upper corner of a box, four numbers."""
        ib = self.ib
        first, second = ([self.boxes[self.place[0], box, d + e] for d in range(2)] for e in (0, 2))
        centered = ib.let("centered", self.how[0])
        low, high = [], []
        for a, b in zip(first, second):
            half = ib.let("half", b / const(2, "float32"))
            one_end = ib.let("one_end", O.select(centered.equal(0), a, a - half))
            other = ib.let("other", O.select(centered.equal(0), b, a + half))
            low.append(ib.let("low", O.min(one_end, other)))
            high.append(ib.let("high", O.max(one_end, other)))
        return [*low, *high]

    def _overlaps(self, sides: list[Any], area: Any, found: Any) -> Any:
        """Whether a box overlaps one of those that are kept: not 0."""
        ib, k, kept = self.ib, self.k, self.kept
        hits = ib.allocate("int32", (_LANES,), name="hits", scope="local")
        first, hit = variable(ib, "int32", 0, "first"), variable(ib, "int32", 0, "hit")
        with ib.while_loop(O.all(first[0] < found, hit[0].equal(0))):
            with ib.for_range(0, _LANES, kind="vectorize") as lane:
                other = [kept[k, d, first[0] + lane] for d in range(_SIDES)]
                size = [
                    O.max(O.min(sides[2 + d], other[2 + d]) - O.max(sides[d], other[d]), 0.0)
                    for d in range(2)
                ]
                common = size[0] * size[1]
                union = area + other[4] - common
                some = O.all(area > 0.0, other[4] > 0.0, union > 0.0, first[0] + lane < found)
                ratio = common / O.select(some, union, const(1, "float32"))
                hits[lane] = cast("int32", O.all(some, ratio > self.limits[0]))
            with ib.for_range(0, _LANES, kind="unroll") as lane:
                hit[0] = O.bitwise_or(hit[0], hits[lane])
            first[0] = first[0] + _LANES
        return hit[0]


def _before(a: tuple[Any, Any], b: tuple[Any, Any]) -> Any:
    return O.any(a[0] > b[0], O.all(a[0].equal(b[0]), a[1] < b[1]))
