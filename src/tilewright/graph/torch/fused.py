"""Operators in which PyTorch has joined several: layers of transformers, bags of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from ..ir import Value
from ..onnx.attend import Scores, attend, heads_apart, heads_together, in_four
from ..onnx.norm import over_last
from ..shapes import symbols_in
from ..sizes import same
from .convert import Call, Converter, lowest
from .layers import linear
from .pointwise import truth
from .views import counting

_KEYS = 1
"""The kind of masks of batches and keys; others are of queries and keys, or whole."""


def _not_masked(c: Call, mask: Value, kind: int | None) -> Value:
    """Which scores count, of a mask that says, by true or by any number but 0, which do not."""
    mask = truth(c, mask)
    if kind == _KEYS:
        batch, keys = mask.shape
        mask = c.reshape(mask, (batch, 1, 1, keys))
    return c("invert", in_four(c, mask))


def _of_width(c: Call, x: Value, size: int) -> Value:
    """PyTorch lets a symbolic extent pass here that has to be the weights' own."""
    if not same(x.shape[-1], size):
        raise c.error(f"{x!r} does not fit weights for {size}")
    return c.reshape(x, (*x.shape[:-1], size))


def self_attention(
    c: Call, inputs: Sequence[Value], heads: int, weights: Sequence[Any], mask: Value | None,
    kind: int | None, shown: bool = False,
) -> tuple[Value, Value | None]:  # fmt: skip
    """`inputs` are queries, keys and values (batch, steps, size); `weights` those of all three in
    one, and those of the projection behind."""
    into, into_bias, out, out_bias = weights
    size = into.shape[1]
    parts = c.parts(into, 0, [size] * 3)
    biases = [None] * 3 if into_bias is None else c.parts(into_bias, 0, [size] * 3)
    q, k, v = (heads_apart(c, linear(c, x, w, b), heads) for x, w, b in zip(inputs, parts, biases))
    how = Scores(1 / sqrt(size // heads))
    if mask is not None:
        how.allowed.append(_not_masked(c, mask, kind))
    found, chances = attend(c, q, k, v, how, 3 if shown else None)
    return linear(c, heads_together(c, found), out, out_bias), chances


def multi_head_attention(
    c: Call, q: Value, k: Value, v: Value, size: int, heads: int, into: Value, into_bias: Any,
    out: Value, out_bias: Any, mask: Value | None = None, need_weights: bool = True,
    average: bool = True, mask_type: int | None = None,
) -> list[Value | None]:  # fmt: skip
    """_native_multi_head_attention."""
    shown = need_weights and c.read[-1]
    weights = (into, into_bias, out, out_bias)
    inputs = [_of_width(c, x, size) for x in (q, k, v)]
    found, chances = self_attention(c, inputs, heads, weights, mask, mask_type, shown)
    if chances is not None and average:
        chances = c("reduce", chances, type="mean", axes=[1], keepdims=False)
    return [found, chances]


def encoder_layer(
    c: Call, x: Value, size: int, heads: int, into: Value, into_bias: Any, out: Value,
    out_bias: Any, gelu: bool, norm_first: bool, epsilon: float, *weights: Any,
    mask: Value | None = None, mask_type: int | None = None,
) -> Value:  # fmt: skip
    """_transformer_encoder_layer_fwd: attention and two linear layers, each with a norm before or
    behind it; behind the weights there may be a mask."""
    scale1, shift1, scale2, shift2, w1, b1, w2, b2, *more = weights
    x = _of_width(c, x, size)
    mask, mask_type = (more + [mask, mask_type])[:2] if more else (mask, mask_type)

    def norm(v: Value, scale: Any, shift: Any) -> Value:
        return over_last(c, v, len(v.shape) - 1, scale, shift, epsilon, True)

    def attended(v: Value) -> Value:
        own = (into, into_bias, out, out_bias)
        return self_attention(c, (v, v, v), heads, own, mask, mask_type)[0]

    def fed(v: Value) -> Value:
        inner = linear(c, v, w1, b1)
        inner = c("gelu", inner, approximate="none") if gelu else c("relu", inner)
        return linear(c, inner, w2, b2)

    if norm_first:
        x = c("add", x, attended(norm(x, scale1, shift1)))
        return c("add", x, fed(norm(x, scale2, shift2)))
    x = norm(c("add", x, attended(x)), scale1, shift1)
    return norm(c("add", x, fed(x)), scale2, shift2)


# -- bags


_SUM, _MEAN, _MAX = range(3)


def embedding_bag(
    c: Call, table: Value, indices: Value, offsets: Value, by_count: bool = False,
    mode: int = _SUM, sparse: bool = False, factors: Value | None = None,
    last_included: bool = False, padding: int = -1,
) -> list[Value | None]:  # fmt: skip
    """Sums, means or maxima of rows of a table: of those from each offset to the next."""
    if any(c.read[1:]):
        raise c.error("where the rows of bags are is for the backward pass")
    bags, count = offsets.shape[0] - int(last_included), indices.shape[0]
    rows = c("take", table, indices, axis=0)
    if factors is not None:
        rows = c("multiply", rows, c.reshape(factors, (count, 1)))
    kept = None
    if padding >= 0:
        kept = c.reshape(c("invert", c("equal", c.cast(indices, "int64"), padding)), (count, 1))
    size = _even(offsets, bags, count)
    if size is None:
        found = _scattered_bags(c, rows, offsets, mode, kept)
        return [c.part(found, 0, 0, bags), None, None, None]
    if kept is not None:
        rows = c("where", kept, rows, c.number(_nothing(mode, rows.dtype), rows.dtype))
    apart = c.reshape(rows, (bags, size, rows.shape[1]))
    kind = {_SUM: "sum", _MEAN: "mean", _MAX: "max"}[mode]
    if kept is None:
        return [c("reduce", apart, type=kind, axes=[1], keepdims=False), None, None, None]
    found = c("reduce", apart, type="max" if mode == _MAX else "sum", axes=[1], keepdims=False)
    bits = c.reshape(c.cast(kept, rows.dtype), (bags, size, 1))
    counts = c("reduce", bits, type="sum", axes=[1], keepdims=False)
    return [_finished(c, found, counts, mode), None, None, None]


def _even(offsets: Value, bags: int, count: int) -> int | None:
    """The rows of each bag, where it is known that all have as many, and some."""
    if offsets.data is None or symbols_in([bags, count]) is not None or offsets.has_sizes:
        return None
    if bags == 0 or count == 0 or count % bags:
        return None
    size = count // bags
    even = np.arange(offsets.shape[0]) * size
    return size if np.array_equal(offsets.data, even) else None


def _nothing(mode: int, dtype: str) -> Any:
    return lowest(dtype) if mode == _MAX else 0


def _scattered_bags(c: Call, rows: Value, offsets: Value, mode: int, kept: Value | None) -> Value:
    """Each row written to its bag, which is the number of offsets before it; a last offset behind
    all rows makes an empty one."""
    (count, width), bags = rows.shape, offsets.shape[0]
    kind = "max" if mode == _MAX else "add"
    start = c.full((bags, width), _nothing(mode, rows.dtype), rows.dtype)
    if prod(rows.shape) == 0:
        return c.full((bags, width), 0, rows.dtype)
    starts = c.cast(offsets, "int64")
    places = c.reshape(counting(c, 0, count, 1), (count, 1))
    below = c.cast(c("less_equal", starts, places), "int64")
    which = c("reduce", below, type="sum", axes=[1], keepdims=True)
    which = c("subtract", which, 1)
    bits = c.full((count, 1), 1, rows.dtype)
    if kept is not None:
        bits = c.cast(kept, rows.dtype)
        rows = c("where", kept, rows, c.number(_nothing(mode, rows.dtype), rows.dtype))
    counts = c.full((bags, 1), 0, rows.dtype)
    found = c("scatter_nd", start, which, rows, reduction=kind)
    counts = c("scatter_nd", counts, which, bits, reduction="add")
    return _finished(c, found, counts, mode)


def _finished(c: Call, found: Value, counts: Value, mode: int) -> Value:
    """Means of sums; empty bags are zero."""
    if mode == _MEAN:
        return c("divide", found, c("maximum", counts, 1))
    if mode == _MAX:
        return c("where", c("greater", counts, 0), found, c.number(0, found.dtype))
    return found


CONVERTERS: dict[str, Converter] = {
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
}
