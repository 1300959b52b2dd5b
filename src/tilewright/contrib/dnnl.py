"""`tvm.contrib.dnnl`: matrix products by the BLAS that NumPy was built with."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from .cblas import product


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Any:
    """An extern stage: the product of two matrices, each transposed if asked for. `kwargs` are
    passed on to te.extern. Raises TilewrightError where `lhs` or `rhs` is no tensor."""
    return product("tvm.contrib.dnnl.matmul", lhs, rhs, transa, transb, **kwargs)
