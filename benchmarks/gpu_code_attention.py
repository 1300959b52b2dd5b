"""Attention in one kernel for benchmarks/gpu_code.py, beside its list of a hundred: heads of 64,
128 and 256 elements, whole and causal, at sizes that divide and at odd ones.

Its loops scale, compare and take powers of scores beside multiplying and adding: the criterion on
the share of products says how much, and does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.gpu_code_cases import Array, CodeCase, Program, softmax_of
from tilewright import te, topi
from tilewright.loopir.expr import const
from tilewright.topi.nn.attention import Sizes, attention
from tilewright.topi.schedules.default import default_schedule


def _case(dtype: str, n: int, d: int, causal: bool) -> CodeCase:
    def program(target: tw.Target, heads: int, n: int) -> Program:
        q, k, v = (te.placeholder((heads, n, d), dtype, name) for name in "qkv")
        sizes = Sizes((heads,), (n,), n, d, d, (1 - n, 1) if causal else None, causal)

        def read(x: Any) -> Any:
            return lambda outer, i, j: x(*outer, i, j)

        def score(x: Any) -> Any:
            return topi.multiply(x, const(d**-0.5, x.dtype))

        with target:
            out = attention(sizes, read(q), read(k), read(v), dtype, score)
        return default_schedule(out, target), [q, k, v, out]

    def reference(q: Array, k: Array, v: Array) -> Array:
        scores = q @ k.swapaxes(-1, -2) * d**-0.5
        hidden = ~np.tri(scores.shape[-1], dtype=bool) & causal
        return softmax_of(np.where(hidden, -np.inf, scores)) @ v

    kind = "causal" if causal else "attention"
    name = f"{kind}_12x{n}x{d}_{dtype}"
    return CodeCase(name, program, (12, n), (1, 128 + n % 64), dtype, reference, product=True)


_EACH: Sequence[Any] = (
    ("float16", "bfloat16", "float32"),
    (1024, 1000),
    (64, 128, 256),
    (False, True),
)
ATTENTION_CASES = tuple(_case(*each) for each in product(*_EACH))
