"""Regions of images pooled to one size, and images whose blocks become channels."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..image.roi import roi_pool_columns, roi_pool_rows
from ..image.roi_align import roi_align
from ..nn.utils import channels_last, several
from ..transform import INJECTIVE, transpose, unravel
from ..utils import get_const_int, of_rank


def _parts(rois: Tensor) -> tuple[Tensor, Tensor]:
    """Corners of regions, and the images that they are of."""
    if rois.ndim != 2 or get_const_int(rois.shape[1]) != 5:
        raise TilewrightError(f"regions are rows of image, x1, y1, x2, y2, got {rois!r}")
    count = rois.shape[0]
    corners: Tensor = compute((count, 4), lambda r, k: rois(r, k + 1), "corners", INJECTIVE)
    images: Tensor = compute((count,), lambda r: cast("int32", rois(r, 0)), "images", INJECTIVE)
    return corners, images


def roi_align_nchw(
    data: Tensor,
    rois: Tensor,
    pooled_size: Any,
    spatial_scale: float,
    mode: str,
    sample_ratio: int = -1,
) -> Tensor:
    """Regions (count, 5), image, x1, y1, x2 and y2 in pixels that are multiplied by
    `spatial_scale`, of data (N, C, H, W) as (count, C, *pooled_size): the average ("avg") or
    maximum ("max") of points in each bin, between the neighbours; `sample_ratio` points in each
    direction, or as many as elements. The result has the type of `data`. He et al., Mask R-CNN,
    ICCV 2017. Raises TilewrightError where mode is neither 'avg' nor 'max', where rois are not rows
    of five numbers, where `pooled_size` has another number of values than there are dimensions of
    space, and UsageError where `data` or `rois` has an extent or a value that has to be constant
    and is not."""
    how = mode.decode() if isinstance(mode, bytes) else mode
    if how not in ("avg", "max"):
        raise TilewrightError(f"roi_align: mode is 'avg' or 'max', got {mode!r}")
    corners, images = _parts(rois)
    rows, columns = several(pooled_size, 2)
    samples = sample_ratio if sample_ratio > 0 else 0
    rest = (spatial_scale, how, samples, False, False)
    return roi_align(data, corners, images, (get_const_int(rows), get_const_int(columns)), *rest)


roi_align_nhwc = channels_last(
    roi_align_nchw,
    transpose,
    ((0, 3, 1, 2),),
    "As roi_align_nchw of data (N, H, W, C): (count, *pooled_size, C).",
)


def roi_pool_nchw(data: Tensor, rois: Tensor, pooled_size: Any, spatial_scale: float) -> Tensor:
    """Regions as in roi_align_nchw, their corners multiplied by `spatial_scale` and rounded, as
    (count, C, *pooled_size): the maxima of bins, 0 of empty ones. The result has the type of
    `data`. Girshick, Fast R-CNN, ICCV 2015. Raises TilewrightError where `pooled_size` has another
    number of values than there are dimensions of space."""
    rows, columns = several(pooled_size, 2)
    pooled = roi_pool_rows(data, rois, get_const_int(rows), spatial_scale)
    return roi_pool_columns(pooled, rois, get_const_int(columns), spatial_scale)


@of_rank(data=4)
def reorg(data: Tensor, stride: int) -> Tensor:
    """data (N, C, H, W) as (N, C * stride^2, H / stride, W / stride), as Darknet has it: memory is
    read as images of C / stride^2 channels and stride times as many rows and columns, of which
    every stride-th element makes a channel. Takes any type, which the result keeps. Redmon and
    Farhadi, YOLO9000, CVPR 2017. Raises TilewrightError where the data does not divide into
    blocks."""
    n, c, h, w = (get_const_int(d) for d in data.shape)
    s = stride
    if c % (s * s) or h % s or w % s:
        raise TilewrightError(f"reorg: {data!r} does not divide into blocks of {s} x {s}")
    own = c // (s * s)

    def element(*i: Any) -> Any:
        flat: Any = i[0]
        for j, size in zip(i[1:], (c * s * s, h // s, w // s)):
            flat = flat * size + j
        b, k, y, x = unravel(flat, data.shape)
        offset = k // own
        row, column = y * s + offset // s, x * s + offset % s
        source = ((b * own + k % own) * (h * s) + row) * (w * s) + column
        return data(*unravel(source, data.shape))

    result: Tensor = compute((n, c * s * s, h // s, w // s), element, "reorg", INJECTIVE)
    return result
