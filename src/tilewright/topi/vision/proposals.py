"""Regions that are likely to hold objects, of what a network predicts for boxes of fixed sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...loopir.ir_builder import IRBuilder, create
from ...tensor.compute import compute
from ...tensor.extern import extern
from ...tensor.tensor import Tensor
from ..lines import each, on_device, variable
from ..sorting import argsort
from ..utils import get_const_float, get_const_int
from .sweep import sweep

Box = tuple[float, float, float, float]


def _anchor(ratio: float, scale: float, base: int) -> Box:
    """The box of a ratio of height to width and a scale, around the middle of one of `base`."""
    middle = 0.5 * (base - 1.0)
    width = floor(floor(base * base / ratio) ** 0.5 + 0.5)
    height = floor(width * ratio + 0.5) * scale
    width = width * scale
    w, h = 0.5 * (width - 1.0), 0.5 * (height - 1.0)
    return middle - w, middle - h, middle + w, middle + h


def _predicted(
    cls_prob: Tensor,
    bbox_pred: Tensor,
    im_info: Tensor,
    anchors: Sequence[Box],
    stride: int,
    min_size: float,
    iou_loss: bool,
) -> Tensor:
    """(batch, rows * columns * anchors, 5): corners and score; -1 of boxes that do not count."""
    batch, _, h, w = (get_const_int(d) for d in cls_prob.shape)
    count, dtype = len(anchors), cls_prob.dtype

    def anchor(k: Any, d: int) -> Any:
        value: Any = const(anchors[-1][d], dtype)
        for n in reversed(range(count - 1)):
            value = O.select(k.equal(n), const(anchors[n][d], dtype), value)
        return value

    def element(b: Any, n: Any, e: Any) -> Any:
        k, x, y = n % count, n // count % w, n // count // w
        place = [cast(dtype, j) * const(stride, dtype) for j in (x, y)]
        start = [anchor(k, d) + place[d] for d in (0, 1)]
        end = [anchor(k, d + 2) + place[d] for d in (0, 1)]
        move = [bbox_pred(b, k * 4 + d, y, x) for d in range(4)]
        half, one = const(0.5, dtype), const(1, dtype)
        low, high = [], []
        for d in (0, 1):
            if iou_loss:
                low.append(start[d] + move[d])
                high.append(end[d] + move[d + 2])
            else:
                size = end[d] - start[d] + one
                middle = move[d] * size + start[d] + half * (size - one)
                away = half * (O.exp(move[d + 2]) * size - one)
                low.append(middle - away)
                high.append(middle + away)
        image = [im_info(b, 1), im_info(b, 0)]  # width and height
        low = [O.max(O.min(v, s - one), const(0, dtype)) for v, s in zip(low, image)]
        high = [O.max(O.min(v, s - one), const(0, dtype)) for v, s in zip(high, image)]
        least = im_info(b, 2) * const(min_size, dtype)
        small = O.any(*(b_ - a + one < least for a, b_ in zip(low, high)))
        real = [cast("int32", s / const(stride, dtype)) for s in image]
        score = cls_prob(b, count + k, y, x)
        bad = O.any(small, x >= real[0], y >= real[1])
        grow = O.select(small, least * half, const(0, dtype))
        numbers = [low[0] - grow, low[1] - grow, high[0] + grow, high[1] + grow]
        value = O.select(bad, const(-1, dtype), score)
        for d in reversed(range(4)):
            value = O.select(e.equal(d), numbers[d], value)
        return value

    result: Tensor = compute((batch, h * w * count, 5), element, "predicted_boxes", "injective")
    return result


def _share(a: Sequence[Any], b: Sequence[Any], dtype: str) -> Any:
    """What two boxes have in common, as a share of what they cover; corners belong to them."""
    one, zero = const(1, dtype), const(0, dtype)
    common, mine, theirs = one, one, one
    for d in (0, 1):
        inner = O.min(a[d + 2], b[d + 2]) - O.max(a[d], b[d]) + one
        common = common * O.max(inner, zero)
        mine = mine * (a[d + 2] - a[d] + one)
        theirs = theirs * (b[d + 2] - b[d] + one)
    return common / (mine + theirs - common)


def proposal(
    cls_prob: Tensor,
    bbox_pred: Tensor,
    im_info: Tensor,
    scales: Any,
    ratios: Any,
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: float,
    iou_loss: bool,
) -> Tensor:
    """The best regions of each image that do not overlap by more than `threshold`.

    cls_prob (batch, 2 * anchors, H, W), of which the second half are probabilities of an object,
    bbox_pred (batch, 4 * anchors, H, W): by how much boxes are moved and scaled, or their corners
    moved where `iou_loss`; im_info (batch, 3): height, width and scale of images. Anchors have all
    `ratios` (height divided by width) and `scales` (times `feature_stride` pixels). Returns (batch
    * rpn_post_nms_top_n, 5), image and corners, of the first `rpn_pre_nms_top_n` by score; where
    there are fewer, they come again. Takes floats; the result has the type of `cls_prob`. Ren et
    al., Faster R-CNN, NIPS 2015. Raises UsageError where `ratios` or `scales` is not constant.
    """
    anchors = [
        _anchor(get_const_float(r), get_const_float(s), feature_stride)
        for r in ratios
        for s in scales
    ]
    stride = int(feature_stride)
    how = (anchors, stride, float(rpn_min_size), iou_loss)
    boxes = _predicted(cls_prob, bbox_pred, im_info, *how)
    batch, count, _ = (get_const_int(d) for d in boxes.shape)
    scores: Tensor = compute((batch, count), lambda b, n: boxes(b, n, 4), "box_scores", "injective")
    order = argsort(scores, axis=1, is_ascend=0, dtype="int32")
    used = min(count, rpn_pre_nms_top_n) if rpn_pre_nms_top_n > 0 else count
    post, dtype = rpn_post_nms_top_n, boxes.dtype

    def at_once(ib: IRBuilder, ins: tuple[Any, Any], outs: tuple[Any, Any, Any]) -> None:
        """On a device."""
        (box, places), (out, kept, number) = ins, outs

        def near(b: Any, j: Any, k: Any) -> Any:
            mine, theirs = ([box[b, places[b, i], d] for d in range(4)] for i in (j, k))
            apart = _share(mine, theirs, dtype) <= const(threshold, dtype)
            return O.bitwise_xor(apart, const(True))

        sweep(
            ib,
            batch,
            lambda _: const(used),
            const(post),  # others do not come out
            lambda b, j: const(True),
            near,
            kept,
            total=lambda b, count: number.__setitem__(b, count),
        )
        with each(ib, batch * post * 5, batch * post * 5) as n:
            b, i, d = n // (post * 5), n // 5 % post, n % 5
            place = places[b, kept[b, O.truncmod(i, number[b])]]
            corner = box[b, place, O.max(d - 1, 0)]
            out[b * post + i, d] = O.select(d < 1, cast(dtype, b), corner)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        box, places = (ib.buffer_ptr(b) for b in ins)
        out, kept, *numbers = (ib.buffer_ptr(b) for b in outs)
        if numbers:
            at_once(ib, (box, places), (out, kept, numbers[0]))
            return ib.get()
        with each(ib, batch, 1 << 14) as b:
            found = variable(ib, "int32", 0, "found")
            with ib.for_range(0, used, name="j") as j:
                place = ib.let("place", places[b, j])
                good = variable(ib, "bool", True, "good")
                n = variable(ib, "int32", 0, "n")
                with ib.while_loop(O.all(good[0], n[0] < found[0])):
                    other = ib.let("other", kept[b, n[0]])
                    mine, theirs = ([box[b, p, d] for d in range(4)] for p in (place, other))
                    good[0] = _share(mine, theirs, dtype) <= const(threshold, dtype)
                    n[0] = n[0] + 1
                with ib.if_scope(good[0]):
                    kept[b, found[0]] = place
                    found[0] = found[0] + 1
            with ib.for_range(0, post, name="i") as i:
                place = ib.let("again", kept[b, O.truncmod(i, found[0])])
                out[b * post + i, 0] = cast(dtype, b)
                for d in range(4):
                    out[b * post + i, d + 1] = box[b, place, d]
        return ib.get()

    shapes: list[tuple[int, ...]] = [(batch * post, 5), (batch, used)]
    dtypes = [dtype, "int32"]
    if on_device():
        shapes.append((batch,))
        dtypes.append("int32")
    found = extern(shapes, [boxes, order], body, "proposal", dtypes, tag="proposal")
    result: Tensor = found[0]
    return result
