"""`tvm.topi.testing`: what operators should give, in NumPy, and schedules for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import generic

Array = np.ndarray[Any, Any]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _padding(padding: Any, kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    """Rows and columns to add above, left, below and right."""
    if padding == "VALID":
        return 0, 0, 0, 0
    if padding == "SAME":
        rows, columns = kernel[0] - 1, kernel[1] - 1
        return (rows + 1) // 2, (columns + 1) // 2, rows // 2, columns // 2
    if not isinstance(padding, int) and len(padding) == 4:
        return int(padding[0]), int(padding[1]), int(padding[2]), int(padding[3])
    rows, columns = _pair(padding)
    return rows, columns, rows, columns


def conv2d_nchw_python(
    a_np: Array,
    w_np: Array,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Convolution of (n, c, h, w) with (o, c / groups, kh, kw); padding: numbers, SAME, VALID."""
    (sh, sw), (dh, dw) = _pair(stride), _pair(dilation)
    out_channels, per_group, kh, kw = w_np.shape
    top, left, bottom, right = _padding(padding, ((kh - 1) * dh + 1, (kw - 1) * dw + 1))
    a = np.pad(a_np, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows = (a.shape[2] - (kh - 1) * dh - 1) // sh + 1
    columns = (a.shape[3] - (kw - 1) * dw - 1) // sw + 1
    result = np.zeros((a.shape[0], out_channels, rows, columns), np.result_type(a_np, w_np))
    share = out_channels // groups
    for g in range(groups):
        data = a[:, g * per_group : (g + 1) * per_group]
        kernel = w_np[g * share : (g + 1) * share]
        for y in range(kh):
            for x in range(kw):
                part = data[
                    :,
                    :,
                    y * dh : y * dh + (rows - 1) * sh + 1 : sh,
                    x * dw : x * dw + (columns - 1) * sw + 1 : sw,
                ]
                result[:, g * share : (g + 1) * share] += np.einsum(
                    "nchw,oc->nohw", part, kernel[:, :, y, x]
                )
    return result


def conv2d_nhwc_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1, dilation: Any = 1
) -> Array:
    """Convolution of (n, h, w, c) with (kh, kw, c / groups, o)."""
    a, w = a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1)
    return conv2d_nchw_python(a, w, stride, padding, dilation, groups).transpose(0, 2, 3, 1)


def conv2d_hwcn_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, dilation: Any = 1
) -> Array:
    """Convolution of (h, w, c, n) with (kh, kw, c, o)."""
    a, w = a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1)
    return conv2d_nchw_python(a, w, stride, padding, dilation).transpose(2, 3, 1, 0)


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Softmax over one dimension."""
    e = np.exp(a_np - a_np.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Logarithm of softmax over one dimension."""
    shifted = a_np - a_np.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


def get_injective_schedule(target: Any) -> Callable[..., Any]:
    """The function that schedules element-wise operations for a target."""
    return generic.schedule_injective


get_broadcast_schedule = get_elemwise_schedule = get_injective_schedule


def get_reduce_schedule(target: Any) -> Callable[..., Any]:
    """The function that schedules reductions for a target."""
    return generic.schedule_reduce
