"""Normalisation layers."""

from __future__ import annotations

from math import prod

from ..ir import Value
from .compose import Compose
from .convert import Builder, Converter, OnnxNode

STASH = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}


def normalize(
    c: Compose,
    x: Value,
    shape: tuple[int, int],
    scale: Value | None,
    shift: Value | None,
    epsilon: float,
    center: bool = True,
    period: int = 1,
    run: int = 1,
) -> Value:
    """Rows of `shape` of `x` normalised, see topi.nn.normalize_rows; the result has x's shape."""
    given = [c.reshape(v, (prod(v.shape),)) for v in (scale, shift) if v is not None]
    out = c(
        "normalize",
        c.reshape(x, shape),
        *given,
        scaled=scale is not None,
        shifted=shift is not None,
        epsilon=float(epsilon),
        center=center,
        period=period,
        run=run,
    )
    return c.reshape(out, x.shape)


def _statistics(
    c: Compose, x: Value, axes: list[int], epsilon: float, dtype: str, center: bool = True
) -> tuple[Value | None, Value]:
    """The mean, and one over the deviation, in `dtype`."""
    wide = c.wide(x)
    mean = c.mean(wide, axes) if center else None
    away = wide if mean is None else c("subtract", wide, mean)
    variance = c.mean(c("multiply", away, away), axes)
    inverse = c("divide", c.number(1, wide.dtype), c("sqrt", c("add", variance, epsilon)))
    return None if mean is None else c.cast(mean, dtype), c.cast(inverse, dtype)


def over_last(
    c: Compose,
    x: Value,
    axis: int,
    scale: Value | None,
    shift: Value | None,
    epsilon: float,
    center: bool,
) -> Value:
    """Normalisation over all dimensions from `axis` on."""
    inner = x.shape[axis:]
    shape = (prod(x.shape[:axis]), prod(inner))
    fit = [v for v in (scale, shift) if v is not None]
    if all(_stretches(v.shape, inner) for v in fit):
        scale = None if scale is None else c.broadcast(scale, inner)
        shift = None if shift is None else c.broadcast(shift, inner)
        return normalize(c, x, shape, scale, shift, epsilon, center)
    wide = c.wide(x)  # scales that differ between rows
    out = normalize(c, wide, shape, None, None, epsilon, center)
    if scale is not None:
        out = c("multiply", out, c.cast(scale, wide.dtype))
    if shift is not None:
        out = c("add", out, c.cast(shift, wide.dtype))
    if out.shape != x.shape:
        raise c.node.error(f"{', '.join(map(repr, fit))} cannot be stretched to {x!r}")
    return c.cast(out, x.dtype)


def _stretches(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    ahead = len(to) - len(shape)
    return ahead >= 0 and all(n in (1, m) for n, m in zip(shape, to[ahead:]))


def _last_dimensions(center: bool) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> list[Value | None]:
        x, scale = node.input(0), node.input(1)
        c = Compose(b, node)
        axis = node.axis(node.get("axis", -1), len(x.shape))
        stash = STASH.get(node.get("stash_type", 1))
        if stash is None:
            raise node.error(f"stash_type {node.get('stash_type')} is no type of floats")
        epsilon = node.get("epsilon", 1e-5)
        shift = node.optional(2) if center else None
        y = over_last(c, x, axis, scale, shift, epsilon, center)
        wanted = any(node.outputs[1:])
        axes = list(range(axis, len(x.shape)))
        more = _statistics(c, x, axes, epsilon, stash, center) if wanted else (None, None)
        return [y, *(more if center else more[1:])][: len(node.outputs)]

    return convert


def _channels(node: OnnxNode, x: Value, names: tuple[Value, ...], count: int) -> None:
    for v in names:
        if v.shape != (count,):
            raise node.error(f"{v!r} does not fit the {count} channels or groups of {x!r}")


def instance_norm(b: Builder, node: OnnxNode) -> Value:
    x, scale, shift = (node.input(k) for k in range(3))
    n, channels, *rest = x.shape
    _channels(node, x, (scale, shift), channels)
    size = prod(rest)
    how = (node.get("epsilon", 1e-5), True, channels, max(size, 1))
    return normalize(Compose(b, node), x, (n * channels, size), scale, shift, *how)


def group_norm(b: Builder, node: OnnxNode) -> Value:
    """Before opset 21 with a scale for each group, since then for each channel."""
    x, scale, shift = (node.input(k) for k in range(3))
    n, channels, *rest = x.shape
    groups = node.get("num_groups", 0)
    if groups < 1 or channels % groups:
        raise node.error(f"{channels} channels do not divide into {groups} groups")
    size = channels // groups * prod(rest)
    each = b.opset >= 21
    _channels(node, x, (scale, shift), channels if each else groups)
    run = prod(rest) if each else size
    how = (node.get("epsilon", 1e-5), True, groups, max(run, 1))
    return normalize(Compose(b, node), x, (n * groups, size), scale, shift, *how)


def lrn(b: Builder, node: OnnxNode) -> Value:
    x, size = node.input(0), node.get("size", 0)
    if size < 1 or len(x.shape) < 2:
        raise node.error(f"size {size} must be 1 or more, and {x!r} have channels")
    given = {"alpha": node.get("alpha", 1e-4), "beta": node.get("beta", 0.75)}
    return b.add("lrn", [x], node.name, size=size, bias=node.get("bias", 1.0), **given)


def batch_norm_training(b: Builder, node: OnnxNode) -> list[Value | None]:
    """By the statistics of the batch itself, which then move the running ones."""
    x, *statistics = (node.input(i) for i in range(5))
    c = Compose(b, node)
    scale, shift, mean, variance = statistics
    axes = [k for k in range(len(x.shape)) if k != 1]
    epsilon, momentum = node.get("epsilon", 1e-5), node.get("momentum", 0.9)
    wide = c.wide(x)
    dtype = wide.dtype
    batch_mean = c.mean(wide, axes)
    away = c("subtract", wide, batch_mean)
    batch_variance = c.mean(c("multiply", away, away), axes)
    channels = x.shape[1:2]
    column = [1, *channels, *[1] * (len(x.shape) - 2)]
    factor = c(
        "divide",
        c.reshape(c.cast(scale, dtype), column),
        c("sqrt", c("add", batch_variance, epsilon)),
    )
    y = c("add", c("multiply", away, factor), c.reshape(c.cast(shift, dtype), column))

    def moved(old: Value, new: Value) -> Value:
        kept = c("multiply", c.cast(old, dtype), momentum)
        now = c("multiply", c.reshape(new, channels), 1 - momentum)
        return c.cast(c("add", kept, now), old.dtype)

    found: list[Value | None] = [c.cast(y, x.dtype)]
    saved = ((mean, batch_mean), (variance, batch_variance))
    for (old, new), name in zip(saved, node.outputs[1:]):
        found.append(moved(old, new) if name else None)
    for (old, new), name in zip(saved, node.outputs[3:]):  # before opset 14: the batch's own too
        found.append(c.cast(c.reshape(new, channels), old.dtype) if name else None)
    return found


def _skip_norm(center: bool) -> Converter:
    """com.microsoft: the sum of an input, a skip connection and a bias, normalised."""

    def convert(b: Builder, node: OnnxNode) -> list[Value | None]:
        x, skip, gamma = (node.input(k) for k in range(3))
        beta = node.optional(3) if center else None
        bias = node.optional(4 if center else 3)
        c = Compose(b, node)
        total = c("add", x, skip)
        if bias is not None:
            total = c("add", total, bias)
        axis, epsilon = len(x.shape) - 1, node.get("epsilon", 1e-12)
        y = over_last(c, total, axis, gamma, beta, epsilon, center)
        more: tuple[Value | None, Value | None] = (None, None)
        if any(node.outputs[1:3]):
            more = _statistics(c, total, [axis], epsilon, "float32", center)
        return [y, *more, total][: len(node.outputs)]

    return convert


def embed_layer_norm(b: Builder, node: OnnxNode) -> list[Value | None]:
    """com.microsoft: words, positions and segments looked up, summed and normalised."""
    ids, segments = node.input(0), node.optional(1)
    words, positions, segment_table = node.input(2), node.input(3), node.optional(4)
    gamma, beta, mask, places = node.input(5), node.input(6), node.optional(7), node.optional(8)
    c = Compose(b, node)
    batch, length = ids.shape
    total = c("take", words, ids, axis=0)
    if places is None:
        total = c("add", total, c.part(positions, 0, 0, length))
    else:
        total = c("add", total, c("take", positions, places, axis=0))
    if segments is not None and segment_table is not None:
        total = c("add", total, c("take", segment_table, segments, axis=0))
    y = over_last(c, total, 2, gamma, beta, node.get("epsilon", 1e-12), True)
    counts: Value | None = None
    if len(node.outputs) > 1 and node.outputs[1]:
        if mask is None:
            counts = c.full((batch,), 0, "int32")
        else:
            counts = c("reduce", c.cast(mask, "int32"), type="sum", axes=[1], keepdims=False)
    return [y, counts, total][: len(node.outputs)]


CONVERTERS: dict[str, Converter] = {
    "LayerNormalization": _last_dimensions(True),
    "RMSNormalization": _last_dimensions(False),
    "SimplifiedLayerNormalization": _last_dimensions(False),
    "com.microsoft.SimplifiedLayerNormalization": _last_dimensions(False),
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LRN": lrn,
    "com.microsoft.SkipLayerNormalization": _skip_norm(True),
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_norm(False),
    "com.microsoft.EmbedLayerNormalization": embed_layer_norm,
}
