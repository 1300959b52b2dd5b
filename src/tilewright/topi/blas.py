"""Products by the BLAS that NumPy was built with, under the names of the libraries that TVM calls:
`topi.x86.dense_cblas`, `topi.x86.matmul_mkl`, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ..base.errors import TilewrightError
from ..contrib import cblas, dnnl, mkl
from ..loopir.expr import cast
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .utils import get_const_int

_BYTES = ("uint8", "int8", "int32")


def _matmul(lib: ModuleType) -> Callable[..., Tensor]:
    def matmul(
        tensor_a: Tensor,
        tensor_b: Tensor,
        bias: Tensor | None = None,
        out_dtype: str | None = None,
        transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> Tensor:
        """The product of two matrices of float32 or float64, each transposed if asked for, plus
        `bias` (columns,); by MKL also of uint8 and int8 as int32. Raises TilewrightError where a
        BLAS has no product of the types."""
        dtype = tensor_a.dtype if out_dtype is None else out_dtype
        types = (tensor_a.dtype, tensor_b.dtype, dtype)
        if types == _BYTES and lib is mkl:
            product = mkl.matmul_u8s8s32(tensor_a, tensor_b, transpose_a, transpose_b)
        elif len(set(types)) == 1 and dtype in ("float32", "float64"):
            product = lib.matmul(tensor_a, tensor_b, transpose_a, transpose_b)
        else:
            raise TilewrightError(f"a BLAS has no product of {types[0]} and {types[1]} as {dtype}")
        if bias is None:
            whole: Tensor = product
            return whole
        added: Tensor = compute(
            product.shape,
            lambda i, j: product(i, j) + cast(dtype, bias(j)),
            "T_matmul_bias",
            "broadcast",
        )
        return added

    return matmul


def _dense(matmul: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def dense(
        data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
    ) -> Tensor:
        """data (rows, depth) times the transpose of weight (columns, depth), plus `bias`. Raises
        TilewrightError where a BLAS has no product of the types."""
        return matmul(data, weight, bias, out_dtype, False, True)

    return dense


def _batch_matmul(lib: ModuleType) -> Callable[..., Tensor]:
    def batch_matmul(
        tensor_a: Tensor,
        tensor_b: Tensor,
        out_shape: Sequence[Any] | None = None,
        out_dtype: str | None = None,
        transpose_a: bool = False,
        transpose_b: bool = True,
    ) -> Tensor:
        """The products of two stacks of matrices of floats, of which `out_shape`, if it is given,
        has to be the shape; in their type, whatever `out_dtype` is. Raises TilewrightError where
        out_shape is another than the result's."""
        product: Tensor = lib.batch_matmul(tensor_a, tensor_b, transpose_a, transpose_b)
        if out_shape is not None:
            given, found = ([get_const_int(d) for d in s] for s in (out_shape, product.shape))
            if given != found:
                raise TilewrightError(f"batch_matmul: the result is of shape {found}, not {given}")
        return product

    return batch_matmul


matmul_cblas, matmul_mkl, matmul_dnnl = map(_matmul, (cblas, mkl, dnnl))
dense_cblas, dense_mkl, dense_dnnl = map(_dense, (matmul_cblas, matmul_mkl, matmul_dnnl))
batch_matmul_cblas, batch_matmul_mkl = map(_batch_matmul, (cblas, mkl))
