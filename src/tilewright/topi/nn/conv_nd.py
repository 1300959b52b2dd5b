"""Convolution over any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..lines import on_device
from ..utils import get_const_int
from .windows import Windows, conv_extent, convolution

Numbers = Sequence[int]


def conv_nd(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """data (N, C, ...), kernel (F, C / groups, ...); padding in front of each dimension, then
    behind each. Returns (N, F, ...) of `out_dtype` (default: of data). Raises TilewrightError where
    the windows do not fit the data, where the channels or filters do not divide into the groups."""
    rank = data.ndim - 2
    places, pads = range(2, data.ndim), (padding[:rank], padding[rank:])
    taps = [f"r{d}" for d in range(rank)]
    w = Windows(data, places, kernel.shape[2:], strides, pads, dilation, taps)
    # on devices those that are not of images have rules by their names
    layout = {1: "ncw", 3: "ncdhw"}.get(rank) if on_device() else None
    tag = f"{'group_' if groups > 1 else ''}conv{rank}d_{layout}" if layout else ""
    return convolution(w, kernel, 1, (0, 1, places), groups, out_dtype, f"conv{rank}d", tag)


def col2im(
    data: Tensor,
    image_shape: Numbers,
    block_shape: Numbers,
    strides: Numbers,
    padding: Numbers,
    dilation: Numbers,
) -> Tensor:
    """data (N, C * elements of a block, blocks) as images (N, C, ...) of which the columns are the
    blocks of a sliding window; where windows overlap, their sum. The result has the type of `data`.
    Raises UsageError where `block_shape` is no integer."""
    rank = len(image_shape)
    block = 1
    for k in block_shape:
        block *= k
    given = zip(image_shape, block_shape, strides, padding[:rank], padding[rank:], dilation)
    counts = [conv_extent(*numbers) for numbers in given]
    taps = [reduce_axis((0, k), f"r{d}") for d, k in enumerate(block_shape)]

    def element(b: Any, c: Any, *at: Any) -> Any:
        row: Any = c
        column: Any = const(0)
        inside = []
        for d in range(rank):
            row = row * block_shape[d] + taps[d]
            start = at[d] + padding[d] - taps[d] * dilation[d]
            place = start // strides[d]
            column = column * counts[d] + place
            inside += [(start % strides[d]).equal(0), start >= 0, place < counts[d]]
        value = O.if_then_else(O.all(*inside), data(b, row, column), const(0, data.dtype))
        return reduce_sum(value, axis=taps)

    shape = (data.shape[0], data.shape[1] // block, *image_shape)
    result: Tensor = compute(shape, element, "T_col2im")
    return result


def deformable_columns(
    data: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    kernel: Numbers,
    strides: Numbers,
    padding: Numbers,
    dilation: Numbers,
    offset_groups: int,
) -> Tensor:
    """What a deformable convolution multiplies its weights with: (N, C, taps, OH, OW), of data (N,
    C, H, W) the elements of each window moved by `offset` (N, groups * taps * 2, OH, OW), in
    between the four neighbours, times `mask` (N, groups * taps, OH, OW). The result has the type of
    `data`. Dai et al., Deformable Convolutional Networks, ICCV 2017."""
    n, c, h, w = (get_const_int(d) for d in data.shape)
    kh, kw = kernel
    oh, ow = offset.shape[2:]
    per = max(c // offset_groups, 1)

    def element(b: Any, ch: Any, tap: Any, y: Any, x: Any) -> Any:
        number = ch // per * (kh * kw) + tap
        dtype = offset.dtype

        def place(step: Any, k: Any, d: int) -> Any:
            base = step * strides[d] + k * dilation[d] - padding[d]
            return cast(dtype, base) + offset(b, number * 2 + d, y, x)

        py, px = place(y, tap // kw, 0), place(x, tap % kw, 1)
        value = between(lambda iy, ix: data(b, ch, iy, ix), (py, px), (h, w), data.dtype)
        return value if mask is None else value * mask(b, number, y, x)

    result: Tensor = compute((n, c, kh * kw, oh, ow), element, "T_deformable_columns", "injective")
    return result


def between(read: Any, places: Sequence[Any], size: Sequence[int], dtype: str) -> Any:
    """Linear interpolation between the neighbours of a place that is no whole number; what is
    outside is zero. Raises OperandError where `places` holds what is neither a number nor an
    expression, and TilewrightError where `dtype` is the type of a handle, where `dtype` is no type
    such as 'float32'."""
    lows = [O.floor(p) for p in places]
    total: Any = const(0, dtype)
    for corner in range(1 << len(places)):
        at, inside = [], []
        weight: Any = const(1, dtype)
        for k, (p, low, extent) in enumerate(zip(places, lows, size)):
            up = corner >> k & 1
            near = cast("int32", O.max(O.min(low, float(extent)), -2.0)) + up
            at.append(near)
            inside += [near >= 0, near < extent]
            part = cast(dtype, p - low)
            weight = weight * (part if up else const(1, dtype) - part)
        total = total + O.if_then_else(O.all(*inside), read(*at) * weight, const(0, dtype))
    return total
