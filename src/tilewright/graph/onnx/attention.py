"""Attention, rotary embeddings, linear attention and causal convolution of the standard domain."""

from __future__ import annotations

from math import sqrt

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
    lengths_mask,
    rotated,
    window_mask,
    window_masks,
)
from .compose import Compose
from .convert import Builder, Converter, OnnxNode
from .convolution import convolve
from .norm import STASH
from .window import Window


def attention(b: Builder, node: OnnxNode) -> list[Value | None]:
    q, k, v = (node.input(i) for i in range(3))
    mask, lengths = node.optional(3), node.optional(6)
    past_k, past_v = node.optional(4), node.optional(5)
    c = Compose(b, node)
    flat = len(q.shape) == 3
    if flat:
        heads, kv_heads = node.get("q_num_heads", 0), node.get("kv_num_heads", 0)
        q, k, v = heads_apart(c, q, heads), heads_apart(c, k, kv_heads), heads_apart(c, v, kv_heads)
    if any(len(x.shape) != 4 for x in (q, k, v)):
        raise node.error(f"queries {q!r}, keys {k!r} and values {v!r} differ in rank")
    before = 0 if past_k is None else past_k.shape[2]
    k, v = appended(c, past_k, k), appended(c, past_v, v)
    queries, keys = q.shape[2], k.shape[2]
    how = Scores(
        node.get("scale") or 1 / sqrt(max(q.shape[3], 1)),
        node.get("softcap", 0.0),
        precision=STASH.get(node.get("softmax_precision", 0), ""),
    )
    if mask is not None:
        _add_mask(c, how, in_four(c, mask), keys)
    left, right = node.get("left_window_size", -1), node.get("right_window_size", -1)
    if node.get("is_causal", 0):
        right = 0 if right < 0 else min(right, 0)
    if lengths is not None:
        how.allowed.append(lengths_mask(c, lengths, keys))
    if lengths is not None and past_k is None:
        offset = c("subtract", c.cast(lengths, "int64"), queries)
        how.allowed += window_masks(c, queries, keys, offset, left, right)
    else:
        how.allowed += all_of(c, [window_mask(queries, keys, before, left, right)])
    mode = None
    if len(node.outputs) > 3 and node.outputs[3]:
        mode = node.get("qk_matmul_output_mode", 0)
    y, shown = attend(c, q, k, v, how, mode)
    return [heads_together(c, y) if flat else y, k, v, shown][: len(node.outputs)]


def _add_mask(c: Compose, how: Scores, mask: Value, keys: int) -> None:
    """A mask of fewer keys than there are hides the rest."""
    if mask.shape[3] not in (1, keys):
        behind = [0, 0, 0, keys - mask.shape[3]]
        filler = 0 if mask.dtype == "bool" else float("-inf")
        mask = c("pad", mask, before=[0] * 4, after=behind, value=filler)
    (how.allowed if mask.dtype == "bool" else how.biases).append(mask)


def rotary_embedding(b: Builder, node: OnnxNode) -> Value:
    x, cosine, sine, places = node.input(0), node.input(1), node.input(2), node.optional(3)
    c = Compose(b, node)
    interleaved = bool(node.get("interleaved", 0))
    if len(x.shape) == 4:  # (batch, heads, steps, size)
        return rotated(c, x, cosine, sine, places, interleaved, 2)
    heads = node.get("num_heads", 0)
    if len(x.shape) != 3 or heads < 1 or x.shape[2] % heads:
        raise node.error(f"{x!r} does not divide into {heads} heads")
    apart = c.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
    return c.reshape(rotated(c, apart, cosine, sine, places, interleaved, 1), x.shape)


def linear_attention(b: Builder, node: OnnxNode) -> list[Value]:
    """The state, a matrix for each head, step after step; in float32, or wider."""
    q, k, v = (node.input(i) for i in range(3))
    past, decay, beta = node.optional(3), node.optional(4), node.optional(5)
    c = Compose(b, node)
    heads, kv_heads = node.get("q_num_heads", 0), node.get("kv_num_heads", 0)
    rule = node.get("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise node.error(f"update_rule {rule!r} is unknown")
    if ("gated" in rule) != (decay is not None) or ("delta" in rule) != (beta is not None):
        raise node.error(f"update_rule {rule!r} and the inputs decay and beta do not agree")
    batch, steps, _ = q.shape
    if kv_heads < 1 or heads % kv_heads:
        raise node.error(f"{heads} heads do not divide into groups for {kv_heads} keys")
    group, count = heads // kv_heads, batch * kv_heads
    q4, k4, v4 = (
        heads_apart(c, c.wide(x), n) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads))
    )
    size, out_size = k4.shape[3], v4.shape[3]
    rows = c.transpose(c.reshape(q4, (count, group, steps, size)), (2, 0, 1, 3))
    keys = c.transpose(c.reshape(k4, (count, steps, size)), (1, 0, 2))
    values = c.transpose(c.reshape(v4, (count, steps, out_size)), (1, 0, 2))
    gates = None if decay is None else _per_head(c, c.wide(decay), kv_heads, batch)
    factors = None if beta is None else _per_head(c, c.wide(beta), kv_heads, batch)
    if past is None:
        state = c.full((count, size, out_size), 0, q4.dtype)
    else:
        state = c.reshape(c.wide(past), (count, size, out_size))
    outs = []
    for t in range(steps):
        at = c.constant(np.asarray(t, np.int64))
        key = c.reshape(c("take", keys, at, axis=0), (count, 1, size))
        value = c.reshape(c("take", values, at, axis=0), (count, 1, out_size))
        if gates is not None:
            gate = c("take", gates, at, axis=0)
            gate = c.reshape(gate, (count, gate.shape[1], 1))
            state = c("multiply", state, c("exp", gate))
        if factors is not None:
            factor = c.reshape(c("take", factors, at, axis=0), (count, 1, 1))
            found = c("batch_matmul", key, state)
            value = c("multiply", factor, c("subtract", value, found))
        state = c("add", state, c("multiply", c.reshape(key, (count, size, 1)), value))
        outs.append(c("batch_matmul", c("take", rows, at, axis=0), state))
    if outs:
        one = (batch, 1, heads, out_size)
        y = c.join([c.reshape(o, one) for o in outs], 1)
    else:
        y = c.full((batch, 0, heads, out_size), 0, q4.dtype)
    y = c("multiply", y, node.get("scale") or 1 / sqrt(max(size, 1)))
    y = c.cast(c.reshape(y, (batch, steps, heads * out_size)), q.dtype)
    last = c.reshape(state, (batch, kv_heads, size, out_size))
    return [y, c.cast(last, q.dtype if past is None else past.dtype)][: len(node.outputs)]


def _per_head(c: Compose, x: Value, heads: int, batch: int) -> Value:
    """(batch, steps, heads * size), or (batch, steps, 1) for all heads, as (steps, batch * heads,
    size)."""
    _, steps, width = x.shape
    if width == 1 and heads > 1:
        x, width = c.broadcast(x, (batch, steps, heads)), heads
    if width % heads:
        raise c.node.error(f"{x!r} does not divide into {heads} heads")
    apart = c.transpose(heads_apart(c, x, heads), (2, 0, 1, 3))
    return c.reshape(apart, (steps, batch * heads, width // heads))


def causal_conv(b: Builder, node: OnnxNode) -> list[Value]:
    """A depthwise convolution over the steps that came before, kept from call to call."""
    x, kernel, bias, past = node.input(0), node.input(1), node.optional(2), node.optional(3)
    activation = node.get("activation", "none")
    if len(x.shape) != 3 or kernel.shape[:2] != (x.shape[1], 1):
        raise node.error(f"weights {kernel!r} do not fit {x!r}")
    if activation not in ("none", "silu", "swish"):
        raise node.error(f"activation {activation!r} is unknown")
    c = Compose(b, node)
    before = kernel.shape[2] - 1
    if past is None:
        past = c.full((*x.shape[:2], before), 0, x.dtype)
    whole = appended(c, past, x)
    w = Window(kernel.shape[2:], (1,), (0,), (0,), (1,))
    y = convolve(c, whole, kernel, w, x.shape[1])
    if bias is not None:
        y = c("bias_add", y, bias, axis=1)
    if activation != "none":
        wide = c.wide(y)
        y = c.cast(c("multiply", wide, c("sigmoid", wide)), x.dtype)
    state = c.part(whole, 2, whole.shape[2] - before, whole.shape[2])
    return [y, state][: len(node.outputs)]


CONVERTERS: dict[str, Converter] = {
    "Attention": attention,
    "RotaryEmbedding": rotary_embedding,
    "LinearAttention": linear_attention,
    "CausalConvWithState": causal_conv,
}
