"""Boxes of fixed places and sizes, and what a network predicts for them (single-shot detectors)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...loopir.ir_builder import create
from ...tensor.compute import compute
from ...tensor.extern import extern
from ...tensor.tensor import Tensor
from ..chosen import gather_chosen, ranked
from ..lines import each, on_device, variable
from ..utils import get_const_float, get_const_int, of_rank
from .boxes import non_max_suppression

Numbers = Sequence[float]
_VARIANCES = (0.1, 0.1, 0.2, 0.2)


def _floats(values: Any) -> list[float]:
    return [get_const_float(v) for v in ([values] if isinstance(values, (int, float)) else values)]


@of_rank(data=4)
def multibox_prior(
    data: Tensor,
    sizes: Numbers = (1,),
    ratios: Numbers = (1,),
    steps: Numbers = (-1, -1),
    offsets: Numbers = (0.5, 0.5),
    clip: bool = False,
) -> Tensor:
    """Boxes around every place of data (N, C, H, W): of each size with the first ratio of width to
    height, and of the first size with each other one. `steps`: between places, as shares of the
    image (one over how many there are, where below zero); `offsets`: of places in their steps.
    Returns (1, H * W * boxes, 4), left, top, right and bottom as shares, in 0 to 1 where `clip`.
    Liu et al., SSD: Single Shot MultiBox Detector, ECCV 2016."""
    height, width = (get_const_int(d) for d in data.shape[2:])
    sizes, ratios, steps, offsets = map(_floats, (sizes, ratios, steps, offsets))
    step_y, step_x = (s if s > 0 else 1 / n for s, n in zip(steps, (height, width)))
    halves = [(s * height / width / 2, s / 2) for s in sizes]
    halves += [(sizes[0] * height / width * r**0.5 / 2, sizes[0] / r**0.5 / 2) for r in ratios[1:]]
    count, dtype = len(halves), data.dtype

    def half(k: Any, d: int) -> Any:
        value: Any = const(halves[-1][d], dtype)
        for n in reversed(range(count - 1)):
            value = O.select(k.equal(n), const(halves[n][d], dtype), value)
        return value

    def element(_: Any, n: Any, e: Any) -> Any:
        k, place = n % count, n // count
        y = (cast(dtype, place // width) + const(offsets[0], dtype)) * const(step_y, dtype)
        x = (cast(dtype, place % width) + const(offsets[1], dtype)) * const(step_x, dtype)
        middle = O.select((e % 2).equal(0), x, y)
        away = O.select((e % 2).equal(0), half(k, 0), half(k, 1))
        value = O.select(e < 2, middle - away, middle + away)
        return O.max(O.min(value, const(1, dtype)), const(0, dtype)) if clip else value

    shape = (1, height * width * count, 4)
    result: Tensor = compute(shape, element, "multibox_prior", "multibox_prior")
    return result


@of_rank(cls_prob=3, loc_pred=2, anchor=3)
def multibox_transform_loc(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Numbers = _VARIANCES,
    keep_background: bool = False,
) -> list[Tensor]:
    """Boxes of the best class whose probability is above `threshold`: cls_prob (batch, classes,
    anchors), of which class 0 is the background, loc_pred (batch, anchors * 4), anchor (1, anchors,
    4).

    Returns [(batch, anchors, 6), class (without the background, unless `keep_background`),
    probability, left, top, right and bottom, -1 behind the last; (batch,), how many there are]. Liu
    et al., SSD: Single Shot MultiBox Detector, ECCV 2016. Raises TilewrightError where variances
    are not four.
    """
    batch, classes, anchors = cls_prob.shape
    dtype = cls_prob.dtype
    scale = _floats(variances)
    if len(scale) != 4:
        raise TilewrightError(f"multibox_transform_loc: four variances, got {scale}")
    first = 0 if keep_background else 1

    def corners(at: Any, move: Any) -> list[Any]:
        found = []
        for d in (0, 1):
            size, half = at[d + 2] - at[d], const(0.5, dtype)
            middle = move[d] * const(scale[d], dtype) * size + (at[d] + at[d + 2]) * half
            away = O.exp(move[d + 2] * const(scale[d + 2], dtype)) * size * half
            found.append((middle - away, middle + away))
        both = [found[0][0], found[1][0], found[0][1], found[1][1]]
        if not clip:
            return both
        return [O.max(O.min(v, const(1, dtype)), const(0, dtype)) for v in both]

    if on_device():
        return _best_at_once(cls_prob, loc_pred, anchor, first, threshold, corners)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        prob, move, boxes = (ib.buffer_ptr(b) for b in ins)
        out, counts = (ib.buffer_ptr(b) for b in outs)
        with each(ib, batch, 1 << 14) as b:
            found = variable(ib, "int32", 0, "found")
            with ib.for_range(0, anchors, name="n") as n:
                best, which = _best_class(ib, prob, (b, n), (first, classes))
                with ib.if_scope(O.all(which[0] >= 0, best[0] >= const(threshold, dtype))):
                    to = ib.let("to", found[0])
                    out[b, to, 0] = cast(dtype, which[0])
                    out[b, to, 1] = best[0]
                    at = [boxes[0, n, d] for d in range(4)]
                    by = [move[b, n * 4 + d] for d in range(4)]
                    for d, v in enumerate(corners(at, by)):
                        out[b, to, d + 2] = v
                    found[0] = to + 1
            counts[b] = found[0]
            with (
                ib.for_range(0, anchors - found[0], name="n") as n,
                ib.for_range(0, 6, name="k") as k,
            ):
                out[b, found[0] + n, k] = const(-1, dtype)
        return ib.get()

    shapes = [(batch, anchors, 6), (batch,)]
    inputs = [cls_prob, loc_pred, anchor]
    name = "multibox_transform_loc"
    found: list[Tensor] = extern(shapes, inputs, body, name, [dtype, "int32"], tag=name)
    return found


def _best_class(
    ib: Any, prob: Any, at: tuple[Any, Any], classes: tuple[int, Any]
) -> tuple[Any, Any]:
    """Variables with the largest chance of a class at (image, anchor), from the first that counts
    on, and which it is from there; -1 where none is above that."""
    (b, n), (first, count), dtype = at, classes, prob.dtype
    best = variable(ib, dtype, const(-1, dtype), "best")
    which = variable(ib, "int32", -1, "which")
    with ib.for_range(0, count - first, name="c") as c:
        value = ib.let("value", prob[b, c + first, n])
        with ib.if_scope(value > best[0]):
            best[0] = value
            which[0] = c
    return best, which


def _best_at_once(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    first: int,
    threshold: float,
    corners: Callable[[Any, Any], list[Any]],
) -> list[Tensor]:
    """As multibox_transform_loc, by kernels of many threads."""
    batch, classes, anchors = cls_prob.shape
    dtype = cls_prob.dtype

    def choose(ins: Any, outs: Any) -> Any:
        ib = create()
        prob, best, which = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, batch * anchors, batch * anchors) as i:
            b, n = ib.let("b", i // anchors), ib.let("n", i % anchors)
            most, found = _best_class(ib, prob, (b, n), (first, classes))
            best[b, n] = most[0]
            which[b, n] = found[0]
        return ib.get()

    rows = (batch, anchors)
    best, which = extern([rows, rows], [cls_prob], choose, "best_class", [dtype, "int32"])

    def holds(b: Any, n: Any) -> Any:
        return O.all(which(b, n) >= 0, best(b, n) >= const(threshold, dtype))

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        score, number, move, boxes, *ranks, out, counts = (ib.buffer_ptr(b) for b in (*ins, *outs))

        def put(b: Any, n: Any, to: Any, k: Any) -> None:
            at = [boxes[0, n, d] for d in range(4)]
            by = [move[b, n * 4 + d] for d in range(4)]
            values = [cast(dtype, number[b, n]), score[b, n], *corners(at, by)]
            value = values[-1]
            for d in reversed(range(5)):
                value = O.select(k.equal(d), values[d], value)
            out[b, to, k] = value

        gather_chosen(
            ib,
            (batch, anchors, 6),
            (ranks[0], ranks[1]),
            put,
            lambda b, to, k: out.__setitem__((b, to, k), const(-1, dtype)),
            lambda b, total: counts.__setitem__(b, total),
        )
        return ib.get()

    shapes = [(batch, anchors, 6), (batch,)]
    inputs = [best, which, loc_pred, anchor, *ranked(rows, holds)]
    name = "multibox_transform_loc"
    found: list[Tensor] = extern(shapes, inputs, body, name, [dtype, "int32"], tag=name)
    return found


@of_rank(cls_prob=3, loc_pred=2, anchor=3)
def multibox_detection(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Numbers = _VARIANCES,
    nms_topk: int = -1,
) -> Tensor:
    """multibox_transform_loc, for scores above `threshold`, and of boxes that overlap by a share
    above `nms_threshold` the best (non_max_suppression): (batch, anchors, 6), -1 for others. Liu et
    al., SSD: Single Shot MultiBox Detector, ECCV 2016. Raises TilewrightError where variances are
    not four."""
    how = (clip, threshold, variances)
    boxes, counts = multibox_transform_loc(cls_prob, loc_pred, anchor, *how)
    places: Tensor = compute(boxes.shape[:2], lambda b, j: j, "places", "injective")
    result: Tensor = non_max_suppression(
        boxes,
        counts,
        places,
        max_output_size=-1,
        iou_threshold=nms_threshold,
        force_suppress=force_suppress,
        top_k=nms_topk,
        return_indices=False,
    )
    return result
