"""Convolutions of one, two and three dimensions in any order of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import TilewrightError
from ...tensor.relayout import LAYOUT_FREE_ATTR
from ...tensor.tensor import Tensor
from .utils import FreeLayout, named
from .windows import convolution, windows

_KERNELS = {
    "NCW": "OIW", "NWC": "WIO", "NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO",
    "NCDHW": "OIDHW", "NDHWC": "DHWIO",
}  # fmt: skip
"""The usual order of filters' dimensions, by that of data's."""
_TAPS = {"D": "rd", "H": "ry", "W": "rx"}
_AXES = "ry rx rz"
"""What layouts call taps, by the place of their dimension."""


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str | None = None,
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
) -> Tensor:
    """Convolution of `inp`, whose dimensions `data_layout` names (N, C and D, H, W), with `filt`,
    of `kernel_layout` (O, I and the same), whose dimension I has channels / groups.

    stride and dilation: a number, or one for each dimension; padding: those too, or twice as many,
    in front and then behind, "SAME" or "VALID". `filt` may lie in memory as
    `auto_scheduler_rewritten_layout` says of its axes ff (filters), rc (channels) and ry, rx, rz
    (the first dimension that windows move over, the second and the third), or be given such a
    layout by a search where `auto_scheduler_should_rewrite_layout`. Returns a tensor of `out_dtype`
    (default: of inp). Raises TilewrightError where the layouts do not fit the tensors, where `filt`
    is no placeholder, though its original shape is given.
    """
    axes = "ff rc " + _AXES[: 3 * (len(data_layout) - 2)]
    free = FreeLayout(filt, auto_scheduler_rewritten_layout, meta_schedule_original_shape, axes)
    if auto_scheduler_should_rewrite_layout:
        free.attrs = {LAYOUT_FREE_ATTR: [filt]}
    how = (stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype)
    return _laid(inp, filt, *how, free=free if free.attrs else None)


def _laid(
    inp: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: str | None = None,
    name: str = "",
    free: FreeLayout | None = None,
) -> Tensor:
    space = [c for c in data_layout if c not in "NC"]
    if not set(space) <= set(_TAPS) or sorted(data_layout) != sorted(["N", "C", *space]):
        raise TilewrightError(
            f"a layout of a convolution has N, C and some of D, H, W, each once; got {data_layout}"
        )
    kernel_layout = kernel_layout or _KERNELS.get(data_layout, "OI" + "".join(space))
    if sorted(kernel_layout) != sorted(["O", "I", *space]) or len(data_layout) != inp.ndim:
        raise TilewrightError(
            f"convolution of {inp!r} ({data_layout}) with {filt!r} ({kernel_layout}), "
            "which does not fit the dimensions of one of them"
        )
    at, of = data_layout.index, kernel_layout.index
    taps = [of(c) for c in space]
    moved = free.sizes if free is not None else None
    window = moved[2:] if moved else [filt.shape[d] for d in taps]
    names = _AXES.split() if moved else [_TAPS[c] for c in space]
    w = windows(inp, [at(c) for c in space], window, stride, padding, dilation, names)
    tag = f"{'group_' if groups > 1 else ''}conv{len(space)}d_{data_layout.lower()}"
    places = (of("O"), of("I"), taps)
    return convolution(w, filt, at("C"), places, groups, out_dtype, name or tag, tag, free)


def grouped_conv2d(
    data: Tensor,
    kernel: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """data (N, C, H, W), kernel (F, C / groups, KH, KW); padding: a number, (rows, columns), (top,
    left, bottom, right), "SAME" or "VALID". Returns (N, F, OH, OW) of `out_dtype` (default: of
    data). Raises TilewrightError where the layouts do not fit the tensors.
    """
    how = (stride, padding, dilation, groups, "NCHW", "", out_dtype, "conv2d")
    return _laid(data, kernel, *how)


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Convolution over one dimension, see `conv`. Raises TilewrightError where the layouts do not
    fit the tensors."""
    how = (strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype)
    return _laid(data, kernel, *how)


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Convolution over two dimensions, see `conv`. Raises TilewrightError where the layouts do not
    fit the tensors."""
    name = "conv2d" if (data_layout, kernel_layout or "OIHW") == ("NCHW", "OIHW") else ""
    how = (strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype, name)
    return _laid(input, filter, *how)


def _conv1d_in(layout: str, text: str) -> Callable[..., Tensor]:
    def convolved(
        data: Tensor,
        kernel: Tensor,
        strides: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        out_dtype: str | None = None,
    ) -> Tensor:
        """Raises TilewrightError where the tensors have not the dimensions of the layout, or
        `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
        return _laid(data, kernel, strides, padding, dilation, 1, layout, "", out_dtype)

    return named(convolved, f"conv1d_{layout.lower()}", text)


conv1d_ncw = _conv1d_in("NCW", "data (N, C, W), kernel (F, C, KW), see `conv`.")
conv1d_nwc = _conv1d_in("NWC", "data (N, W, C), kernel (KW, C, F), see `conv`.")


def _group_conv1d_in(layout: str, text: str) -> Callable[..., Tensor]:
    def convolved(
        data: Tensor,
        kernel: Tensor,
        strides: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        groups: int = 1,
        out_dtype: str | None = None,
    ) -> Tensor:
        """Raises TilewrightError where the tensors have not the dimensions of the layout, or
        `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
        return _laid(data, kernel, strides, padding, dilation, groups, layout, "", out_dtype)

    return named(convolved, f"group_conv1d_{layout.lower()}", text)


group_conv1d_ncw = _group_conv1d_in(
    "NCW", "data (N, C, W), kernel (F, C / groups, KW), see `conv`."
)
group_conv1d_nwc = _group_conv1d_in(
    "NWC", "data (N, W, C), kernel (KW, C / groups, F), see `conv`."
)


def _conv2d_in(layout: str, text: str, stage: str = "") -> Callable[..., Tensor]:
    def convolved(
        Input: Tensor,
        Filter: Tensor,
        stride: Any,
        padding: Any,
        dilation: Any,
        out_dtype: str | None = None,
    ) -> Tensor:
        """Raises TilewrightError where the tensors have not the dimensions of the layout, or
        `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
        return _laid(Input, Filter, stride, padding, dilation, 1, layout, "", out_dtype, stage)

    return named(convolved, f"conv2d_{layout.lower()}", text)


conv2d_hwcn = _conv2d_in("HWCN", "Input (H, W, C, N), Filter (KH, KW, C, F), see `conv`.")
conv2d_nchw = _conv2d_in(
    "NCHW",
    """Input (N, C, H, W), Filter (F, C, KH, KW); padding as in grouped_conv2d. Returns (N, F, OH,
    OW) of `out_dtype` (default: of Input).""",
    "conv2d",
)


def _group_conv_in(name: str, layout: str, text: str, stage: str = "") -> Callable[..., Tensor]:
    def convolved(
        Input: Tensor,
        Filter: Tensor,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        out_dtype: str | None = None,
    ) -> Tensor:
        """Raises TilewrightError where the tensors have not the dimensions of the layout, or
        `padding` is neither SAME, VALID nor one or two numbers for each dimension of space."""
        how = (stride, padding, dilation, groups, layout, "", out_dtype, stage)
        return _laid(Input, Filter, *how)

    return named(convolved, name, text)


group_conv2d_nchw = _group_conv_in(
    "group_conv2d_nchw",
    "NCHW",
    "As conv2d_nchw, channels and filters in groups: Filter (F, C / groups, KH, KW).",
    "conv2d",
)
group_conv2d_nhwc = _group_conv_in(
    "group_conv2d_nhwc",
    "NHWC",
    "Input (N, H, W, C), Filter (KH, KW, C / groups, F), see `conv`.",
)
conv3d_ncdhw = _group_conv_in(
    "conv3d_ncdhw",
    "NCDHW",
    "Input (N, C, D, H, W), Filter (F, C / groups, KD, KH, KW), see `conv`.",
)


def conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Input (N, H, W, C), Filter (KH, KW, C, F), and what may lie otherwise, see `conv`. Raises
    TilewrightError where the layouts do not fit the tensors."""
    free = (auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    return conv(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype, *free)


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_origin_shape: Any = None,
) -> Tensor:
    """Input (N, D, H, W, C), Filter (KD, KH, KW, C / groups, F), and what may lie otherwise, see
    `conv`. Raises TilewrightError where the layouts do not fit the tensors."""
    how = (stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype)
    return conv(Input, Filter, *how, auto_scheduler_rewritten_layout, meta_schedule_origin_shape)
