"""Convolutions of images and filters whose channels stand in blocks of four, as GPUs of Adreno's
kind read them, or plain: topi.adreno's operators. Data (N, C, H, W) is (N, C / 4, H, W, 4) then,
(N, H, W, C) is (N, H, W, C / 4, 4); filters have those that make results in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import TilewrightError
from ..loopir.expr import const_int
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .nn.conv_transpose import conv2d_transpose_nchw as transposed
from .nn.convs import conv, conv2d_nchw
from .nn.depthwise import depthwise_conv2d_nchw as depthwise_nchw
from .nn.depthwise import depthwise_conv2d_nhwc as depthwise_nhwc
from .nn.utils import named
from .nn.winograd_convs import conv2d_winograd_nchw, conv2d_winograd_nhwc
from .nn.winograd_convs import conv2d_winograd_of_height as winograd_ready
from .transform import INJECTIVE
from .utils import get_const_int

_FOUR = 4


def _joined(x: Tensor, at: int) -> Tensor:
    """A tensor whose dimension `at` stands in blocks, the last dimension, as one without blocks; as
    it is where it has no blocks."""
    if x.ndim == 4:
        return x
    if x.ndim != 5 or const_int(x.shape[4]) != _FOUR:
        raise TilewrightError(f"four dimensions, or five with blocks of 4 last, are needed: {x!r}")
    shape = list(x.shape[:4])
    shape[at] = shape[at] * _FOUR

    def element(*i: Any) -> Any:
        return x(*i[:at], i[at] // _FOUR, *i[at + 1 :], i[at] % _FOUR)

    result: Tensor = compute(shape, element, "plain", INJECTIVE)
    return result


def _parted(x: Tensor, at: int) -> Tensor:
    """A tensor with dimension `at` in blocks, which are its last dimension."""
    shape = [*x.shape, _FOUR]
    shape[at] = get_const_int(shape[at]) // _FOUR

    def element(*i: Any) -> Any:
        return x(*i[:at], i[at] * _FOUR + i[-1], *i[at + 1 : -1])

    result: Tensor = compute(shape, element, "in_fours", INJECTIVE)
    return result


def _made(
    function: Callable[..., Tensor],
    data: tuple[Tensor, int],
    filters: tuple[Tensor, int],
    like: Tensor,
    *how: Any,
) -> Tensor:
    """What `function` makes of plain tensors, in blocks where `like` is; `data` and `filters` with
    the dimensions that may stand in blocks."""
    result = function(_joined(*data), _joined(*filters), *how)
    return _parted(result, data[1]) if like.ndim == 5 else result


def _convolution(
    function: Callable[..., Tensor], data_at: int, filters_at: int, name: str, text: str
) -> Callable[..., Tensor]:
    """A convolution by `function` of plain tensors; the result is in blocks as the filters are."""

    def convolved(
        Input: Tensor,
        Filter: Tensor,
        stride: Any,
        padding: Any,
        dilation: Any,
        out_dtype: str | None,
    ) -> Tensor:
        """Raises TilewrightError where a tensor has neither four dimensions nor five with blocks of
        4 last."""
        how = (stride, padding, dilation, out_dtype or Input.dtype)
        return _made(function, (Input, data_at), (Filter, filters_at), Filter, *how)

    return named(convolved, name, f"{text} Returns `out_dtype` (default: of Input).")


def _nhwc(
    data: Tensor, filters: Tensor, stride: Any, padding: Any, dilation: Any, dtype: str
) -> Tensor:
    return conv(data, filters, stride, padding, dilation, 1, "NHWC", "HWIO", dtype)


def _grouped(
    data: Tensor, filters: Tensor, stride: Any, padding: Any, dilation: Any, dtype: str
) -> Tensor:
    groups = get_const_int(data.shape[1]) // get_const_int(filters.shape[1])
    return conv(data, filters, stride, padding, dilation, groups, "NCHW", "OIHW", dtype)


def _one_each(filters: Tensor, many: int) -> None:
    if const_int(filters.shape[many]) != 1:
        raise TilewrightError(f"one filter a channel is needed, got {filters!r}")


def _depthwise(
    data: Tensor, filters: Tensor, stride: Any, padding: Any, dilation: Any, dtype: str
) -> Tensor:
    _one_each(filters, 1)
    return depthwise_nchw(data, filters, stride, padding, dilation, dtype)


def _depthwise_last(
    data: Tensor, filters: Tensor, stride: Any, padding: Any, dilation: Any, dtype: str
) -> Tensor:
    _one_each(filters, 3)
    return depthwise_nhwc(data, filters, stride, padding, dilation, "HWOI", dtype)


conv2d_nchwc = _convolution(
    conv2d_nchw, 1, 0, "conv2d_nchwc",
    "Input (N, C, H, W), Filter (F, C, KH, KW), or in blocks (N, C / 4, H, W, 4) and "
    "(F / 4, C, KH, KW, 4).",
)  # fmt: skip
conv2d_nhwc = _convolution(
    _nhwc, 3, 3, "conv2d_nhwc",
    "Input (N, H, W, C), Filter (KH, KW, C, F), or in blocks (N, H, W, C / 4, 4) and "
    "(KH, KW, C, F / 4, 4).",
)  # fmt: skip
group_conv2d_nchwc = _convolution(
    _grouped, 1, 0, "group_conv2d_nchwc",
    "As conv2d_nchwc, in as many groups as Input has times the channels of Filter.",
)  # fmt: skip
depthwise_conv2d_nchwc = _convolution(
    _depthwise, 1, 0, "depthwise_conv2d_nchwc",
    "Input (N, C, H, W), Filter (C, 1, KH, KW), or in blocks (N, C / 4, H, W, 4) and "
    "(C / 4, 1, KH, KW, 4).",
)  # fmt: skip
depthwise_conv2d_nhwc = _convolution(
    _depthwise_last, 3, 2, "depthwise_conv2d_nhwc",
    "Input (N, H, W, C), Filter (KH, KW, C, 1), or in blocks (N, H, W, C / 4, 4) and "
    "(KH, KW, C / 4, 1, 4).",
)  # fmt: skip


def conv2d_transpose_nchwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    out_dtype: str | None,
    output_padding: Any,
    groups: int = 1,
) -> Tensor:
    """Input (N, C, H, W), Filter (C, F, KH, KW), or in blocks (N, C / 4, H, W, 4) and (C, F / 4,
    KH, KW, 4), as topi.nn.conv2d_transpose_nchw; in one group, whatever `groups` is. Raises
    TilewrightError where `Filter` or `Input` has not four dimensions, or five with blocks of 4
    last."""
    how = (stride, padding, out_dtype or Input.dtype, output_padding)
    return _made(transposed, (Input, 1), (Filter, 1), Filter, *how)


def _winograd(
    function: Callable[..., Tensor], data_at: int, filters_at: int, name: str, text: str
) -> Callable[..., Tensor]:
    def convolved(
        data: Tensor,
        kernel: Tensor,
        strides: Any,
        padding: Any,
        dilation: Any,
        out_dtype: str | None,
    ) -> Tensor:
        """Raises TilewrightError where a tensor has neither four dimensions nor five with blocks of
        4 last. Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016."""
        how = (strides, padding, dilation, out_dtype or data.dtype)
        return _made(function, (data, data_at), (kernel, filters_at), data, *how)

    return named(convolved, name, text)


def _ready_last(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, dtype: str
) -> Tensor:
    return winograd_ready(data, kernel, strides, padding, dilation, dtype, "NHWC", "CF")


_READY = (
    "As topi.cuda.conv2d_nchw_winograd_without_weight_transform: transformed filters (a, a, C, F), "
    "or in blocks (a, a, C, F / 4, 4), of data "
)
conv2d_nchw_winograd = _winograd(
    conv2d_winograd_nchw, 1, 0, "conv2d_nchw_winograd",
    "As conv2d_nchwc, by Winograd's algorithm; the result is in blocks where the data is.",
)  # fmt: skip
conv2d_nhwc_winograd = _winograd(
    conv2d_winograd_nhwc, 3, 3, "conv2d_nhwc_winograd",
    "As conv2d_nhwc, by Winograd's algorithm; the result is in blocks where the data is.",
)  # fmt: skip
conv2d_nchw_winograd_without_weight_transform = _winograd(
    winograd_ready, 1, 3, "conv2d_nchw_winograd_without_weight_transform",
    f"{_READY}(N, C, H, W) or (N, C / 4, H, W, 4).",
)  # fmt: skip
conv2d_nhwc_winograd_without_weight_transform = _winograd(
    _ready_last, 3, 3, "conv2d_nhwc_winograd_without_weight_transform",
    f"{_READY}(N, H, W, C) or (N, H, W, C / 4, 4).",
)  # fmt: skip
