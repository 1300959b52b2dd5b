"""Resizing of images, as PyTorch does it: dimension by dimension, by the nearest elements or by
sums of weighted neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Value
from ..onnx.products import product
from ..onnx.resize import Axis, Mode, rounded, taps, widened
from ..sizes import Size
from .convert import Call, Converter
from .scaled import scaled
from .views import counting

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

    @property
    def is_open(self) -> bool:
        return isinstance(self.have, Size) or isinstance(self.want, Size)

    @property
    def shrinks(self) -> float:
        """By what it is likely to become longer."""
        have, want = (n.likely if isinstance(n, Size) else n for n in (self.have, self.want))
        return float(want / have)

    def is_perhaps(self, times: int) -> bool:
        """Whether it may become so many times as long, by a factor that is another one."""
        return self.factor is not None and times < self.factor < times + 1


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


def _open_sources(c: Call, r: _Line, exact: bool, dtype: str, total: Any) -> Value:
    """As `_sources`, where extents are not known; `total`: rows and columns of the result, in two
    dimensions."""
    step = _step(c, r, dtype)
    for times in (1, 2):
        if total is not None and not exact and r.is_perhaps(times):
            copies = c("equal", c.value(r.want, "float32"), c.value(r.have * times, "float32"))
            small = c("less", c.value(total, "float32"), c.number(_SMALL + 1, "float32"))
            whole = c("where", small, c.number(1 / times, dtype), step)
            step = c("where", copies, whole, step)
    at = c.cast(counting(c, 0, r.want, 1), dtype)
    if exact:
        at = c("subtract", c("multiply", c("add", at, 0.5), step), 0.5)
        at = c("add", c("maximum", at, 0.0), 0.5)
    else:
        at = c("multiply", at, step)
    at = c.cast(c("floor", c.cast(at, "float32")), "int64")
    return c("minimum", at, c.value(r.have - 1, "int64"))


def _step(c: Call, r: _Line, dtype: str) -> Value:
    """How far elements of the result are from one another in the data."""
    if r.factor:
        return c.number(1 / r.factor, dtype)
    return c("divide", c.value(r.have, dtype), c.value(r.want, dtype))


def _nearest(exact: bool) -> Converter:
    def convert(c: Call, x: Value, size: Sequence[Any], *scales: Any) -> Value:
        lines = _lines(x, size, scales)
        total = sum(r.want for r in lines) if len(lines) == 2 else None
        small = isinstance(total, int) and total <= _SMALL
        dtype = np.float64 if x.dtype == "float64" and not small else np.float32
        for r in lines:
            if r.is_open and not (r.unchanged and r.factor is None):
                where = _open_sources(c, r, exact, np.dtype(dtype).name, total)
                x = c("take", x, where, axis=r.axis)
                continue
            if r.is_open:
                continue
            if small and not exact and r.want in (r.have, 2 * r.have):
                places = np.arange(r.want) // (r.want // r.have)
            else:
                places = _sources(r, exact, dtype)
            if not r.unchanged or np.any(places != np.arange(r.want)):
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


def _open_step(c: Call, r: _Line, corners: bool, copied: bool, dtype: str) -> Value:
    """As `_step`; between ends where corners are aligned, 0 to a single element. `copied`: the data
    as it is where extents are the same."""
    if corners:
        ahead = [c("subtract", c.value(n, dtype), 1) for n in (r.have, r.want)]
        step = c("divide", ahead[0], c("maximum", ahead[1], 1))
        return c("multiply", step, c("minimum", ahead[1], 1))
    step = _step(c, r, dtype)
    if not copied or not r.is_perhaps(1):
        return step
    same = c("equal", c.value(r.want, "float32"), c.value(r.have, "float32"))
    return c("where", same, c.number(1, dtype), step)


def _kernel(c: Call, away: Value, how: Mode) -> Value:
    """The weights of neighbours by how far they are."""
    x = c("abs", away)
    if how.mode != "cubic":
        return c("maximum", c("subtract", c.number(1, x.dtype), x), 0)
    a = how.cubic

    def horner(*factors: float) -> Value:
        out = c.number(factors[0], x.dtype)
        for f in factors[1:]:
            out = c("add", c("multiply", x, out), f)
        return out

    one, two = (c.number(n, x.dtype) for n in (1, 2))
    outer = c("where", c("less", x, two), horner(a, -5 * a, 8 * a, -4 * a), c.number(0, x.dtype))
    return c("where", c("less", x, one), horner(a + 2, -a - 3, 0, 1), outer)


def _open_taps(c: Call, r: _Line, how: Mode, step: Value) -> tuple[Value, Value]:
    """As `taps`, where extents are not known."""
    at = c.reshape(c.cast(counting(c, 0, r.want, 1), step.dtype), (r.want, 1))
    if how.coordinates == "align_corners":
        source = c("multiply", at, step)
    else:
        source = c("subtract", c("multiply", c("add", at, 0.5), step), 0.5)
    low = c("floor", source)
    steps = c.constant([[-1, 0, 1, 2] if how.mode == "cubic" else [0, 1]], step.dtype)
    weights = _kernel(c, c("subtract", steps, c("subtract", source, low)), how)
    index = c.cast(c("add", low, steps), "int32")
    index = c("maximum", c("minimum", index, c.value(r.have - 1, "int32")), 0)
    return index, weights


def _averaged(c: Call, x: Value, r: _Line, how: Mode, step: Value) -> Value:
    """Antialiased, where extents are not known: a product, since windows are of any width."""
    dtype = step.dtype
    at = c.reshape(c.cast(counting(c, 0, r.want, 1), dtype), (1, r.want))
    middle = c("subtract", c("multiply", c("add", at, 0.5), step), 0.5)
    places = c.reshape(c.cast(counting(c, 0, r.have, 1), dtype), (r.have, 1))
    away = c("divide", c("subtract", places, middle), c("maximum", step, 1))
    weights = _kernel(c, away, how)
    weights = c("divide", weights, c.sum(weights, [0]))
    order = [k for k in range(len(x.shape)) if k != r.axis] + [r.axis]
    out = product(c.b, c.node, c.transpose(x, order), c.cast(weights, x.dtype))
    return c.transpose(out, [*range(r.axis), len(order) - 1, *range(r.axis, len(order) - 1)])


def _linear(mode: str, antialias: bool = False) -> Converter:
    cubic = -0.5 if antialias else -0.75
    copies = mode == "linear" or antialias

    def convert(c: Call, x: Value, size: Sequence[Any], corners: bool, *scales: Any) -> Value:
        by_corners = corners and not antialias
        coordinates = "align_corners" if by_corners else "half_pixel"
        how = Mode(mode, coordinates, "", cubic, antialias, antialias)
        out, wide = widened(c, x)
        for r in sorted(_lines(x, size, scales), key=lambda r: r.shrinks):
            if r.unchanged and (copies or corners or r.factor is None):
                continue
            if not r.is_open:
                index, table = taps(_axis(r, corners, antialias), how)
                places, weights = c.constant(index.astype(np.int32)), c.constant(table, wide)
            else:
                step = _open_step(c, r, corners, copies, wide)
                if antialias:
                    out = _averaged(c, c.cast(out, wide), r, how, step)
                    continue
                places, weights = _open_taps(c, r, how, step)
            out = c("resample", out, places, weights, axis=r.axis)
        return rounded(c, out, x.dtype)

    return convert


def _by_factors(convert: Converter, corners: bool) -> Converter:
    """The overloads that take the extents or factors: (x, size, align_corners, factors)."""

    def whole(c: Call, x: Value, size: Any, *rest: Any) -> Value:
        factors = rest[-1]
        if size is None:
            size = [scaled(d, f) for d, f in zip(x.shape[2:], factors)]
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
