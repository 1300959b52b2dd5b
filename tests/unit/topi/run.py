"""Run a tensor program three ways: by definition, compiled under its default schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te, topi
from tilewright.interp.te_eval import te_eval

RNG = np.random.default_rng(17)
Array = np.ndarray[Any, Any]


def floats(*shape: int, dtype: str = "float32", low: float = -2.0, high: float = 2.0) -> Array:
    return RNG.uniform(low, high, shape).astype(dtype)


def ints(*shape: int, dtype: str = "int32", low: int = -9, high: int = 9) -> Array:
    return RNG.integers(low, high, shape).astype(dtype)


def check(function: Any, arrays: Sequence[Array], expected: Any, rtol: float = 1e-5) -> None:
    """`function` of placeholders agrees with `expected` under te_eval and when compiled."""
    arrays = [np.asarray(a) for a in arrays]
    wanted = np.asarray(expected)
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{k}") for k, a in enumerate(arrays)]
    out = function(*tensors)
    assert tuple(int(d) for d in out.shape) == wanted.shape
    assert out.dtype == str(wanted.dtype)
    (by_definition,) = te_eval(out, dict(zip(tensors, arrays)))
    with tw.target.Target("llvm") as target:
        schedule = topi.default_schedule(out, target)
        built = tw.build(schedule, [*tensors, out], target, name="f")
    compiled = np.full(wanted.shape, 7, wanted.dtype)
    built(*arrays, compiled)
    scale = float(np.abs(wanted.astype(np.float64)).max()) if wanted.size else 0.0
    for got in (by_definition, compiled):
        np.testing.assert_allclose(
            np.asarray(got).astype(np.float64), wanted.astype(np.float64),
            rtol=rtol, atol=rtol * scale if np.isfinite(scale) else 0.0,
        )  # fmt: skip
