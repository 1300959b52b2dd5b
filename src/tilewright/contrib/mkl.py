"""`tvm.contrib.mkl`: matrix products by the BLAS that NumPy was built with."""

from __future__ import annotations

from typing import Any

from ..loopir.calls import call_packed
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .cblas import product


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Any:
    """An extern stage: the product of two matrices, each transposed if asked for. `kwargs` are
    passed on to te.extern. Raises TilewrightError where `lhs` or `rhs` is no tensor."""
    return product("tvm.contrib.mkl.matmul", lhs, rhs, transa, transb, **kwargs)


def batch_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **kwargs: Any,
) -> Any:
    """An extern stage: the products of two stacks of matrices; `iterative` (one product after
    another) gives the same. Raises TilewrightError where `lhs` or `rhs` is no tensor."""
    del iterative
    return product("tvm.contrib.mkl.batch_matmul", lhs, rhs, transa, transb, **kwargs)


def matmul_u8s8s32(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Any:
    """An extern stage: the product of a uint8 and an int8 matrix, as int32. Raises TilewrightError
    where `lhs` or `rhs` is no tensor."""
    n = lhs.shape[1] if transa else lhs.shape[0]
    m = rhs.shape[0] if transb else rhs.shape[1]
    return extern(
        (n, m),
        [lhs, rhs],
        lambda ins, outs: call_packed(
            "tvm.contrib.mkl.matmul_u8s8s32", ins[0], ins[1], outs[0], transa, transb
        ),
        name="C",
        **{"dtype": "int32", **kwargs},
    )
