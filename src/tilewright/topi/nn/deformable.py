"""Convolutions whose windows' elements are moved by what the data says, and correlations of two
images."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator, unary
from ..transform import pad, transpose
from ..utils import get_const_int, of_rank
from .conv_nd import deformable_columns
from .utils import channels_last, get_pad_tuple, several


@of_rank(data=4, offset=4, kernel=4)
def deformable_conv2d_nchw(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
    out_dtype: str | None,
) -> Tensor:
    """data (N, C, H, W), offset (N, deformable_groups * KH * KW * 2, OH, OW): rows and columns by
    which each element of a window is moved, kernel (F, C / groups, KH, KW). What lies outside is
    zero. Returns (N, F, OH, OW) of `out_dtype` (default: of data). Dai et al., Deformable
    Convolutional Networks, ICCV 2017. Raises TilewrightError where `dilation` or `strides` has
    another number of values than there are dimensions of space, where `padding` is neither SAME,
    VALID nor one or two numbers for each dimension of space."""
    f, own, kh, kw = (get_const_int(d) for d in kernel.shape)
    dtype = out_dtype or data.dtype
    steps = several(dilation, 2)
    top, left, _, _ = get_pad_tuple(padding, [(k - 1) * d + 1 for k, d in zip((kh, kw), steps)])
    how = ((kh, kw), several(strides, 2), (top, left), steps, deformable_groups)
    columns = deformable_columns(data, offset, None, *how)
    rc, rk = reduce_axis((0, own), "rc"), reduce_axis((0, kh * kw), "rk")
    share = f // groups

    def element(b: Any, o: Any, y: Any, x: Any) -> Any:
        channel = rc.var if groups == 1 else o // share * own + rc
        value = cast(dtype, columns(b, channel, rk, y, x))
        return reduce_sum(value * cast(dtype, kernel(o, rc, rk // kw, rk % kw)), axis=[rc, rk])

    shape = (data.shape[0], f, *offset.shape[2:])
    result: Tensor = compute(shape, element, "deformable_conv2d", "deformable_conv2d_nchw")
    return result


deformable_conv2d_nhwc = channels_last(
    deformable_conv2d_nchw,
    transpose,
    ((0, 3, 1, 2), (0, 3, 1, 2), (3, 2, 0, 1)),
    """As deformable_conv2d_nchw of data (N, H, W, C), offset (N, OH, OW, deformable_groups * KH *
    KW * 2) and kernel (KH, KW, C / groups, F).""",
)


def correlation_nchw(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> Tensor:
    """How alike windows of two images (N, C, H, W) are, for all displacements up to
    `max_displacement` in steps of `stride2`: the mean of products, or of absolute differences
    unless `is_multiply`. Returns (N, displacements, rows, columns), windows in steps of `stride1`.
    The result has the type of `data1`. Dosovitskiy et al., FlowNet, ICCV 2015. Raises
    TilewrightError where data1 and data2 have not the same shape, where `padding` is neither SAME,
    VALID nor one or two numbers for each dimension of space, and UsageError where `kernel_size` is
    no integer.
    """
    n, c, h, w = data1.shape
    shapes = [[get_const_int(d) for d in x.shape] for x in (data1, data2)]
    if shapes[0] != shapes[1]:
        raise TilewrightError(f"correlation: {data1!r} and {data2!r} have not the same shape")
    top, left, bottom, right = get_pad_tuple(padding, (1, 1))
    first, second = (
        pad(x, [0, 0, top, left], [0, 0, bottom, right], 0.0, f"pad_{k}")
        for k, x in enumerate((data1, data2))
    )
    radius = (kernel_size - 1) // 2
    border = max_displacement + radius
    rows, columns = (
        -(-(get_const_int(d) + a + b - 2 * border) // stride1)
        for d, a, b in ((h, top, bottom), (w, left, right))
    )
    reach = max_displacement // stride2
    side = 2 * reach + 1
    rc = reduce_axis((0, c), "rc")
    ry, rx = reduce_axis((0, kernel_size), "ry"), reduce_axis((0, kernel_size), "rx")
    wide = accumulator(data1.dtype)

    def element(b: Any, k: Any, i: Any, j: Any) -> Any:
        y, x = i * stride1 + max_displacement + ry, j * stride1 + max_displacement + rx
        dy, dx = (k // side - reach) * stride2, (k % side - reach) * stride2
        one, other = cast(wide, first(b, rc, y, x)), cast(wide, second(b, rc, y + dy, x + dx))
        return reduce_sum(one * other if is_multiply else O.abs(one - other), axis=[rc, ry, rx])

    total: Tensor = compute(
        (n, side * side, rows, columns), element, "correlation", "correlation_nchw"
    )
    count = get_const_int(c) * kernel_size * kernel_size
    return unary(lambda v: cast(data1.dtype, v / cast(wide, count)), total, "T_correlation_mean")
