"""Images: sampling, shuffles of pixels, windows as columns and back."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Value
from .convert import Call, Converter, each
from .views import counting

_MODES = ("linear", "nearest", "cubic")
_PADDING = ("zeros", "border", "reflection")


def grid_sampler(c: Call, x: Value, grid: Value, mode: int, padding: int, corners: bool) -> Value:
    out: Value = c.onnx(
        "GridSample",
        [x, grid],
        mode=_MODES[mode],
        padding_mode=_PADDING[padding],
        align_corners=int(corners),
    )
    return out


def _shuffle(kind: str) -> Converter:
    def convert(c: Call, x: Value, block: int) -> Value:
        front = x.shape[:-3]
        four = c.reshape(x, (prod(front), *x.shape[-3:]))
        mode: dict[str, Any] = {"mode": "CRD"} if kind == "DepthToSpace" else {}
        if kind == "SpaceToDepth":
            n, channels, h, w = four.shape
            apart = c.reshape(four, (n, channels, h // block, block, w // block, block))
            moved = c.transpose(apart, (0, 1, 3, 5, 2, 4))
            shape = (*front, channels * block * block, h // block, w // block)
            return c.reshape(moved, shape)
        out: Value = c.onnx(kind, [four], blocksize=block, **mode)
        return c.reshape(out, (*front, *out.shape[1:]))

    return convert


def columns(c: Call, x: Value, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """im2col: windows of an image as columns."""
    single = len(x.shape) == 3
    x = c.reshape(x, (1, *x.shape)) if single else x
    n, channels, *size = x.shape
    p, k = each(padding, 2), each(kernel, 2)
    s, d = each(stride, 2), each(dilation, 2)
    if any(p):
        x = c("pad", x, before=[0, 0, *p], after=[0, 0, *p], value=0)
    lines = []
    for axis in range(2):
        count = (size[axis] + 2 * p[axis] - d[axis] * (k[axis] - 1) - 1) // s[axis] + 1
        taps = c.integers(np.arange(k[axis])[:, None] * d[axis])
        lines.append(c("add", taps, counting(c, 0, count * s[axis], s[axis])))
    out = c("take", x, lines[0], axis=2)  # (n, channels, taps, rows, width)
    out = c("take", out, lines[1], axis=4)
    out = c.transpose(out, (0, 1, 2, 4, 3, 5))
    shape = (channels * k[0] * k[1], out.shape[4] * out.shape[5])
    return c.reshape(out, shape if single else (n, *shape))


def image(
    c: Call, x: Value, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> Value:
    """col2im: columns summed into an image."""
    single = len(x.shape) == 2
    x = c.reshape(x, (1, *x.shape)) if single else x
    p = each(padding, 2)
    given = [x, c.integers(each(size, 2)), c.integers(each(kernel, 2))]
    out: Value = c.onnx(
        "Col2Im", given, strides=each(stride, 2), dilations=each(dilation, 2), pads=[*p, *p]
    )
    return c.reshape(out, out.shape[1:]) if single else out


CONVERTERS: dict[str, Converter] = {
    "grid_sampler_2d": grid_sampler,
    "grid_sampler_3d": grid_sampler,
    "pixel_shuffle": _shuffle("DepthToSpace"),
    "pixel_unshuffle": _shuffle("SpaceToDepth"),
    "im2col": columns,
    "col2im": image,
}
