"""Operators on boxes for devices: many threads, and a block for boxes that wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...loopir.ir_builder import create
from ...tensor.compute import compute
from ...tensor.extern import extern
from ...tensor.tensor import Tensor
from ..chosen import gather_chosen, ranked
from ..lines import each
from ..utils import get_const_int
from .given import Given, overlap
from .sweep import sweep


def valid_at_once(
    data: Tensor, least: Given, id_index: int, score_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """As get_valid_counts, by kernels of many threads."""
    batch, boxes, numbers = data.shape

    def holds(b: Any, j: Any) -> Any:
        found = data(b, j, score_index) > least.of_tensor()
        return (
            O.all(found, data(b, j, id_index) >= const(0, data.dtype)) if id_index >= 0 else found
        )

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, flags, before, counts, out, places = (ib.buffer_ptr(b) for b in (*ins, *outs))

        def put(b: Any, to: Any, k: Any, number: Any, place: Any) -> None:
            out[b, to, k] = number
            with ib.if_scope(k < 1):
                places[b, to] = place

        gather_chosen(
            ib,
            (batch, boxes, numbers),
            (flags, before),
            lambda b, j, to, k: put(b, to, k, x[b, j, k], j),
            lambda b, to, k: put(b, to, k, const(-1, data.dtype), const(-1)),
            lambda b, total: counts.__setitem__(b, total),
        )
        return ib.get()

    shapes = [(batch,), data.shape, (batch, boxes)]
    inputs = [data, *ranked((batch, boxes), holds)]
    dtypes = ["int32", data.dtype, "int32"]
    found = extern(shapes, inputs, body, "get_valid_counts", dtypes, tag="get_valid_counts")
    return found[0], found[1], found[2]


@dataclass(frozen=True)
class Nms:
    """How boxes are suppressed; `at`: where numbers of a box are, its corners, score and class."""

    most: Given
    least: Given
    force: bool
    top_k: int
    at: tuple[int, int, int]


def suppressed(
    data: Tensor, about: tuple[Tensor, Tensor, Tensor], how: Nms, names: bool, to_bottom: bool
) -> Any:
    """What non_max_suppression gives; `about`: how many boxes count, their order, their names."""
    valid_count, order, indices = about
    batch, boxes, numbers = data.shape
    corner, score, number = how.at
    zero = const(0, data.dtype)
    more = [*how.most.inputs(), *how.least.inputs()]

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, counts, turns = (ib.buffer_ptr(b) for b in ins[:3])
        read = {t: ib.buffer_ptr(b) for t, b in zip(more, ins[3:])}
        out, places, stays, kept = (ib.buffer_ptr(b) for b in outs)

        def used(b: Any) -> Any:
            count = O.min(counts[b], cast("int32", boxes))
            return O.min(count, how.top_k) if how.top_k > 0 else count

        size = batch * boxes * numbers
        with each(ib, size, size) as n:
            b, j, k = n // (boxes * numbers), n // numbers % boxes, n % numbers
            here = j < used(b)
            source = ib.let("source", O.if_then_else(here, turns[b, j], const(0)))
            out[b, j, k] = O.if_then_else(here, x[b, source, k], const(-1, data.dtype))
            with ib.if_scope(k < 1):
                places[b, j] = O.select(here, source, const(-1))
                stays[b, j] = cast("int32", here)

        most, least = how.most.read(read), how.least.read(read)

        def counted(b: Any, j: Any) -> Any:
            return out[b, j, score] > zero

        def near(b: Any, j: Any, k: Any) -> Any:
            one, other = ([out[b, i, corner + d] for d in range(4)] for i in (j, k))
            found = O.all(least > const(0, least.dtype), overlap(one, other) >= least)
            if number >= 0 and not how.force:
                found = O.all(out[b, j, number].equal(out[b, k, number]), found)
            return found

        def tell(b: Any, j: Any, whether: Any) -> None:
            with ib.if_scope(counted(b, j)):
                stays[b, j] = cast("int32", whether)

        limit = O.select(most < 0, cast("int32", boxes), most)
        sweep(ib, batch, used, limit, counted, near, kept, tell)
        return ib.get()

    shapes = [data.shape, *[(batch, boxes)] * 3]
    dtypes = [data.dtype, *["int32"] * 3]
    inputs = [data, valid_count, order, *more]
    found = extern(shapes, inputs, body, "nms", dtypes, tag="non_max_suppression")
    out, places, stays, _ = found
    if not names and not to_bottom:
        none = const(-1, data.dtype)
        result: Tensor = compute(
            data.shape, lambda b, j, k: O.select(stays(b, j) > 0, out(b, j, k), none), "nms_boxes"
        )
        return result
    ranks = ranked((batch, boxes), lambda b, j: stays(b, j) > 0)
    return _named(places, indices, ranks) if names else _in_front(out, ranks)


def _named(places: Tensor, names: Tensor, ranks: Sequence[Tensor]) -> list[Tensor]:
    batch, boxes = places.shape

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        place, name, flags, before, out, total = (ib.buffer_ptr(b) for b in (*ins, *outs))
        gather_chosen(
            ib,
            (batch, boxes, 1),
            (flags, before),
            lambda b, j, to, _: out.__setitem__((b, to), name[b, place[b, j]]),
            lambda b, to, _: out.__setitem__((b, to), const(-1)),
            lambda b, count: total.__setitem__((b, 0), count),
        )
        return ib.get()

    shapes = [(batch, boxes), (batch, 1)]
    found: list[Tensor] = extern(shapes, [places, names, *ranks], body, "nms_names", "int32")
    return found


def _in_front(boxes: Tensor, ranks: Sequence[Tensor]) -> Tensor:
    none = const(-1, boxes.dtype)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, flags, before, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        gather_chosen(
            ib,
            (boxes.shape[0], boxes.shape[1], boxes.shape[2]),
            (flags, before),
            lambda b, j, to, k: out.__setitem__((b, to, k), x[b, j, k]),
            lambda b, to, k: out.__setitem__((b, to, k), none),
        )
        return ib.get()

    result: Tensor = extern(boxes.shape, [boxes, *ranks], body, "nms_boxes", boxes.dtype)
    return result


def suppressed_by_class(
    data: tuple[Tensor, Tensor, Tensor], given: tuple[Given, Given, Given], onnx: bool
) -> list[Tensor]:
    """What all_class_non_max_suppression gives; `data`: boxes, scores and their order, `given`: how
    many at most, the largest overlap, the least score."""
    _, scores, order = data
    batch, classes, count = (get_const_int(d) for d in scores.shape)
    more = [t for g in given for t in g.inputs()]

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        box, score, turns = (ib.buffer_ptr(b) for b in ins[:3])
        read = {t: ib.buffer_ptr(b) for t, b in zip(more, ins[3:])}
        stays, kept = (ib.buffer_ptr(b) for b in outs)
        most, least, lowest = (g.read(read) for g in given)

        def place(line: Any, j: Any) -> Any:
            return turns[line // classes, line % classes, j]

        def near(line: Any, j: Any, k: Any) -> Any:
            b = line // classes
            one, other = ([box[b, place(line, i), d] for d in range(4)] for i in (j, k))
            return O.bitwise_xor(overlap(one, other) < least, const(True))

        sweep(
            ib,
            batch * classes,
            lambda _: const(count),
            most,
            lambda line, j: score[line // classes, line % classes, place(line, j)] > lowest,
            near,
            kept,
            lambda line, j, whether: stays.__setitem__((line, j), cast("int32", whether)),
        )
        return ib.get()

    lines = (batch * classes, count)
    stays, _ = extern([lines] * 2, [*data, *more], body, "all_class_nms", "int32")
    shape = (1, batch * classes * count) if onnx else (batch, classes * count)

    def apart(b: Any, n: Any) -> tuple[Any, Any, Any]:
        """The image, the class and the turn of a box."""
        return (n // (classes * count) if onnx else b), n // count % classes, n % count

    def stayed(b: Any, n: Any) -> Any:
        image, c, j = apart(b, n)
        return stays(image * classes + c, j) > 0

    def gather(ins: Any, outs: Any) -> Any:
        ib = create()
        score, turns, *ranks = (ib.buffer_ptr(b) for b in ins)
        chosen, total, *best = (ib.buffer_ptr(b) for b in outs)

        def put(b: Any, n: Any, to: Any, k: Any) -> None:
            image, c, j = apart(b, n)
            place = turns[image, c, j]
            if onnx:
                value = O.select(k < 1, image, O.select(k < 2, c, place))
                chosen[to, k] = cast("int64", value)
                return
            chosen[b, to, k] = cast("int64", O.select(k < 1, c, place))
            with ib.if_scope(k < 1):
                best[0][b, to] = score[b, c, place]

        def fill(b: Any, to: Any, k: Any) -> None:
            chosen[(to, k) if onnx else (b, to, k)] = const(0, "int64")
            if best:
                with ib.if_scope(k < 1):
                    best[0][b, to] = const(0, scores.dtype)

        gather_chosen(
            ib,
            (*shape, 3 if onnx else 2),
            (ranks[0], ranks[1]),
            put,
            fill,
            lambda b, number: total.__setitem__(b, cast("int64", number)),
        )
        return ib.get()

    rows = (shape[1], 3) if onnx else (*shape, 2)
    shapes = [rows, (shape[0],), *([] if onnx else [shape])]
    dtypes = ["int64", "int64", *([] if onnx else [scores.dtype])]
    inputs = [scores, order, *ranked(shape, stayed)]
    found = extern(shapes, inputs, gather, "all_class_rows", dtypes, tag="all_class_nms")
    return [found[0], found[1]] if onnx else [found[0], found[2], found[1]]
