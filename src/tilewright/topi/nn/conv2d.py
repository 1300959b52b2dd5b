"""Two-dimensional convolution (cross-correlation, as networks use it)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..transform import pad

Pair = Sequence[int]


def conv_extent(size: Any, kernel: Any, stride: int, before: int, after: int, dilation: int) -> Any:
    """Output extent of a window that slides over `size` elements with padding."""
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


def _padded(data: Tensor, pads: Pair, at: int) -> Tensor:
    top, left, bottom, right = pads
    if not any(pads):
        return data
    before, after = [0] * data.ndim, [0] * data.ndim
    before[at : at + 2] = [top, left]
    after[at : at + 2] = [bottom, right]
    return pad(data, before, after, 0.0, "data_pad")


def _image(size: Any, kernel: Any, strides: Pair, padding: Pair, dilation: Pair) -> list[Any]:
    """Output height and width; padding (top, left, bottom, right)."""
    return [
        conv_extent(size[d], kernel[d], strides[d], padding[d], padding[d + 2], dilation[d])
        for d in (0, 1)
    ]


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else value


def _pads(padding: int | str | Pair, window: Sequence[Any]) -> Pair:
    """Rows above, columns left, rows below, columns right."""
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise TilewrightError(f"conv2d: padding is SAME, VALID or numbers, got {padding!r}")
        rows, columns = (w - 1 if padding == "SAME" else 0 for w in window)
        return (rows + 1) // 2, (columns + 1) // 2, rows // 2, columns // 2
    if isinstance(padding, int) or len(padding) == 2:
        rows, columns = _pair(padding)
        return rows, columns, rows, columns
    return padding


def conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: int | Pair = 1,
    padding: int | str | Pair = 0,
    dilation: int | Pair = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Input (N, C, H, W), Filter (F, C / groups, KH, KW); padding: a number, (rows, columns), (top,
    left, bottom, right), "SAME" or "VALID". Returns (N, F, OH, OW) of `out_dtype` (default: of
    Input).
    """
    data, kernel = Input, Filter
    n, c, h, w = data.shape
    f, cg, kh, kw = kernel.shape
    channels, per_group, filters = const_int(c), const_int(cg), const_int(f)
    if channels is not None and per_group is not None and channels != per_group * groups:
        raise TilewrightError(
            f"conv2d: data has {channels} channels, the kernel takes {per_group} x {groups} groups"
        )
    if filters is not None and filters % groups:
        raise TilewrightError(f"conv2d: {filters} filters do not divide into {groups} groups")
    (sh, sw), (dh, dw) = _pair(stride), _pair(dilation)
    dtype = out_dtype or data.dtype
    pads = _pads(padding, ((kh - 1) * dh + 1, (kw - 1) * dw + 1))
    padded = _padded(data, pads, 2)
    oh, ow = _image((h, w), (kh, kw), (sh, sw), pads, (dh, dw))
    rc = reduce_axis((0, cg), "rc")
    ry, rx = reduce_axis((0, kh), "ry"), reduce_axis((0, kw), "rx")
    per = f // groups

    def element(b: Any, ff: Any, y: Any, x: Any) -> Any:
        channel = rc.var if groups == 1 else ff // per * cg + rc
        value = padded(b, channel, y * sh + ry * dh, x * sw + rx * dw)
        return reduce_sum(
            cast(dtype, value) * cast(dtype, kernel(ff, rc, ry, rx)), axis=[rc, ry, rx]
        )

    result: Tensor = compute((n, f, oh, ow), element, "conv2d", "conv2d_nchw")
    return result


def pack_kernel(kernel: Tensor, in_block: int, out_block: int, terms: int = 1) -> Tensor:
    """(F, C, KH, KW) to (F / out_block, C / in_block, KH, KW, in_block, out_block), or with groups
    of `terms` channels innermost: (.., in_block / terms, out_block, terms)."""
    f, c, kh, kw = kernel.shape
    if terms > 1:
        grouped: Tensor = compute(
            (f // out_block, c // in_block, kh, kw, in_block // terms, out_block, terms),
            lambda fo, co, y, x, ci, fi, t: kernel(
                fo * out_block + fi, co * in_block + ci * terms + t, y, x
            ),
            "packed_kernel",
            "injective",
        )
        return grouped

    def element(fo: Any, co: Any, y: Any, x: Any, ci: Any, fi: Any) -> Any:
        return kernel(fo * out_block + fi, co * in_block + ci, y, x)

    shape = (f // out_block, c // in_block, kh, kw, in_block, out_block)
    result: Tensor = compute(shape, element, "packed_kernel", "injective")
    return result


def conv2d_nchwc(
    data: Tensor,
    kernel: Tensor,
    strides: Pair = (1, 1),
    padding: Pair = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    out_dtype: str | None = None,
) -> Tensor:
    """Convolution with blocked channels, so that a vector holds neighbouring filters.

    data (N, C / b, H, W, b), kernel (F / f, C / b, KH, KW, b, f) as `pack_kernel` makes it, or with
    groups of channels innermost, (F / f, C / b, KH, KW, b / t, f, t); padding (top, left, bottom,
    right). Returns (N, F / f, OH, OW, f).
    """
    n, co, h, w, cb = data.shape
    fo, co2, kh, kw, cb2, fb, *groups = kernel.shape
    terms = groups[0] if groups else 1
    cb2 = cb2 * terms
    if const_int(co) != const_int(co2) or const_int(cb) != const_int(cb2):
        raise TilewrightError(f"conv2d: channels of data {data} and kernel {kernel} differ")
    (sh, sw), (dh, dw) = strides, dilation
    dtype = out_dtype or data.dtype
    padded = _padded(data, padding, 2)
    oh, ow = _image((h, w), (kh, kw), strides, padding, dilation)
    rco, rci = reduce_axis((0, co), "rco"), reduce_axis((0, cb), "rci")
    ry, rx = reduce_axis((0, kh), "ry"), reduce_axis((0, kw), "rx")

    def element(b: Any, f: Any, y: Any, x: Any, fi: Any) -> Any:
        value = padded(b, rco, y * sh + ry * dh, x * sw + rx * dw, rci)
        inner = (rci // terms, fi, rci % terms) if groups else (rci, fi)
        weight = kernel(f, rco, ry, rx, *inner)
        return reduce_sum(cast(dtype, value) * cast(dtype, weight), axis=[rco, ry, rx, rci])

    result: Tensor = compute((n, fo, oh, ow, fb), element, "conv2d_nchwc", "conv2d_nchwc")
    return result


def pack_depthwise(kernel: Tensor, block: int) -> Tensor:
    """(C, 1, KH, KW) to (C / block, KH, KW, block)."""
    c, _, kh, kw = kernel.shape
    result: Tensor = compute(
        (c // block, kh, kw, block),
        lambda co, y, x, ci: kernel(co * block + ci, 0, y, x),
        "packed_depthwise",
        "injective",
    )
    return result


def depthwise_nchwc(
    data: Tensor,
    kernel: Tensor,
    strides: Pair = (1, 1),
    padding: Pair = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    out_dtype: str | None = None,
) -> Tensor:
    """Every channel by its own filter, channels blocked.

    data (N, C / b, H, W, b), kernel (C / b, KH, KW, b) as `pack_depthwise` makes it, padding (top,
    left, bottom, right). Returns (N, C / b, OH, OW, b) of `out_dtype` (default: of data).
    """
    n, co, h, w, cb = data.shape
    co2, kh, kw, cb2 = kernel.shape
    if const_int(co) != const_int(co2) or const_int(cb) != const_int(cb2):
        raise TilewrightError(f"depthwise: channels of data {data} and kernel {kernel} differ")
    (sh, sw), (dh, dw) = strides, dilation
    dtype = out_dtype or data.dtype
    padded = _padded(data, padding, 2)
    oh, ow = _image((h, w), (kh, kw), strides, padding, dilation)
    ry, rx = reduce_axis((0, kh), "ry"), reduce_axis((0, kw), "rx")

    def element(b: Any, c: Any, y: Any, x: Any, ci: Any) -> Any:
        value = padded(b, c, y * sh + ry * dh, x * sw + rx * dw, ci)
        return reduce_sum(cast(dtype, value) * cast(dtype, kernel(c, ry, rx, ci)), axis=[ry, rx])

    result: Tensor = compute((n, co, oh, ow, cb), element, "depthwise_nchwc", "depthwise_nchwc")
    return result
