"""Morphological dilation of images, and sampling at places that a grid says, under TVM's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast, const
from ...tensor.compute import compute
from ...tensor.reduce import least_value
from ...tensor.reduce import max as reduce_max
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..nn.utils import named
from ..nn.windows import windows
from ..transform import INJECTIVE, transpose
from ..utils import get_const_int
from .sampling import grid_places, grid_weights
from .sampling import grid_sample as sample_at


def _dilation(
    data: Tensor, filt: Tensor, at: tuple[int, int, int], stride: Any, padding: Any, steps: Any,
    out_dtype: str | None, name: str,
) -> Tensor:  # fmt: skip
    """`at`: the dimensions C, H and W of data (N, ...); filt has the same order without N."""
    if (data.ndim, filt.ndim) != (4, 3):
        raise TilewrightError(
            f"{name}: four dimensions of data, three of the filter are needed, "
            f"got {data!r} and {filt!r}"
        )
    dtype = out_dtype or data.dtype
    c, *places = at
    window, filler = [filt.shape[d - 1] for d in places], least_value(data.dtype)
    how = (stride, padding, steps, ("ry", "rx"), "pad_temp", filler)
    w = windows(data, places, window, *how)

    def element(*i: Any) -> Any:
        tap = dict(zip((c, *places), (i[c], *w.taps)))
        weight = filt(*(tap[d] for d in range(1, 4)))
        value = cast(dtype, w.padded(*w.at(i))) + cast(dtype, weight)
        return reduce_max(value, axis=w.taps)

    result: Tensor = compute(w.shape(), element, name, name)
    return result


def _dilation2d_in(layout: str, text: str) -> Callable[..., Tensor]:
    name = f"dilation2d_{layout.lower()}"

    def dilated(
        input: Tensor,
        filter: Tensor,
        stride: Any,
        padding: Any,
        dilations: Any,
        out_dtype: str | None = None,
    ) -> Tensor:
        """Raises TilewrightError where input has not four dimensions, or filter not three. As
        TensorFlow's tf.nn.dilation2d."""
        c, h, w = (layout.index(d) for d in "CHW")
        return _dilation(input, filter, (c, h, w), stride, padding, dilations, out_dtype, name)

    return named(dilated, name, text)


dilation2d_nchw = _dilation2d_in(
    "NCHW",
    """The maximum over windows of input (N, C, H, W) of its elements plus those of filter (C, KH,
    KW). Returns (N, C, OH, OW) of `out_dtype` (default: of input).""",
)
dilation2d_nhwc = _dilation2d_in(
    "NHWC", "As dilation2d_nchw of input (N, H, W, C) and filter (KH, KW, C)."
)


def affine_grid(data: Tensor, target_shape: Sequence[int]) -> Tensor:
    """Places (N, 2, H, W) that grid_sample takes: those of `target_shape` rows and columns from -1
    to 1, times data (N, 2, 3). Number 0 is x, number 1 is y. The result has the type of `data`.
    Jaderberg et al., Spatial Transformer Networks, NIPS 2015. Raises UsageError where
    `target_shape` has an extent or a value that has to be constant and is not."""
    height, width = (get_const_int(d) for d in target_shape)
    wide = accumulator(data.dtype)

    def at(j: Any, size: int) -> Any:
        return cast(wide, j) * const(2 / max(size - 1, 1), wide) - const(1, wide)

    def element(n: Any, k: Any, i: Any, j: Any) -> Any:
        a, b, c = (cast(wide, data(n, k, m)) for m in range(3))
        return cast(data.dtype, a * at(j, width) + b * at(i, height) + c)

    result: Tensor = compute((data.shape[0], 2, height, width), element, "affine_grid", INJECTIVE)
    return result


_METHODS = {"nearest": "nearest", "bilinear": "linear", "linear": "linear", "bicubic": "cubic"}


def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """data (N, C, H, W) or (N, C, D, H, W) at the places of grid (N, 2, OH, OW) or (N, 3, OD, OH,
    OW): x, y (and z) from -1 to 1, the middles of the outermost elements where `align_corners`,
    else their outer edges. `method`: nearest, bilinear or (in two dimensions) bicubic;
    `padding_mode`: what lies outside is "zeros", the "border"'s elements, or a "reflection". Takes
    floats; the result has the type of `data`. Jaderberg et al., Spatial Transformer Networks, NIPS
    2015. Raises TilewrightError where layout or method is unknown, or does not fit data.
    """
    rank = data.ndim - 2
    if layout not in ("NCHW", "NCDHW") or rank != len(layout) - 2:
        raise TilewrightError(f"grid_sample: layout NCHW or NCDHW, got {layout!r} for {data!r}")
    if method not in _METHODS or (method == "bicubic" and rank == 3):
        raise TilewrightError(f"grid_sample: method {method!r} is unknown for {layout}")
    last = transpose(grid, (0, *range(2, grid.ndim), 1))
    sizes = [get_const_int(d) for d in data.shape[2:]]
    how = (_METHODS[method], padding_mode, align_corners)
    numbers = list(reversed(range(rank)))
    places = [grid_places(last, k, n, *how) for k, n in zip(numbers, sizes)]
    weights = []
    if method != "nearest":
        kind = accumulator(data.dtype)
        weights = [grid_weights(last, k, n, *how, kind) for k, n in zip(numbers, sizes)]
    return sample_at(data, places, weights)
