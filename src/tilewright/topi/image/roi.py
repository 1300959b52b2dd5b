"""Pooling over regions that the data names."""

from __future__ import annotations

from typing import Any

from ...base.dtype import parse
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import max as reduce_max
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..transform import index_within
from ..utils import get_const_int


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


def roi_align(
    data: Tensor,
    rois: Tensor,
    images: Tensor,
    size: tuple[int, int],
    scale: float,
    mode: str,
    samples: int,
    half_pixel: bool,
) -> Tensor:
    """Of each region (x1, y1, x2, y2) of an image of data (N, C, H, W) the average or maximum of
    points in each of its bins, in between the neighbours.

    `samples`: points of a bin in each direction; 0: as many as elements, those of regions that
    are larger than the image at most.
    """
    _, c, h, w = (get_const_int(d) for d in data.shape)
    wide = accumulator(data.dtype)
    most = [samples or -(-(extent + 1) // bins) for extent, bins in zip((h, w), size)]
    ky, kx = reduce_axis((0, most[0]), "ky"), reduce_axis((0, most[1]), "kx")

    def region(r: Any, d: int) -> tuple[Any, Any, Any]:
        """Where the region begins, the size of its bins, and how many points they have."""
        offset = 0.5 if half_pixel else 0.0
        start, end = (
            cast(wide, rois(r, k)) * const(scale, wide) - const(offset, wide)
            for k in (1 - d, 3 - d)
        )
        extent = end - start if half_pixel else O.max(end - start, const(1, wide))
        bins = extent / const(size[d], wide)
        points = const(samples, wide)
        if not samples:
            points = O.min(O.max(O.ceil(bins), const(0, wide)), const(most[d], wide))
        return start, bins, points

    def point(r: Any, p: Any, k: Any, d: int) -> tuple[Any, Any]:
        start, bins, points = region(r, d)
        at = start + cast(wide, p) * bins + (cast(wide, k) + const(0.5, wide)) * bins / points
        return at, cast(wide, k) < points

    def neighbours(at: Any, extent: int) -> list[tuple[Any, Any]]:
        at = O.max(O.min(at, const(extent - 1, wide)), const(0, wide))
        low = O.max(O.min(cast("int32", at), extent - 1), 0)
        share = at - cast(wide, low)
        return [(low, const(1, wide) - share), (O.min(low + 1, extent - 1), share)]

    def element(r: Any, ch: Any, p: Any, q: Any) -> Any:
        (y, counts_y), (x, counts_x) = point(r, p, ky.var, 0), point(r, q, kx.var, 1)
        image = index_within(images(r), data.shape[0], "clip")
        parts = [
            cast(wide, data(image, ch, iy, ix)) * (wy * wx)
            for iy, wy in neighbours(y, h)
            for ix, wx in neighbours(x, w)
        ]
        near = O.all(y >= -1.0, y <= float(h), x >= -1.0, x <= float(w))
        if mode == "avg":
            value = parts[0] + parts[1] + parts[2] + parts[3]
        else:
            value = O.max(O.max(parts[0], parts[1]), O.max(parts[2], parts[3]))
        value = O.select(near, value, const(0, wide))
        empty = const(0.0 if mode == "avg" else float("-inf"), wide)
        value = O.select(O.all(counts_y, counts_x), value, empty)
        return (reduce_sum if mode == "avg" else reduce_max)(value, axis=[ky, kx])

    found: Tensor = compute((rois.shape[0], c, *size), element, "T_roi_points")

    def finish(*i: Any) -> Any:
        count = region(i[0], 0)[2] * region(i[0], 1)[2]
        value: Any = found(*i)
        if mode == "avg":
            value = value / O.max(count, const(1, wide))
        return cast(data.dtype, O.select(count > 0, value, const(0, wide)))

    result: Tensor = compute(found.shape, finish, "T_roi_align", "elemwise")
    return result
