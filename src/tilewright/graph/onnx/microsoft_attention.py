"""Attention of ONNX Runtime's own, in domain com.microsoft: what its optimizer and exporters of
language models write.

All of them come down to `attend`. What differs is where queries, keys and values come from, how a
mask is written, and how keys of earlier steps are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from ..ir import Value
from .attend import (
    Scores,
    all_of,
    appended,
    attend,
    heads_apart,
    heads_together,
    in_four,
    rotated,
    window_mask,
    window_masks,
)
from .compose import Compose
from .convert import Builder, Converter, OnHostError, OnnxNode
from .products import product
from .quantize import integer_product

_HIDDEN = -10000.0  # what is added to a score that is masked, unless a node says otherwise


class Heads(NamedTuple):
    """Queries, keys and values, (batch, heads, steps, size) each."""

    q: Value
    k: Value
    v: Value


def _scores(node: OnnxNode, size: int) -> Scores:
    return Scores(node.get("scale", 0.0) or 1 / sqrt(max(size, 1)), node.get("softcap", 0.0))


def _key_mask(c: Compose, how: Scores, mask: Value, batch: int, queries: int, keys: int) -> None:
    """1 where a key counts: (batch, keys), (batch, queries, keys) or (batch, 1, most, most), or the
    number of keys of each batch, with where they begin behind it. A score that does not count keeps
    its place among those that do not: a number is added."""
    shape = mask.shape
    columns = c.constant(np.arange(keys, dtype=np.int32).reshape(1, 1, 1, -1))
    mask = c.cast(mask, "int32")
    if len(shape) == 1 and shape[0] in (batch, 2 * batch):
        ends = c.reshape(c.part(mask, 0, 0, batch), (batch, 1, 1, 1))
        counts = c.cast(c("less", columns, ends), "int32")
        if shape[0] == 2 * batch:
            begins = c.reshape(c.part(mask, 0, batch, 2 * batch), (batch, 1, 1, 1))
            late = c("less", columns, begins)
            counts = c("where", late, c.number(0, "int32"), counts)
    elif len(shape) == 2 and shape == (batch, keys):
        counts = c.reshape(mask, (batch, 1, 1, keys))
    elif len(shape) == 3 and shape == (batch, queries, keys):
        counts = c.reshape(mask, (batch, 1, queries, keys))
    elif len(shape) == 4 and shape[:2] == (batch, 1) and all(n >= keys for n in shape[2:]):
        counts = c.part(c.part(mask, 3, 0, keys), 2, keys - queries, keys)
    else:
        text = c.node.error(f"a mask {mask!r} for {queries} queries and {keys} keys")
        raise OnHostError(str(text))
    hidden = c.number(c.node.get("mask_filter_value", _HIDDEN), "float32")
    none = c.number(0.0, "float32")
    how.biases.append(c("where", c("less", c.number(0, "int32"), counts), none, hidden))


def _attended(
    c: Compose,
    heads: Heads,
    mask: Value | None,
    bias: Value | None,
    before: int,
    mode: int | None = None,
) -> tuple[Value, Value | None]:
    """(batch, steps, heads * size), and with `mode` the scores."""
    q, k, v = heads
    how = _scores(c.node, q.shape[3])
    queries, keys = q.shape[2], k.shape[2]
    if mask is not None:
        _key_mask(c, how, mask, q.shape[0], queries, keys)
    if bias is not None:
        how.biases.append(in_four(c, bias))
    if c.node.get("unidirectional", 0):
        how.allowed += all_of(c, [window_mask(queries, keys, before, right=0)])
        how.filler = float(np.finfo(np.float32).min)
    y, shown = attend(c, q, k, v, how, mode)
    return heads_together(c, y), shown


def _joint(c: Compose, total: Value, past: Value | None, mask: Value | None, bias: Value | None,
           wanted: Sequence[str]) -> list[Value | None]:  # fmt: skip
    """Attention of one array with queries, keys and values side by side, (batch, steps, width)."""
    node = c.node
    count, width = node.get("num_heads"), total.shape[2]
    if node.get("past_present_share_buffer", 0):
        raise OnHostError(str(node.error("keys that are kept in place are not supported")))
    sizes = node.get("qkv_hidden_sizes") or [width // 3] * 3
    if len(sizes) != 3 or sum(sizes) != width:
        raise node.error(f"qkv_hidden_sizes {sizes} of {width}")
    q, k, v = (heads_apart(c, x, count) for x in c.parts(total, 2, sizes))
    if node.get("do_rotary", 0):
        raise OnHostError(str(node.error("do_rotary is not supported; export RotaryEmbedding")))
    before = 0
    if past is not None:  # (2, batch, heads, steps, size)
        earlier = [c.reshape(x, past.shape[1:]) for x in c.parts(past, 0, [1, 1])]
        before = past.shape[3]
        k, v = appended(c, earlier[0], k), appended(c, earlier[1], v)
    y, _ = _attended(c, Heads(q, k, v), mask, bias, before)
    present = None
    if len(wanted) > 1 and wanted[1]:
        present = c.join([c.reshape(x, (1, *x.shape)) for x in (k, v)], 0)
    return [y, present][: len(wanted)]


def joint_attention(b: Builder, node: OnnxNode) -> list[Value | None]:
    x, weights, bias = node.input(0), node.input(1), node.optional(2)
    c = Compose(b, node)
    total = product(b, node, x, weights)
    total = total if bias is None else c("add", total, bias)
    past, mask = node.optional(4), node.optional(3)
    return _joint(c, total, past, mask, node.optional(5), node.outputs)


def quantised_attention(b: Builder, node: OnnxNode) -> list[Value | None]:
    """As joint_attention, of 8 bits."""
    x, weights, bias, scale, weight_scale = (node.input(k) for k in range(5))
    mask, past = node.optional(5), node.optional(8)
    c = Compose(b, node)
    total = integer_product(b, node, x, weights, (node.optional(6), node.optional(7)))
    factor = c("multiply", scale, weight_scale)
    total = c("add", c("multiply", c.cast(total, "float32"), factor), bias)
    return _joint(c, total, past, mask, None, node.outputs)


def _apart(c: Compose, x: Value, count: int, bias: Value | None) -> Value:
    """(batch, heads, steps, size) of what is so already or lies as (batch, steps, width)."""
    if len(x.shape) == 4:
        return x
    return heads_apart(c, x if bias is None else c("add", x, bias), count)


def multi_head_attention(b: Builder, node: OnnxNode) -> list[Value | None]:
    """Queries, keys and values apart, or packed as (batch, steps, heads, 3, size), or keys with
    values as (batch, steps, heads, 2, size)."""
    query, key, value, bias = node.input(0), node.optional(1), node.optional(2), node.optional(3)
    past_k, past_v = node.optional(6), node.optional(7)
    c, count = Compose(b, node), node.get("num_heads")
    if any(v is not None for v in (*node.inputs[8:],)):
        raise OnHostError(str(node.error("keys that are kept in place are not supported")))
    packed = query if len(query.shape) == 5 else key
    if packed is not None and len(packed.shape) == 5:
        found = [
            c.reshape(x, (*packed.shape[:2], packed.shape[2] * packed.shape[4]))
            for x in c.parts(packed, 3, [1] * packed.shape[3])
        ]
        query, key, value = found if packed is query else (query, *found)
    if key is None or value is None:
        raise node.error("keys or values are missing")
    biases: list[Value | None] = [None] * 3
    if bias is not None:
        widths = [x.shape[1] * x.shape[3] if len(x.shape) == 4 else x.shape[2]
                  for x in (query, key, value)]  # fmt: skip
        biases = [*c.parts(bias, 0, widths)]
    q, k, v = (_apart(c, x, count, one) for x, one in zip((query, key, value), biases))
    before = 0 if past_k is None else past_k.shape[2]
    k, v = appended(c, past_k, k), appended(c, past_v, v)
    mode = 0 if len(node.outputs) > 3 and node.outputs[3] else None
    heads = Heads(q, k, v)
    y, shown = _attended(c, heads, node.optional(4), node.optional(5), before, mode)
    return [y, k, v, shown][: len(node.outputs)]


def rotary(b: Builder, node: OnnxNode) -> Value:
    """As the standard's, with positions before the tables; one position is the first one's."""
    x, places, cosine, sine = (node.input(k) for k in range(4))
    c = Compose(b, node)
    if node.get("is_packed_batching", 0):
        raise OnHostError(str(node.error("batches packed into one are not supported")))
    size = 2 * cosine.shape[1]
    if len(x.shape) == 4:
        steps, axis = x.shape[2], 2
    else:
        steps, axis = x.shape[1], 1
    shape = x.shape
    if len(shape) == 3:
        count = node.get("num_heads", 0)
        if not count:
            if node.get("rotary_embedding_dim", 0):
                raise node.error("rotary_embedding_dim needs num_heads")
            count = shape[2] // max(size, 1)
        if count < 1 or shape[2] % count:
            raise node.error(f"{x!r} does not divide into {count} heads")
        x = c.reshape(x, (*shape[:2], count, shape[2] // count))
    places = _positions(c, places, shape[0], steps)
    interleaved = bool(node.get("interleaved", 0))
    out = rotated(c, x, cosine, sine, places, interleaved, axis)
    scale = node.get("scale", 1.0)
    out = out if scale == 1.0 else c("multiply", out, scale)
    return c.reshape(out, shape)


def _positions(c: Compose, places: Value, batch: int, steps: int) -> Value:
    """(batch, steps)."""
    if places.shape in ((), (1,)) and (batch, steps) != (1, 1):
        row = c.constant(np.arange(steps, dtype=np.int64).reshape(1, steps))
        first = c.reshape(c.cast(places, "int64"), (1, 1))
        return c.broadcast(c("add", row, first), (batch, steps))
    return c.reshape(places, (batch, steps))


def grouped_attention(b: Builder, node: OnnxNode) -> list[Value | None]:
    """Several heads of queries share one of keys, which keep those of earlier steps; causal.

    Each batch has keys of its own number: `seqlens` of them less one when this step's are behind
    the earlier ones."""
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    past_k, past_v = node.optional(3), node.optional(4)
    seqlens, total = node.input(5), int(np.asarray(node.array(6)).reshape(-1)[0])
    c = Compose(b, node)
    count, kv_count = node.get("num_heads"), node.get("kv_num_heads")
    if node.get("smooth_softmax", 0) or any(v is not None for v in node.inputs[11:]):
        raise OnHostError(str(node.error("sinks of attention are not supported")))
    if key is None or value is None:
        size = query.shape[2] // (count + 2 * kv_count)
        widths = [count * size, kv_count * size, kv_count * size]
        query, key, value = c.parts(query, 2, widths)
    batch, steps = query.shape[:2]
    q = heads_apart(c, query, count)
    k, v = heads_apart(c, key, kv_count), heads_apart(c, value, kv_count)
    lengths = c.reshape(c.cast(seqlens, "int64"), (batch, 1))
    # prompts of several lengths are padded behind: all begin with the first key
    first = steps == total
    before = c.full((batch, 1), 0, "int64") if first else c("add", lengths, 1 - steps)
    if node.get("do_rotary", 0):
        cosine, sine, given = node.input(7), node.input(8), node.optional(9)
        row = c.constant(np.arange(steps, dtype=np.int64).reshape(1, steps))
        places = c("add", c.broadcast(row, (batch, steps)), before) if given is None else given
        how_pairs = bool(node.get("rotary_interleaved", 0))
        q, k = (rotated(c, x, cosine, sine, places, how_pairs, 2) for x in (q, k))
    room = total if past_k is None else max(past_k.shape[2], total)
    k, v = (_kept(c, past, new, before, room) for past, new in ((past_k, k), (past_v, v)))
    how = _scores(node, q.shape[3])
    if node.optional(10) is not None:
        bias = in_four(c, node.input(10))
        if bias.shape[3] != room:
            behind = [0, 0, 0, room - bias.shape[3]]
            bias = c("pad", bias, before=[0] * 4, after=behind, value=0)
        how.biases.append(bias)
    left = node.get("local_window_size", -1)
    left = left - 1 if left > 0 else -1  # a window counts the query's own place
    how.allowed += window_masks(c, steps, room, before, left, 0)
    y, _ = attend(c, q, k, v, how)
    found: list[Value | None] = [heads_together(c, y), k, v]
    return found[: len(node.outputs)]


def _kept(c: Compose, past: Value | None, new: Value, before: Value, room: int) -> Value:
    """(batch, heads, room, size): `new` written behind the first `before` of `past`, zeros behind
    it where there was nothing."""
    batch, heads, steps, size = new.shape
    if past is None or past.shape[2] == 0:
        behind = [0, 0, room - steps, 0]
        return c("pad", new, before=[0] * 4, after=behind, value=0) if room > steps else new
    if past.shape[2] < room:
        past = c("pad", past, before=[0] * 4, after=[0, 0, room - past.shape[2], 0], value=0)
    row = c.constant(np.arange(room, dtype=np.int64).reshape(1, 1, room, 1))
    away = c("subtract", row, c.reshape(before, (batch, 1, 1, 1)))
    inside = c("maximum", c("minimum", away, steps - 1), 0)
    places = c.broadcast(inside, (batch, heads, room, size))
    there = c("gather_elements", new, places, axis=2)
    early = c("less", away, c.number(0, "int64"))
    late = c("less", c.number(steps - 1, "int64"), away)
    return c("where", early, past, c("where", late, past, there))


_OWN: dict[str, Converter] = {
    "Attention": joint_attention,
    "QAttention": quantised_attention,
    "MultiHeadAttention": multi_head_attention,
    "GroupQueryAttention": grouped_attention,
    "RotaryEmbedding": rotary,
}
CONVERTERS: dict[str, Converter] = {f"com.microsoft.{name}": f for name, f in _OWN.items()}
