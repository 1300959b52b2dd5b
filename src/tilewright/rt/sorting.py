"""Functions that sort arrays along an axis, under the names by which TVM's programs call them
(`tvm.contrib.sort.argsort`, ...). Elements that are equal keep their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _order(values: Any, axis: int, is_ascend: bool) -> Any:
    """The places of the sorted elements."""
    if is_ascend:
        return np.argsort(values, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
    return values.shape[axis] - 1 - np.flip(backwards, axis)


def _write(out: Any, values: Any) -> None:
    out.copyfrom(np.ascontiguousarray(values).astype(out.numpy().dtype))


def argsort(source: Any, out: Any, axis: int, is_ascend: bool) -> None:
    """Fill `out` with the places of the sorted elements."""
    _write(out, _order(source.numpy(), axis, bool(is_ascend)))


def sort(source: Any, out: Any, axis: int, is_ascend: bool) -> None:
    """Fill `out` with the sorted elements."""
    values = source.numpy()
    _write(out, np.take_along_axis(values, _order(values, axis, bool(is_ascend)), axis))


def argsort_nms(source: Any, sort_num: Any, out: Any, axis: int, is_ascend: bool) -> None:
    """As `argsort`, but of each line along the axis only the first `sort_num` elements (an array
    without that axis) are sorted; those behind stay where they are."""
    values = np.moveaxis(source.numpy(), axis, -1)
    places = np.broadcast_to(np.arange(values.shape[-1]), values.shape).copy()
    for line, count in np.ndenumerate(sort_num.numpy()):
        places[line][:count] = _order(values[line][:count], 0, bool(is_ascend))
    _write(out, np.moveaxis(places, -1, axis))


def topk(source: Any, *rest: Any) -> None:
    """Fill outputs with the first `k` of the sorted elements (all, for k < 1): arguments are the
    source, one output or two, k, axis, which they are ("values", "indices", "both"), is_ascend."""
    *outs, k, axis, what, is_ascend = rest
    values = source.numpy()
    order = _order(values, axis, bool(is_ascend))
    first = np.take(order, np.arange(k if k >= 1 else values.shape[axis]), axis=axis)
    found = {"values": np.take_along_axis(values, first, axis), "indices": first}
    for name, out in zip(found if what == "both" else (str(what),), outs):
        _write(out, found[name])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tvm.contrib.sort.argsort": argsort,
    "tvm.contrib.sort.argsort_nms": argsort_nms,
    "tvm.contrib.sort.sort": sort,
    "tvm.contrib.sort.topk": topk,
}
