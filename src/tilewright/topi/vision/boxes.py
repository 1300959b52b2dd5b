"""Boxes with scores: those that count, and of those that overlap the best."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...loopir.ir_builder import IRBuilder, create
from ...tensor.compute import compute
from ...tensor.extern import extern
from ...tensor.tensor import Tensor
from ..lines import each, on_device, variable
from ..sorting import argsort
from ..utils import get_const_int, of_rank
from .given import Given, overlap
from .suppress import Nms, suppressed, suppressed_by_class, valid_at_once

_STEPS = 1 << 14  # of a batch: each is worth a thread


@of_rank(data=3)
def get_valid_counts(
    data: Tensor, score_threshold: Any = 0, id_index: int = 0, score_index: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Of data (batch, boxes, numbers) the boxes whose score is above `score_threshold` and whose
    class, number `id_index` of them if that is not below zero, is none below zero.

    Returns how many there are of each batch (batch,), int32; they themselves in front, and -1
    behind; and their places (batch, boxes), int32, and -1 behind. Raises OperandError where
    `score_threshold` is neither a number nor an expression.
    """
    batch, boxes, numbers = data.shape
    least = Given(score_threshold, data.dtype)

    if on_device():
        return valid_at_once(data, least, id_index, score_index)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x = ib.buffer_ptr(ins[0])
        read = {t: ib.buffer_ptr(b) for t, b in zip(least.inputs(), ins[1:])}
        counts, out, places = (ib.buffer_ptr(b) for b in outs)
        minus = const(-1, data.dtype)
        with each(ib, batch, _STEPS) as b:
            found = variable(ib, "int32", 0, "found")
            with ib.for_range(0, boxes, name="j") as j:
                holds = x[b, j, score_index] > least.read(read)
                if id_index >= 0:
                    holds = O.all(holds, x[b, j, id_index] >= const(0, data.dtype))
                with ib.if_scope(holds):
                    with ib.for_range(0, numbers, name="k") as k:
                        out[b, found[0], k] = x[b, j, k]
                    places[b, found[0]] = j
                    found[0] = found[0] + 1
            counts[b] = found[0]
            with ib.for_range(0, boxes - found[0], name="j") as j:
                with ib.for_range(0, numbers, name="k") as k:
                    out[b, found[0] + j, k] = minus
                places[b, found[0] + j] = const(-1)
        return ib.get()

    shapes = [(batch,), data.shape, (batch, boxes)]
    dtypes = ["int32", data.dtype, "int32"]
    inputs = [data, *least.inputs()]
    found = extern(shapes, inputs, body, "get_valid_counts", dtypes, tag="get_valid_counts")
    return found[0], found[1], found[2]


@of_rank(data=3)
def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Any:
    """Of the first valid_count(batch) boxes of data (batch, boxes, numbers), by falling scores,
    those that do not overlap by `iou_threshold` or more with one before, of the same class (number
    `id_index`) or of any where `force_suppress` or that is below zero; of the first `top_k` alone,
    and at most `max_output_size`. Four numbers from `coord_start` on are opposite corners.

    Returns the boxes, others as -1, which stand behind where `invalid_to_bottom`; or where
    `return_indices` [(batch, boxes), `indices` of the boxes in front, -1 behind; (batch, 1), how
    many there are], int32. Boxes are taken greedily, as in Girshick et al., Rich Feature
    Hierarchies, CVPR 2014. Raises OperandError where `iou_threshold` or `max_output_size` is
    neither a number nor an expression.
    """
    batch, boxes, numbers = data.shape
    scores: Tensor = compute(
        (batch, boxes), lambda b, j: data(b, j, score_index), "scores", "injective"
    )
    order = argsort(scores, valid_count, 1, 0, "int32")
    most, least = Given(max_output_size, "int32"), Given(iou_threshold, data.dtype)
    if on_device():
        how = Nms(most, least, force_suppress, top_k, (coord_start, score_index, id_index))
        whole = return_indices, invalid_to_bottom
        return suppressed(data, (valid_count, order, indices), how, *whole)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        more = [*most.inputs(), *least.inputs()]
        x, counts, sorted_places, names = (ib.buffer_ptr(b) for b in ins[:4])
        read = {t: ib.buffer_ptr(b) for t, b in zip(more, ins[4:])}
        out, places, kept = (ib.buffer_ptr(b) for b in outs)
        with each(ib, batch, _STEPS) as b:
            count = ib.let("count", counts[b])
            used = O.min(count, top_k) if top_k > 0 else count
            used = ib.let("used", used)
            with ib.for_range(0, boxes, name="j") as j:
                here = j < used
                source = ib.let("source", O.if_then_else(here, sorted_places[b, j], const(0)))
                places[b, j] = O.select(here, source, const(-1))
                with ib.for_range(0, numbers, name="k") as k:
                    out[b, j, k] = O.if_then_else(here, x[b, source, k], const(-1, data.dtype))
            chosen = _Choice(ib, out, places, b, (coord_start, score_index, id_index))
            how = (most.read(read), least.read(read), force_suppress)
            chosen.suppress(used, numbers, *how)
            chosen.gather(boxes, numbers, kept, names if return_indices else None,
                          invalid_to_bottom)  # fmt: skip
        return ib.get()

    shapes = [data.shape, (batch, boxes), (batch, 1)]
    inputs = [data, valid_count, order, indices, *most.inputs(), *least.inputs()]
    dtypes = [data.dtype, "int32", "int32"]
    found = extern(shapes, inputs, body, "nms", dtypes, tag="non_max_suppression")
    return [found[1], found[2]] if return_indices else found[0]


class _Choice:
    """The statements that choose among the boxes of a batch, which stand in the order of their
    scores."""

    def __init__(self, ib: IRBuilder, out: Any, places: Any, b: Any, at: tuple[int, int, int]):
        self.ib, self.out, self.places, self.b = ib, out, places, b
        self.corner, self.score, self.number = at

    def box(self, j: Any) -> list[Any]:
        return [self.out[self.b, j, self.corner + d] for d in range(4)]

    def suppress(self, used: Any, numbers: Any, most: Any, least: Any, force: bool) -> None:
        ib, out, b = self.ib, self.out, self.b
        zero = const(0, out.dtype)
        kept = variable(ib, "int32", 0, "number_kept")
        with ib.for_range(0, used, name="j") as j, ib.if_scope(out[b, j, self.score] > zero):
            good = variable(ib, "bool", O.any(most < 0, kept[0] < most), "good")
            before = variable(ib, "int32", 0, "before")
            with ib.while_loop(O.all(good[0], before[0] < j, least > const(0, least.dtype))):
                k = ib.let("k", before[0])
                against = out[b, k, self.score] > zero
                if self.number >= 0 and not force:
                    same = out[b, k, self.number].equal(out[b, j, self.number])
                    against = O.all(against, same)
                too_near = O.all(against, overlap(self.box(j), self.box(k)) >= least)
                good[0] = O.bitwise_xor(too_near, const(True))
                before[0] = k + 1
            with ib.if_scope(good[0]):
                kept[0] = kept[0] + 1
            with ib.else_scope():
                self.places[b, j] = const(-1)
                with ib.for_range(0, numbers, name="k") as k:
                    out[b, j, k] = const(-1, out.dtype)

    def gather(self, boxes: Any, numbers: Any, kept: Any, names: Any, to_bottom: bool) -> None:
        """Those that are kept in front, by their `names`; their boxes too where `to_bottom`."""
        ib, out, places, b = self.ib, self.out, self.places, self.b
        found = variable(ib, "int32", 0, "found")
        with ib.for_range(0, boxes, name="j") as j, ib.if_scope(places[b, j] >= 0):
            place = ib.let("place", places[b, j])
            to = ib.let("to", found[0])
            if names is not None:
                places[b, to] = names[b, place]
            if to_bottom:
                with ib.for_range(0, numbers, name="k") as k:
                    out[b, to, k] = out[b, j, k]
            found[0] = to + 1
        kept[b, 0] = found[0]
        with ib.for_range(0, boxes - found[0], name="j") as j:
            if names is not None:
                places[b, found[0] + j] = const(-1)
            if to_bottom:
                with ib.for_range(0, numbers, name="k") as k:
                    out[b, found[0] + j, k] = const(-1, out.dtype)


def all_class_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str = "onnx",
) -> list[Tensor]:
    """Of boxes (batch, boxes, 4 numbers of two opposite corners), for each class of scores (batch,
    classes, boxes) by itself, those above a score that do not overlap with a better one.

    "onnx": [(batch * classes * boxes, 3), rows of batch, class, box, in front; (1,), how many].
    "tensorflow": [(batch, classes * boxes, 2), rows of class, box; (batch, classes * boxes), their
    scores; (batch,), how many]. All int64 but for scores; what is behind is zero. Boxes overlap
    where what both cover, divided by what one of them covers, is above `iou_threshold`; the least
    score is `score_threshold`. As NonMaxSuppression of ONNX and of TensorFlow has it. Raises
    TilewrightError where output_format is neither 'onnx' nor 'tensorflow', where valid_count is
    given and the type of `scores` has no number to put last, and OperandError where
    `iou_threshold`, `max_output_boxes_per_class` or `score_threshold` is neither a number nor an
    expression.
    """
    if output_format not in ("onnx", "tensorflow"):
        raise TilewrightError(f"output_format is 'onnx' or 'tensorflow', got {output_format!r}")
    batch, count, _ = boxes.shape
    classes = scores.shape[1]
    onnx = output_format == "onnx"
    order = argsort(scores, axis=2, is_ascend=0, dtype="int32")
    dtype = boxes.dtype
    given = (
        Given(max_output_boxes_per_class, "int32"),
        Given(iou_threshold, dtype),
        Given(score_threshold, scores.dtype),
    )
    if on_device():
        return suppressed_by_class((boxes, scores, order), given, onnx)
    more = [t for g in given for t in g.inputs()]
    many = get_const_int(classes) * get_const_int(count)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        box, score, places = (ib.buffer_ptr(b) for b in ins[:3])
        read = {t: ib.buffer_ptr(b) for t, b in zip(more, ins[3:])}
        chosen, best, total, kept = (ib.buffer_ptr(b) for b in outs)
        most, least, lowest = (g.read(read) for g in given)
        with each(ib, 1, 1):
            found = variable(ib, "int64", const(0, "int64"), "found")
            with ib.for_range(0, batch, name="b") as b:
                if not onnx:
                    found[0] = const(0, "int64")
                with ib.for_range(0, many, name="i") as i:
                    if not onnx:
                        best[b, i] = const(0, scores.dtype)
                    row = (b * many + i, 0) if onnx else (b, i, 0)
                    for d in range(3 if onnx else 2):
                        chosen[(*row[:-1], d)] = const(0, "int64")
            with ib.for_range(0, batch, name="b") as b:
                if not onnx:
                    found[0] = const(0, "int64")
                with ib.for_range(0, classes, name="c") as c:
                    own = variable(ib, "int32", 0, "own")
                    with ib.for_range(0, count, name="j") as j:
                        place = ib.let("place", places[b, c, j])
                        holds = O.all(own[0] < most, score[b, c, place] > lowest)
                        good = variable(ib, "bool", holds, "good")
                        n = variable(ib, "int32", 0, "n")
                        with ib.while_loop(O.all(good[0], n[0] < own[0])):
                            other = ib.let("other", kept[n[0]])
                            near = overlap(
                                *([box[b, p, d] for d in range(4)] for p in (place, other))
                            )
                            good[0] = near < least
                            n[0] = n[0] + 1
                        with ib.if_scope(good[0]):
                            kept[own[0]] = place
                            own[0] = own[0] + 1
                            at = ib.let("at", cast("int32", found[0]))
                            names = (b, c, place) if onnx else (c, place)
                            for d, name in enumerate(names):
                                chosen[(at, d) if onnx else (b, at, d)] = cast("int64", name)
                            if not onnx:
                                best[b, at] = score[b, c, place]
                            found[0] = found[0] + const(1, "int64")
                total[0 if onnx else b] = found[0]
        return ib.get()

    b = get_const_int(batch)
    rows = (b * many, 3) if onnx else (b, many, 2)
    shapes = [rows, (1, 1) if onnx else (b, many), (1,) if onnx else (b,), (count,)]
    dtypes = ["int64", scores.dtype, "int64", "int32"]
    inputs = [boxes, scores, order, *more]
    found = extern(shapes, inputs, body, "all_class_nms", dtypes, tag="all_class_nms")
    return [found[0], found[2]] if onnx else [found[0], found[1], found[2]]
