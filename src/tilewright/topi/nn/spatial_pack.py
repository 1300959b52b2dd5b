"""Convolution by spatial packing, for GPUs whose arithmetic is on short vectors.

Tiles of the data are laid out one after another, filters stand in vectors, and each thread computes
a tile of VH x VW pixels of VC filters. It takes little more memory than the data itself, where
im2col takes KH * KW times as much. Method: Zheng and Chen, "Optimizing mobile deep learning on ARM
GPU with TVM", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..transform import pad
from .windows import conv_extent

Pair = Sequence[int]


def pack_filters(kernel: Tensor, vc: int) -> Tensor:
    """(CO, CI, KH, KW) to (CO / VC, CI, KH, KW, VC); where VC does not divide CO, the last vector
    ends in zeros. Takes any type, which the result keeps. Raises TilewrightError where `kernel` has
    not as many constant dimensions as it has to."""
    co, ci, kh, kw = constant_shape(kernel, "kernel", 4)

    def element(o: Any, c: Any, y: Any, x: Any, v: Any) -> Any:
        value = kernel(o * vc + v, c, y, x)
        if co % vc == 0:
            return value
        return O.if_then_else(o * vc + v < co, value, const(0, kernel.dtype))

    result: Tensor = compute((_tiles(co, vc), ci, kh, kw, vc), element, "kernel_vec", "injective")
    return result


def pack_tiles(
    data_pad: Tensor, tiles: Pair, size: Pair, strides: Pair, dtype: str | None = None
) -> Tensor:
    """Overlapping windows of padded data, one for each tile of the output.

    data_pad (N, CI, HP, WP); `tiles`: how many there are in each direction; `size`: rows and
    columns of a window; `strides`: between neighbouring windows. Returns (N, tiles, CI, size).
    """
    n, ci, _, _ = data_pad.shape

    def element(b: Any, h: Any, w: Any, c: Any, vh: Any, vw: Any) -> Any:
        return data_pad(b, c, h * strides[0] + vh, w * strides[1] + vw)

    result: Tensor = compute((n, *tiles, ci, *size), element, "data_vec", "injective")
    return result


def conv2d_spatial_pack(
    data: Tensor,
    kernel: Tensor,
    tile: Sequence[int] = (1, 4, 4),
    strides: Pair = (1, 1),
    padding: Pair = (0, 0, 0, 0),
    filters: int | None = None,
    accumulate: str | None = None,
) -> Tensor:
    """data (N, CI, H, W); kernel (CO, CI, KH, KW), packed in the expression, or packed ahead of
    time, (CO / VC, CI, KH, KW, VC) as `pack_filters` makes it; `tile` (VH, VW, VC); `padding` (top,
    left, bottom, right); `filters`: CO where a kernel packed ahead ends in zeros.

    Returns (N, CO, OH, OW) of the data's type; products and sums are of the type `accumulate`
    (default: the data's). Tiles need not divide the output. All shapes are constants. Raises
    TilewrightError where tile is not positive, or kernel does not fit data and tile, where `data`
    or `kernel` has not as many constant dimensions as it has to, where the padding has not as many
    values as the tensor has dimensions.
    """
    vh, vw, vc = (int(t) for t in tile)
    if min(vh, vw, vc) < 1:
        raise TilewrightError(f"conv2d_spatial_pack: the tile {tuple(tile)} has to be positive")
    n, ci, height, width = constant_shape(data, "data", 4)
    if kernel.ndim == 4:
        filters = const_int(kernel.shape[0])
        kernel = pack_filters(kernel, vc)
    blocks, channels, kh, kw, lanes = constant_shape(kernel, "kernel", 5)
    co = blocks * vc if filters is None else filters
    if channels != ci or lanes != vc or _tiles(co, vc) != blocks:
        raise TilewrightError(
            f"conv2d_spatial_pack: a kernel {(blocks, channels, kh, kw, lanes)} is not for {ci} "
            f"channels and {co} filters in vectors of {vc}"
        )
    (sh, sw), (top, left, bottom, right) = strides, padding
    oh = conv_extent(height, kh, sh, top, bottom, 1)
    ow = conv_extent(width, kw, sw, left, right, 1)
    th, tw = _tiles(oh, vh), _tiles(ow, vw)
    size = ((vh - 1) * sh + kh, (vw - 1) * sw + kw)
    # the last tiles may reach beyond the output, and so beyond its windows
    below = max(bottom, (th * vh - 1) * sh + kh - top - height)
    beside = max(right, (tw * vw - 1) * sw + kw - left - width)
    before, after = [0, 0, top, left], [0, 0, below, beside]
    data_pad = pad(data, before, after, 0.0, "data_pad") if any(before + after) else data
    data_vec = pack_tiles(data_pad, (th, tw), size, (vh * sh, vw * sw))
    dtype = accumulate or data.dtype
    rc, ry, rx = reduce_axis((0, ci), "ci"), reduce_axis((0, kh), "kh"), reduce_axis((0, kw), "kw")

    def product(b: Any, o: Any, h: Any, w: Any, y: Any, x: Any, v: Any) -> Any:
        value = data_vec(b, h, w, rc, y * sh + ry, x * sw + rx)
        return reduce_sum(
            cast(dtype, value) * cast(dtype, kernel(o, rc, ry, rx, v)), axis=[rc, ry, rx]
        )

    conv = compute((n, blocks, th, tw, vh, vw, vc), product, "conv", "spatial_pack")
    result: Tensor = compute(
        (n, co, oh, ow),
        lambda b, o, y, x: cast(
            data.dtype, conv(b, o // vc, y // vh, x // vw, y % vh, x % vw, o % vc)
        ),
        "output",
        "spatial_pack_output",
    )
    return result


def _tiles(extent: int, size: int) -> int:
    return -(-extent // size)


def constant_shape(x: Tensor, what: str, ndim: int) -> tuple[int, ...]:
    """Constant extents."""
    found = [const_int(d) for d in x.shape]
    if len(found) != ndim or None in found:
        raise TilewrightError(
            f"conv2d_spatial_pack: {what} has to have {ndim} constant dimensions, not {x.shape}"
        )
    return tuple(d for d in found if d is not None)
