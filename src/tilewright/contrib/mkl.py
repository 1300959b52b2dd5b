"""`tvm.contrib.mkl`: matrix products by the BLAS that NumPy was built with."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from .products import product, products

matmul, batch_matmul = products("tvm.contrib.mkl")


def matmul_u8s8s32(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Any:
    """An extern stage: the product of a uint8 and an int8 matrix, as int32. Raises TilewrightError
    where `lhs` or `rhs` is no tensor."""
    kwargs = {"dtype": "int32", **kwargs}
    return product("tvm.contrib.mkl.matmul_u8s8s32", lhs, rhs, transa, transb, **kwargs)
