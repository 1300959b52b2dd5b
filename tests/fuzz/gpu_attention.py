"""Attention in one kernel, drawn by chance, for gpu_library.py.

Beside it the plain form of the same is made, for no target, whose error bound counts: a kernel on
tensor cores also rounds its powers to the type of the values, relative to the values that they
weigh, and powers are two times as far off as `ex2.approx` may be.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import te, tir, topi
from tilewright.base.dtype import parse
from tilewright.interp.te_bound import te_eval_bound
from tilewright.target.target import Target
from tilewright.topi.nn.attention import MASKED, NUMBERS, PLAIN, Sizes, attention

ROWS = (1, 2, 7, 16, 17, 33, 64, 67, 101, 131, 197)
HEADS = (1, 3, 8, 16, 24, 31, 40, 64, 64, 72, 80, 96, 128, 160, 192, 250, 256)
MOST = 4e6  # products of a case
ROUNDED = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}
POWERS = 2.0**-20
Plain = tuple[Any, Any]  # what is computed, and the tensor of values


def drawn_attention(
    rng: random.Random, dtype: str, target: Target
) -> tuple[str, list[Any], Any, Plain]:
    """Text, inputs, what is computed for a target, and the plain form."""
    for _ in range(100):
        batch, group = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 4))
        n, keys = rng.choice(ROWS), rng.choice((*ROWS, 300, 1000))
        size = rng.choice(HEADS)
        last = size if rng.random() < 0.7 else rng.choice(HEADS)
        if batch * group * n * keys * (size + last) <= MOST:
            break
    kind = rng.choice(("", "", "causal", "window", "mask", "capped", "bias"))
    window = None
    if kind == "causal" and n > 1 and keys > 1:
        window = (1 - n, max(1, keys - n + 1))
    elif kind == "window" and n > 1 and keys >= n:
        window = (max(1 - n, -rng.choice((1, 5, 40, 70))), rng.choice((1, 2, 33, 64)))
    empty = rng.choice((PLAIN, MASKED, NUMBERS))
    turned = rng.random() < 0.4
    shapes = [(batch, group, n, size), (batch, keys, size), (batch, keys, last)]
    inputs = [te.placeholder(s, dtype, x) for s, x in zip(shapes, "qkv")]
    if kind in ("mask", "bias"):
        shape = (rng.choice((1, batch)), rng.choice((1, group)), rng.choice((1, n)), keys)
        inputs.append(te.placeholder(shape, "float32", kind))
    sizes = Sizes((batch,), (group, n), keys, size, last, window, window is not None)
    order = [0, 2, 1, 3] if turned else [0, 1, 2, 3]
    make = _maker(inputs, sizes, dtype, kind, empty, order)
    with target:
        out = make()
    what = f"{batch}x{group} of {n}x{keys}x{size}/{last}{' turned' if turned else ''}"
    text = f"attention {what} {kind} {window or ''} {empty}"
    return text, inputs, out, (make(), inputs[2])


def _maker(
    inputs: list[Any], sizes: Sizes, dtype: str, kind: str, empty: str, order: list[int]
) -> Callable[[], Any]:
    q, k, v, *beside = inputs

    def score(x: Any) -> Any:
        x = topi.multiply(x, tir.const(sizes.size**-0.5, "float32"))
        if kind == "capped":
            cap = tir.const(5.0, "float32")
            x = topi.multiply(topi.tanh(topi.divide(x, cap)), cap)
        return topi.add(x, beside[0]) if beside else x

    def make() -> Any:
        sides = (
            lambda outer, i, d: q(*outer, i, d),
            lambda outer, t, d: k(*outer, t, d),
            lambda outer, t, e: v(*outer, t, e),
        )
        return attention(sizes, *sides, dtype, score, empty, order)

    return make


def values_of(t: Any, rng: np.random.Generator) -> Any:
    """Of a mask numbers and -infinity, keeping one of each row; of others numbers."""
    shape = [int(n) for n in t.shape]
    if t.name == "mask":
        found = np.where(rng.random(shape) < 0.4, -np.inf, rng.uniform(-1, 1, shape))
        found[..., rng.integers(shape[-1])] = 0.5
        return found.astype(t.dtype)
    return rng.uniform(-2, 2, shape).astype(parse(t.dtype).numpy)


def bound_of(plain: Plain, feeds: dict[Any, Any], dtype: str) -> tuple[Any, Any]:
    """The value, and how far off a kernel may be."""
    out, values = plain
    ((value, limit),) = te_eval_bound(out, feeds)
    ((weighed, _),) = te_eval_bound(out, {**feeds, values: np.abs(feeds[values])})
    return value, limit + (ROUNDED[dtype] * (1 + 2.0**-6) + POWERS) * weighed
