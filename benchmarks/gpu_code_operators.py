"""Kernels for benchmarks/gpu_code.py over most operators, whose shapes are drawn by chance.

Beside the products and plain convolutions of gpu_code_drawn.py: bias and ReLU behind products,
convolutions by groups, by channels and of NHWC data, pooling, softmax, layer norm, sums of rows and
columns, attention, tensors that are turned, chains of element-wise operations, tf32.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import gpu_kernels as hand
from benchmarks.gpu_code_cases import (
    SUMS,
    Array,
    CodeCase,
    Program,
    by_default,
    convolved,
    layer_norm_of,
    softmax_of,
)
from benchmarks.gpu_code_drawn import conv_case, fewer, product_case, side
from tilewright import te, topi

_BY_CHANNEL = ("float32", "float16", "bfloat16")
_IN_MEMORY = ("float32", "float16", "bfloat16", "int8")
_EDGES = (13, 14, 28, 29, 56, 57)  # of images
_ROWS = (64, 197, 509, 1000, 1009, 4096)
Rng = random.Random


def drawn_operators(seed: int, count: int) -> list[CodeCase]:
    """`count` kernels, every family in turn, their types and shapes by chance."""
    rng = Rng(seed)
    return [_FAMILIES[n % len(_FAMILIES)](rng) for n in range(count)]


def _any_product(family: str) -> Callable[[Rng], CodeCase]:
    return lambda rng: product_case(rng, family, rng.choice(list(SUMS)))


def _any_conv(taps: tuple[int, ...], strides: tuple[int, ...]) -> Callable[[Rng], CodeCase]:
    def case(rng: Rng) -> CodeCase:
        return conv_case(rng, rng.choice(list(SUMS)), rng.choice(taps), rng.choice(strides))

    return case


def _dense_relu(rng: Rng) -> CodeCase:
    n, m, k = side(rng), side(rng), side(rng, 0)
    dtype = rng.choice(list(SUMS))
    sums = SUMS[dtype]

    def program(target: Any, *size: int) -> Program:
        n, m, k = size
        a, b = te.placeholder((n, k), dtype, "a"), te.placeholder((m, k), dtype, "b")
        bias = te.placeholder((m,), sums, "bias")
        out = topi.nn.relu(topi.nn.dense(a, b, bias, out_dtype=sums))
        return topi.default_schedule(out, target), [a, b, bias, out]

    def reference(a: Array, b: Array, bias: Array) -> Array:
        return np.maximum(a @ b.T + bias, 0)

    small = (fewer(n, 128), fewer(m, 128), fewer(k, 96))
    name = f"dense_bias_relu_{n}x{m}x{k}_{dtype}"
    return CodeCase(name, program, (n, m, k), small, dtype, reference, product=True)


def _tf32(rng: Rng) -> CodeCase:
    """Of known tiles, as float32 is multiplied in tf32 only where a schedule says so."""
    n, m, k = (rng.choice((256, 384, 500, 1000, 1024, 1332)) for _ in range(3))
    tiles = hand.TensorTiles(
        (128, 128), (128, 32), fragment=(16, 16, 8), unit="mma", packed=True, staged=True
    )

    def program(target: Any, *size: int) -> Program:
        n, m, k = size
        return hand.tensor_matmul(n, m, k, "float32", "float32", tiles)

    small = (128 + n % 128, 128 + m % 128, 96 + k % 32)
    return CodeCase(
        f"hand_matmul_{n}x{m}x{k}_tf32", program, (n, m, k), small, "float16",
        lambda a, b: a @ b, product=True,
    )  # fmt: skip


def _grouped(rng: Rng) -> CodeCase:
    groups, each, filters = rng.choice((2, 4, 8)), rng.choice((8, 16, 17, 32)), rng.choice((16, 33))
    h, dtype = rng.choice(_EDGES), rng.choice(list(SUMS))

    def conv(x: Any, w: Any) -> Any:
        return topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, groups, SUMS[dtype])

    def reference(x: Array, w: Array) -> Array:
        parts = zip(np.split(x, groups, 1), np.split(w, groups))
        return np.concatenate([convolved(a, b, 1) for a, b in parts], 1)

    program = by_default(
        conv, dtype, lambda h: (1, groups * each, h, h),
        lambda h: (groups * filters, each, 3, 3),
    )  # fmt: skip
    name = f"conv3_{groups}_groups_{groups * each}x{groups * filters}x{h}_{dtype}"
    return CodeCase(name, program, (h,), (min(h, 13 + h % 2),), dtype, reference, product=True)


def _nhwc(rng: Rng) -> CodeCase:
    taps, stride = rng.choice((1, 3, 3, 5)), rng.choice((1, 1, 2))
    c, f = rng.choice((16, 24, 64, 67, 96)), rng.choice((24, 64, 100, 131))
    h, dtype = rng.choice(_EDGES), rng.choice(list(SUMS))

    def conv(x: Any, w: Any) -> Any:
        return topi.nn.conv2d_nhwc(x, w, stride, taps // 2, 1, SUMS[dtype])

    def reference(x: Array, w: Array) -> Array:
        out = convolved(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), taps // 2)
        return out[:, :, ::stride, ::stride].transpose(0, 2, 3, 1)

    program = by_default(
        conv, dtype, lambda c, f, h: (1, h, h, c), lambda c, f, h: (taps, taps, c, f)
    )
    small = (min(c, 16 + c % 8), min(f, 64 + f % 8), min(h, 16 + h % 2))
    name = f"conv{taps}s{stride}_nhwc_{c}x{f}x{h}_{dtype}"
    return CodeCase(name, program, (c, f, h), small, dtype, reference, product=True)


def _by_channel(rng: Rng, nhwc: bool) -> CodeCase:
    taps, stride = rng.choice((3, 3, 5)), rng.choice((1, 2))
    c, h, dtype = rng.choice((32, 67, 96, 144)), rng.choice(_EDGES), rng.choice(_BY_CHANNEL)

    def conv(x: Any, w: Any) -> Any:
        if nhwc:
            return topi.nn.depthwise_conv2d_nhwc(x, w, stride, taps // 2, 1, out_dtype=dtype)
        return topi.nn.depthwise_conv2d_nchw(x, w, stride, taps // 2, 1, dtype)

    def planes(x: Array, w: Array) -> Array:
        p = taps // 2
        x = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), (2, 3))
        return np.einsum("nchwyx,cyx->nchw", windows, w)[:, :, ::stride, ::stride]

    def reference(x: Array, w: Array) -> Array:
        if not nhwc:
            return planes(x, w[:, 0])
        return planes(x.transpose(0, 3, 1, 2), w[..., 0].transpose(2, 0, 1)).transpose(0, 2, 3, 1)

    data = (lambda c, h: (1, h, h, c)) if nhwc else (lambda c, h: (1, c, h, h))
    taken = (lambda c, h: (taps, taps, c, 1)) if nhwc else (lambda c, h: (c, 1, taps, taps))
    small = (c, 16 + h % 2) if nhwc else (4, h)
    name = f"depthwise{taps}s{stride}_{'nhwc_' if nhwc else ''}{c}x{h}_{dtype}"
    program = by_default(conv, dtype, data, taken)
    return CodeCase(name, program, (c, h), small, dtype, reference, product=True)


def _pool(rng: Rng) -> CodeCase:
    taps, stride = rng.choice(((2, 2), (3, 2), (3, 1)))
    kind, layout = rng.choice(("max", "avg")), rng.choice(("NCHW", "NHWC"))
    c, h = rng.choice((32, 67, 96)), rng.choice(_EDGES)
    dtype = rng.choice(_IN_MEMORY if kind == "max" else _BY_CHANNEL)

    def pool(x: Any) -> Any:
        pad = (0, 0, 0, 0)
        return topi.nn.pool2d(x, (taps, taps), (stride,) * 2, (1, 1), pad, kind, layout=layout)

    axes = (2, 3) if layout == "NCHW" else (1, 2)
    every = tuple(slice(None, None, stride if n in axes else None) for n in range(4))

    def reference(x: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), axes)[every]
        return np.asarray(windows.max((-1, -2)) if kind == "max" else windows.mean((-1, -2)))

    def shape(c: int, h: int) -> tuple[int, ...]:
        return (1, c, h, h) if layout == "NCHW" else (1, h, h, c)

    name = f"{kind}_pool{taps}s{stride}_{layout.lower()}_{c}x{h}_{dtype}"
    small = (4, h) if layout == "NCHW" else (c, 16 + h % 2)
    return CodeCase(name, by_default(pool, dtype, shape), (c, h), small, dtype, reference)


def _in_rows(name: str, make: Callable[[Any], Any], of: Callable[[Array], Array]) -> Any:
    """A family on matrices, read once."""

    def case(rng: Rng) -> CodeCase:
        n, m = rng.choice(_ROWS), side(rng)
        dtype = rng.choice(_IN_MEMORY if name in ("transpose", "max_rows") else _BY_CHANNEL)
        program = by_default(make, dtype, lambda n, m: (n, m))
        small = (33 + n % 8, m)
        return CodeCase(f"{name}_{n}x{m}_{dtype}", program, (n, m), small, dtype, of)

    return case


def _norm(rng: Rng) -> CodeCase:
    n, m, dtype = rng.choice(_ROWS), side(rng), rng.choice(_BY_CHANNEL)

    def norm(x: Any, g: Any, b: Any) -> Any:
        return topi.nn.layer_norm(x, g, b, axis=(1,))

    program = by_default(norm, dtype, lambda n, m: (n, m), lambda n, m: (m,), lambda n, m: (m,))
    name = f"layer_norm_{n}x{m}_{dtype}"
    return CodeCase(name, program, (n, m), (33 + n % 8, m), dtype, layer_norm_of)


def _turned(rng: Rng) -> CodeCase:
    n, m = rng.choice((24, 67, 128, 197)), rng.choice((32, 67, 72, 197))
    axes = rng.choice(((0, 2, 1), (1, 0, 2), (2, 1, 0)))
    dtype = rng.choice(_IN_MEMORY)
    program = by_default(lambda x: topi.transpose(x, axes), dtype, lambda b, n, m: (b, n, m))
    name = f"transpose{''.join(map(str, axes))}_12x{n}x{m}_{dtype}"
    return CodeCase(name, program, (12, n, m), (3, n, m), dtype, lambda x: x.transpose(axes))


def _chain(rng: Rng) -> CodeCase:
    n, m, dtype = rng.choice(_ROWS), side(rng), rng.choice(_BY_CHANNEL)

    def chain(x: Any, y: Any, b: Any) -> Any:
        return topi.multiply(topi.sigmoid(topi.add(x, b)), topi.nn.relu(topi.subtract(x, y)))

    def reference(x: Array, y: Array, b: Array) -> Array:
        return np.maximum(x - y, 0) / (1 + np.exp(-(x + b)))

    program = by_default(chain, dtype, lambda n, m: (n, m), lambda n, m: (n, m), lambda n, m: (m,))
    return CodeCase(f"chain_{n}x{m}_{dtype}", program, (n, m), (33 + n % 8, m), dtype, reference)


def _attention(rng: Rng) -> CodeCase:
    heads, n, d = rng.choice((4, 12)), rng.choice((64, 128, 197, 384)), rng.choice((32, 64, 72))
    dtype = rng.choice(_BY_CHANNEL)

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = topi.nn.batch_matmul(q, k, out_dtype="float32")
        weights = topi.cast(topi.nn.softmax(topi.multiply(scores, d**-0.5)), dtype)
        return topi.nn.batch_matmul(weights, v, out_dtype="float32", transpose_b=False)

    def reference(q: Array, k: Array, v: Array) -> Array:
        return softmax_of(q @ k.swapaxes(-1, -2) * d**-0.5) @ v

    def shape(h: int, n: int) -> tuple[int, ...]:
        return (h, n, d)

    program = by_default(attend, dtype, shape, shape, shape)
    small = (1, fewer(n, 128))
    name = f"attention_{heads}x{n}x{d}_{dtype}"
    return CodeCase(name, program, (heads, n), small, dtype, reference, product=True)


_FAMILIES: tuple[Callable[[Rng], CodeCase], ...] = (
    _any_product("matmul"),
    _any_conv((3,), (1,)),
    _any_product("dense"),
    lambda rng: _by_channel(rng, False),
    _any_product("batch_nt"),
    _in_rows("softmax", topi.nn.softmax, softmax_of),
    _any_conv((1,), (1, 2)),
    _dense_relu,
    _nhwc,
    _tf32,
    _pool,
    _in_rows("sum_rows", lambda x: topi.sum(x, 1), lambda x: x.sum(1)),
    _any_conv((3, 5), (2,)),
    _any_product("batch_nn"),
    _attention,
    _norm,
    _grouped,
    _in_rows("sum_columns", lambda x: topi.sum(x, 0), lambda x: x.sum(0)),
    _any_conv((5,), (1,)),
    _turned,
    lambda rng: _by_channel(rng, True),
    _chain,
    _in_rows("transpose", topi.transpose, lambda x: x.T),
)
