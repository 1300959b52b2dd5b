"""Tables of operators: each called as TVM's users call it, compiled under its default schedule, and
compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te, topi

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(23)


def floats(*shape: int, dtype: str = "float32") -> Array:
    return RNG.uniform(-2, 2, shape).astype(dtype)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> Array:
    return RNG.integers(low, high, shape).astype(dtype)


def compiled(function: Callable[..., Any], arrays: Sequence[Array]) -> list[Array]:
    """What a function of tensors gives for arrays."""
    arrays = [np.asarray(a, order="C") for a in arrays]
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{k}") for k, a in enumerate(arrays)]
    with tw.target.Target("llvm") as target:
        made = function(*tensors)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        built = tw.build(topi.default_schedule(outs), [*tensors, *outs], target, name="f")
    found = [np.full([int(d) for d in t.shape], 7, t.dtype) for t in outs]
    built(*arrays, *found)
    return found


def agree(
    function: Callable[..., Any], arrays: Sequence[Array], *wanted: Any, rtol: float = 1e-4
) -> None:
    """The results are `wanted`, their shapes and all."""
    found = compiled(function, arrays)
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted):
        expected = np.asarray(want, np.float64)
        assert got.shape == expected.shape
        scale = float(np.abs(expected).max()) if expected.size else 0.0
        np.testing.assert_allclose(got.astype("float64"), expected, rtol=rtol, atol=rtol * scale)
