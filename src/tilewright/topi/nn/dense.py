"""Matrix products and fully connected layers."""

from __future__ import annotations

from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor


def _check(a: Any, b: Any, what: str) -> None:
    x, y = const_int(a), const_int(b)
    if x is not None and y is not None and x != y:
        raise TilewrightError(f"{what}: reduced extents differ: {x} and {y}")


def matmul(
    a: Tensor,
    b: Tensor,
    transp_a: bool = False,
    transp_b: bool = False,
    name: str = "T_matmul",
    out_dtype: str | None = None,
) -> Tensor:
    """a (M, K) times b (K, N), each transposed in memory if said so.

    Returns (M, N) of `out_dtype` (default: of a), in which products and sums are taken.
    """
    dtype = out_dtype or a.dtype
    k_extent, m = (a.shape[0], a.shape[1]) if transp_a else (a.shape[1], a.shape[0])
    k2, n = (b.shape[1], b.shape[0]) if transp_b else (b.shape[0], b.shape[1])
    _check(k_extent, k2, name)
    k = reduce_axis((0, k_extent), "k")

    def element(i: Any, j: Any) -> Any:
        left = a(k, i) if transp_a else a(i, k)
        right = b(j, k) if transp_b else b(k, j)
        return reduce_sum(cast(dtype, left) * cast(dtype, right), axis=k)

    result: Tensor = compute((m, n), element, name, "matmul")
    return result


def dense(data: Tensor, weight: Tensor, out_dtype: str | None = None) -> Tensor:
    """data (M, K), weight (N, K); returns (M, N) of `out_dtype` (default: of data)."""
    return matmul(data, weight, transp_b=True, name="T_dense", out_dtype=out_dtype)


def dense_packed(data: Tensor, weight: Tensor, out_dtype: str | None = None) -> Tensor:
    """data (M, K), weight (N / b, K, b): blocks of b columns.

    Returns (M, N / b, b) of `out_dtype` (default: of data).
    """
    dtype = out_dtype or data.dtype
    m, k_extent = data.shape
    blocks, k2, lanes = weight.shape
    _check(k_extent, k2, "dense_packed")
    k = reduce_axis((0, k_extent), "k")
    result: Tensor = compute(
        (m, blocks, lanes),
        lambda i, j, v: reduce_sum(cast(dtype, data(i, k)) * cast(dtype, weight(j, k, v)), axis=k),
        "T_dense_packed",
        "dense_packed",
    )
    return result


def batch_matmul(
    a: Tensor, b: Tensor, transp_b: bool = False, out_dtype: str | None = None
) -> Tensor:
    """a (B, M, K) times b (B, K, N) (with transp_b: (B, N, K)).

    Returns (B, M, N) of `out_dtype` (default: of a).
    """
    dtype = out_dtype or a.dtype
    batch, m, k_extent = a.shape
    k2, n = (b.shape[2], b.shape[1]) if transp_b else (b.shape[1], b.shape[2])
    _check(k_extent, k2, "batch_matmul")
    k = reduce_axis((0, k_extent), "k")

    def element(s: Any, i: Any, j: Any) -> Any:
        right = b(s, j, k) if transp_b else b(s, k, j)
        return reduce_sum(cast(dtype, a(s, i, k)) * cast(dtype, right), axis=k)

    result: Tensor = compute((batch, m, n), element, "T_batch_matmul", "batch_matmul")
    return result
