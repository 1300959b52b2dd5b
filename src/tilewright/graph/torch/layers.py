"""Layers: convolutions, pooling, products, normalisation, attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from ..ir import Value
from ..onnx.attend import Scores, all_of, attend, in_four, window_mask
from ..onnx.norm import normalize, over_last
from ..onnx.products import product
from ..sizes import Size
from .convert import Call, Converter, each
from .reduce import moments, vector_norm
from .views import counting


def convolution(
    c: Call, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    rank = len(weight.shape) - 2
    pads = each(padding, rank)
    single = len(x.shape) == rank + 1  # no batch
    data = c.reshape(x, (1, *x.shape)) if single else x
    attrs: dict[str, Any] = {
        "strides": each(stride, rank),
        "dilations": each(dilation, rank),
        "pads": [*pads, *pads],
        "group": groups,
    }
    if transposed:
        attrs["output_padding"] = each(output_padding, rank)
    out: Value = c.onnx("ConvTranspose" if transposed else "Conv", [data, weight, bias], **attrs)
    return c.reshape(out, out.shape[1:]) if single else out


# -- pooling


def _pool(c: Call, kind: str, x: Value, rank: int, given: dict[str, Any], outputs: int = 1) -> Any:
    """By ONNX's operator. A last window that would begin behind the data and the padding in front
    of it is left out, as there."""
    single = len(x.shape) == rank + 1
    data = c.reshape(x, (1, *x.shape)) if single else x
    found = c.onnx(kind, [data], outputs, **given)
    found = found if isinstance(found, list) else [found]
    return [c.reshape(v, v.shape[1:]) if single and v is not None else v for v in found]


def _window(
    kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, rank: int
) -> dict[str, Any]:
    pads = each(padding, rank)
    return {
        "kernel_shape": each(kernel, rank),
        "strides": each(stride or kernel, rank),
        "pads": [*pads, *pads],
        "dilations": each(dilation, rank),
        "ceil_mode": int(ceil),
    }


def _max_pool(rank: int, indexed: bool = True) -> Converter:
    """The maxima, and their places in their own plane (ONNX counts in the whole tensor)."""

    def convert(
        c: Call, x: Value, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        given = _window(kernel, stride, padding, dilation, ceil_mode, rank)
        if not indexed or not c.read[-1] or len(c.read) < 2:
            found = _pool(c, "MaxPool", x, rank, given)
            return [found[0], None] if indexed else found[0]
        values, places = _pool(c, "MaxPool", x, rank, given, 2)
        plane = c.value(prod(x.shape[-rank:]), places.dtype)
        return [values, c("mod", places, plane, fmod=0)]

    return convert


def _average_pool(rank: int) -> Converter:
    def convert(
        c: Call, x: Value, kernel: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
    ) -> Value:  # fmt: skip
        given = _window(kernel, stride, padding, 1, ceil_mode, rank)
        if divisor_override is None:
            given["count_include_pad"] = int(count_include_pad)
            out: Value = _pool(c, "AveragePool", x, rank, given)[0]
            return out
        given["count_include_pad"] = 1
        if ceil_mode:
            raise c.error("a divisor together with ceil_mode is not supported")
        out = _pool(c, "AveragePool", x, rank, given)[0]
        return c("multiply", out, prod(given["kernel_shape"]) / divisor_override)

    return convert


def _adaptive(kind: str, rank: int) -> Converter:
    """Windows of one size where the extents divide, else a mean over places that are known: along
    each dimension, the elements of the longest window, those that are too many with no weight."""

    def convert(c: Call, x: Value, size: Any) -> Any:
        wanted = [n if n is not None else d for n, d in zip(each(size, rank), x.shape[-rank:])]
        extents = x.shape[-rank:]
        if any(isinstance(d, Size) for d in (*extents, *wanted)):
            if any(isinstance(n, Size) for n in wanted) or (kind == "max" and c.read[-1]):
                raise c.error("bins of sizes that are not known: their number, or places of maxima")
            found = c("adaptive_pool", x, sizes=tuple(wanted), type=kind)
            return [found, None] if kind == "max" else found
        if all(d % n == 0 for d, n in zip(extents, wanted)):
            kernel = [d // n for d, n in zip(extents, wanted)]
            if kind == "max":
                return _max_pool(rank)(c, x, kernel)
            if wanted == [1] * rank and len(x.shape) == rank + 2:
                return c.onnx("GlobalAveragePool", [x])
            return _average_pool(rank)(c, x, kernel)
        if kind == "max" and c.read[-1]:
            raise c.error("places of maxima in windows of several sizes are not supported")
        for k, n in enumerate(wanted):
            x = _uneven(c, kind, x, len(x.shape) - rank + k, n)
        return [x, None] if kind == "max" else x

    return convert


def _uneven(c: Call, kind: str, x: Value, axis: int, count: int) -> Value:
    extent = x.shape[axis]
    starts = [k * extent // count for k in range(count)]
    ends = [-(-(k + 1) * extent // count) for k in range(count)]
    if kind == "avg":
        weights = np.zeros((extent, count))
        for k, (start, end) in enumerate(zip(starts, ends)):
            weights[start:end, k] = 1 / (end - start)
        order = [k for k in range(len(x.shape)) if k != axis] + [axis]
        out = product(c.b, c.node, c.transpose(x, order), c.constant(weights, x.dtype))
        back = [*range(axis), len(order) - 1, *range(axis, len(order) - 1)]
        return c.transpose(out, back)
    longest = max(e - s for s, e in zip(starts, ends))
    places = [[min(s + k, e - 1) for k in range(longest)] for s, e in zip(starts, ends)]
    taken = c("take", x, c.integers(places), axis=axis)
    return c("reduce", taken, type="max", axes=[axis + 1], keepdims=False)


# -- products


def matmul(c: Call, x: Value, y: Value, *_: Any) -> Value:
    return product(c.b, c.node, x, y)


def _plus(c: Call, bias: Value, out: Value, beta: Any, alpha: Any) -> Value:
    """beta bias + alpha out; a bias that counts nothing is not read."""
    out = out if alpha == 1 else c("multiply", out, alpha)
    if beta == 0:
        return out
    return c("add", out, bias if beta == 1 else c("multiply", bias, beta))


def add_product(
    c: Call, bias: Value, x: Value, y: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    return _plus(c, bias, product(c.b, c.node, x, y), beta, alpha)


def linear(c: Call, x: Value, weight: Value, bias: Value | None = None) -> Value:
    out = product(c.b, c.node, x, c.transpose(weight, (1, 0)) if len(weight.shape) > 1 else weight)
    return out if bias is None else c("add", out, bias)


def trilinear(
    c: Call, x: Value, y: Value, z: Value, first: Sequence[int], second: Sequence[int],
    third: Sequence[int], summed: Sequence[int], *_: Any,
) -> Value:  # fmt: skip
    """The product of three tensors, each with new dimensions of 1, summed over some."""
    spread = []
    for v, axes in ((x, first), (y, second), (z, third)):
        shape = list(v.shape)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        spread.append(c.reshape(v, shape))
    out = c("multiply", c("multiply", spread[0], spread[1]), spread[2])
    return c("reduce", out, type="sum", axes=list(summed), keepdims=False) if summed else out


# -- normalisation


def _fixed_norm(
    c: Call, x: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value,
    epsilon: float,
) -> Value:  # fmt: skip
    channels = x.shape[1]
    weight = c.full((channels,), 1, x.dtype) if weight is None else weight
    bias = c.full((channels,), 0, x.dtype) if bias is None else bias
    given = [x, weight, bias, c.cast(mean, x.dtype), c.cast(variance, x.dtype)]
    out: Value = c.onnx("BatchNormalization", given, epsilon=epsilon)
    return out


def batch_norm_inference(
    c: Call, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, momentum: float,
    epsilon: float,
) -> list[Value | None]:  # fmt: skip
    return [_fixed_norm(c, x, weight, bias, mean, variance, epsilon), None, None]


def _by_batch(
    c: Call, x: Value, weight: Any, bias: Any, epsilon: float
) -> tuple[Value, Value, Value]:
    """The data normalised by its own statistics, and these: mean and variance."""
    axes = [k for k in range(len(x.shape)) if k != 1]
    spread, middle = moments(c, x, axes, 0, False)
    out = _fixed_norm(c, c.wide(x), _widened(c, weight), _widened(c, bias), middle, spread, epsilon)
    return c.cast(out, x.dtype), middle, spread


def batch_norm(
    c: Call, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, training: bool,
    momentum: float, epsilon: float, *_: Any,
) -> list[Value | None]:  # fmt: skip
    """By the batch's own statistics where there are no others."""
    if not training:
        return batch_norm_inference(c, x, weight, bias, mean, variance, momentum, epsilon)
    if any(c.read[1:]):
        raise c.error("statistics of the batch are for the backward pass")
    if mean is not None or variance is not None:
        raise c.error("running statistics are not updated")
    return [_by_batch(c, x, weight, bias, epsilon)[0], *[None] * (len(c.read) - 1)]


def batch_norm_functional(
    c: Call, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, training: bool,
    momentum: float, epsilon: float,
) -> list[Value | None]:  # fmt: skip
    """As batch_norm; what the running statistics become are results, and stand last."""
    if not training:
        found = batch_norm_inference(c, x, weight, bias, mean, variance, momentum, epsilon)
        return [*found, mean, variance]
    if any(c.read[1:3]):
        raise c.error("statistics of the batch are for the backward pass")
    out, middle, spread = _by_batch(c, x, weight, bias, epsilon)
    count = prod(x.shape[:1] + x.shape[2:])
    spread = c("divide", c("multiply", spread, c.value(count, spread.dtype)),
               c.value(count - 1, spread.dtype))  # fmt: skip
    moved = [
        c.cast(c("add", c("multiply", new, momentum), c("multiply", c.wide(old), 1 - momentum)),
               old.dtype)
        for new, old in ((middle, mean), (spread, variance))
    ]  # fmt: skip
    return [out, None, None, *moved]


def _widened(c: Call, value: Value | None) -> Value | None:
    return None if value is None else c.wide(value)


def batch_norm_no_stats(
    c: Call, x: Value, weight: Any, bias: Any, training: bool, momentum: float, epsilon: float
) -> list[Value | None]:
    return batch_norm(c, x, weight, bias, None, None, training, momentum, epsilon)


def layer_norm(
    c: Call, x: Value, shape: Sequence[int], weight: Any, bias: Any, epsilon: float
) -> list[Value | None]:
    if any(c.read[1:]):
        raise c.error("statistics are for the backward pass")
    axis = len(x.shape) - len(shape)
    return [over_last(c, x, axis, weight, bias, epsilon, True), None, None]


def rms_norm(
    c: Call, x: Value, shape: Sequence[int], weight: Any = None, epsilon: float | None = None
) -> list[Value | None]:
    if any(c.read[1:]):
        raise c.error("statistics are for the backward pass")
    small = np.finfo(np.float32).eps if epsilon is None else epsilon
    axis = len(x.shape) - len(shape)
    return [over_last(c, x, axis, weight, None, float(small), False), None]


def group_norm(
    c: Call, x: Value, weight: Any, bias: Any, n: int, channels: int, inner: int, groups: int,
    epsilon: float,
) -> list[Value | None]:  # fmt: skip
    if any(c.read[1:]):
        raise c.error("statistics are for the backward pass")
    size = channels // groups * inner
    how = (epsilon, True, groups, max(inner, 1))
    return [normalize(c, x, (n * groups, size), weight, bias, *how), None, None]


# -- attention


def attention(
    c: Call, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False,
    attn_mask: Value | None = None, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """scaled_dot_product_attention; a causal mask begins at the first key."""
    if dropout:
        raise c.error("dropout draws random numbers")
    front = q.shape[:-2]
    if len(q.shape) != 4:
        q, k, v = (_in_four_heads(c, t) for t in (q, k, v))
    if scale is None and isinstance(q.shape[3], Size):
        q, scale = c("divide", q, c("sqrt", c.value(q.shape[3], q.dtype))), 1.0
    how = Scores(scale if scale is not None else 1 / sqrt(max(q.shape[3], 1)))
    if attn_mask is not None:
        mask = attn_mask
        if len(mask.shape) > 4 or len(front) > 2:
            mask = c.broadcast(mask, (*front, *mask.shape[-2:]))
            mask = _in_four_heads(c, mask)
        (how.allowed if mask.dtype == "bool" else how.biases).append(in_four(c, mask))
    if causal and isinstance(q.shape[2], int) and isinstance(k.shape[2], int):
        how.allowed += all_of(c, [window_mask(q.shape[2], k.shape[2], 0, -1, 0)])
    elif causal:
        rows, columns = (counting(c, 0, x.shape[2], 1) for x in (q, k))
        rows = c.reshape(rows, (1, 1, q.shape[2], 1))
        how.allowed.append(in_four(c, c("less_equal", columns, rows)))
    out, _ = attend(c, q, k, v, how)
    return c.reshape(out, (*front, *out.shape[2:]))


def _in_four_heads(c: Call, x: Value) -> Value:
    """(..., steps, size) to (1, heads, steps, size)."""
    return c.reshape(x, (1, prod(x.shape[:-2]), *x.shape[-2:]))


def flash_attention(
    c: Call, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False,
    *, attn_mask: Value | None = None, scale: float | None = None,
) -> list[Value | None]:  # fmt: skip
    if any(c.read[1:]):
        raise c.error("the sums of exponentials are for the backward pass")
    return [attention(c, q, k, v, dropout, causal, attn_mask, scale), None]


def sdpa(
    c: Call, q: Value, k: Value, v: Value, attn_mask: Value | None = None, dropout: float = 0.0,
    causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    return attention(c, q, k, v, dropout, causal, attn_mask, scale, enable_gqa)


def distance(c: Call, x: Value, y: Value, p: float = 2.0, mode: Any = None) -> Value:
    """_cdist_forward: each row of x to each of y, of differences, which do not cancel."""
    rows = c.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    others = c.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    away = c("subtract", rows, others)
    return vector_norm(c, away, p, [len(away.shape) - 1])


CONVERTERS: dict[str, Converter] = {
    "convolution": convolution,
    "max_pool1d_with_indices": _max_pool(1),
    "max_pool2d_with_indices": _max_pool(2),
    "max_pool3d_with_indices": _max_pool(3),
    "max_pool2d": _max_pool(2, False),
    "avg_pool1d": _average_pool(1),
    "avg_pool2d": _average_pool(2),
    "avg_pool3d": _average_pool(3),
    "adaptive_avg_pool1d": _adaptive("avg", 1),
    "_adaptive_avg_pool2d": _adaptive("avg", 2),
    "_adaptive_avg_pool3d": _adaptive("avg", 3),
    "adaptive_max_pool2d": _adaptive("max", 2),
    "adaptive_max_pool3d": _adaptive("max", 3),
    "mm": matmul,
    "bmm": matmul,
    "mv": matmul,
    "dot": matmul,
    "matmul": matmul,
    "addmm": add_product,
    "addmv": add_product,
    "baddbmm": add_product,
    "linear": linear,
    "_trilinear": trilinear,
    "_native_batch_norm_legit_no_training": batch_norm_inference,
    "_native_batch_norm_legit": batch_norm,
    "_native_batch_norm_legit_functional": batch_norm_functional,
    "_native_batch_norm_legit.no_stats": batch_norm_no_stats,
    "native_batch_norm": batch_norm,
    "native_layer_norm": layer_norm,
    "_fused_rms_norm": rms_norm,
    "native_group_norm": group_norm,
    "scaled_dot_product_attention": sdpa,
    "_scaled_dot_product_flash_attention_for_cpu": flash_attention,
    "_cdist_forward": distance,
}
