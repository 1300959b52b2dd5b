"""Kernels for benchmarks/gpu_code.py whose shapes are drawn by chance: nobody tuned on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.gpu_code_cases import SUMS, Array, CodeCase, by_default, convolved, plain_product
from tilewright import topi

_PRIMES = (67, 101, 131, 197, 257, 331, 509, 787, 1009)
_ROUND = (72, 96, 104, 144, 176, 200, 472, 768, 1000, 1744)
_SMALL = (9, 16, 24, 33, 48, 60)
_FAMILIES = ("matmul", "dense", "batch_nn", "batch_nt", "conv")
_LEAST = 8  # steps of a reduction, and channels


def drawn(seed: int, count: int) -> list[CodeCase]:
    """`count` products and convolutions, every family and type in turn."""
    rng = random.Random(seed)
    types = list(SUMS)
    found = []
    for n in range(count):
        family = _FAMILIES[n % len(_FAMILIES)]
        dtype = types[(n + n // len(types)) % len(types)]
        is_conv = family == "conv"
        found.append(conv_case(rng, dtype) if is_conv else product_case(rng, family, dtype))
    return found


def side(rng: random.Random, small: float = 0.15) -> int:
    """A size: often a prime or round, now and then smaller than a tile."""
    if rng.random() < small:
        return rng.choice(_SMALL)
    return rng.choice(_PRIMES if rng.random() < 0.4 else _ROUND)


def fewer(size: int, most: int) -> int:
    """A size for simt: not above `most` and 15, with the same rest by 16, so that the same tiles
    and accesses are chosen."""
    return size if size <= most else most + size % 16


def product_case(rng: random.Random, family: str, dtype: str) -> CodeCase:
    """A product of one of the families: matrices plain ("matmul"), the second turned ("dense"),
    both in batches ("batch_nn", "batch_nt")."""
    n, m, k = side(rng), side(rng), side(rng, 0)
    turned = family in ("dense", "batch_nt")
    batch = (rng.choice((2, 5, 9)),) if family.startswith("batch") else ()
    sums = SUMS[dtype]

    def make(a: Any, b: Any) -> Any:
        if family == "matmul":
            return plain_product(a, b, sums)
        if family == "dense":
            return topi.nn.dense(a, b, out_dtype=sums)
        return topi.nn.batch_matmul(a, b, out_dtype=sums, transpose_b=turned)

    def rows(*size: int) -> tuple[int, ...]:
        return (*size[:-3], size[-3], size[-1])

    def columns(*size: int) -> tuple[int, ...]:
        return (*size[:-3], *((size[-2], size[-1]) if turned else (size[-1], size[-2])))

    def reference(a: Array, b: Array) -> Array:
        return a @ (b.swapaxes(-1, -2) if turned else b)

    size = (*batch, n, m, k)
    small = (*(1 for _ in batch), fewer(n, 128), fewer(m, 128), fewer(k, 96))
    return _case(family, size, small, dtype, by_default(make, dtype, rows, columns), reference)


def conv_case(rng: random.Random, dtype: str, taps: int = 0, stride: int = 0) -> CodeCase:
    """A convolution of NCHW data; what is 0 is drawn."""
    taps, stride = taps or rng.choice((1, 3, 3, 5)), stride or rng.choice((1, 1, 2))
    c, f = max(_LEAST, rng.choice((3, 16, 24, 64, 67, 96))), rng.choice((24, 64, 100, 131))
    h, sums = rng.choice((14, 28, 29, 56, 57)), SUMS[dtype]

    def make(x: Any, w: Any) -> Any:
        return topi.nn.conv2d_nchw(x, w, stride, taps // 2, 1, sums)

    def reference(x: Array, w: Array) -> Array:
        return convolved(x, w, taps // 2)[:, :, ::stride, ::stride]

    shapes: Sequence[Callable[..., tuple[int, ...]]] = (
        lambda c, f, h: (1, c, h, h),
        lambda c, f, h: (f, c, taps, taps),
    )
    program = by_default(make, dtype, *shapes)
    small = (min(c, 8 + c % 8), min(f, 64 + f % 8), min(h, 16 + h % 2))
    return _case(f"conv{taps}s{stride}", (c, f, h), small, dtype, program, reference)


def _case(
    family: str,
    size: tuple[int, ...],
    small: tuple[int, ...],
    dtype: str,
    program: Any,
    reference: Callable[..., Array],
) -> CodeCase:
    name = f"{family}_{'x'.join(map(str, size))}_{dtype}"
    return CodeCase(name, program, size, small, dtype, reference, product=True)
