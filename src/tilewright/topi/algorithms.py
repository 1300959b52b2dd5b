"""Other ways to the same results: a computation with one of its operations written anew.

Winograd's minimal filtering (nn/winograd.py) for 3x3 convolutions of stride 1, written in any way:
known by their structure, as sums of products where two axes of the output move a window of two
axes of the reduction. `ERRORS` bounds what an algorithm adds to the error of the sum as written.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..loopir import op as O
from ..loopir.expr import Add, Var, const
from ..loopir.iter import ProducerLoad
from ..loopir.subst import substitute
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute
from ..tensor.graph import replace_inputs
from ..tensor.op import ComputeOp, Operation, PlaceholderOp
from ..tensor.reduce import sum as reduce_sum
from ..tensor.tensor import Tensor
from .nn.winograd import (
    ERRORS,
    TAPS,
    best_tile,
    tiles_of,
    transformed_filter,
    transformed_input,
    transformed_output,
)
from .schedules.contraction import contraction_of
from .schedules.machine import extent_of, work_of
from .utils import ravel_index, unravel_index

WINOGRAD = "winograd"


@dataclass(frozen=True)
class Algorithm:
    """`name` with a `parameter`, for operation number `place` of a computation. `error`: what it
    adds at most, over the largest output."""

    name: str
    place: int
    parameter: int
    error: float


@dataclass(frozen=True)
class Window:
    """A convolution's parts, by positions: of the output's axes `y` and `x`, `batch` and
    `filters`, the last among these; of the reduction's `ry`, `rx` and `channels`."""

    data: ProducerLoad
    kernel: ProducerLoad
    y: int
    x: int
    batch: tuple[int, ...]
    filters: tuple[int, ...]
    ry: int
    rx: int
    channels: tuple[int, ...]


def algorithms_of(ops: Sequence[Operation], max_error: float) -> list[Algorithm]:
    """The algorithms that may take the place of operations, none of which adds a larger error."""
    return [
        Algorithm(WINOGRAD, place, tile, error)
        for place, op in enumerate(ops)
        if max_error >= min(ERRORS.values()) and window_of(op) is not None
        for tile, error in ERRORS.items()
        if error <= max_error
    ]


def best_algorithm(
    ops: Sequence[Operation], max_error: float, constants: Container[Tensor] = ()
) -> Algorithm | None:
    """The algorithm that should make the computation faster by most, among those that add no larger
    error; None where none should. Filters that are among the `constants` are transformed ahead of
    time, others at each call."""
    possible = algorithms_of(ops, max_error)
    for place in sorted({a.place for a in possible}, key=lambda n: -work_of(ops[n].output(0))):
        own = {a.parameter: a for a in possible if a.place == place}
        w = window_of(ops[place])
        assert w is not None, "algorithms_of asked before"
        op: Any = ops[place]
        size, depth = [[extent_of(a) for a in axes] for axes in (op.axis, op.reduce_axis)]
        images, filters = (prod(size[n] for n in axes) for axes in (w.batch, w.filters))
        channels = prod(depth[n] for n in w.channels)
        ahead = w.kernel.producer in constants
        tile = best_tile(images, (size[w.y], size[w.x]), channels, filters, sorted(own), ahead)
        if tile:
            return own[tile]
    return None


def window_of(op: Any) -> Window | None:
    """The parts of a 3x3 convolution of stride 1 in float32 or float64, whose channels and filters
    are the last axes of what it reads and writes."""
    form = contraction_of(op)
    if form is None or form.group or form.both or op.output_dtype(0) not in ("float32", "float64"):
        return None
    for data, kernel in (
        (form.row_side, form.vector_side),
        (form.vector_side, form.row_side),
    ):
        if data is not None and kernel is not None:
            found = _window(op, data, kernel)
            if found is not None:
                return found
    return None


def _window(op: ComputeOp, data: ProducerLoad, kernel: ProducerLoad) -> Window | None:
    if data.dtype != kernel.dtype or data.dtype != op.output_dtype(0):
        return None
    axes = {a.var: n for n, a in enumerate(op.axis)}
    steps = {a.var: n for n, a in enumerate(op.reduce_axis)}
    windows = [w for e in data.indices if (w := _moved(e, axes, steps)) is not None]
    mine = {e for e in data.indices if type(e) is Var}
    theirs = {e for e in kernel.indices if type(e) is Var}
    if len(windows) != 2 or len(mine) + 2 != len(data.indices):
        return None
    (y, ry), (x, rx) = windows
    taps = [extent_of(op.reduce_axis[k]) for k in (ry, rx)]
    moved = {op.axis[y].var, op.axis[x].var, op.reduce_axis[ry].var, op.reduce_axis[rx].var}
    if taps != [TAPS, TAPS] or len(theirs) != len(kernel.indices) or len(moved) != 4:
        return None
    batch = tuple(n for v, n in axes.items() if v in mine and v not in theirs and v not in moved)
    filters = tuple(n for v, n in axes.items() if v in theirs and v not in mine)
    channels = tuple(n for v, n in steps.items() if v in mine and v in theirs)
    whole = len(batch) + len(filters) + 2 == len(axes) and len(channels) + 2 == len(steps)
    fits = mine == {op.axis[n].var for n in batch} | {op.reduce_axis[n].var for n in channels}
    last = channels and data.indices[-1] is op.reduce_axis[channels[-1]].var
    known = all(extent_of(a) for a in (*op.axis, *op.reduce_axis))
    if not (whole and fits and last and known and filters[-1:] == (len(axes) - 1,)):
        return None
    return Window(data, kernel, y, x, batch, filters, ry, rx, channels)


def _moved(e: Any, axes: Mapping[Any, int], steps: Mapping[Any, int]) -> tuple[int, int] | None:
    """(axis, step of the reduction) of their sum."""
    if type(e) is Add:
        for a, b in ((e.a, e.b), (e.b, e.a)):
            if a in axes and b in steps:
                return axes[a], steps[b]
    return None


def apply_algorithm(
    ops: Sequence[Operation], tensors: Sequence[Tensor], algorithm: Algorithm
) -> list[Tensor]:
    """The tensors of a computation, with one of its `ops` computed another way."""
    table: dict[Tensor, Tensor] = {}
    for place, op in enumerate(ops):
        new = op if isinstance(op, PlaceholderOp) else replace_inputs(op, table)
        if place == algorithm.place:
            assert isinstance(new, ComputeOp)
            table[op.output(0)] = _winograd(new, algorithm.parameter)
        elif new is not op:
            table.update((op.output(i), new.output(i)) for i in range(op.num_outputs))
    return [table.get(t, t) for t in tensors]


def _winograd(op: ComputeOp, tile: int) -> Tensor:
    found = window_of(op)
    assert found is not None, "algorithms_of asked before"
    w = found
    size = [extent_of(a) for a in op.axis]
    depth = [extent_of(op.reduce_axis[n]) for n in w.channels]
    th, tw = tiles_of(size[w.y], tile), tiles_of(size[w.x], tile)
    images = [size[n] for n in w.batch]
    tiles = prod(images) * th * tw

    def data(outer: Sequence[Any], t: Any, y: Any, x: Any, lane: Any) -> Any:
        places = unravel_index(t, [*images, th, tw])
        row, column = places[-2] * tile + y, places[-1] * tile + x
        values = dict(zip(w.batch, places)) | {w.y: row, w.x: column}
        table: dict[Any, Any] = {op.axis[n].var: i for n, i in values.items()}
        table.update(_named(op, w.channels, (*outer, lane)))
        table.update(_named(op, (w.ry, w.rx), (const(0), const(0))))
        indices = [substitute(e, table) for e in w.data.indices]
        cut = [n for n in (w.y, w.x) if size[n] % tile]  # the last tile reaches over the end
        inside = [values[n] < size[n] + TAPS - 1 for n in cut]
        read = w.data.producer(*indices)
        return O.if_then_else(O.all(*inside), read, const(0, read.dtype)) if inside else read

    def taps(outer: Sequence[Any], y: Any, x: Any, lane: Any) -> Any:
        table: dict[Any, Any] = {op.axis[n].var: i for n, i in zip(w.filters, outer)}
        table[op.axis[w.filters[-1]].var] = lane
        table.update(_named(op, w.channels, outer[len(w.filters) - 1 :]))
        table.update(_named(op, (w.ry, w.rx), (y, x)))
        return w.kernel.producer(*[substitute(e, table) for e in w.kernel.indices])

    filters = [size[n] for n in w.filters]
    moved = transformed_input(data, tile, depth[:-1], tiles, depth[-1])
    free = {k: v for k, v in op.attrs.items() if k == "layout_free_placeholders"}
    kernel = transformed_filter(taps, tile, [*filters[:-1], *depth], filters[-1], free)
    steps = [reduce_axis((0, n), f"c{k}") for k, n in enumerate(depth)]
    product: Tensor = compute(
        (kernel.shape[0], *filters[:-1], tiles, filters[-1]),
        lambda p, *i: reduce_sum(
            moved(p, *steps[:-1], i[-2], steps[-1]) * kernel(p, *i[:-2], *steps, i[-1]), axis=steps
        ),
        "winograd_product",
        "",
    )

    def place(*indices: Any) -> Any:
        y, x = indices[w.y], indices[w.x]
        places = [*(indices[n] for n in w.batch), y // tile, x // tile]
        outer, lane = [indices[n] for n in w.filters[:-1]], indices[w.filters[-1]]
        return outer, ravel_index(places, [*images, th, tw]), y, x, lane

    own = {k: v for k, v in op.attrs.items() if k not in free}
    return transformed_output(product, tile, size, (w.y, w.x), place, op.name, own)


def _named(op: ComputeOp, places: Sequence[int], values: Sequence[Any]) -> dict[Any, Any]:
    return {op.reduce_axis[n].var: i for n, i in zip(places, values)}
