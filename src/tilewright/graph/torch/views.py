"""Operators that move elements, read and write at places, or make tensors of known numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...base.dtype import parse
from ..ir import Value
from ..onnx.tensor import FAR as _FAR
from ..onnx.tensor import places
from ..sizes import Size, broadcast_shapes, same
from .convert import Call, Converter, each


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
    if isinstance(sizes, int):
        sizes = [min(sizes, extent - k) for k in range(0, extent, sizes)] or [0]
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
        at = -shift % extent if extent else 0
        if at:
            x = c.join([c.part(x, axis, at, extent), c.part(x, axis, 0, at)], axis)
    return x


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
    where = np.full(tuple(size), offset or 0, np.int64)
    for k, (extent, stride) in enumerate(zip(size, strides)):
        line = np.arange(extent, dtype=np.int64) * stride
        where += line.reshape(-1, *[1] * (len(size) - 1 - k))
    return c("take", c.reshape(x, (prod(x.shape),)), c.integers(where), axis=0)


def unfold(c: Call, x: Value, axis: int, size: int, step: int) -> Value:
    """Windows along a dimension; their elements become the last one."""
    axis = c.axis(axis, len(x.shape))
    starts = np.arange(0, x.shape[axis] - size + 1, step)
    out = c("take", x, c.integers(starts[:, None] + np.arange(size)), axis=axis)
    rank = len(out.shape)
    return c.transpose(out, [*(k for k in range(rank) if k != axis + 1), axis + 1])


def diagonal(c: Call, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    rank = len(x.shape)
    a, b = c.node.axes([first, second], rank)
    order = [*(k for k in range(rank) if k not in (a, b)), a, b]
    turned = c.transpose(x, order)
    rows, columns = turned.shape[-2:]
    at = np.arange(max(0, -offset), max(0, -offset, min(rows, columns - offset)))
    flat = c.reshape(turned, (*turned.shape[:-2], rows * columns))
    return c("take", flat, c.integers(at * columns + at + offset), axis=rank - 2)


def _triangle(upper: bool) -> Converter:
    def convert(c: Call, x: Value, diagonal: int = 0) -> Value:
        return c("trilu", x, c.integers(diagonal), upper=upper)

    return convert


def broadcast_in_dim(c: Call, x: Value, shape: Sequence[int], axes: Sequence[int]) -> Value:
    places = dict(zip(axes, x.shape))
    return c.broadcast(c.reshape(x, [places.get(k, 1) for k in range(len(shape))]), shape)


# -- places that the data says


def take(c: Call, x: Value, axis: int, indices: Value) -> Value:
    """index_select."""
    axis = c.axis(axis, len(x.shape))
    return c("take", x, c.reshape(indices, (prod(indices.shape),)), axis=axis)


def embedding(c: Call, table: Value, indices: Value, *_: Any, **__: Any) -> Value:
    return c("take", table, indices, axis=0)


def gather(c: Call, x: Value, axis: int, indices: Value, sparse_grad: bool = False) -> Value:
    if not x.shape:
        return c.broadcast(x, indices.shape)
    axis = c.axis(axis, len(x.shape))
    for k, d in enumerate(indices.shape):  # ONNX's operator wants no larger data elsewhere
        x = x if k == axis else c.part(x, k, 0, d)
    return c("gather_elements", x, indices, axis=axis)


def index(c: Call, x: Value, indices: Sequence[Value | None]) -> Value:
    """NumPy's indexing by arrays."""
    given = [(k, v) for k, v in enumerate(indices) if v is not None]
    if any(v.dtype in ("bool", "uint8") for _, v in given):
        raise c.error("the shape of the result depends on the data")
    apart = _separate(c, x, given)
    if apart is not None:
        return apart
    axes = [k for k, _ in given]
    shape = broadcast_shapes(*(v.shape for _, v in given))
    order = [*axes, *(k for k in range(len(x.shape)) if k not in axes)]
    columns = [c.reshape(c.broadcast(c.cast(v, "int64"), shape), (*shape, 1)) for _, v in given]
    places = c.join(columns, len(shape))
    out = c("gather_nd", c.transpose(x, order), places, batch_dims=0)
    if axes == list(range(axes[0], axes[-1] + 1)) and axes[0]:  # in place of the dimensions
        rank, first = len(out.shape), axes[0]
        front = range(len(shape), len(shape) + first)
        out = c.transpose(out, [*front, *range(len(shape)), *range(len(shape) + first, rank)])
    return out


def _separate(c: Call, x: Value, given: Sequence[tuple[int, Value]]) -> Value | None:
    """Indices of neighbouring dimensions that vary each along one of their own, in order, read
    rows and columns one after the other."""
    axes = [k for k, _ in given]
    if axes != list(range(axes[0], axes[-1] + 1)):
        return None
    rank = max(len(v.shape) for _, v in given)
    if len(given) == 1:
        return c("take", x, given[0][1], axis=axes[0])
    if rank != len(given):
        return None
    for k, (_, v) in enumerate(given):
        shape = (1,) * (rank - len(v.shape)) + v.shape
        if any(d != 1 for j, d in enumerate(shape) if j != k):
            return None
    for axis, v in given:
        x = c("take", x, c.reshape(v, (prod(v.shape),)), axis=axis)
    return x


def index_put(
    c: Call, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    given = [(k, v) for k, v in enumerate(indices) if v is not None]
    axes = [k for k, _ in given]
    if len(given) == 1 and given[0][1].dtype == "bool" and prod(values.shape) == 1:
        mask = given[0][1]
        if axes == [0] and not accumulate:
            mask = c.reshape(mask, (*mask.shape, *[1] * (len(x.shape) - len(mask.shape))))
            return c("where", mask, c.reshape(values, ()), x)
    if any(v.dtype in ("bool", "uint8") for _, v in given) or axes != list(range(len(axes))):
        raise c.error("places by conditions, or behind whole dimensions, are not supported")
    shape = broadcast_shapes(*(v.shape for _, v in given))
    columns = [c.reshape(c.broadcast(c.cast(v, "int64"), shape), (*shape, 1)) for _, v in given]
    updates = c.broadcast(values, (*shape, *x.shape[len(axes) :]))
    reduction = "add" if accumulate else "update"
    return c("scatter_nd", x, c.join(columns, len(shape)), updates, reduction=reduction)


_REDUCTIONS = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul"}
_REDUCTIONS |= {"amax": "max", "amin": "min"}


def scatter(c: Call, x: Value, axis: int, indices: Value, source: Any, **how: Any) -> Value:
    reduce = how.get("reduce")
    kind = "update" if reduce is None else _REDUCTIONS[reduce]
    return _scattered(c, x, axis, indices, source, kind)


def _scattered(c: Call, x: Value, axis: int, indices: Value, source: Any, kind: str) -> Value:
    """The source may be larger than the indices, of which each has an element."""
    if not x.shape or not indices.shape:
        raise c.error("writing to a number")
    if isinstance(source, Value):
        for k, d in enumerate(indices.shape):
            source = c.part(source, k, 0, d)
    else:
        source = c.broadcast(c.number(source, x.dtype), indices.shape)
    axis = c.axis(axis, len(x.shape))
    return c("scatter_elements", x, indices, source, axis=axis, reduction=kind)


def scatter_add(c: Call, x: Value, axis: int, indices: Value, source: Value) -> Value:
    return _scattered(c, x, axis, indices, source, "add")


def scatter_reduce(
    c: Call, x: Value, axis: int, indices: Value, source: Value, reduce: str, **how: Any
) -> Value:
    if reduce not in _REDUCTIONS or not how.get("include_self", True):
        raise c.error(f"reduction {reduce!r}, or one without the data itself, is not supported")
    return _scattered(c, x, axis, indices, source, _REDUCTIONS[reduce])


def _between(c: Call, x: Value, source: Value, axis: int, at: Sequence[int]) -> Value:
    """x with the source at places `at` of a dimension: what is there, or the source's."""
    which = np.full(x.shape[axis], 0, np.int64)
    which[list(at)] = np.arange(len(at))
    mask = np.zeros(x.shape[axis], bool)
    mask[list(at)] = True
    spread = c("take", source, c.integers(which), axis=axis)
    shape = [-1 if k == axis else 1 for k in range(len(x.shape))]
    return c("where", c.constant(mask.reshape(shape)), spread, x)


def slice_scatter(
    c: Call, x: Value, source: Value, axis: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Value:  # fmt: skip
    axis = c.axis(axis, len(x.shape))
    at = range(*slice(start, end, step).indices(x.shape[axis]))
    return _between(c, x, c.broadcast(source, source.shape), axis, at) if at else x


def select_scatter(c: Call, x: Value, source: Value, axis: int, index: int) -> Value:
    axis = c.axis(axis, len(x.shape))
    line = c.reshape(source, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return _between(c, x, line, axis, [c.axis(index, x.shape[axis])])


# -- tensors of known numbers


def full(c: Call, shape: Sequence[int], value: Any, **_: Any) -> Value:
    return c.full(shape, value, c.dtype)


def full_like(c: Call, x: Value, value: Any, *_: Any, **__: Any) -> Value:
    return c.full(x.shape, value, c.dtype)


def new_full(c: Call, x: Value, shape: Sequence[int], value: Any, **_: Any) -> Value:
    return c.full(shape, value, c.dtype)


def empty_permuted(c: Call, shape: Sequence[int], *_: Any, **__: Any) -> Value:
    """What is in new memory is anything; zeros here."""
    return c.full(shape, 0, c.dtype)


def _filled(value: int) -> Converter:
    return lambda c, shape, *_, **__: c.full(shape, value, c.dtype)


def _filled_like(value: int) -> Converter:
    return lambda c, x, *_, **__: c.full(x.shape, value, c.dtype)


def scalar(c: Call, value: Any, **_: Any) -> Value:
    return c.number(value, c.dtype)


def arange(c: Call, *ends: Any, **_: Any) -> Value:
    """(end), (start, end) or (start, end, step)."""
    start, end, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    info = parse(c.dtype)
    if any(isinstance(n, Size) for n in (start, end, step)):
        line: Value = c.onnx("Range", [c.integers(n) for n in (start, end, step)])
        return c.cast(line, c.dtype)
    count = max(int(np.ceil((end - start) / step)), 0)
    wide: Any = np.float64 if info.is_float else np.int64
    return c.constant(start + np.arange(count, dtype=wide) * step, c.dtype)


def eye(c: Call, rows: int, columns: int | None = None, **_: Any) -> Value:
    return c.constant(np.eye(rows, columns), c.dtype)


def iota(c: Call, count: int, *, start: int, step: int, **_: Any) -> Value:
    return arange(c, start, start + count * step, step)


CONVERTERS: dict[str, Converter] = {
    "view": view,
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
    "tril": _triangle(False),
    "triu": _triangle(True),
    "index_select": take,
    "embedding": embedding,
    "gather": gather,
    "index": index,
    "_unsafe_index": index,
    "index_put": index_put,
    "_unsafe_index_put": index_put,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
    "slice_scatter": slice_scatter,
    "select_scatter": select_scatter,
    "full": full,
    "full_like": full_like,
    "new_full": new_full,
    "zeros": _filled(0),
    "ones": _filled(1),
    "zeros_like": _filled_like(0),
    "ones_like": _filled_like(1),
    "new_zeros": lambda c, x, shape, **_: c.full(shape, 0, c.dtype),
    "new_ones": lambda c, x, shape, **_: c.full(shape, 1, c.dtype),
    "empty": _filled(0),
    "empty_like": _filled_like(0),
    "empty_permuted": empty_permuted,
    "empty_strided": empty_permuted,
    "new_empty": lambda c, x, shape, **_: c.full(shape, 0, c.dtype),
    "scalar_tensor": scalar,
    "fill": full_like,
    "arange": arange,
    "eye": eye,
    "iota": iota,
    "broadcast_in_dim": broadcast_in_dim,
}
