"""Operators of images, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..nn.utils import channels_last, named

Array = Any  # of NumPy, whose types say little of dtypes and shapes


def _place(x: Array, have: int, want: int, mode: str, ends: Sequence[float]) -> Array:
    scale = have / want
    if mode == "half_pixel":
        return (x + 0.5) * scale - 0.5
    if mode == "align_corners":
        return x * ((have - 1) / max(want - 1, 1))
    if mode == "asymmetric":
        return x * scale
    if mode == "pytorch_half_pixel":
        return (x + 0.5) * scale - 0.5 if want > 1 else x * 0
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) * scale
    start, end = ends
    if want == 1:
        return x * 0 + 0.5 * (start + end) * (have - 1)
    return start * (have - 1) + x * (end - start) * (have - 1) / (want - 1)


def _weights(
    have: int, want: int, method: str, mode: str, alpha: float = -0.5,
    ends: Sequence[float] = (0, 1),
) -> tuple[Array, Array]:  # fmt: skip
    """A matrix that resizes a line, and where its elements stand."""
    at = _place(np.arange(want, dtype="float64"), have, want, mode, ends)
    matrix = np.zeros((want, have))
    for o, p in enumerate(at):
        if method == "nearest_neighbor":
            near = np.floor(p + 0.5) if mode == "align_corners" else np.floor(p + 1e-5)
            matrix[o, int(np.clip(near, 0, have - 1))] = 1
            continue
        low = int(np.floor(p))
        t = p - low
        if method == "linear":
            pairs = [(0, 1 - t), (1, t)]
        else:
            d = [1 + t, t, 1 - t, 2 - t]
            inner = [(alpha + 2) * u**3 - (alpha + 3) * u**2 + 1 for u in d]
            outer = [alpha * (u**3 - 5 * u**2 + 8 * u - 4) for u in d]
            pairs = list(zip((-1, 0, 1, 2), (outer[0], inner[1], inner[2], outer[3])))
        for k, w in pairs:
            matrix[o, int(np.clip(low + k, 0, have - 1))] += w
    return matrix, at


def _resized(
    data: Array, size: Sequence[int], layout: str, names: str, method: str, mode: str
) -> Array:
    result = data.astype("float64")
    how = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(method, method)
    for c, n in zip(names, size):
        d = layout.index(c)
        matrix, _ = _weights(data.shape[d], n, how, mode)
        result = np.moveaxis(np.tensordot(matrix, result, (1, d)), 0, d)
    return result.astype(data.dtype)


def _sizes(data: Array, scale: Sequence[float], layout: str, names: str) -> list[int]:
    return [int(np.round(data.shape[layout.index(c)] * s)) for c, s in zip(names, scale)]


def _resize_of(plain: str, text: str) -> Callable[..., Array]:
    letters = plain[2:]

    def python(
        data: Array,
        scale: Sequence[float],
        layout: str = plain,
        method: str = "nearest_neighbor",
        coordinate_transformation_mode: str = "align_corners",
    ) -> Array:
        size = _sizes(data, scale, layout, letters)
        return _resized(data, size, layout, letters, method, coordinate_transformation_mode)

    return named(python, f"resize{len(letters)}d_python", text)


resize1d_python = _resize_of("NCW", "(n, c, w) resized to `scale` times its width.")
resize2d_python = _resize_of("NCHW", "(n, c, h, w) resized to `scale` times its height and width.")
resize3d_python = _resize_of(
    "NCDHW", "(n, c, d, h, w) resized to `scale` times its depth, height and width."
)


def _upsampling_of(plain: str, name: str, text: str) -> Callable[..., Array]:
    letters = plain[2:]

    def python(data: Array, scale: Sequence[float], layout: str = plain) -> Array:
        size = _sizes(data, scale, layout, letters)
        return _resized(data, size, layout, letters, "nearest_neighbor", "asymmetric")

    return named(python, name, text)


upsampling_python = _upsampling_of(
    "NCHW",
    "upsampling_python",
    "The nearest elements of (n, c, h, w), or of another layout, `scale` times as many.",
)
upsampling3d_python = _upsampling_of(
    "NCDHW",
    "upsampling3d_python",
    "The nearest elements of (n, c, d, h, w), or of another layout, `scale` times as many.",
)


def crop_and_resize_python(
    image: Array,
    boxes: Array,
    box_indices: Array,
    crop_size: Sequence[int],
    layout: str,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Array:
    """Parts of images resized to one size."""
    nchw = image if layout == "NCHW" else image.transpose(0, 3, 1, 2)
    how = "linear" if method == "bilinear" else method
    found = []
    for box, index in zip(boxes, box_indices):
        part = nchw[int(index)].astype("float64")
        outside = np.zeros(tuple(crop_size), bool)
        for d, n in enumerate(crop_size):
            have = nchw.shape[2 + d]
            ends = (float(box[d]), float(box[d + 2]))
            matrix, at = _weights(have, n, how, "tf_crop_and_resize", ends=ends)
            if how == "nearest_neighbor":
                matrix = np.eye(have)[np.clip(np.round(at), 0, have - 1).astype(int)]
            part = np.moveaxis(np.tensordot(matrix, part, (1, 1 + d)), 0, 1 + d)
            bad = (at < 0) | (at > have - 1)
            outside |= bad[:, None] if d == 0 else bad[None, :]
        found.append(np.where(outside, extrapolation_value, part))
    result = np.stack(found)
    return (result if layout == "NCHW" else result.transpose(0, 2, 3, 1)).astype(image.dtype)


def reorg_python(a_np: Array, stride: int) -> Array:
    """(n, c, h, w) as (n, c * stride^2, h / stride, w / stride), as Darknet has it."""
    n, c, h, w = a_np.shape
    s = stride
    own = c // (s * s)
    apart = a_np.reshape(n, own, h, s, w, s).transpose(0, 3, 5, 1, 2, 4)
    return apart.reshape(n, c * s * s, h // s, w // s)


def affine_grid_python(data: Array, target_shape: Sequence[int]) -> Array:
    """Places (n, 2, h, w) of an affine map (n, 2, 3)."""
    h, w = target_shape
    y, x = np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij")
    ones = np.stack([x, y, np.ones_like(x)])
    return np.einsum("nkm,mhw->nkhw", data, ones).astype(data.dtype)


def _reflected(at: Array, low: float, high: float) -> Array:
    span = high - low
    if span <= 0:
        return at * 0 + low
    away = np.abs(at - low) % (2 * span)
    return np.minimum(away, 2 * span - away) + low


def grid_sample_python(
    data: Array,
    grid: Array,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Array:
    """(n, c, ...) at places (n, dimensions, ...) from -1 to 1, x first: "nearest", "bilinear" or
    "bicubic", whose neighbours are limited each by itself."""
    sizes = data.shape[2:]
    cubic = method == "bicubic"
    places = []
    for d, size in enumerate(sizes):
        g = grid[:, len(sizes) - 1 - d].astype("float64")
        at = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        at = at if cubic else _limited(at, size, padding_mode, align_corners)
        places.append(np.rint(at) if method == "nearest" else at)
    result = np.zeros((*data.shape[:2], *grid.shape[2:]))
    floors = [np.floor(p) for p in places]
    for corner in product((-1, 0, 1, 2) if cubic else (0, 1), repeat=len(sizes)):
        near = [f + k for f, k in zip(floors, corner)]
        away = [np.abs(p - q) for p, q in zip(places, near)]
        weight = np.prod([_keys(x) if cubic else np.maximum(1 - x, 0) for x in away], 0)
        if cubic:
            near = [_limited(q, n, padding_mode, align_corners) for q, n in zip(near, sizes)]
        inside = np.all([(q >= 0) & (q < n) for q, n in zip(near, sizes)], 0)
        at = tuple(np.clip(q, 0, n - 1).astype(int) for q, n in zip(near, sizes))
        for b in range(data.shape[0]):
            value = data[b][(slice(None), *(q[b] for q in at))]
            result[b] += np.where(inside[b], value * weight[b], 0)
    return result.astype(data.dtype)


def _limited(at: Array, size: int, padding_mode: str, align_corners: bool) -> Array:
    """Places along a dimension, those outside moved inside as `padding_mode` says."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if padding_mode == "zeros":
        return at
    return np.clip(at if padding_mode == "border" else _reflected(at, low, high), 0, size - 1)


def _keys(x: Array) -> Array:
    """Keys' kernel, of distances."""
    inner = (1.25 * x - 2.25) * x * x + 1
    outer = ((-0.75 * x + 3.75) * x - 6) * x + 3
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0))


def roi_align_nchw_python(
    a_np: Array,
    rois_np: Array,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int,
    mode: str | bytes = b"avg",
) -> Array:
    """Regions (count, 5), image and corners in pixels times `spatial_scale`, of (n, c, h, w):
    (count, c, *pooled_size), the averages or maxima of `sample_ratio` points in each direction of a
    bin."""
    how = mode.decode() if isinstance(mode, bytes) else mode
    rows, columns = (pooled_size,) * 2 if isinstance(pooled_size, int) else pooled_size
    _, c, h, w = a_np.shape
    result = np.zeros((len(rois_np), c, rows, columns), a_np.dtype)
    for r, roi in enumerate(rois_np):
        image = a_np[int(roi[0])]
        x1, y1, x2, y2 = (float(v) * spatial_scale for v in roi[1:])
        bins = max(y2 - y1, 1.0) / rows, max(x2 - x1, 1.0) / columns
        counts = [sample_ratio if sample_ratio > 0 else int(np.ceil(b)) for b in bins]
        for i, j in product(range(rows), range(columns)):
            points = [
                _bilinear(image, y1 + (i + (a + 0.5) / counts[0]) * bins[0],
                          x1 + (j + (b + 0.5) / counts[1]) * bins[1], h, w)
                for a, b in product(range(counts[0]), range(counts[1]))
            ]  # fmt: skip
            result[r, :, i, j] = np.mean(points, 0) if how == "avg" else np.max(points, 0)
    return result


def _bilinear(image: Array, y: float, x: float, h: int, w: int) -> Array:
    if y < -1 or y > h or x < -1 or x > w:
        return np.zeros(image.shape[0])
    y, x = min(max(y, 0.0), h - 1), min(max(x, 0.0), w - 1)
    i, j = int(y), int(x)
    k, m = min(i + 1, h - 1), min(j + 1, w - 1)
    v, u = y - i, x - j
    top = image[:, i, j] * (1 - u) + image[:, i, m] * u
    bottom = image[:, k, j] * (1 - u) + image[:, k, m] * u
    return np.asarray(top * (1 - v) + bottom * v)


roi_align_nhwc_python = channels_last(
    roi_align_nchw_python,
    np.transpose,
    ((0, 3, 1, 2),),
    "As roi_align_nchw_python of (n, h, w, c).",
)


def roi_pool_nchw_python(
    a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float
) -> Array:
    """Regions (count, 5), image and corners in pixels times `spatial_scale`, rounded, of (n, c, h,
    w): (count, c, *pooled_size), the maxima of bins."""
    rows, columns = (pooled_size,) * 2 if isinstance(pooled_size, int) else pooled_size
    _, c, h, w = a_np.shape
    result = np.zeros((len(rois_np), c, rows, columns), a_np.dtype)
    for r, roi in enumerate(rois_np):
        x1, y1, x2, y2 = (int(np.floor(float(v) * spatial_scale + 0.5)) for v in roi[1:])
        bins = max(y2 - y1 + 1, 1) / rows, max(x2 - x1 + 1, 1) / columns
        for i, j in product(range(rows), range(columns)):
            top, left = int(np.floor(i * bins[0])) + y1, int(np.floor(j * bins[1])) + x1
            end, right = int(np.ceil((i + 1) * bins[0])) + y1, int(np.ceil((j + 1) * bins[1])) + x1
            top, end = np.clip((top, end), 0, h)
            left, right = np.clip((left, right), 0, w)
            if end > top and right > left:
                part = a_np[int(roi[0]), :, top:end, left:right]
                result[r, :, i, j] = part.max((1, 2))
    return result
