"""Depthwise convolutions: every channel by filters of its own; and their gradients."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..layouts import layout_parts
from ..transform import pad
from ..utils import of_rank, simplify
from .dilation import dilate
from .utils import get_pad_tuple, several
from .windows import Windows, windows

_TAPS, _PADDED = ("di", "dj"), "PaddedInput"


def _depthwise(
    w: Windows, places: tuple[int, ...], channel: Any, weight: Any, extents: Any, form: Any
) -> Tensor:
    """Sums over windows of a channel of the data times filters: `channel` and `weight` say of which
    and what, by the result's indices in the dimensions of channels, `places`, which have these
    `extents`; `form`: dtype and layout."""
    out_dtype, layout = form
    dtype = out_dtype or w.data.dtype

    def element(*i: Any) -> Any:
        index = w.at(i)
        for d, c in zip(places, channel(*(i[d] for d in places))):
            index[d] = c
        value = cast(dtype, w.padded(*index)) * cast(dtype, weight(*(i[d] for d in places)))
        return reduce_sum(value, axis=w.taps)

    shape = w.shape()
    for d, extent in zip(places, extents):
        shape[d] = simplify(extent)
    result: Tensor = compute(shape, element, "DepthwiseConv2d", f"depthwise_conv2d_{layout}")
    return result


@of_rank(Input=4)
def depthwise_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> Tensor:
    """Input (N, C, H, W), Filter (C, M, KH, KW). Returns (N, C * M, OH, OW) of `out_dtype`
    (default: of Input). Raises TilewrightError where the filters are for another number of
    channels, where `dilation` or `stride` has another number of values than there are dimensions of
    space, where `padding` is neither SAME, VALID nor one or two numbers for each dimension of
    space."""
    channels, many, *window = Filter.shape
    _check_channels(Input, Input.shape[1], Filter, channels)
    w = windows(Input, (2, 3), window, stride, padding, dilation, _TAPS, _PADDED)
    return _depthwise(
        w,
        (1,),
        lambda c: (c // many,),
        lambda c: Filter(c // many, c % many, *w.taps),
        (channels * many,),
        (out_dtype, "nchw"),
    )


@of_rank(Input=4)
def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> Tensor:
    """Input (N, H, W, C), Filter (KH, KW, C, M), or (KH, KW, M, C) in kernel_layout "HWIO". Returns
    (N, OH, OW, C * M) of `out_dtype` (default: of Input). Raises TilewrightError where
    kernel_layout is neither HWOI nor HWIO, where the filters are for another number of channels,
    where `dilation` or `stride` has another number of values than there are dimensions of space,
    where `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
    if kernel_layout not in ("HWOI", "HWIO"):
        raise TilewrightError(f"depthwise: kernel_layout is HWOI or HWIO, got {kernel_layout!r}")
    turn = 1 if kernel_layout == "HWOI" else -1
    *window, one, two = Filter.shape
    channels, many = (one, two)[::turn]
    _check_channels(Input, Input.shape[3], Filter, channels)
    w = windows(Input, (1, 2), window, stride, padding, dilation, _TAPS, _PADDED)
    return _depthwise(
        w,
        (3,),
        lambda c: (c // many,),
        lambda c: Filter(*w.taps, *(c // many, c % many)[::turn]),
        (channels * many,),
        (out_dtype, "nhwc"),
    )


@of_rank(Input=5)
def depthwise_conv2d_NCHWc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: str | None = None,
) -> Tensor:
    """Input (N, C / b, H, W, b), Filter (F / f, M, KH, KW, 1, f) where F = C * M. Returns (N, F /
    f, OH, OW, f) of `out_dtype` (default: of Input). The layouts' blocks have to be the
    tensors'. Raises TilewrightError where a layout has its channels in blocks of another size,
    where `layout` or `out_layout` is no layout: letters, each once, small ones after their extents,
    where `dilation` or `stride` has another number of values than there are dimensions of space,
    where `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
    check_blocks(layout, Input.shape[-1])
    check_blocks(out_layout, Filter.shape[-1])
    blocks, _, *window = Filter.shape[:4]
    lanes, inner = Filter.shape[-1], Input.shape[-1]
    many = simplify(blocks * lanes // (Input.shape[1] * inner))
    w = windows(Input, (2, 3), window, stride, padding, dilation, ("kh", "kw"), _PADDED)

    def channel(co: Any, ci: Any) -> tuple[Any, Any]:
        found = (co * lanes + ci) // many
        return found // inner, found % inner

    return _depthwise(
        w,
        (1, 4),
        channel,
        lambda co, ci: Filter(co, 0, *w.taps, 0, ci),
        (blocks, lanes),
        (out_dtype, "NCHWc"),
    )


def _check_channels(data: Tensor, channels: Any, filters: Tensor, own: Any) -> None:
    """Every channel has filters of its own: of fewer, channels would go unread without a word."""
    have, want = const_int(channels), const_int(own)
    if have is not None and want is not None and have != want:
        raise TilewrightError(
            f"depthwise: {data!r} has {have} channels, {filters!r} has filters for {want}"
        )


def check_blocks(layout: str, lanes: Any) -> None:
    found = dict(layout_parts(layout)).get("c")
    if not found or found != const_int(lanes):
        raise TilewrightError(f"layout {layout!r} of channels in blocks of {lanes}")


def depthwise_conv2d_backward_input_nhwc(
    Filter: Tensor, Out_grad: Tensor, oshape: Any, ishape: Any, stride: Any, padding: Any
) -> Tensor:
    """The gradient by the input, of shape `ishape` (N, H, W, C), of depthwise_conv2d_nhwc, given
    that by its result, of shape `oshape`; Filter (KH, KW, C, M). Takes floats; the result has the
    type of the gradient. Raises TilewrightError where `stride` has another number of values than
    there are dimensions of space, where strides are not as many as the dimensions of data, where
    `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
    rows, columns, _, many = Filter.shape
    sh, sw = several(stride, 2)
    n, h, w, c = ishape
    _, oh, ow, _ = oshape
    top, left, _, _ = get_pad_tuple(padding, (rows, columns))
    apart = dilate(Out_grad, [1, sh, sw, 1], name="dilated_out_grad")
    low = [0, rows - 1 - top, columns - 1 - left, 0]
    # as many behind as the windows of the last row and column reach
    high = [
        0,
        simplify(h + rows - 1 - low[1] - ((oh - 1) * sh + 1)),
        simplify(w + columns - 1 - low[2] - ((ow - 1) * sw + 1)),
        0,
    ]
    padded = pad(apart, low, high, 0.0, "padded_out_grad")
    dh, dw, dc = (
        reduce_axis((0, k), name) for k, name in ((rows, "dh"), (columns, "dw"), (many, "dc"))
    )

    def element(b: Any, i: Any, j: Any, ch: Any) -> Any:
        value = padded(b, i + dh, j + dw, ch * many + dc)
        return reduce_sum(
            value * Filter(rows - 1 - dh, columns - 1 - dw, ch, dc), axis=[dh, dw, dc]
        )

    tag = "depthwise_conv2d_backward_input_nhwc"
    result: Tensor = compute((n, h, w, c), element, tag, tag)
    return result


def depthwise_conv2d_backward_weight_nhwc(
    Input: Tensor, Out_grad: Tensor, oshape: Any, fshape: Any, stride: Any, padding: Any
) -> Tensor:
    """The gradient by the filters, of shape `fshape` (KH, KW, C, M), of depthwise_conv2d_nhwc,
    given that by its result, of shape `oshape`. Takes floats; the result has the type of the
    gradient. Raises TilewrightError where `stride` has another number of values than there are
    dimensions of space, where the padding has not as many values as the tensor has dimensions,
    where `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
    rows, columns, c, many = fshape
    sh, sw = several(stride, 2)
    n, oh, ow, _ = oshape
    top, left, bottom, right = get_pad_tuple(padding, (rows, columns))
    padded = pad(Input, [0, top, left, 0], [0, bottom, right, 0], 0.0, "padded_in")
    db, dh, dw = (reduce_axis((0, k), name) for k, name in ((n, "batch"), (oh, "dh"), (ow, "dw")))

    def element(fh: Any, fw: Any, ch: Any, m: Any) -> Any:
        value = padded(db, fh + dh * sh, fw + dw * sw, ch)
        return reduce_sum(Out_grad(db, dh, dw, ch * many + m) * value, axis=[db, dh, dw])

    tag = "depthwise_conv2d_backward_weight_nhwc"
    result: Tensor = compute((rows, columns, c, many), element, tag, tag)
    return result
