"""Matrix products and fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import cast as elemwise_cast
from ..utils import get_const_int
from .elemwise import bias_add
from .utils import refuse_layouts


def _check(a: Any, b: Any, what: str) -> None:
    x, y = const_int(a), const_int(b)
    if x is not None and y is not None and x != y:
        raise TilewrightError(f"{what}: reduced extents differ: {x} and {y}")


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """a (M, K) times b (K, N), each transposed in memory if said so, plus a bias (N).

    Returns (M, N) of `out_dtype` (default: of a), in which products and sums are taken.
    """
    refuse_layouts(auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    return _product(tensor_a, tensor_b, bias, out_dtype, transpose_a, transpose_b, "T_matmul")


def _product(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    out_dtype: str | None,
    transpose_a: bool,
    transpose_b: bool,
    name: str,
) -> Tensor:
    dtype = out_dtype or a.dtype
    k_extent, m = (a.shape[0], a.shape[1]) if transpose_a else (a.shape[1], a.shape[0])
    k2, n = (b.shape[1], b.shape[0]) if transpose_b else (b.shape[0], b.shape[1])
    _check(k_extent, k2, name)
    k = reduce_axis((0, k_extent), "k")

    def element(i: Any, j: Any) -> Any:
        left = a(k, i) if transpose_a else a(i, k)
        right = b(j, k) if transpose_b else b(k, j)
        return reduce_sum(cast(dtype, left) * cast(dtype, right), axis=k)

    result: Tensor = compute((m, n), element, name, "matmul")
    return result if bias is None else bias_add(result, elemwise_cast(bias, dtype))


def plain_matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """a (M, K) times b (K, N), each transposed in memory if said so: `topi.matmul`."""
    return matmul(a, b, transpose_a=transp_a, transpose_b=transp_b)


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """data (M, K), weight (N, K), bias (N); returns (M, N) of `out_dtype` (default: of data)."""
    refuse_layouts(auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    return _product(data, weight, bias, out_dtype, False, True, "T_dense")


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


def _packed(weight: Tensor) -> Tensor:
    """(N, K) to (N / b, K, b), b at most a vector's 16 lanes."""
    n, k = weight.shape
    lanes = next(b for b in range(16, 0, -1) if get_const_int(n) % b == 0)
    result: Tensor = compute(
        (n // lanes, k, lanes), lambda j, i, v: weight(j * lanes + v, i), "packed_w", "injective"
    )
    return result


def dense_pack(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
) -> Tensor:
    """data (M, K), weight (N / b, K, b): blocks of b columns, or (N, K), which is packed here; bias
    (N). Returns (M, N) of `out_dtype` (default: of data)."""
    packed = dense_packed(data, weight if weight.ndim == 3 else _packed(weight), out_dtype)
    m, blocks, lanes = packed.shape
    result: Tensor = compute(
        (m, blocks * lanes),
        lambda i, j: packed(i, j // lanes, j % lanes),
        "T_dense_pack",
        "injective",
    )
    return result if bias is None else bias_add(result, elemwise_cast(bias, result.dtype))


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Sequence[Any] | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """a (B, M, K) times b (B, N, K), as TVM's users have it: b is transposed unless said otherwise.

    Without transpose_b b is (B, K, N), with transpose_a a is (B, K, M); a batch of 1 is repeated.
    Returns (B, M, N) (or `oshape`) of `out_dtype` (default: of a).
    """
    refuse_layouts(auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    a, b = tensor_a, tensor_b
    dtype = out_dtype or a.dtype
    k_extent, m = (a.shape[1], a.shape[2]) if transpose_a else (a.shape[2], a.shape[1])
    k2, n = (b.shape[2], b.shape[1]) if transpose_b else (b.shape[1], b.shape[2])
    _check(k_extent, k2, "batch_matmul")
    one_a, one_b = const_int(a.shape[0]) == 1, const_int(b.shape[0]) == 1
    if not one_a and not one_b:
        _check(a.shape[0], b.shape[0], "batch_matmul: batches")
    k = reduce_axis((0, k_extent), "k")

    def element(s: Any, i: Any, j: Any) -> Any:
        x, y = 0 if one_a else s, 0 if one_b else s
        left = a(x, k, i) if transpose_a else a(x, i, k)
        right = b(y, j, k) if transpose_b else b(y, k, j)
        return reduce_sum(cast(dtype, left) * cast(dtype, right), axis=k)

    shape = oshape or (b.shape[0] if one_a else a.shape[0], m, n)
    result: Tensor = compute(shape, element, "T_batch_matmul", "batch_matmul")
    return result
