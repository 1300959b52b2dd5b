"""Reductions, scans, sorting."""

from __future__ import annotations

from math import prod
from typing import Any

from ...base.dtype import parse
from ...topi.elemwise import accumulator
from ..ir import Value
from ..sizes import Size, larger
from .convert import Call, Converter
from .pointwise import truth
from .views import counting


def _kept(x: Value, axes: list[int], keep: bool) -> list[int]:
    shape = [1 if k in axes else d for k, d in enumerate(x.shape)]
    return shape if keep else [d for k, d in enumerate(x.shape) if k not in axes]


def _reduced(c: Call, kind: str, x: Value, axes: list[int], keep: bool) -> Value:
    if not axes:
        return x
    return c("reduce", x, type=kind, axes=axes, keepdims=keep)


def _reduce(kind: str) -> Converter:
    """Sums and products of integers are taken in the type of the result."""

    def convert(c: Call, x: Value, axes: Any = None, keep: bool = False, **_: Any) -> Value:
        given = c.axes(axes, len(x.shape))
        narrow = x.dtype == "bool" and c.dtype == "bool"
        x = c.cast(x, "uint8" if narrow else c.dtype)
        return c.cast(_reduced(c, kind, x, given, keep), c.dtype)

    return convert


def _extreme(kind: str) -> Converter:
    """max and min: of all elements, along a dimension with the places, or of two tensors."""

    def convert(c: Call, x: Value, axis: Any = None, keep: bool = False) -> Any:
        if isinstance(axis, Value):
            return c(f"{kind}imum", c.value(x, c.dtype), c.value(axis, c.dtype))
        if axis is None:
            return _reduce(kind)(c, x)
        if not x.shape:
            return [x, c.integers(0)]
        places = None
        if c.read[-1]:
            places = argument(kind)(c, x, axis, keep)
        return [_reduce(kind)(c, x, axis, keep), places]

    return convert


def argument(kind: str) -> Converter:
    def convert(c: Call, x: Value, axis: int | None = None, keep: bool = False) -> Value:
        shape = [1] * len(x.shape) if keep else []
        if axis is None:
            flat = c.reshape(x, (prod(x.shape),))
            return c.reshape(convert(c, flat, 0), shape)
        if not x.shape:
            return c.integers(0)
        axes = (c.axis(axis, len(x.shape)),)
        x = c.cast(x, "uint8") if x.dtype == "bool" else x
        return c("arg", x, type=kind, axes=axes, keepdims=keep, last=False)

    return convert


def _logical(kind: str) -> Converter:
    def convert(c: Call, x: Value, axes: Any = None, keep: bool = False) -> Value:
        bits = c.cast(truth(c, x), "uint8")
        return c.cast(_reduced(c, kind, bits, c.axes(axes, len(x.shape)), keep), "bool")

    return convert


def moments(c: Call, x: Value, axes: Any, correction: float, keep: bool) -> tuple[Value, Value]:
    """The variance, of differences, and the mean; both in a wide type."""
    given = c.axes(axes, len(x.shape))
    wide = c.wide(x)
    middle = c.mean(wide, given)
    away = c("subtract", wide, middle)
    total = c.sum(c("multiply", away, away), given)
    whole = int(correction) if correction == int(correction) else correction
    left = prod(x.shape[k] for k in given) - whole
    left = larger(left, 0) if isinstance(left, Size) else max(left, 0.0)
    spread = c("divide", total, c.value(left, total.dtype))
    return (
        c.reshape(spread, _kept(x, given, keep)),
        c.reshape(middle, _kept(x, given, keep)),
    )


def _correction(how: dict[str, Any], unbiased: Any) -> float:
    given = how.get("correction")
    if isinstance(unbiased, bool):
        return float(unbiased)
    return 1.0 if given is None else float(given)


def _variance(root: bool, both: bool) -> Converter:
    """var, std, var_mean: (x, unbiased), (x, dims, unbiased, keepdim), or by keywords."""

    def convert(
        c: Call, x: Value, axes: Any = None, unbiased: Any = None, keepdim: bool = False, **how: Any
    ) -> Any:
        if isinstance(axes, bool):
            axes, unbiased = None, axes
        spread, middle = moments(c, x, axes, _correction(how, unbiased), keepdim)
        spread = c.cast(c("sqrt", spread) if root else spread, x.dtype)
        return [spread, c.cast(middle, x.dtype)] if both else spread

    return convert


def logsumexp(c: Call, x: Value, axes: Any, keep: bool = False) -> Value:
    x = c.cast(x, c.dtype)
    given = c.axes(axes, len(x.shape))
    return c("log_sum_exp", x, axes=given, keepdims=keep) if given else x


def vector_norm(
    c: Call, x: Value, order: float = 2, axes: Any = None, keep: bool = False, **_: Any
) -> Value:
    given = c.axes(axes, len(x.shape))
    x = c.cast(x, c.dtype)
    if not given:
        return c("abs", x)
    simple = {1: "l1", 2: "l2"}
    if order in simple:
        return _reduced(c, simple[int(order)], x, given, keep)
    size = c("abs", c.wide(x))
    if order in (float("inf"), float("-inf")):
        out = _reduced(c, "max" if order > 0 else "min", size, given, keep)
    elif order == 0:
        out = _reduced(c, "sum", c.cast(truth(c, size), size.dtype), given, keep)
    else:
        total = _reduced(c, "sum", c("power", size, float(order)), given, keep)
        out = c("power", total, 1 / order)
    return c.cast(out, c.dtype)


def _softmax(op: str) -> Converter:
    def convert(c: Call, x: Value, axis: int, half_to_float: Any = None) -> Value:
        x = c.cast(x, c.dtype)
        if not x.shape:
            return c.reshape(c(op, c.reshape(x, (1,)), axis=0), ())
        return c(op, x, axis=c.axis(axis, len(x.shape)))

    return convert


def _scan(op: str) -> Converter:
    def convert(c: Call, x: Value, axis: int, **_: Any) -> Value:
        x = c.cast(x, c.dtype)
        if not x.shape or 0 in x.shape:
            return x
        return c(op, x, axis=c.axis(axis, len(x.shape)), exclusive=False, reverse=False)

    return convert


def _extremes_so_far(kind: str) -> Converter:
    """cummax and cummin: the extreme of all elements up to each, and the last place that has it."""

    def convert(c: Call, x: Value, axis: int) -> list[Value]:
        if not x.shape or 0 in x.shape:
            return [x, c.full(x.shape, 0, "int64")]
        axis = c.axis(axis, len(x.shape))
        how = {"axis": axis, "exclusive": False, "reverse": False}
        data = c.cast(x, "uint8") if x.dtype == "bool" else x
        found = c(f"cum{kind}", data, **how)
        new = c("equal", data, found)
        if parse(x.dtype).is_float:
            new = c("bitwise_or", new, c("isnan", x))
        shape = [x.shape[axis] if k == axis else 1 for k in range(len(x.shape))]
        places = c.broadcast(c.reshape(counting(c, 0, x.shape[axis], 1), shape), x.shape)
        last = c("cummax", c("where", new, places, c.number(0, "int64")), **how)
        return [c.cast(found, x.dtype), last]

    return convert


def topk(
    c: Call, x: Value, k: int, axis: int = -1, largest: bool = True, ordered: bool = True
) -> list[Value]:
    if not x.shape:
        return [x, c.integers(0)]
    count = c.integers([k])
    found: list[Value] = c.onnx("TopK", [x, count], 2, axis=axis, largest=int(largest))
    return found


def sort(c: Call, x: Value, *given: Any, **how: Any) -> list[Value]:
    """(x, dim, descending), or with `stable` in front of them. Equal elements keep their order."""
    if given and (given[0] is None or (isinstance(given[0], bool))):
        given = given[1:]
    axis = how.get("dim", given[0] if given else -1)
    down = how.get("descending", given[1] if len(given) > 1 else False)
    extent = x.shape[c.axis(axis, len(x.shape))] if x.shape else 1
    return topk(c, x, extent, axis, bool(down))


def argsort(c: Call, x: Value, *given: Any, **how: Any) -> Value:
    return sort(c, x, *given, **how)[1]


def kth_value(c: Call, x: Value, k: int, axis: int = -1, keep: bool = False) -> list[Value]:
    """The k-th smallest, k from 1 on, and its place."""
    if not x.shape:
        return [x, c.integers(0)]
    axis = c.axis(axis, len(x.shape))
    shape = _kept(x, [axis], keep)
    return [c.reshape(c.part(v, axis, k - 1, k), shape) for v in sort(c, x, axis)]


def median(c: Call, x: Value, axis: int | None = None, keep: bool = False) -> Any:
    """The lower one of two; what is no number, where there is such."""
    if axis is None:
        return median(c, c.reshape(x, (prod(x.shape),)), 0)[0]
    extent = x.shape[c.axis(axis, len(x.shape))] if x.shape else 1
    found = kth_value(c, x, (extent - 1) // 2 + 1, axis, keep)
    if not parse(x.dtype).is_float:
        return found
    last = kth_value(c, x, extent, axis, keep)
    bad = c("isnan", last[0])
    return [c("where", bad, v, w) for v, w in zip(last, found)]


def count_nonzero(c: Call, x: Value, axes: Any = None) -> Value:
    bits = c.cast(truth(c, x), "int64")
    return _reduced(c, "sum", bits, c.axes(axes, len(x.shape)), False)


def mean(c: Call, x: Value, axes: Any = None, keep: bool = False, **_: Any) -> Value:
    """An image's mean has a kernel of its own."""
    given = c.axes(axes, len(x.shape))
    x = c.cast(x, c.dtype)
    if len(x.shape) == 4 and given == [2, 3] and accumulator(x.dtype) == x.dtype:
        return c.reshape(c("global_pool", x, type="avg"), _kept(x, given, keep))
    return _reduced(c, "mean", x, given, keep)


def bucketize(c: Call, x: Any, edges: Value, *, right: bool = False, **_: Any) -> Value:
    """How many edges are below an element, or not above it; what is no number is behind all."""
    x = c.value(x, edges.dtype)
    column = c.reshape(x, (*x.shape, 1))
    behind = c("greater", edges, column) if right else c("greater_equal", edges, column)
    before = c.cast(c("invert", behind), "int64")
    total = c("reduce", before, type="sum", axes=[len(x.shape)], keepdims=False)
    return c.cast(total, c.dtype)


def searchsorted(
    c: Call, edges: Value, x: Any, *, right: bool = False, side: Any = None, **how: Any
) -> Value:
    if len(edges.shape) != 1 or how.get("sorter") is not None:
        raise c.error("edges of several dimensions, or out of order, are not supported")
    return bucketize(c, x, edges, right=right or side == "right")


CONVERTERS: dict[str, Converter] = {
    "sum": _reduce("sum"),
    "prod": _reduce("prod"),
    "mean": mean,
    "amax": _reduce("max"),
    "amin": _reduce("min"),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "argmax": argument("max"),
    "argmin": argument("min"),
    "any": _logical("max"),
    "all": _logical("min"),
    "var": _variance(False, False),
    "std": _variance(True, False),
    "var_mean": _variance(False, True),
    "std_mean": _variance(True, True),
    "logsumexp": logsumexp,
    "linalg_vector_norm": vector_norm,
    "_softmax": _softmax("softmax"),
    "_log_softmax": _softmax("log_softmax"),
    "_safe_softmax": lambda c, x, axis, dtype=None: c(
        "masked_softmax", c.cast(x, c.dtype), axis=c.axis(axis, len(x.shape))
    ),
    "cumsum": _scan("cumsum"),
    "cumprod": _scan("cumprod"),
    "logcumsumexp": _scan("logcumsumexp"),
    "cummax": _extremes_so_far("max"),
    "cummin": _extremes_so_far("min"),
    "topk": topk,
    "sort": sort,
    "argsort": argsort,
    "kthvalue": kth_value,
    "median": median,
    "count_nonzero": count_nonzero,
    "bucketize": bucketize,
    "searchsorted": searchsorted,
}
