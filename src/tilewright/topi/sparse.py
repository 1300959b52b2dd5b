"""`tvm.topi.sparse`: products with matrices in compressed rows (`tvm.contrib.sparse`)."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError
from ..loopir.expr import cast, const
from ..loopir.ir_builder import create
from ..tensor.compute import compute
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .lines import each
from .nn.dense import dense as plain_dense
from .nn.sparse import sparse_dense_sp_lhs, sparse_dense_sp_rhs


def _is_sparse(x: Any) -> bool:
    return all(hasattr(x, name) for name in ("data", "indices", "indptr"))


def csrmm(a: Any, b: Tensor, c: Tensor | None = None) -> Tensor:
    """A sparse matrix (M, K) times b (K, N), plus c (M,), one number a row. Returns (M, N). The
    result has the type of the matrix. Raises TilewrightError where `a` is no sparse placeholder."""
    if not _is_sparse(a):
        raise TilewrightError(f"csrmm is of a sparse placeholder, got {a!r}")
    m, n = a.shape[0], b.shape[1]

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        values, columns, starts, x, out = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        with each(ib, m, 1 << 14) as row:
            with ib.for_range(0, n, name="j") as j:
                out[row, j] = const(0, b.dtype)
            with ib.for_range(0, starts[row + 1] - starts[row], name="k") as k:
                place = ib.let("place", starts[row] + k)
                value = ib.let("value", cast(b.dtype, values[place]))
                column = ib.let("column", columns[place])
                with ib.for_range(0, n, name="j") as j:
                    out[row, j] = out[row, j] + value * x[column, j]
        return ib.get()

    inputs = [a.data, a.indices, a.indptr, b]
    result: Tensor = extern((m, n), inputs, body, "csrmm", b.dtype, tag="csrmm")
    return result if c is None else _plus_rows(result, c)


def _plus_rows(x: Tensor, c: Tensor) -> Tensor:
    result: Tensor = compute(x.shape, lambda i, j: x(i, j) + c(i), "csrmm_bias", "broadcast")
    return result


def csrmv(a: Any, x: Tensor, y: Tensor | None = None) -> Tensor:
    """A sparse matrix (M, K) times x (K, 1), plus y (M,). Returns (M, 1). The result has the type
    of the matrix. Raises TilewrightError where `a` is no sparse placeholder."""
    return csrmm(a, x, y)


def dense(data: Any, weight: Any, bias: Tensor | None = None) -> Tensor:
    """data (M, K) times the transpose of weight (N, K), one of them sparse, plus bias (N,). Returns
    (M, N). The result has the type of `data`. Raises TilewrightError where `data` or `weight` has
    fewer than two dimensions."""
    if _is_sparse(data):
        result = sparse_dense_sp_lhs(data.data, data.indices, data.indptr, weight)
    elif _is_sparse(weight):
        result = sparse_dense_sp_rhs(data, weight.data, weight.indices, weight.indptr)
    else:
        return plain_dense(data, weight, bias)
    if bias is None:
        return result
    total: Tensor = compute(
        result.shape, lambda i, j: result(i, j) + bias(j), "dense_bias", "broadcast"
    )
    return total
