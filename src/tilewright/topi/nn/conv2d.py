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
