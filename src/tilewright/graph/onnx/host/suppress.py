"""NonMaxSuppression: of boxes that overlap, the one with the best score.

NumPy puts the candidates of all lists (of a batch and a class) in order; which of them stay is
decided one after another, which a kernel does, lists in parallel: each candidate is compared with
the boxes kept so far, a vector of them at a time.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
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
from .common import Array, one, required
from .node import HostNode

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
    most = int(one(node, 2, 0))
    overlap, least = one(node, 3, np.float32(0)), one(node, 4)
    if not 0 <= overlap <= 1:
        raise node.error(f"iou_threshold must be in 0 to 1, got {overlap}")
    corners = _corners(boxes, node.get("center_point_box", 0)).astype(np.float32, copy=False)
    order, begin = _candidates(scores, least)
    lists = begin.size - 1
    room = min(most, int(np.diff(begin).max(initial=0)))
    if room <= 0:
        return [np.zeros((0, 3), np.int64)]
    kept = np.zeros((lists, _SIDES, -(-room // _LANES) * _LANES), np.float32)
    chosen, count = np.zeros((lists, room), np.int32), np.zeros(lists, np.int32)
    limit = np.asarray([overlap], np.float32)
    _kernel()(corners, order, begin, limit, kept, chosen, count)
    which = np.repeat(np.arange(lists), count)
    found = chosen[np.arange(room) < count[:, None]]
    return [np.stack([*np.divmod(which, scores.shape[1]), found], -1).astype(np.int64)]


def _corners(boxes: Array, centered: int) -> Array:
    """The lower and the upper corner of each box, four numbers."""
    one_end, other = boxes[..., :2], boxes[..., 2:]
    if centered:
        one_end, other = one_end - other / 2, one_end + other / 2
    return np.concatenate([np.minimum(one_end, other), np.maximum(one_end, other)], -1)


def _candidates(scores: Array, least: Any) -> tuple[Array, Array]:
    """The boxes of each list with scores above `least`, best first, of equals the first; and where
    each list begins."""
    flat = scores.reshape(-1)
    places = np.arange(flat.size) if least is None else np.flatnonzero(flat > least)
    batches, classes, each = scores.shape
    lists = places // max(each, 1)
    begin = np.searchsorted(lists, np.arange(batches * classes + 1))
    boxes, keys = (places % max(each, 1)).astype(np.int32), -flat[places]
    for first, last in pairwise(begin):
        order = np.argsort(keys[first:last], kind="stable")
        boxes[first:last] = boxes[first:last][order]
    return boxes, begin.astype(np.int32)


@cache
def _kernel() -> Any:
    """(corners, order, begin, limit, kept, chosen, count): a function that fills the last three."""
    n, total, lists, room, wide, batches = (Var(name) for name in "ntlrwb")
    given = [
        placeholder((batches, n, 4), "float32", "corners"),
        placeholder((total,), "int32", "order"),
        placeholder((lists + 1,), "int32", "begin"),
        placeholder((1,), "float32", "limit"),
    ]
    shapes = [(lists, _SIDES, wide), (lists, room), (lists,)]
    dtypes = ["float32", "int32", "int32"]

    def body(ins: list[Buffer], outs: list[Buffer]) -> Any:
        ib = create()
        arrays = [ib.buffer_ptr(b) for b in (*ins, *outs)]
        with ib.for_range(0, lists, name="list", kind="parallel") as k:
            _suppress(ib, k, k // O.max(lists // O.max(batches, 1), 1), room, *arrays)
        return ib.get()

    outs = extern(shapes, given, body, "suppress", dtypes)
    return build(create_schedule([outs[0].op]), [*given, *outs], "llvm", name="suppress")


def _suppress(
    ib: IRBuilder,
    k: Any,
    batch: Any,
    most: Any,
    corners: Any,
    order: Any,
    begin: Any,
    limit: Any,
    kept: Any,
    chosen: Any,
    count: Any,
) -> None:
    """One list."""
    found = variable(ib, "int32", 0, "found")
    place = variable(ib, "int32", begin[k], "place")
    hits = ib.allocate("int32", (_LANES,), name="hits", scope="local")
    with ib.while_loop(O.all(place[0] < begin[k + 1], found[0] < most)):
        box = ib.let("box", order[place[0]])
        place[0] = place[0] + 1
        sides = [ib.let(f"side{d}", corners[batch, box, d]) for d in range(4)]
        area = ib.let("area", (sides[2] - sides[0]) * (sides[3] - sides[1]))
        with ib.for_range(0, _LANES, kind="vectorize") as lane:
            hits[lane] = const(0)
        first, hit = variable(ib, "int32", 0, "first"), variable(ib, "int32", 0, "hit")
        with ib.while_loop(O.all(first[0] < found[0], hit[0].equal(0))):
            with ib.for_range(0, _LANES, kind="vectorize") as lane:
                other = [kept[k, d, first[0] + lane] for d in range(_SIDES)]
                size = [
                    O.max(O.min(sides[2 + d], other[2 + d]) - O.max(sides[d], other[d]), 0.0)
                    for d in range(2)
                ]
                common = size[0] * size[1]
                union = area + other[4] - common
                some = O.all(area > 0.0, other[4] > 0.0, union > 0.0)
                ratio = common / O.select(some, union, const(1, "float32"))
                hits[lane] = cast("int32", O.all(some, ratio > limit[0]))
            with ib.for_range(0, _LANES, kind="unroll") as lane:
                hit[0] = O.bitwise_or(hit[0], hits[lane])
            first[0] = first[0] + _LANES
        with ib.if_scope(hit[0].equal(0)):
            for d, side in enumerate((*sides, area)):
                kept[k, d, found[0]] = side
            chosen[k, found[0]] = box
            found[0] = found[0] + 1
    count[k] = found[0]
