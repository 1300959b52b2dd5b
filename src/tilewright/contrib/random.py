"""`tvm.contrib.random`: tensors of random numbers, made by NumPy's generator at each run.

Seed it by `tilewright.get_global_func("tvm.contrib.random.seed")(1)`.
"""

from __future__ import annotations

from typing import Any

from ..loopir.calls import call_packed
from ..tensor.extern import extern
from ..tensor.tensor import Tensor


def randint(low: int, high: int, size: Any, dtype: str = "int32") -> Tensor:
    """An extern stage of integers of [low, high); `dtype` is int32, as in TVM."""
    return _extern(size, dtype, "tvm.contrib.random.randint", int(low), int(high))


def uniform(low: float, high: float, size: Any) -> Tensor:
    """An extern stage of float32 numbers, uniform in [low, high)."""
    return _extern(size, "float32", "tvm.contrib.random.uniform", float(low), float(high))


def normal(loc: float, scale: float, size: Any) -> Tensor:
    """An extern stage of float32 numbers of the normal distribution of mean `loc` and standard
    deviation `scale`."""
    return _extern(size, "float32", "tvm.contrib.random.normal", float(loc), float(scale))


def _extern(size: Any, dtype: str, name: str, a: float, b: float) -> Tensor:
    made: Tensor = extern(
        size, [], lambda ins, outs: call_packed(name, a, b, outs[0]), name="C", dtype=dtype
    )
    return made
