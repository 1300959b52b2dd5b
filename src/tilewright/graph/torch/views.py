"""Operators that move elements, read and write at places, or make tensors of known numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir import Value
from ..onnx.tensor import FAR as _FAR
from ..onnx.tensor import places
from ..shapes import symbols_in
from ..sizes import Size, larger, same, smaller
from .convert import Call, Converter, each, order_in_memory


def view(c: Call, x: Value, shape: Sequence[int], *_: Any) -> Value:
    shape = list(shape)
    if -1 in shape:
        known = prod(d for d in shape if d != -1)
        shape[shape.index(-1)] = prod(x.shape) // known if known else 0
    return c.reshape(x, shape)


def permute(c: Call, x: Value, axes: Sequence[int]) -> Value:
    return c.transpose(x, c.node.axes(axes, len(x.shape)))


def swap(c: Call, x: Value, first: int, second: int) -> Value:
    order = list(range(len(x.shape)))
    a, b = c.axis(first, len(order)), c.axis(second, len(order))
    if order:
        order[a], order[b] = order[b], order[a]
    return c.transpose(x, order)


def turned(c: Call, x: Value) -> Value:
    return c.transpose(x, tuple(reversed(range(len(x.shape)))))


def squeeze(c: Call, x: Value, axes: Any = None) -> Value:
    gone = c.axes(axes, len(x.shape))
    return c.reshape(x, [d for k, d in enumerate(x.shape) if k not in gone or not same(d, 1)])


def unsqueeze(c: Call, x: Value, axis: int) -> Value:
    axis = c.axis(axis, len(x.shape) + 1)
    return c.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def expand(c: Call, x: Value, shape: Sequence[int], implicit: bool = False) -> Value:
    ahead = len(shape) - len(x.shape)
    return c.broadcast(x, [x.shape[k - ahead] if d == -1 else d for k, d in enumerate(shape)])


def slice_(
    c: Call, x: Value, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    axis = c.axis(axis, len(x.shape))
    end = _FAR if end is None else end
    found: Value = c.part(x, axis, *places(start or 0, end, step, x.shape[axis]))
    return found


def select(c: Call, x: Value, axis: int, index: int) -> Value:
    axis = c.axis(axis, len(x.shape))
    index = c.axis(index, x.shape[axis])
    found = c.part(x, axis, index, index + 1)
    return c.reshape(found, (*x.shape[:axis], *x.shape[axis + 1 :]))


def cat(c: Call, values: Sequence[Value], axis: int = 0) -> Value:
    """Tensors of shape (0) are left out, as PyTorch has it."""
    kept = [c.cast(v, c.dtype) for v in values if v.shape != (0,)]
    if not kept:
        return values[0]
    return c.join(kept, c.axis(axis, len(kept[0].shape)))


def stack(c: Call, values: Sequence[Value], axis: int = 0) -> Value:
    axis = c.axis(axis, len(values[0].shape) + 1)
    return c.join([unsqueeze(c, c.cast(v, c.dtype), axis) for v in values], axis)


def split(c: Call, x: Value, sizes: Any, axis: int = 0) -> list[Value]:
    axis = c.axis(axis, len(x.shape))
    extent = x.shape[axis]
    if not isinstance(sizes, (list, tuple)):
        last = len(c.dtypes) - 1
        sizes = [sizes] * last + [extent - sizes * last]
    return c.parts(x, axis, sizes)


def unbind(c: Call, x: Value, axis: int = 0) -> list[Value]:
    return [select(c, x, axis, k) for k in range(x.shape[c.axis(axis, len(x.shape))])]


def repeat(c: Call, x: Value, repeats: Sequence[int]) -> Value:
    x = c.reshape(x, (*[1] * (len(repeats) - len(x.shape)), *x.shape))
    if all(d == 1 or r == 1 for d, r in zip(x.shape, repeats)):
        return c.broadcast(x, [d * r for d, r in zip(x.shape, repeats)])
    return c("tile", x, repeats=tuple(repeats))


def flip(c: Call, x: Value, axes: Sequence[int]) -> Value:
    for axis in c.axes(list(axes), len(x.shape)) if axes else []:
        x = c.part(x, axis, x.shape[axis] - 1, -1, -1) if x.shape[axis] > 1 else x
    return x


def roll(c: Call, x: Value, shifts: Any, axes: Any = ()) -> Value:
    if axes in ((), []):
        flat = roll(c, c.reshape(x, (prod(x.shape),)), shifts, [0])
        return c.reshape(flat, x.shape)
    axes = [axes] if isinstance(axes, int) else axes
    for axis, shift in zip(c.axes(axes, len(x.shape)), each(shifts, len(axes))):
        extent = x.shape[axis]
        at = _wrapped(-shift, extent) if extent else 0
        if at:
            x = c.join([c.part(x, axis, at, extent), c.part(x, axis, 0, at)], axis)
    return x


def _wrapped(place: int, extent: Any) -> Any:
    """A place counted from either end, from the first element on."""
    if isinstance(extent, Size) and -extent <= place < extent:
        return place + extent if place < 0 else place
    return place % extent


def _pads(x: Value, pads: Sequence[int]) -> tuple[list[int], list[int]]:
    """Pairs from the last dimension on."""
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for k in range(len(pads) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = pads[2 * k], pads[2 * k + 1]
    return before, after


def _padded(mode: str) -> Converter:
    def convert(c: Call, x: Value, pads: Sequence[int], value: Any = 0) -> Value:
        given = c.integers(np.concatenate(_pads(x, pads)))
        filler = c.number(value, x.dtype) if mode == "constant" else None
        return c.onnx("Pad", [x, given, filler], mode=mode)  # type: ignore[no-any-return]

    return convert


def as_strided(
    c: Call, x: Value, size: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Value:
    """Elements of the memory that `x` fills densely, each at a known place."""
    order = order_in_memory(c.first)
    if order is None:
        raise c.error("it reads memory between the elements of its argument")
    if offset is not None and not (isinstance(c.first.offset, int) and c.first.offset == 0):
        raise c.error("it reads memory in front of its argument")
    ends = [(d - 1) * s for d, s in zip(size, strides)]
    known = symbols_in([*ends, offset, x.shape]) is None
    if known and 0 not in size and sum(ends) + (offset or 0) >= prod(x.shape):
        raise c.error("it reads memory behind its argument")
    x = c.transpose(x, order)
    where = c.broadcast(c.integers(offset or 0), size)
    for k, (extent, stride) in enumerate(zip(size, strides)):
        steps = c("multiply", counting(c, 0, extent, 1), c.integers(stride))
        where = c("add", where, c.reshape(steps, (extent, *[1] * (len(size) - 1 - k))))
    return c("take", c.reshape(x, (prod(x.shape),)), where, axis=0)


def counting(c: Call, start: Any, end: Any, step: Any) -> Value:
    """Whole numbers from one on, before another."""
    numbers: Value = c.onnx("Range", [c.integers(n) for n in (start, end, step)])
    return numbers


def unfold(c: Call, x: Value, axis: int, size: int, step: int) -> Value:
    """Windows along a dimension; their elements become the last one."""
    axis = c.axis(axis, len(x.shape))
    starts = counting(c, 0, x.shape[axis] - size + 1, step)
    places = c("add", c.reshape(starts, (starts.shape[0], 1)), c.integers(np.arange(size)))
    out = c("take", x, places, axis=axis)
    rank = len(out.shape)
    return c.transpose(out, [*(k for k in range(rank) if k != axis + 1), axis + 1])


def diagonal(c: Call, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    rank = len(x.shape)
    a, b = c.node.axes([first, second], rank)
    order = [*(k for k in range(rank) if k not in (a, b)), a, b]
    turned = c.transpose(x, order)
    rows, columns = turned.shape[-2:]
    first, end = max(0, -offset), smaller(rows, columns - offset)
    at = counting(c, first, larger(first, end), 1)
    at = c("add", c("multiply", at, c.integers(columns + 1)), c.integers(offset))
    flat = c.reshape(turned, (*turned.shape[:-2], rows * columns))
    return c("take", flat, at, axis=rank - 2)


def diagonal_scatter(
    c: Call, x: Value, source: Value, offset: int = 0, first: int = 0, second: int = 1
) -> Value:
    """x with the source in place of a diagonal."""
    rank = len(x.shape)
    a, b = c.node.axes([first, second], rank)
    rows, columns = np.arange(x.shape[a])[:, None], np.arange(x.shape[b])[None, :]
    shape = [x.shape[k] if k in (a, b) else 1 for k in range(rank)]
    mask, places = (
        columns - rows == offset,
        (rows if offset >= 0 else columns) + 0 * (rows + columns),
    )
    places = np.clip(places, 0, max(source.shape[-1] - 1, 0))
    if a > b:
        mask, places = mask.T, places.T
    if not mask.any():
        return x
    taken = c("take", source, c.integers(places), axis=rank - 2)  # the two dimensions come last
    order = [*(k for k in range(rank) if k not in (a, b)), min(a, b), max(a, b)]
    taken = c.transpose(taken, [order.index(k) for k in range(rank)])
    return c("where", c.constant(mask.reshape(shape)), taken, x)


def bits(c: Call, x: Value, dtype: Any) -> Value:
    raise c.error("reading the bits of one type as another's is not supported")


def _triangle(upper: bool) -> Converter:
    def convert(c: Call, x: Value, diagonal: int = 0) -> Value:
        return c("trilu", x, c.integers(diagonal), upper=upper)

    return convert


def broadcast_in_dim(c: Call, x: Value, shape: Sequence[int], axes: Sequence[int]) -> Value:
    places = dict(zip(axes, x.shape))
    return c.broadcast(c.reshape(x, [places.get(k, 1) for k in range(len(shape))]), shape)


def slice_scatter(
    c: Call, x: Value, source: Value, axis: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Value:  # fmt: skip
    """x with the source in place of a slice. With steps, each element says which it is."""
    axis = c.axis(axis, len(x.shape))
    extent = x.shape[axis]
    first, last, step = places(start or 0, _FAR if end is None else end, step, extent)
    if step == 1:
        between = [c.part(x, axis, 0, first), source, c.part(x, axis, last, extent)]
        kept = [v for v in between if v.shape[axis] != 0]
        return c.join(kept, axis) if kept else x
    at = range(first, last, step)
    which = np.full(extent, 0, np.int64)
    which[list(at)] = np.arange(len(at))
    mask = np.zeros(extent, bool)
    mask[list(at)] = True
    spread = c("take", source, c.integers(which), axis=axis)
    shape = [-1 if k == axis else 1 for k in range(len(x.shape))]
    return c("where", c.constant(mask.reshape(shape)), spread, x) if at else x


def select_scatter(c: Call, x: Value, source: Value, axis: int, index: int) -> Value:
    axis = c.axis(axis, len(x.shape))
    line = c.reshape(source, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    index = index + x.shape[axis] if index < 0 else index
    return slice_scatter(c, x, line, axis, index, index + 1)


CONVERTERS: dict[str, Converter] = {
    "view": view,
    "view.dtype": bits,
    "_unsafe_view": view,
    "reshape": view,
    "_reshape_alias": view,
    "permute": permute,
    "transpose": swap,
    "t": turned,
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "expand": expand,
    "slice": slice_,
    "select": select,
    "cat": cat,
    "stack": stack,
    "split": split,
    "split_with_sizes": split,
    "unbind": unbind,
    "repeat": repeat,
    "flip": flip,
    "roll": roll,
    "constant_pad_nd": _padded("constant"),
    **{f"reflection_pad{k}d": _padded("reflect") for k in (1, 2, 3)},
    **{f"replication_pad{k}d": _padded("edge") for k in (1, 2, 3)},
    "as_strided": as_strided,
    "unfold": unfold,
    "diagonal": diagonal,
    "diagonal_scatter": diagonal_scatter,
    "tril": _triangle(False),
    "triu": _triangle(True),
    "slice_scatter": slice_scatter,
    "select_scatter": select_scatter,
    "broadcast_in_dim": broadcast_in_dim,
}
