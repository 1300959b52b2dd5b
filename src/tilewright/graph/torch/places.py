"""Operators that read or write at places that the data says."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.dtype import parse
from ..ir import Value
from ..shapes import broadcast_shapes
from ..sizes import same
from .convert import Call, Converter, highest, lowest


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
    if len(given) == 1 and given[0][1].dtype == "bool":
        return _where_true(c, x, *given[0], values, accumulate)
    if any(v.dtype in ("bool", "uint8") for _, v in given):
        raise c.error("places by conditions are not supported")
    shape = broadcast_shapes(*(v.shape for _, v in given))
    columns = [c.reshape(c.broadcast(c.cast(v, "int64"), shape), (*shape, 1)) for _, v in given]
    reduction = "add" if accumulate else "update"
    at, first = c.join(columns, len(shape)), axes[0]
    if axes == list(range(first, axes[-1] + 1)):  # written where they are, as keys into a cache
        updates = c.broadcast(values, (*x.shape[:first], *shape, *x.shape[axes[-1] + 1 :]))
        return c("scatter_nd", x, at, updates, reduction=reduction, first=first)
    order = [*axes, *(k for k in range(len(x.shape)) if k not in axes)]
    turned = c.transpose(x, order)
    updates = c.broadcast(values, (*shape, *turned.shape[len(axes) :]))
    out = c("scatter_nd", turned, at, updates, reduction=reduction)
    return c.transpose(out, [order.index(k) for k in range(len(order))])


def _where_true(
    c: Call, x: Value, axis: int, mask: Value, values: Value, accumulate: bool
) -> Value:
    """A condition over dimensions from `axis` on, of which all places get the same values."""
    rank, behind = len(mask.shape), len(x.shape) - axis - len(mask.shape)
    apart = len(values.shape) - 1 - behind  # where the places stand among the values' dimensions
    if apart >= 0 and not same(values.shape[apart], 1):
        raise c.error("as many values as a condition is true are not supported")
    if apart >= 0:
        values = c.reshape(values, (*values.shape[:apart], *[1] * rank, *values.shape[apart + 1 :]))
    mask = c.reshape(mask, (*mask.shape, *[1] * behind))
    return c("where", mask, c("add", x, values) if accumulate else c.broadcast(values, x.shape), x)


def masked_scatter(c: Call, x: Value, mask: Value, source: Value) -> Value:
    """The source's elements, one after the other, where a condition is true."""
    shape = broadcast_shapes(x.shape, mask.shape)
    x, flat = c.broadcast(x, shape), c.reshape(c.broadcast(mask, shape), (prod(shape),))
    if not prod(source.shape) or not prod(shape):
        return x
    count = c("cumsum", c.cast(flat, "int64"), axis=0, exclusive=True, reverse=False)
    taken = c("take", c.reshape(source, (prod(source.shape),)), count, axis=0)
    return c.reshape(c("where", flat, taken, c.reshape(x, (prod(shape),))), shape)


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
    """A mean is a sum over a count; without the data itself, elements that nothing is written to
    stay what they are."""
    counted: Value | None = None
    whole = how.get("include_self", True)
    if reduce == "mean" or not whole:
        ones = c.full(x.shape, int(whole), "int64")
        counted = _scattered(c, ones, axis, indices, 1, "add")
    start = x if whole else c.full(x.shape, _neutral(reduce, x.dtype), x.dtype)
    kind = "add" if reduce == "mean" else _REDUCTIONS[reduce]
    out = _scattered(c, start, axis, indices, source, kind)
    if reduce == "mean":
        assert counted is not None
        times = c.cast(c("maximum", counted, 1), x.dtype)
        out = c("divide" if parse(x.dtype).is_float else "floor_divide", out, times)
    return out if whole else c("where", c("greater", counted, 0), out, x)  # type: ignore[arg-type]


def _neutral(reduce: str, dtype: str) -> Any:
    """What changes nothing in a reduction."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    return lowest(dtype) if reduce == "amax" else highest(dtype)


CONVERTERS: dict[str, Converter] = {
    "index_select": take,
    "embedding": embedding,
    "gather": gather,
    "index": index,
    "_unsafe_index": index,
    "index_put": index_put,
    "_unsafe_index_put": index_put,
    "masked_scatter": masked_scatter,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
}
