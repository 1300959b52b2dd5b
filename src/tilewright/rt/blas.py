"""Functions that compiled code may call by name without anyone registering them: NumPy's BLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _matmul(lhs: Any, rhs: Any, out: Any, transa: Any = False, transb: Any = False) -> None:
    """out = lhs @ rhs on arrays of two dimensions, or of three with one for the batch."""
    a, b = np.asarray(lhs), np.asarray(rhs)
    a = a.swapaxes(-1, -2) if transa else a
    b = b.swapaxes(-1, -2) if transb else b
    result = np.asarray(out)
    if result.dtype == np.result_type(a, b):
        np.matmul(a, b, out=result)
    else:  # a sum in a wider type than the factors'
        np.matmul(a.astype(result.dtype), b.astype(result.dtype), out=result)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"tvm.contrib.{library}.{name}": _matmul
    for library in ("cblas", "mkl", "dnnl")
    for name in ("matmul", "batch_matmul", "batch_matmul_iterative", "matmul_u8s8s32")
}
