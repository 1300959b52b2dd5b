"""Convolutions in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..nn.utils import channels_last, named

Array = Any  # of NumPy, whose types say little of dtypes and shapes


def several(value: Any, count: int) -> list[int]:
    """A number for each of `count` dimensions."""
    if isinstance(value, (int, np.integer)):
        return [int(value)] * count
    numbers = [int(v) for v in value]
    return numbers * count if len(numbers) == 1 else numbers


def pads(padding: Any, window: Sequence[int]) -> list[tuple[int, int]]:
    """Elements in front and behind, of numbers, SAME or VALID."""
    rank = len(window)
    if isinstance(padding, str):
        whole = [k - 1 if padding == "SAME" else 0 for k in window]
        return [((n + 1) // 2, n - (n + 1) // 2) for n in whole]
    if not isinstance(padding, (int, np.integer)) and len(padding) == 2 * rank:
        return [(int(padding[d]), int(padding[d + rank])) for d in range(rank)]
    return [(p, p) for p in several(padding, rank)]


def convolved(
    a: Array, w: Array, stride: Any, padding: Any, dilation: Any = 1, groups: int = 1
) -> Array:
    """a (n, c, ...) with w (o, c / groups, ...)."""
    rank = a.ndim - 2
    strides, steps = several(stride, rank), several(dilation, rank)
    window = w.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(window, steps)]
    padded = np.pad(a, [(0, 0), (0, 0), *pads(padding, reach)])
    size = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, strides)]
    out, own = w.shape[0], w.shape[1]
    result = np.zeros((a.shape[0], out, *size), np.result_type(a, w))
    share = out // groups
    for tap in product(*map(range, window)):
        places = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, steps, size, strides)
        )
        part = padded[(slice(None), slice(None), *places)]
        for g in range(groups):
            data = part[:, g * own : (g + 1) * own]
            kernel = w[(slice(g * share, (g + 1) * share), slice(None), *tap)]
            result[:, g * share : (g + 1) * share] += np.einsum("nc...,oc->no...", data, kernel)
    return result


def _in_layout(a: Array, w: Array, layouts: tuple[str, str], *how: Any) -> Array:
    """`convolved` of data and filters whose dimensions `layouts` name."""
    data, filters = layouts
    space = [c for c in data if c not in "NC"]
    plain = ["N", "C", *space]
    first = a.transpose([data.index(c) for c in plain])
    kernel = w.transpose([filters.index(c) for c in ("O", "I", *space)])
    return convolved(first, kernel, *how).transpose([plain.index(c) for c in data])


def conv1d_ncw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, dilation: Any) -> Array:
    """Convolution of (n, c, w) with (o, c, kw)."""
    return convolved(a_np, w_np, stride, padding, dilation)


def group_conv1d_ncw_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, dilation: Any, groups: int
) -> Array:
    """Convolution of (n, c, w) with (o, c / groups, kw)."""
    return convolved(a_np, w_np, stride, padding, dilation, groups)


def _convolution_of(data: str, filters: str, text: str) -> Callable[..., Array]:
    def python(a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1) -> Array:
        return _in_layout(a_np, w_np, (data, filters), stride, padding, 1, groups)

    return named(python, f"conv{len(data) - 2}d_{data.lower()}_python", text)


conv2d_nchw_python = _convolution_of(
    "NCHW",
    "OIHW",
    "Convolution of (n, c, h, w) with (o, c / groups, kh, kw); padding: numbers, SAME, VALID.",
)
conv2d_nhwc_python = _convolution_of(
    "NHWC", "HWIO", "Convolution of (n, h, w, c) with (kh, kw, c / groups, o)."
)
conv3d_ncdhw_python = _convolution_of(
    "NCDHW", "OIDHW", "Convolution of (n, c, d, h, w) with (o, c / groups, kd, kh, kw)."
)
conv3d_ndhwc_python = _convolution_of(
    "NDHWC", "DHWIO", "Convolution of (n, d, h, w, c) with (kd, kh, kw, c / groups, o)."
)


def conv2d_hwcn_python(a_np: Array, w_np: Array, stride: Any, padding: Any) -> Array:
    """Convolution of (h, w, c, n) with (kh, kw, c, o)."""
    return _in_layout(a_np, w_np, ("HWCN", "HWIO"), stride, padding)


def dilate_python(
    input_np: Array, strides: Sequence[int], dilation_value: float = 0.0, out_dtype: Any = None
) -> Array:
    """An array with strides[k] - 1 elements put between neighbours of dimension k."""
    shape = [(n - 1) * s + 1 for n, s in zip(input_np.shape, strides)]
    result = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    result[tuple(slice(None, None, s) for s in strides)] = input_np
    return result


def transposed(
    a: Array, w: Array, stride: Any, padding: Any, output_padding: Any, groups: int = 1
) -> Array:
    """Transposed convolution of a (n, c, ...) with w (c, o / groups, ...)."""
    rank = a.ndim - 2
    strides, more = several(stride, rank), several(output_padding, rank)
    window, cuts = w.shape[2:], pads(padding, w.shape[2:])
    share, own = w.shape[1], a.shape[1] // groups
    size = [(n - 1) * s + k + m for n, s, k, m in zip(a.shape[2:], strides, window, more)]
    result = np.zeros((a.shape[0], share * groups, *size), np.result_type(a, w))
    for tap in product(*map(range, window)):
        places = tuple(
            slice(t, t + (n - 1) * s + 1, s) for t, n, s in zip(tap, a.shape[2:], strides)
        )
        for g in range(groups):
            kernel = w[(slice(g * own, (g + 1) * own), slice(None), *tap)]
            part = np.einsum("nc...,co->no...", a[:, g * own : (g + 1) * own], kernel)
            result[(slice(None), slice(g * share, (g + 1) * share), *places)] += part
    kept = tuple(slice(low, n - high) for (low, high), n in zip(cuts, size))
    return result[(slice(None), slice(None), *kept)]


def conv1d_transpose_ncw_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, output_padding: Any
) -> Array:
    """Transposed convolution of (n, c, w) with (c, o, kw)."""
    return transposed(a_np, w_np, stride, padding, output_padding)


def _transpose_of(name: str, text: str) -> Callable[..., Array]:
    def python(
        a_np: Array, w_np: Array, stride: Any, padding: Any, output_padding: Any, groups: int = 1
    ) -> Array:
        return transposed(a_np, w_np, stride, padding, output_padding, groups)

    return named(python, f"{name}_python", text)


group_conv1d_transpose_ncw_python = _transpose_of(
    "group_conv1d_transpose_ncw", "Transposed convolution of (n, c, w) with (c, o / groups, kw)."
)
conv2d_transpose_nchw_python = _transpose_of(
    "conv2d_transpose_nchw",
    "Transposed convolution of (n, c, h, w) with (c, o / groups, kh, kw).",
)
conv3d_transpose_ncdhw_python = _transpose_of(
    "conv3d_transpose_ncdhw",
    "Transposed convolution of (n, c, d, h, w) with (c, o / groups, kd, kh, kw).",
)


def conv2d_transpose_nhwc_python(
    a_nhwc: Array,
    weight: Array,
    weight_format: str,
    stride: Any,
    padding: Any,
    output_padding: Any = (0, 0),
) -> Array:
    """Transposed convolution of (n, h, w, c) with filters whose dimensions `weight_format` names:
    HWOI, HWIO, OIHW or IOHW."""
    w = weight.transpose([weight_format.index(c) for c in "IOHW"])
    a = a_nhwc.transpose(0, 3, 1, 2)
    return transposed(a, w, stride, padding, output_padding).transpose(0, 2, 3, 1)


def depthwise_conv2d_python_nchw(
    input_np: Array, filter_np: Array, stride: Any, padding: Any
) -> Array:
    """Depthwise convolution of (n, c, h, w) with (c, m, kh, kw)."""
    c, m, *window = filter_np.shape
    return convolved(input_np, filter_np.reshape(c * m, 1, *window), stride, padding, 1, c)


def depthwise_conv2d_python_nchwc(
    input_np: Array, filter_np: Array, stride: Any, padding: Any
) -> Array:
    """Depthwise convolution of (n, c / b, h, w, b) with (f / b, m, kh, kw, 1, b)."""
    n, blocks, h, w, b = input_np.shape
    data = input_np.transpose(0, 1, 4, 2, 3).reshape(n, blocks * b, h, w)
    fo, m, kh, kw, ci, fi = filter_np.shape
    filters = filter_np.transpose(0, 5, 1, 4, 2, 3).reshape(fo * fi * ci, m, kh, kw)
    out = depthwise_conv2d_python_nchw(data, filters, stride, padding)
    return out.reshape(n, fo, fi, *out.shape[2:]).transpose(0, 1, 3, 4, 2)


depthwise_conv2d_python_nhwc = channels_last(
    depthwise_conv2d_python_nchw,
    np.transpose,
    ((0, 3, 1, 2), (2, 3, 0, 1)),
    "Depthwise convolution of (n, h, w, c) with (kh, kw, c, m).",
)


def correlation_nchw_python(
    data1: Array,
    data2: Array,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> Array:
    """How alike windows of two images (n, c, h, w) are, for all displacements."""
    widths = [(0, 0), (0, 0), *pads(padding, (1, 1))]
    first, second = np.pad(data1, widths), np.pad(data2, widths)
    border = max_displacement + (kernel_size - 1) // 2
    h, w = (-(-(n - 2 * border) // stride1) for n in first.shape[2:])
    reach = max_displacement // stride2
    moves = list(product(range(-reach, reach + 1), repeat=2))
    result = np.zeros((data1.shape[0], len(moves), h, w), "float32")
    for k, (dy, dx) in enumerate(moves):
        for i, j in product(range(h), range(w)):
            y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
            p, q = y + dy * stride2, x + dx * stride2
            one = first[:, :, y : y + kernel_size, x : x + kernel_size]
            two = second[:, :, p : p + kernel_size, q : q + kernel_size]
            alike = one * two if is_multiply else np.abs(one - two)
            result[:, k, i, j] = alike.sum((1, 2, 3))
    return result / (data1.shape[1] * kernel_size * kernel_size)


def deformable_conv2d_nchw_python(
    a_np: Array,
    offset_np: Array,
    w_np: Array,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
) -> Array:
    """Convolution of (n, c, h, w) whose windows' elements are moved by offsets."""
    (sh, sw), (dh, dw) = several(stride, 2), several(dilation, 2)
    out, own, kh, kw = w_np.shape
    n, c, _, _ = a_np.shape
    (top, _), (left, _) = pads(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    oh, ow = offset_np.shape[2:]
    columns = np.zeros((n, c, kh, kw, oh, ow), a_np.dtype)
    per = c // deformable_groups
    for b, ch, y, x, i, j in product(*map(range, (n, c, kh, kw, oh, ow))):
        at = 2 * ((ch // per * kh + y) * kw + x)
        py = i * sh - top + y * dh + offset_np[b, at, i, j]
        px = j * sw - left + x * dw + offset_np[b, at + 1, i, j]
        columns[b, ch, y, x, i, j] = between(a_np[b, ch], py, px)
    share = out // groups
    result = np.zeros((n, out, oh, ow), a_np.dtype)
    for g in range(groups):
        part = columns[:, g * own : (g + 1) * own]
        kernel = w_np[g * share : (g + 1) * share]
        result[:, g * share : (g + 1) * share] = np.einsum("bcyxij,ocyx->boij", part, kernel)
    return result


def between(image: Array, y: float, x: float) -> float:
    """Between the four neighbours of a place; what is outside is zero."""
    h, w = image.shape
    low_y, low_x = int(np.floor(y)), int(np.floor(x))
    total = 0.0
    for i, j in product((low_y, low_y + 1), (low_x, low_x + 1)):
        if 0 <= i < h and 0 <= j < w:
            total += float(image[i, j]) * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


deformable_conv2d_nhwc_python = channels_last(
    deformable_conv2d_nchw_python,
    np.transpose,
    ((0, 3, 1, 2), (0, 3, 1, 2), (3, 2, 0, 1)),
    "As deformable_conv2d_nchw_python of (n, h, w, c) with (kh, kw, c / groups, o).",
)
