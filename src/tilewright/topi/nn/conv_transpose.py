"""Transposed convolutions: convolutions of data that zeros are put between, with filters turned
around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast, const_int, convert
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..transform import pad
from ..utils import of_rank, simplify
from .dilation import dilate
from .utils import get_pad_tuple_generic, named, several

_TAPS = ("rx", "ry", "rd")


def _prepared(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None,
    output_padding: Any,
) -> tuple[Tensor, Tensor]:
    """Data of which a plain convolution of stride 1 with the second tensor, (groups' filters,
    channels, ...), is the result."""
    rank = data.ndim - 2
    strides, more = several(strides, rank), several(output_padding, rank)
    wrong = [n for n, s in zip(more, strides) if n >= s and n]
    if wrong:
        raise TilewrightError(f"output_padding {wrong[0]} is not below the stride")
    channels, filters, *window = kernel.shape
    before, after = get_pad_tuple_generic(padding, window)
    apart = dilate(data, [1, 1, *strides], name="data_dilate")
    low = [simplify(k - 1 - b) for k, b in zip(window, before)]
    high = [simplify(k - 1 - a + m) for k, a, m in zip(window, after, more)]
    padded = _edged(apart, [0, 0, *low], [0, 0, *high])

    def turned(o: Any, i: Any, *at: Any) -> Any:
        value = kernel(i, o, *(k - 1 - j for k, j in zip(window, at)))
        return cast(out_dtype or data.dtype, value)

    flipped: Tensor = compute((filters, channels, *window), turned, "kernel_transform", "injective")
    return padded, flipped


def _edged(x: Tensor, low: Sequence[Any], high: Sequence[Any]) -> Tensor:
    """A tensor with zeros in front of its dimensions and behind them; without as many elements as
    numbers are below zero, where results are cut that filters reach."""

    def parts(numbers: Sequence[Any]) -> tuple[list[Any], list[int]]:
        cut = [max(-(const_int(convert(n)) or 0), 0) for n in numbers]
        return [simplify(n + c) for n, c in zip(numbers, cut)], cut

    (low, before), (high, behind) = parts(low), parts(high)
    padded = pad(x, low, high, 0.0, "data_pad")
    if not any((*before, *behind)):
        return padded
    shape = [simplify(d - b - e) for d, b, e in zip(padded.shape, before, behind)]
    result: Tensor = compute(
        shape, lambda *i: padded(*(j + b for j, b in zip(i, before))), "data_cut", "injective"
    )
    return result


def _transposed(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None,
    output_padding: Any,
    groups: int,
    name: str,
) -> Tensor:
    if not data.ndim == kernel.ndim >= 3:
        raise TilewrightError(f"{name}: {data!r} and {kernel!r} have not the same dimensions")
    c, i = const_int(data.shape[1]), const_int(kernel.shape[0])
    if c is not None and i is not None and (c != i or c % groups):
        raise TilewrightError(f"{name}: {data!r} has not the channels of {kernel!r}")
    dtype = out_dtype or data.dtype
    padded, flipped = _prepared(data, kernel, strides, padding, dtype, output_padding)
    share, _, *window = flipped.shape
    inner = data.shape[1] // groups
    rc = reduce_axis((0, inner), "rc")
    taps = [reduce_axis((0, k), n) for k, n in zip(window, reversed(_TAPS[: len(window)]))]
    size = [simplify(d - k + 1) for d, k in zip(padded.shape[2:], window)]

    def element(b: Any, f: Any, *at: Any) -> Any:
        channel = rc.var if groups == 1 else f // share * inner + rc
        own = f if groups == 1 else f % share
        value = padded(b, channel, *(j + r for j, r in zip(at, taps)))
        weight = flipped(own, channel, *taps)
        return reduce_sum(cast(dtype, value) * weight, axis=[rc, *taps])

    shape = (data.shape[0], simplify(share * groups), *size)
    result: Tensor = compute(shape, element, name, name)
    return result


@of_rank(data=3, kernel=3)
def conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str, output_padding: Any
) -> Tensor:
    """data (N, C, W), kernel (C, F, KW); `output_padding`: elements more behind. Returns (N, F,
    (W - 1) * stride + KW - padding + output_padding) of `out_dtype`. Raises TilewrightError where
    `data` and `kernel` have not the same dimensions, 3 or more, or not the same channels, where
    output_padding is not below the stride."""
    how = (stride, padding, out_dtype, output_padding)
    return _transposed(data, kernel, *how, 1, "conv1d_transpose_ncw")


def _transpose_named(name: str, text: str) -> Callable[..., Tensor]:
    def transposed(
        Input: Tensor,
        Filter: Tensor,
        strides: Any,
        padding: Any,
        out_dtype: str,
        output_padding: Any,
    ) -> Tensor:
        """Raises TilewrightError where the two tensors have not the same dimensions or channels, or
        an output_padding is not below its stride."""
        return _transposed(Input, Filter, strides, padding, out_dtype, output_padding, 1, name)

    return named(transposed, name, text)


conv2d_transpose_nchw = _transpose_named(
    "conv2d_transpose_nchw",
    """Input (N, C, H, W), Filter (C, F, KH, KW); `output_padding`: rows and columns more behind.
    Returns (N, F, OH, OW) of `out_dtype`, OH being (H - 1) * stride + KH - padding +
    output_padding.""",
)
conv3d_transpose_ncdhw = _transpose_named(
    "conv3d_transpose_ncdhw",
    "Input (N, C, D, H, W), Filter (C, F, KD, KH, KW), see conv2d_transpose_nchw.",
)


def _group_transpose_named(name: str, text: str) -> Callable[..., Tensor]:
    def transposed(
        data: Tensor,
        kernel: Tensor,
        stride: Any,
        padding: Any,
        out_dtype: str,
        output_padding: Any,
        groups: int,
    ) -> Tensor:
        """Raises TilewrightError where the two tensors have not the same dimensions or channels, or
        an output_padding is not below its stride."""
        how = (stride, padding, out_dtype, output_padding)
        return _transposed(data, kernel, *how, groups, name)

    return named(transposed, name, text)


group_conv1d_transpose_ncw = _group_transpose_named(
    "group_conv1d_transpose_ncw", "As conv1d_transpose_ncw, kernel (C, F / groups, KW)."
)
group_conv2d_transpose_nchw = _group_transpose_named(
    "group_conv2d_transpose_nchw", "As conv2d_transpose_nchw, kernel (C, F / groups, KH, KW)."
)


@of_rank(data=5, kernel=5)
def group_conv3d_transpose_ncdhw(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """As conv3d_transpose_ncdhw, kernel (C, F / groups, KD, KH, KW). Returns `out_dtype`. Raises
    TilewrightError where `data` and `kernel` have not the same dimensions, 3 or more, or not the
    same channels, where output_padding is not below the stride."""
    how = (strides, padding, out_dtype, output_padding, groups)
    return _transposed(data, kernel, *how, "group_conv3d_transpose_ncdhw")


def _preprocess(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, out_dtype: str, output_padding: Any
) -> tuple[Tensor, Tensor]:
    """Data with zeros in between and around, and filters (F, C, ...) turned around: a convolution
    of stride 1 without padding of these is the transposed one. Data keeps its type, filters become
    `out_dtype`. Raises TilewrightError where output_padding is not below the stride, where
    `output_padding` or `strides` has another number of values than there are dimensions of space,
    where `padding` is neither SAME, VALID nor one or two numbers for each dimension of space, where
    strides are not as many as the dimensions of data."""
    return _prepared(data, kernel, strides, padding, out_dtype, output_padding)


def _transpose_impl(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, out_dtype: str, output_padding: Any
) -> Tensor:
    """As conv2d_transpose_nchw, or conv3d_transpose_ncdhw, which the data's dimensions tell. Raises
    TilewrightError where `data` and `kernel` have not the same dimensions, 3 or more, or not the
    same channels, where output_padding is not below the stride."""
    name = "conv2d_transpose_nchw" if data.ndim == 4 else "conv3d_transpose_ncdhw"
    return _transposed(data, kernel, strides, padding, out_dtype, output_padding, 1, name)


conv1d_transpose_ncw_preprocess = _preprocess
conv2d_transpose_nchw_preprocess = _preprocess
conv3d_transpose_ncdhw_preprocess = _preprocess
declaration_conv2d_transpose_impl = _transpose_impl
declaration_conv3d_transpose_impl = _transpose_impl
