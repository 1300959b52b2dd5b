"""Resizing of images, as PyTorch does it: dimension by dimension, by the nearest elements or by
sums of weighted neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Value
from ..onnx.resize import Axis, Mode, rounded, taps, widened
from .convert import Call, Converter

_SMALL = 128
"""Rows and columns of the results of two dimensions that PyTorch's kernels for small images make,
which copy the elements of a dimension that becomes no longer, or twice as long, whatever factor was
given."""


@dataclass(frozen=True)
class _Line:
    """How one dimension is resized. `factor`: as PyTorch was given it, which decides where elements
    come from; None: by the extents."""

    axis: int
    have: Any
    want: Any
    factor: float | None

    @property
    def unchanged(self) -> bool:
        return bool(self.have == self.want)


def _lines(x: Value, size: Sequence[Any], scales: Sequence[float | None]) -> list[_Line]:
    given = [*scales, *[None] * len(size)]
    found = zip(range(2, len(x.shape)), x.shape[2:], size, given)
    return [_Line(k, have, want, f or None) for k, have, want, f in found]


# -- nearest elements


def _sources(r: _Line, exact: bool, dtype: Any) -> Any:
    """Where elements of the result come from, in PyTorch's own arithmetic: what is whole but for
    the last bit is another element."""
    step = dtype(1 / r.factor) if r.factor else dtype(r.have) / dtype(r.want)
    at = np.arange(r.want).astype(dtype)
    if exact:
        half = dtype(0.5)
        at = np.maximum((at + half) * step - half, 0) + half
    else:
        at = at * step
    return np.minimum(np.floor(at.astype(np.float32)), r.have - 1).astype(np.int64)


def _nearest(exact: bool) -> Converter:
    def convert(c: Call, x: Value, size: Sequence[Any], *scales: Any) -> Value:
        lines = _lines(x, size, scales)
        small = len(lines) == 2 and sum(r.want for r in lines) <= _SMALL
        dtype = np.float64 if x.dtype == "float64" and not small else np.float32
        for r in lines:
            if small and not exact and r.want in (r.have, 2 * r.have):
                places = np.arange(r.want) // (r.want // r.have)
            else:
                places = _sources(r, exact, dtype)
            if r.want != r.have or np.any(places != np.arange(r.want)):
                x = c("take", x, c.constant(places), axis=r.axis)
        return x

    return convert


# -- sums of neighbours


def _axis(r: _Line, corners: bool, antialias: bool) -> Axis:
    """A dimension by ONNX's rules. Factors count for nothing where corners are aligned."""
    scale = r.factor or r.want / r.have
    if corners:
        scale = r.want / r.have
        if antialias:  # windows that lie as elsewhere, of another width
            scale = (r.want - 1) / (r.have - 1) if min(r.want, r.have) > 1 else np.inf
    return Axis(r.axis, r.have, scale, r.want, (0.0, 1.0))


def _linear(mode: str, antialias: bool = False) -> Converter:
    cubic = -0.5 if antialias else -0.75

    def convert(c: Call, x: Value, size: Sequence[Any], corners: bool, *scales: Any) -> Value:
        lines = _lines(x, size, scales)
        by_corners = corners and not antialias
        coordinates = "align_corners" if by_corners else "half_pixel"
        how = Mode(mode, coordinates, "", cubic, antialias, antialias)
        out, wide = widened(c, x)
        for r in sorted(lines, key=lambda r: r.want / r.have):
            copied = mode == "linear" or antialias or corners or r.factor is None
            if r.unchanged and copied:
                continue
            index, weights = taps(_axis(r, corners, antialias), how)
            table = c.constant(weights, wide)
            out = c("resample", out, c.constant(index.astype(np.int32)), table, axis=r.axis)
        return rounded(c, out, x.dtype)

    return convert


def _by_factors(convert: Converter, corners: bool) -> Converter:
    """The overloads that take the extents or factors: (x, size, align_corners, factors)."""

    def whole(c: Call, x: Value, size: Any, *rest: Any) -> Value:
        factors = rest[-1]
        if size is None:
            size = [int(d * f) for d, f in zip(x.shape[2:], factors)]
        scales = () if factors is None else tuple(factors)
        out: Value = convert(c, x, size, *rest[:1][: int(corners)], *scales)
        return out

    return whole


_RESIZES: dict[str, Converter] = {
    **{f"upsample_nearest{k}d": _nearest(False) for k in (1, 2, 3)},
    **{f"_upsample_nearest_exact{k}d": _nearest(True) for k in (1, 2, 3)},
    "upsample_linear1d": _linear("linear"),
    "upsample_bilinear2d": _linear("linear"),
    "upsample_trilinear3d": _linear("linear"),
    "upsample_bicubic2d": _linear("cubic"),
    "_upsample_bilinear2d_aa": _linear("linear", True),
    "_upsample_bicubic2d_aa": _linear("cubic", True),
}

CONVERTERS: dict[str, Converter] = {
    **_RESIZES,
    **{
        f"{kind}.vec": _by_factors(convert, "nearest" not in kind)
        for kind, convert in _RESIZES.items()
    },
}
