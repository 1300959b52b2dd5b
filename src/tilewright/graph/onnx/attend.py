"""Scaled dot-product attention, which several operators spell in their own ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...topi.elemwise import accumulator
from ..ir import Value
from .compose import Compose
from .convert import Array


@dataclass
class Scores:
    """What is done to products of queries and keys. Masks are of four dimensions, (batch, heads,
    queries, keys), each 1 or whole: `biases` are added, `allowed` say where scores count."""

    scale: float
    softcap: float = 0.0
    biases: list[Value] = field(default_factory=list)
    allowed: list[Value] = field(default_factory=list)
    filler: float = float("-inf")
    precision: str = ""


def heads_apart(c: Compose, x: Value, heads: int) -> Value:
    """(batch, steps, heads * size) to (batch, heads, steps, size)."""
    batch, steps, width = x.shape
    if heads < 1 or width % heads:
        raise c.node.error(f"{x!r} does not divide into {heads} heads")
    return c.transpose(c.reshape(x, (batch, steps, heads, width // heads)), (0, 2, 1, 3))


def heads_together(c: Compose, x: Value) -> Value:
    """(batch, heads, steps, size) to (batch, steps, heads * size)."""
    batch, heads, steps, size = x.shape
    return c.reshape(c.transpose(x, (0, 2, 1, 3)), (batch, steps, heads * size))


def window_mask(
    queries: int, keys: int, offset: int, left: int = -1, right: int = -1
) -> Array | None:
    """Which keys each query may read where it stands at `offset` plus its number: so many before
    it and behind it, -1 for all."""
    away = np.arange(keys)[None, :] - (np.arange(queries)[:, None] + offset)
    allowed = np.ones((queries, keys), bool)
    if left >= 0:
        allowed &= away >= -left
    if right >= 0:
        allowed &= away <= right
    return None if allowed.all() else allowed


def window_masks(
    c: Compose, queries: int, keys: int, offset: Value, left: int = -1, right: int = -1
) -> list[Value]:
    """As window_mask, with an offset for each batch that comes with the data."""
    places = c.constant(np.arange(queries, dtype=np.int64).reshape(1, 1, -1, 1))
    columns = c.constant(np.arange(keys, dtype=np.int64).reshape(1, 1, 1, -1))
    first = c.reshape(c.cast(offset, "int64"), (offset.shape[0], 1, 1, 1))
    at = c("add", places, first)
    found = []
    if left >= 0:
        found.append(c("less", c("subtract", at, left + 1), columns))
    if right >= 0:
        found.append(c("less", columns, c("add", at, right + 1)))
    return found


def lengths_mask(c: Compose, lengths: Value, keys: int) -> Value:
    """Keys below the lengths of each batch."""
    columns = c.constant(np.arange(keys, dtype=np.int64).reshape(1, 1, 1, -1))
    ends = c.reshape(c.cast(lengths, "int64"), (lengths.shape[0], 1, 1, 1))
    return c("less", columns, ends)


def in_four(c: Compose, mask: Value) -> Value:
    """A mask with leading dimensions of 1."""
    return c.reshape(mask, (*[1] * (4 - len(mask.shape)), *mask.shape))


def _in_three(c: Compose, mask: Value, batch: int, heads: int, group: int, queries: int) -> Value:
    """A mask as scores lie: (batch * heads, group * queries, keys), dimensions of 1 kept."""
    n, h, s, t = mask.shape
    if (n, h) == (1, 1) and (group == 1 or s == 1):
        return c.reshape(mask, (1, s, t))
    outer, inner = (batch, heads) if (n, h) != (1, 1) else (1, 1), (group if s > 1 or h > 1 else 1)
    apart = (n, heads, group, s, t) if h > 1 else (n, 1, 1, s, t)
    rows = queries if inner > 1 else s
    whole = c.broadcast(c.reshape(mask, apart), (*outer, inner, rows, t))
    return c.reshape(whole, (outer[0] * outer[1], inner * rows, t))


def attend(
    c: Compose, q: Value, k: Value, v: Value, how: Scores, mode: int | None = None
) -> tuple[Value, Value | None]:
    """q (batch, heads, queries, size), k and v (batch, fewer heads, keys, size): several heads may
    share keys. Returns (batch, heads, queries, size), and with `mode` the scores: 0 products, 1
    capped, 2 masked, 3 after softmax."""
    batch, all_heads, queries, size = q.shape
    heads, keys, last = k.shape[1], k.shape[2], v.shape[3]
    if heads < 1 or all_heads % heads or v.shape[:3] != k.shape[:3] or k.shape[3] != size:
        raise c.node.error(f"queries {q!r}, keys {k!r} and values {v!r} do not fit")
    group = all_heads // heads
    dtype, wide = q.dtype, accumulator(q.dtype)
    rows = c.reshape(q, (batch * heads, group * queries, size))
    columns = c.reshape(c.transpose(k, (0, 1, 3, 2)), (batch * heads, size, keys))
    scores = c("batch_matmul", rows, columns, out_dtype=wide)
    scores = c("multiply", scores, how.scale)
    shown = scores if mode == 0 else None
    if how.softcap > 0:
        capped = c("tanh", c("multiply", scores, 1 / how.softcap))
        scores = c("multiply", capped, how.softcap)
    shown = scores if mode == 1 else shown
    where = (batch, heads, group, queries)
    for bias in how.biases:
        scores = c("add", scores, _in_three(c, c.cast(bias, wide), *where))
    for mask in how.allowed:
        filler = c.number(how.filler, scores.dtype)
        scores = c("where", _in_three(c, mask, *where), scores, filler)
    shown = scores if mode == 2 else shown
    if how.precision == "float64":
        scores = c.cast(scores, "float64")
    masked = bool(how.biases or how.allowed)
    chances = c("masked_softmax" if masked else "softmax", scores, axis=2)
    chances = c.cast(chances, dtype)
    shown = chances if mode == 3 else shown
    values = c.reshape(v, (batch * heads, keys, last))
    out = c.reshape(c("batch_matmul", chances, values), (batch, all_heads, queries, last))
    if shown is not None:
        shown = c.reshape(c.cast(shown, dtype), (batch, all_heads, queries, keys))
    return out, shown


def rotated(
    c: Compose,
    x: Value,
    cosine: Value,
    sine: Value,
    places: Value | None,
    interleaved: bool,
    seq_axis: int,
) -> Value:
    """x (batch, ., ., size) with its pairs turned by the angles of the tables, or of their rows at
    `places`."""
    if places is not None:
        cosine, sine = (c("take", t, places, axis=0) for t in (cosine, sine))
    if len(cosine.shape) == 2:
        cosine, sine = (c.reshape(t, (1, *t.shape)) for t in (cosine, sine))
    if cosine.shape != sine.shape or cosine.shape[1] != x.shape[seq_axis]:
        raise c.node.error(f"the tables {cosine!r} and {sine!r} do not fit {x!r}")
    if 2 * cosine.shape[2] > x.shape[3]:
        raise c.node.error(f"{x!r} has no {cosine.shape[2]} pairs")
    return c("rotary", x, cosine, sine, interleaved=interleaved, seq_axis=seq_axis)


def appended(c: Compose, past: Value | None, new: Value, axis: int = 2) -> Value:
    """Keys or values with those of earlier steps in front."""
    if past is None or past.shape[axis] == 0:
        return new
    return c.join([past, new], axis)


def all_of(c: Compose, masks: Sequence[Array | None]) -> list[Value]:
    """Known masks (queries, keys) as one value."""
    given = [m for m in masks if m is not None]
    if not given:
        return []
    whole = given[0]
    for m in given[1:]:
        whole = whole & m
    return [c.constant(whole.reshape(1, 1, *whole.shape))]
