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
from ..utils import get_const_int, of_rank
from .elemwise import bias_add
from .utils import FreeLayout


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
    """a (..., M, K) times b (..., K, N), each transposed in memory if said so, plus a bias (N);
    dimensions in front are broadcast as NumPy does it. b may lie in memory as
    `auto_scheduler_rewritten_layout` says of its axes j and k.

    Returns (..., M, N) of `out_dtype` (default: of a), in which products and sums are taken. Raises
    TilewrightError where `tensor_a` or `tensor_b` has fewer than two dimensions, where `tensor_b`
    is no placeholder, though its original shape is given.
    """
    free = FreeLayout(
        tensor_b, auto_scheduler_rewritten_layout, meta_schedule_original_shape, "j k"
    )
    return _product(
        tensor_a, tensor_b, bias, out_dtype, (transpose_a, transpose_b), "T_matmul", free
    )


def _product(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    out_dtype: str | None,
    transposed: tuple[bool, bool],
    name: str,
    free: FreeLayout,
) -> Tensor:
    dtype = out_dtype or a.dtype
    flip_a, flip_b = transposed
    if a.ndim < 2 or (free.sizes is None and b.ndim < 2):
        raise TilewrightError(f"{name}: matrices have two dimensions or more, got {a!r} and {b!r}")
    *batch_a, m, k_extent = _unflipped(a.shape, flip_a)
    *batch_b, k2, n = (
        _unflipped(b.shape, flip_b) if free.sizes is None else (free.sizes[1], free.sizes[0])
    )
    _check(k_extent, k2, name if free.sizes is not None else f"{name} of {a!r} and {b!r}")
    k = reduce_axis((0, k_extent), "k")

    def read(x: Tensor, batch: Sequence[Any], outer: Sequence[Any], i: Any, j: Any) -> Any:
        own = outer[len(outer) - len(batch) :]
        at = [0 if const_int(d) == 1 else o for d, o in zip(batch, own)]
        return x(*at, i, j)

    def element(*indices: Any) -> Any:
        *outer, i, j = indices
        left = read(a, batch_a, outer, *((k, i) if flip_a else (i, k)))
        right = read(b, batch_b, outer, *((j, k) if flip_b else (k, j)))
        return reduce_sum(cast(dtype, left) * cast(dtype, right), axis=k)

    shape = (*_batch(batch_a, batch_b, name), m, n)
    names = [*(f"b{d}" for d in range(len(shape) - 2)), "i", "j"]
    result: Tensor = compute(shape, element, name, "matmul", free.attrs, names)
    result = free.read(result)
    return result if bias is None else bias_add(result, elemwise_cast(bias, dtype), -1)


def _unflipped(shape: Sequence[Any], flipped: bool) -> list[Any]:
    """The shape of a matrix (behind other dimensions) before it was transposed."""
    *batch, rows, columns = shape
    return [*batch, columns, rows] if flipped else [*batch, rows, columns]


def _batch(one: Sequence[Any], other: Sequence[Any], what: str) -> list[Any]:
    """Two shapes broadcast to each other."""
    rank = max(len(one), len(other))
    found = []
    for x, y in zip(*([1] * (rank - len(s)) + list(s) for s in (one, other))):
        if const_int(x) != 1 and const_int(y) != 1:
            _check(x, y, f"{what}: batches")
        found.append(y if const_int(x) == 1 else x)
    return found


def plain_matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """a (M, K) times b (K, N), each transposed in memory if said so: `topi.matmul`. The result has
    the type that arithmetic brings `a` and `b` to. Raises TilewrightError where `a` or `b` has
    fewer than two dimensions."""
    return matmul(a, b, transpose_a=transp_a, transpose_b=transp_b)


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """data (..., M, K), weight (N, K), bias (N); returns (..., M, N) of `out_dtype` (default: of
    data). The layouts are as in `matmul`. Raises TilewrightError where `data` or `weight` has fewer
    than two dimensions, where `weight` is no placeholder, though its original shape is given."""
    free = FreeLayout(weight, auto_scheduler_rewritten_layout, meta_schedule_original_shape, "j k")
    return _product(data, weight, bias, out_dtype, (False, True), "T_dense", free)


@of_rank(data=2, weight=3)
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


@of_rank(data=2, weight=(2, 3))
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
    Returns (B, M, N) (or `oshape`) of `out_dtype` (default: of a). tensor_b may lie in memory as
    `auto_scheduler_rewritten_layout` says of its axes b, k and j. Raises TilewrightError where an
    argument has not three dimensions, where `tensor_b` is no placeholder, though its original shape
    is given.
    """
    free = FreeLayout(
        tensor_b, auto_scheduler_rewritten_layout, meta_schedule_original_shape, "b k j"
    )
    dtype = out_dtype or tensor_a.dtype
    if tensor_a.ndim != 3 or (free.sizes is None and tensor_b.ndim != 3):
        raise TilewrightError(
            f"batch_matmul: batches of matrices have three dimensions, got {tensor_a!r} and "
            f"{tensor_b!r}; topi.matmul takes others"
        )
    batch_a, m, k_extent = _unflipped(tensor_a.shape, transpose_a)
    batch_b, k2, n = free.sizes or _unflipped(tensor_b.shape, transpose_b)
    _check(k_extent, k2, "batch_matmul")
    (batch,) = _batch([batch_a], [batch_b], "batch_matmul")
    one_a, one_b = const_int(batch_a) == 1, const_int(batch_b) == 1 and not free.sizes
    k = reduce_axis((0, k_extent), "k")

    def element(b: Any, i: Any, j: Any) -> Any:
        x, y = 0 if one_a else b, 0 if one_b else b
        left = tensor_a(x, k, i) if transpose_a else tensor_a(x, i, k)
        right = tensor_b(y, j, k) if transpose_b else tensor_b(y, k, j)
        return reduce_sum(cast(dtype, left) * cast(dtype, right), axis=k)

    shape = oshape or (batch, m, n)
    result: Tensor = compute(shape, element, "T_batch_matmul", "batch_matmul", free.attrs)
    return free.read(result)
