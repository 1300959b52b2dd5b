"""Resize, Upsample, GridSample, AffineGrid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, prod
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...topi.elemwise import accumulator
from ..ir import Value
from .compose import Compose
from .convert import Array, Builder, Converter, OnnxNode

_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric", "tf_crop_and_resize")  # fmt: skip
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class Axis:
    """How one dimension is resized; `part` of it is what the region of interest takes."""

    axis: int
    size: int
    scale: float
    out: int
    part: tuple[float, float]


@dataclass(frozen=True)
class Mode:
    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude: bool
    antialias: bool


def _sources(r: Axis, how: Mode) -> Array:
    """Where each element of the result lies in the data."""
    at = np.arange(r.out, dtype=np.float64)
    width = r.scale * r.size
    if how.coordinates == "align_corners":
        return at * 0 if width == 1 else at * (r.size - 1) / (width - 1)
    if how.coordinates == "asymmetric":
        return at / r.scale
    if how.coordinates == "tf_crop_and_resize":
        start, end = r.part
        reach = (end - start) * (r.size - 1)
        inside = at * 0 + reach / 2 if width == 1 else at * reach / (width - 1)
        return inside + start * (r.size - 1)
    if how.coordinates == "pytorch_half_pixel" and width == 1:
        return at * 0 - 0.5
    middle = (at + 0.5) / r.scale - 0.5
    if how.coordinates == "half_pixel_symmetric":
        middle = middle + r.size / 2 * (1 - r.out / width)
    return middle


def _cubic(x: Array, a: float) -> Array:
    """Keys' kernel."""
    x = np.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0.0))


def taps(r: Axis, how: Mode) -> tuple[Array, Array]:
    """Of each element of the result the neighbours in the data and their weights."""
    source = _sources(r, how)
    low = np.floor(source)
    # the ratio is in (0, 1]: the neighbour on the left of a whole number counts with 0
    low = np.where(source == low, low - 1, low)
    ratio = source - low
    shrink = min(r.scale, 1.0) if how.antialias else 1.0
    radius = 2 if how.mode == "cubic" else 1
    first = floor(-radius / shrink) + 1
    steps = np.arange(first, 2 - first)
    away = (steps[None, :] - ratio[:, None]) * shrink
    weights = _cubic(away, how.cubic) if radius == 2 else np.clip(1 - np.abs(away), 0, 1)
    weights /= weights.sum(1, keepdims=True)
    index = (low[:, None] + steps).astype(np.int64)
    if how.exclude:
        weights = np.where((index < 0) | (index >= r.size), 0.0, weights)
        total = weights.sum(1, keepdims=True)
        weights /= np.where(total == 0, 1.0, total)
    index = np.clip(index, 0, r.size - 1)
    used = np.any(weights != 0, 0)
    return index[:, used], weights[:, used]


def _nearest(r: Axis, how: Mode) -> Array:
    source = _sources(r, how)
    if how.nearest == "floor":
        place = np.floor(source)
    elif how.nearest == "ceil":
        place = np.ceil(source)
    elif how.nearest == "round_prefer_floor":
        place = np.ceil(source - 0.5)
    else:
        place = np.floor(source + 0.5)
    return np.clip(place, 0, r.size - 1).astype(np.int64)


def _plan(b: Builder, node: OnnxNode, x: Value, scales: Any, sizes: Any) -> list[Axis]:
    """The dimensions that change."""
    rank = len(x.shape)
    given = node.numbers("axes")
    axes = list(range(rank)) if given is None else node.axes(given, rank)
    count = len(axes)
    roi = [0.0] * count + [1.0] * count
    if node.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = [float(v) for v in np.asarray(node.array(1)).reshape(-1)]
    extents = [x.shape[a] for a in axes]
    if scales is not None and len(scales):
        factors = [float(s) for s in scales]
        # in the type that the file has them in, as shapes are inferred
        outs = [
            n if s == 1 else int(np.floor(np.float32(n) * np.float32(s)))
            for n, s in zip(extents, factors)
        ]
    elif sizes is not None and len(sizes):
        outs = [n if s == n else int(s) for n, s in zip(extents, sizes)]
        factors = [1.0 if o == n or not n else o / n for n, o in zip(extents, outs)]
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            if policy not in ("not_larger", "not_smaller"):
                raise node.error(f"keep_aspect_ratio_policy {policy!r} is unknown")
            one = (min if policy == "not_larger" else max)(factors)
            factors = [one] * count
            outs = [int(one * n + 0.5) for n in extents]
    else:
        raise node.error("it has neither scales nor sizes")
    if len(factors) != count or len(roi) != 2 * count:
        raise node.error(f"{len(factors)} scales or sizes for {count} dimensions of {x!r}")
    if min(factors, default=1.0) < 0 or any(n < 0 for n in outs):
        raise node.error(f"scales {factors} must be positive")
    plan = []
    for a, n, s, o, start, end in zip(axes, extents, factors, outs, roi, roi[count:]):
        if n == 0 and o > 0:
            raise node.error(f"{x!r} has no elements to make {o} of")
        if o != n or abs(s - 1) > 1e-9 or (start, end) != (0.0, 1.0):
            plan.append(Axis(a, n, s, o, (start, end)))
    return plan


def widened(c: Compose, x: Value) -> tuple[Value, str]:
    """Data as sums are taken of it, and the type of weights."""
    if "float" in x.dtype:
        x = c.wide(x)
        return x, x.dtype
    return x, "float32" if "8" in x.dtype else "float64"


def rounded(c: Compose, out: Value, dtype: str) -> Value:
    """Sums as elements of a type."""
    if "int" in dtype and out.dtype != dtype:
        info = parse(dtype)
        out = c("clip", c("round", out), min=info.min_value, max=info.max_value)
    return c.cast(out, dtype)


def _resized(c: Compose, x: Value, plan: Sequence[Axis], how: Mode, outside: float) -> Value:
    """Dimension by dimension, those that shrink first; sums in float32 or wider, rounded once."""
    plan = sorted(plan, key=lambda r: r.scale)
    if any(r.out == 0 for r in plan):
        shape = list(x.shape)
        for r in plan:
            shape[r.axis] = r.out
        return c.full(shape, 0, x.dtype)
    out, wide = widened(c, x)
    for r in plan:
        if how.mode == "nearest":
            out = c("take", out, c.constant(_nearest(r, how)), axis=r.axis)
        else:
            index, weights = taps(r, how)
            table = c.constant(weights, wide)
            out = c("resample", out, c.constant(index.astype(np.int32)), table, axis=r.axis)
    if how.coordinates == "tf_crop_and_resize":
        for r in plan:
            source = _sources(r, how)
            missed = (source < 0) | (source > r.size - 1)
            if missed.any():
                shape = [1] * len(out.shape)
                shape[r.axis] = r.out
                mask = c.constant(missed.reshape(shape))
                out = c("where", mask, c.number(outside, out.dtype), out)
    return rounded(c, out, x.dtype)


def resize(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    c = Compose(b, node)
    mode = node.get("mode", "nearest")
    if b.opset < 11:
        return _upsampled(c, node, x, node.array(1))
    how = Mode(
        mode,
        node.get("coordinate_transformation_mode", "half_pixel"),
        node.get("nearest_mode", "round_prefer_floor"),
        node.get("cubic_coeff_a", -0.75),
        bool(node.get("exclude_outside", 0)),
        bool(node.get("antialias", 0)),
    )
    if mode not in ("nearest", "linear", "cubic") or how.coordinates not in _COORDINATES:
        raise node.error(
            f"mode {mode!r} or coordinate_transformation_mode {how.coordinates!r} is unknown"
        )
    if how.nearest not in _NEAREST:
        raise node.error(f"nearest_mode {how.nearest!r} is unknown")
    plan = _plan(b, node, x, node.array(2), node.array(3))
    return _resized(c, x, plan, how, node.get("extrapolation_value", 0.0))


def _upsampled(c: Compose, node: OnnxNode, x: Value, scales: Any) -> Value:
    """Operator sets before 11: places are divided by the scales."""
    mode = {"bilinear": "linear"}.get(node.get("mode", "nearest"), node.get("mode", "nearest"))
    if mode not in ("nearest", "linear"):
        raise node.error(f"mode {mode!r} is unknown")
    how = Mode(mode, "asymmetric", "floor", -0.75, False, False)
    return _resized(c, x, _plan(c.b, node, x, scales, None), how, 0.0)


def upsample(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    if b.opset < 7:
        scales = [1.0, 1.0, node.get("height_scale"), node.get("width_scale")]
        if None in scales:
            raise node.error("height_scale or width_scale is missing")
    else:
        scales = node.get("scales") if b.opset < 9 else node.array(1)
    return _upsampled(Compose(b, node), node, x, scales)


def grid_sample(b: Builder, node: OnnxNode) -> Value:
    x, grid = node.input(0), node.input(1)
    rank = len(x.shape) - 2
    if rank < 1 or len(grid.shape) != rank + 2 or grid.shape[-1] != rank:
        raise node.error(f"the grid {grid!r} does not fit {x!r}")
    mode = node.get("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    padding = node.get("padding_mode", "zeros")
    if mode not in ("nearest", "linear", "cubic"):
        raise node.error(f"mode {mode!r} is unknown")
    if padding not in ("zeros", "border", "reflection"):
        raise node.error(f"padding_mode {padding!r} is unknown")
    c = Compose(b, node)
    how = {"method": mode, "padding": padding, "align_corners": bool(node.get("align_corners", 0))}
    each = [{"number": rank - 1 - d, "size": n, **how} for d, n in enumerate(x.shape[2:])]
    places = [c("grid_places", grid, **which) for which in each]
    weights = []
    if mode != "nearest":
        dtype = accumulator(x.dtype)
        weights = [c("grid_weights", grid, **which, dtype=dtype) for which in each]
    return c("grid_sample", x, *places, *weights)


def affine_grid(b: Builder, node: OnnxNode) -> Value:
    theta = node.input(0)
    size = node.numbers(1) or []
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape != (size[0], rank, rank + 1):
        raise node.error(f"theta {theta!r} does not fit size {size}")
    spatial = size[2:]
    corners = bool(node.get("align_corners", 0))
    lines = [_line(n, corners) for n in spatial]
    grids = np.meshgrid(*lines, indexing="ij")[::-1]
    places = np.stack([*grids, np.ones(spatial)], -1).reshape(prod(spatial), rank + 1)
    c = Compose(b, node)
    out = c("affine_grid", theta, c.constant(places, theta.dtype))
    return c.reshape(out, (size[0], *spatial, rank))


def _line(count: int, corners: bool) -> Array:
    """Places of `count` elements between -1 and 1."""
    if corners:
        return np.linspace(-1, 1, count) if count > 1 else np.zeros(count)
    return (np.arange(count) * 2 + 1) / max(count, 1) - 1


CONVERTERS: dict[str, Converter] = {
    "Resize": resize,
    "Upsample": upsample,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
}
