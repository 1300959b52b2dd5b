"""Pooling over regions that the data names."""

from __future__ import annotations

from typing import Any

from ...base.dtype import parse
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import max as reduce_max
from ...tensor.tensor import Tensor
from ..transform import index_within


def _bin(rois: Tensor, r: Any, first: int, bins: int, which: Any, scale: float) -> tuple[Any, Any]:
    """The first element of a bin of a region, and the one behind its last; the region's ends are
    numbers `first` and first + 2 of its row."""
    dtype = rois.dtype

    def end(k: int) -> Any:
        x = rois(r, k) * const(scale, dtype)
        return O.select(x < 0, O.ceil(x - 0.5), O.floor(x + 0.5))  # halves away from zero

    start = end(first)
    size = O.max(end(first + 2) - start + 1, const(1, dtype)) / const(bins, dtype)
    low = O.floor(cast(dtype, which) * size) + start
    return low, O.ceil((cast(dtype, which) + 1) * size) + start


def _largest(value: Any, inside: Any, dtype: str, axis: Any) -> Any:
    return reduce_max(O.if_then_else(inside, value, const(parse(dtype).min_value, dtype)), axis)


def roi_pool_rows(data: Tensor, rois: Tensor, bins: int, scale: float) -> Tensor:
    """Of each region (image, x1, y1, x2, y2) of data (N, C, H, W) the maxima of each bin of its
    rows: (regions, C, bins, W)."""
    n, c, h, w = data.shape
    k = reduce_axis((0, h), "k")

    def element(r: Any, ch: Any, p: Any, x: Any) -> Any:
        low, high = _bin(rois, r, 2, bins, p, scale)
        place = cast(rois.dtype, k.var)
        image = index_within(cast("int32", rois(r, 0)), n, "clip")
        return _largest(data(image, ch, k, x), O.all(place >= low, place < high), data.dtype, k)

    result: Tensor = compute((rois.shape[0], c, bins, w), element, "T_roi_rows")
    return result


def roi_pool_columns(rows: Tensor, rois: Tensor, bins: int, scale: float) -> Tensor:
    """What roi_pool_rows gives, pooled along its rows: (regions, C, rows' bins, bins). Bins without
    elements are zero."""
    count, c, others, w = rows.shape
    k = reduce_axis((0, w), "k")
    least = const(parse(rows.dtype).min_value, rows.dtype)

    def element(r: Any, ch: Any, p: Any, q: Any) -> Any:
        low, high = _bin(rois, r, 1, bins, q, scale)
        place = cast(rois.dtype, k.var)
        inside = O.all(place >= low, place < high)
        return _largest(rows(r, ch, p, k), inside, rows.dtype, k)

    found: Tensor = compute((count, c, others, bins), element, "T_roi_columns")
    result: Tensor = compute(
        found.shape,
        lambda *i: O.select(found(*i) > least, found(*i), const(0, rows.dtype)),
        "T_roi_pool",
        "elemwise",
    )
    return result
