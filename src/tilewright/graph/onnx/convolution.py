"""Convolutions: plain, transposed, deformable; columns back to images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from numpy import ndindex, ravel_multi_index

from ...topi.elemwise import accumulator
from ..ir import Value
from ..shapes import is_open
from .compose import Compose
from .convert import Builder, Converter, OnnxNode
from .window import (
    Window,
    auto_pad_of,
    cropped,
    plane,
    steps_of,
    unplane,
    window_of,
)

OWN_FILTERS = 32  # that fill the registers for each phase of a transposed convolution
OWN_PLACES = 1.1  # of all phases together over those of each, which pay for convolutions by phases


def convolve(
    c: Compose, data: Value, kernel: Value, w: Window, groups: int, sums: str | None = None
) -> Value:
    """Over one dimension as over a plane with a row, which has the fastest kernels. `sums`: their
    type, if not that of the data."""
    data, w = cropped(c, data, w)
    how = {} if sums in (None, data.dtype) else {"out_dtype": sums}
    if w.rank > 2:
        return c("conv_nd", data, kernel, **w.steps, groups=groups, **how)
    data, kernel = plane(c, data, w.rank), plane(c, kernel, w.rank)
    out = c("conv2d", data, kernel, **w.on_plane.steps, groups=groups, **how)
    return unplane(c, out, w.rank)


def biased(c: Compose, out: Value, bias: Value | None) -> Value:
    """With a number added for each filter, in the type of the sums."""
    if bias is None:
        return out
    if bias.shape != out.shape[1:2]:
        raise c.node.error(f"the bias {bias!r} does not fit {out.shape[1]} filters")
    return c.cast(c("bias_add", out, c.cast(bias, out.dtype), axis=1), bias.dtype)


def conv(b: Builder, node: OnnxNode) -> Value:
    data, kernel, bias = node.input(0), node.input(1), node.optional(2)
    if len(data.shape) != len(kernel.shape):
        raise node.error(f"data {data!r} and weights {kernel!r} differ in rank")
    if bias is not None and bias.shape != kernel.shape[:1]:
        raise node.error(f"the bias {bias!r} does not fit weights {kernel!r}")
    w = window_of(node, data, kernel.shape[2:], "convolution")
    c = Compose(b, node)
    sums = None if bias is None else accumulator(data.dtype)  # rounded once, with the bias
    return biased(c, convolve(c, data, kernel, w, node.get("group", 1), sums), bias)


def conv_transpose(b: Builder, node: OnnxNode) -> Value:
    """The phases of the output, one for each place modulo the strides, are convolutions of the
    data by every so manyth weight. Their filters together are one convolution without strides."""
    data, kernel, bias = node.input(0), node.input(1), node.optional(2)
    groups, c = node.get("group", 1), Compose(b, node)
    channels, filters = data.shape[1], kernel.shape[1]
    if len(data.shape) != len(kernel.shape) or kernel.shape[0] != channels or channels % groups:
        raise node.error(f"weights {kernel!r} in {groups} groups do not fit the data {data!r}")
    strides, dilation = steps_of(node, data, kernel.shape[2:], "convolution")
    rank = len(strides)
    pads, shape = _transposed_pads(node, data, kernel, strides, dilation)
    if groups == 1 and all(n == 1 for n in data.shape[2:]):
        return biased(c, _of_one_pixel(c, data, kernel, dilation, pads, shape), bias)
    if all(s == 1 for s in strides):
        weights, taps = kernel, kernel.shape[2:]
    else:
        weights = _dilated(c, kernel, dilation)
        dilation = [1] * rank
        weights = _in_phases(c, weights, strides)
        taps = weights.shape[2 : 2 + rank]
    phases = prod(strides)
    apart = c.reshape(weights, (groups, channels // groups, filters, *taps, phases))
    order = (0, 2, 3 + rank, 1, *range(3, 3 + rank))
    weights = c.transpose(apart, order)
    weights = c.reshape(weights, (groups * filters * phases, channels // groups, *taps))
    for k in range(rank):  # a convolution reads its weights the other way round
        if taps[k] > 1:
            weights = c.part(weights, 2 + k, taps[k] - 1, -1, -1)
    first = [p // s for p, s in zip(pads, strides)]
    last = [-(-(p + n) // s) for p, n, s in zip(pads, shape, strides)]
    reach = [d * (t - 1) for t, d in zip(taps, dilation)]

    def convolved(kernel: Value, first: Sequence[int], last: Sequence[int]) -> Value:
        """At places from `first` on, before `last`."""
        before = tuple(r - f for r, f in zip(reach, first))
        after = tuple(n - d for n, d in zip(last, data.shape[2:]))
        w = Window(tuple(taps), (1,) * rank, before, after, tuple(dilation))
        return convolve(c, data, kernel, w, groups)

    known = groups == 1 and filters >= OWN_FILTERS and not is_open(data.shape) and min(shape) > 0
    even = known and all(n % s == 0 for n, s in zip(shape, strides))
    places = zip(strides, first, last, shape)
    if even and prod(s * (b - a) / n for s, a, b, n in places) > OWN_PLACES:
        out = _by_phases(c, weights, strides, pads, shape, convolved)
        first, pads = [0] * rank, [0] * rank
    else:
        out = convolved(weights, first, last)
    return biased(c, _interleaved(c, out, strides, pads, first, shape), bias)


def _by_phases(
    c: Compose,
    weights: Value,
    strides: Sequence[int],
    pads: Sequence[int],
    shape: Sequence[int],
    convolved: Callable[[Value, Sequence[int], Sequence[int]], Value],
) -> Value:
    """A convolution for each phase, in the order in which the output has them, at the places that
    it has of it: of small images, those of all phases are many more."""
    apart = c.reshape(weights, (-1, prod(strides), *weights.shape[1:]))
    parts = []
    for place in ndindex(*strides):
        phase = [(o + p) % s for o, p, s in zip(place, pads, strides)]
        first = [(o + p) // s for o, p, s in zip(place, pads, strides)]
        last = [f + n // s for f, n, s in zip(first, shape, strides)]
        number = int(ravel_multi_index(phase, strides))
        kernel = c.part(apart, 1, number, number + 1)
        kernel = c.reshape(kernel, (kernel.shape[0], *weights.shape[1:]))
        part = convolved(kernel, first, last)
        parts.append(c.reshape(part, (*part.shape[:2], 1, *part.shape[2:])))
    whole = c.join(parts, 2)
    return c.reshape(whole, (whole.shape[0], -1, *whole.shape[3:]))


def _of_one_pixel(
    c: Compose, data: Value, kernel: Value, dilation: list[int], pads: list[int], shape: list[int]
) -> Value:
    """A product with the weights as they lie: each element of the output has one tap."""
    filters, *taps = kernel.shape[1:]
    flat = c.reshape(kernel, (kernel.shape[0], filters * prod(taps)))
    out = c("matmul", c.reshape(data, data.shape[:2]), flat)
    out = _dilated(c, c.reshape(out, (data.shape[0], filters, *taps)), dilation)
    for k, (p, extent) in enumerate(zip(pads, shape), 2):
        lacking = p + extent - out.shape[k]
        if lacking > 0:
            rank = len(out.shape)
            behind = [lacking if d == k else 0 for d in range(rank)]
            out = c("pad", out, before=[0] * rank, after=behind, value=0)
        out = c.part(out, k, p, p + extent)
    return out


def _transposed_pads(
    node: OnnxNode, data: Value, kernel: Value, strides: list[int], dilation: list[int]
) -> tuple[list[int], list[int]]:
    """How many elements in front of each dimension are left out, and the output's extents."""
    rank = len(strides)
    extra = node.numbers("output_padding", rank) or [0] * rank
    reach = [d * (k - 1) + 1 for k, d in zip(kernel.shape[2:], dilation)]
    whole = [(n - 1) * s + r for n, s, r in zip(data.shape[2:], strides, reach)]
    auto = auto_pad_of(node)
    wanted = node.numbers("output_shape")
    if wanted is None and auto.startswith("SAME"):
        wanted = [n * s for n, s in zip(data.shape[2:], strides)]
    if wanted is None:
        pads = node.numbers("pads", 2 * rank) if auto == "NOTSET" else None
        pads = pads or [0] * (2 * rank)
        shape = [w + e - p - q for w, e, p, q in zip(whole, extra, pads, pads[rank:])]
        before = pads[:rank]
    else:
        shape = wanted[-rank:]
        total = [max(w + e - n, 0) for w, e, n in zip(whole, extra, shape)]
        halves = [t // 2 for t in total]
        upper = auto == "SAME_UPPER"
        before = halves if upper else [t - h for t, h in zip(total, halves)]
    if any(n < 0 for n in shape) or len(shape) != rank:
        raise node.error(f"the output's extents would be {shape}")
    return before, shape


def _dilated(c: Compose, kernel: Value, dilation: list[int]) -> Value:
    """Weights with zeros between them."""
    for k, d in enumerate(dilation, 2):
        if d > 1 and kernel.shape[k] > 1:
            shape = kernel.shape
            wide = c.reshape(kernel, (*shape[: k + 1], 1, *shape[k + 1 :]))
            behind = [0] * len(wide.shape)
            behind[k + 1] = d - 1
            zeros = c("pad", wide, before=[0] * len(behind), after=behind, value=0)
            flat = c.reshape(zeros, (*shape[:k], shape[k] * d, *shape[k + 1 :]))
            kernel = c.part(flat, k, 0, (shape[k] - 1) * d + 1)
    return kernel


def _in_phases(c: Compose, kernel: Value, strides: list[int]) -> Value:
    """(C, M, K, ...) to (C, M, K / stride, ..., strides together)."""
    rank = len(strides)
    taps = [-(-k // s) for k, s in zip(kernel.shape[2:], strides)]
    behind = [t * s - k for t, s, k in zip(taps, strides, kernel.shape[2:])]
    if any(behind):
        kernel = c("pad", kernel, before=[0] * (2 + rank), after=[0, 0, *behind], value=0)
    apart = [n for pair in zip(taps, strides) for n in pair]
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 2 + 2 * rank, 2))
    whole = c.transpose(c.reshape(kernel, (*kernel.shape[:2], *apart)), order)
    return c.reshape(whole, (*kernel.shape[:2], *taps, prod(strides)))


def _interleaved(
    c: Compose, out: Value, strides: list[int], pads: list[int], first: list[int], shape: list[int]
) -> Value:
    """Phases that are channels, one behind the other, as places of the output."""
    rank = len(strides)
    n, channels, *size = out.shape
    filters = channels // prod(strides)
    if prod(strides) > 1:
        apart = c.reshape(out, (n, filters, *strides, *size))
        order = [k for d in range(rank) for k in (2 + rank + d, 2 + d)]
        out = c.transpose(apart, (0, 1, *order))
        out = c.reshape(out, (n, filters, *(q * s for q, s in zip(size, strides))))
    for k, (p, f, s, extent) in enumerate(zip(pads, first, strides, shape), 2):
        out = c.part(out, k, p - f * s, p - f * s + extent)
    return out


def deform_conv(b: Builder, node: OnnxNode) -> Value:
    """The moved elements of all windows, times the weights."""
    x, kernel, offset, bias, mask = (
        node.input(0), node.input(1), node.input(2), node.optional(3), node.optional(4)
    )  # fmt: skip
    c = Compose(b, node)
    if len(x.shape) != 4:
        raise node.error(f"only convolutions over two dimensions deform, the data is {x!r}")
    w = window_of(node, x, kernel.shape[2:], "convolution")
    groups, parts = node.get("group", 1), node.get("offset_group", 1)
    n, channels = x.shape[:2]
    filters, per = kernel.shape[:2]
    taps = prod(w.kernel)
    fits = channels == per * groups and filters % groups == 0 and channels % parts == 0
    if not fits or offset.shape[1] != parts * taps * 2:
        raise node.error(f"{kernel!r} and {offset!r} do not fit {x!r} in {groups}, {parts} groups")
    size = offset.shape[2:]
    columns = c(
        "deformable_columns",
        x,
        offset,
        *([] if mask is None else [mask]),
        kernel=w.kernel,
        **{**w.steps, "padding": w.before},
        offset_groups=parts,
    )
    columns = c.reshape(columns, (n * groups, per * taps, prod(size)))
    weights = c.reshape(kernel, (1, groups, filters // groups, per * taps))
    weights = c.broadcast(weights, (n, *weights.shape[1:]))
    weights = c.reshape(weights, (n * groups, filters // groups, per * taps))
    out = c("batch_matmul", weights, columns)
    return biased(c, c.reshape(out, (n, filters, *size)), bias)


def col2im(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    image, block = node.numbers(1) or [], node.numbers(2) or []
    rank = len(block)
    if len(x.shape) != 3 or len(image) != rank or x.shape[1] % max(prod(block), 1):
        raise node.error(f"columns {x!r} of blocks {block} for images {image}")
    strides = node.numbers("strides", rank) or [1] * rank
    padding = node.numbers("pads", 2 * rank) or [0] * (2 * rank)
    dilation = node.numbers("dilations", rank) or [1] * rank
    return added_windows(Compose(b, node), x, image, block, strides, padding, dilation)


def added_windows(
    c: Compose,
    x: Value,
    image: Sequence[int],
    block: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """Windows (n, channels * elements, windows) added up where they are in images.

    With strides, each element of an image is in one of as many phases, to which every so maniest
    element of windows adds; each phase is an image of windows without strides.
    """
    rank, n = len(block), x.shape[0]
    ones = (1,) * rank
    how: dict[str, Any] = {"image": image, "strides": strides, "padding": padding}
    if tuple(strides) == ones or tuple(dilation) != ones:
        return c("col2im", x, block=block, dilation=dilation, **how)
    channels = x.shape[1] // prod(block)
    ends = [image[d] + padding[d] + padding[rank + d] - block[d] for d in range(rank)]
    counts = [end // s + 1 for end, s in zip(ends, strides)]
    groups = [-(-k // s) for k, s in zip(block, strides)]
    x = c.reshape(x, (n, channels, *block, *counts))
    more = [g * s - k for g, s, k in zip(groups, strides, block)]
    if any(more):
        rest = [0] * rank
        x = c("pad", x, before=[0] * len(x.shape), after=[0, 0, *more, *rest], value=0)
    x = c.reshape(x, (n, channels, *(d for both in zip(groups, strides) for d in both), *counts))
    first, second = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    x = c.transpose(x, (0, 1, *second, *first, *range(2 + 2 * rank, 2 + 3 * rank)))
    x = c.reshape(x, (n, channels * prod(strides) * prod(groups), prod(counts)))
    sizes = [b + g - 1 for b, g in zip(counts, groups)]
    how = {"image": sizes, "strides": ones, "padding": (0,) * (2 * rank)}
    x = c("col2im", x, block=groups, dilation=ones, **how) if max(groups) > 1 else x
    x = c.reshape(x, (n, channels, *strides, *sizes))
    turned = [k for d in range(rank) for k in (2 + rank + d, 2 + d)]
    x = c.transpose(x, (0, 1, *turned))
    x = c.reshape(x, (n, channels, *(b * s for b, s in zip(sizes, strides))))
    for d, (extent, start) in enumerate(zip(image, padding), 2):
        x = c.part(x, d, start, min(start + extent, x.shape[d]))
    less = [extent - there for extent, there in zip(image, x.shape[2:])]
    if not any(less):
        return x
    return c("pad", x, before=[0] * len(x.shape), after=[0, 0, *less], value=0)


CONVERTERS: dict[str, Converter] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "DeformConv": deform_conv,
    "Col2Im": col2im,
}
