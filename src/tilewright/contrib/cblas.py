"""`tvm.contrib.cblas`: matrix products by the BLAS that NumPy was built with."""

from __future__ import annotations

from typing import Any

from ..loopir.calls import call_packed
from ..tensor.extern import extern
from ..tensor.tensor import Tensor


def matmul(lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False) -> Any:
    """An extern stage: the product of two matrices, each transposed if asked for."""
    n = lhs.shape[1] if transa else lhs.shape[0]
    m = rhs.shape[0] if transb else rhs.shape[1]
    return _extern("tvm.contrib.cblas.matmul", (n, m), lhs, rhs, transa, transb)


def batch_matmul(lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False) -> Any:
    """An extern stage: the products of two stacks of matrices."""
    n = lhs.shape[2] if transa else lhs.shape[1]
    m = rhs.shape[1] if transb else rhs.shape[2]
    shape = (lhs.shape[0], n, m)
    return _extern("tvm.contrib.cblas.batch_matmul", shape, lhs, rhs, transa, transb)


def _extern(name: str, shape: Any, lhs: Tensor, rhs: Tensor, transa: bool, transb: bool) -> Any:
    return extern(
        shape,
        [lhs, rhs],
        lambda ins, outs: call_packed(name, ins[0], ins[1], outs[0], transa, transb),
        name="C",
    )
