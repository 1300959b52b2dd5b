"""Determinants, and systems of linear equations: by elimination, of triangles, by Cholesky."""

from __future__ import annotations

from typing import Any

from ..loopir import op as O
from ..loopir.expr import cast, const
from ..loopir.ir_builder import IRBuilder, create
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .lines import each, variable
from .utils import AT_LEAST_2, get_const_tuple, of_rank, prod, unravel_index

_WIDE = "float64"
"""What is eliminated in, whatever float comes and goes."""


@of_rank(data=AT_LEAST_2)
def det(data: Tensor) -> Tensor:
    """The determinants of the matrices in the last two dimensions, by elimination with the largest
    element of each column; of floats up to 32 bits in float64."""
    return _eliminated(data, "T_det", False)


@of_rank(data=AT_LEAST_2)
def pivots(data: Tensor) -> Tensor:
    """What elimination divides by, (..., n) of matrices (..., n, n), in the order in which it does:
    one is 0 where a matrix is singular. Takes numbers of any type, which the result keeps."""
    return _eliminated(data, "T_pivots", True)


def _eliminated(data: Tensor, name: str, each_pivot: bool) -> Tensor:
    *batch, n = get_const_tuple(data.shape[:-1])

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, out, m = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        with each(ib, prod(batch), prod(batch) * n * n * n) as line:
            at = unravel_index(line, batch)
            with ib.for_range(0, n, name="i") as i, ib.for_range(0, n, name="j") as j:
                m[line, i, j] = cast(_WIDE, x[(*at, i, j)])
            result = variable(ib, _WIDE, const(1, _WIDE), "result")
            with ib.for_range(0, n, name="k") as k:
                _eliminate(ib, m, line, k, n, n, result)
                if each_pivot:
                    out[(*at, k)] = cast(data.dtype, m[line, k, k])
            if not each_pivot:
                out[tuple(at)] = cast(data.dtype, result[0])
        return ib.get()

    shapes = [[*batch, n] if each_pivot else batch, [prod(batch), n, n]]
    result: Tensor = extern(shapes, [data], body, name, [data.dtype, _WIDE])[0]
    return result


@of_rank(a=AT_LEAST_2, b=AT_LEAST_2)
def solve(a: Tensor, b: Tensor) -> Tensor:
    """x (..., n, m) with a x = b, for matrices a (..., n, n) and as many b (..., n, m), of one
    float type: by elimination with the largest element of each column, in float64. Where a matrix
    is singular, x has infinities or what is no number. Raises TilewrightError where `a` or `b` is
    no tensor."""
    *batch, n, m = get_const_tuple(b.shape)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, y, out, w = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        with each(ib, prod(batch), prod(batch) * n * n * (n + m)) as line:
            at = unravel_index(line, batch)
            with ib.for_range(0, n, name="i") as i:
                with ib.for_range(0, n, name="j") as j:
                    w[line, i, j] = cast(_WIDE, x[(*at, i, j)])
                with ib.for_range(0, m, name="j") as j:
                    w[line, i, j + n] = cast(_WIDE, y[(*at, i, j)])
            sign = variable(ib, _WIDE, const(1, _WIDE), "sign")
            with ib.for_range(0, n, name="k") as k:
                _eliminate(ib, w, line, k, n, n + m, sign)
            with ib.for_range(0, m, name="j") as j, ib.for_range(0, n, name="step") as step:
                row = n - 1 - step
                total = variable(ib, _WIDE, w[line, row, j + n], "total")
                with ib.for_range(0, step, name="k") as k:
                    total[0] = total[0] - w[line, row, n - 1 - k] * w[line, n - 1 - k, j + n]
                w[line, row, j + n] = total[0] / w[line, row, row]
                out[(*at, row, j)] = cast(b.dtype, w[line, row, j + n])
        return ib.get()

    shapes = [[*batch, n, m], [prod(batch), n, n + m]]
    result: Tensor = extern(shapes, [a, b], body, "T_solve", [b.dtype, _WIDE])[0]
    return result


@of_rank(a=AT_LEAST_2, b=AT_LEAST_2)
def solve_triangular(a: Tensor, b: Tensor, upper: bool = False, unit: bool = False) -> Tensor:
    """x (..., n, m) with a x = b, for matrices b (..., n, m) and the lower triangles (or `upper`
    ones) of a (..., n, n), with ones on their diagonals if `unit`; in float64, each column of x by
    itself. Raises TilewrightError where `a` or `b` is no tensor."""
    *batch, n, m = get_const_tuple(b.shape)
    columns = prod(batch) * m

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, y, out, w = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        with each(ib, columns, columns * n * n // 2) as line:
            *at, j = unravel_index(line, [*batch, m])
            with ib.for_range(0, n, name="step") as step:
                i = n - 1 - step if upper else step
                total = variable(ib, _WIDE, cast(_WIDE, y[(*at, i, j)]), "total")
                with ib.for_range(0, step, name="k") as k:
                    known = n - 1 - k if upper else k
                    total[0] = total[0] - cast(_WIDE, x[(*at, i, known)]) * w[line, known]
                w[line, i] = total[0] if unit else total[0] / cast(_WIDE, x[(*at, i, i)])
                out[(*at, i, j)] = cast(b.dtype, w[line, i])
        return ib.get()

    shapes = [[*batch, n, m], [columns, n]]
    result: Tensor = extern(shapes, [a, b], body, "T_triangular", [b.dtype, _WIDE])[0]
    return result


@of_rank(data=AT_LEAST_2)
def cholesky(data: Tensor) -> Tensor:
    """The lower triangles l (..., n, n) with l l^T = data, of symmetric positive definite matrices,
    of which only the lower triangles are read; in float64. What is no number stands where a matrix
    is not positive definite. Raises TilewrightError where `data` is no tensor."""
    *batch, n = get_const_tuple(data.shape[:-1])

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, out, w = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        with each(ib, prod(batch), prod(batch) * n * n * n // 3) as line:
            at = unravel_index(line, batch)
            with ib.for_range(0, n, name="i") as i, ib.for_range(0, n, name="j") as j:
                w[line, i, j] = const(0, _WIDE)
                with ib.if_scope(j <= i):
                    total = variable(ib, _WIDE, cast(_WIDE, x[(*at, i, j)]), "total")
                    with ib.for_range(0, j, name="k") as k:
                        total[0] = total[0] - w[line, i, k] * w[line, j, k]
                    with ib.if_scope(j < i):
                        w[line, i, j] = total[0] / w[line, j, j]
                    with ib.else_scope():
                        w[line, i, j] = O.sqrt(total[0])
                out[(*at, i, j)] = cast(data.dtype, w[line, i, j])
        return ib.get()

    shapes = [[*batch, n, n], [prod(batch), n, n]]
    result: Tensor = extern(shapes, [data], body, "T_cholesky", [data.dtype, _WIDE])[0]
    return result


def _eliminate(ib: IRBuilder, m: Any, line: Any, k: Any, n: int, width: int, result: Any) -> None:
    """Column k below the diagonal, of n rows of so many elements; `result` takes in the diagonal's
    element."""
    best = variable(ib, "int32", k, "best")
    with ib.for_range(k + 1, n, name="i") as i:
        better = O.abs(m[line, i, k]) > O.abs(m[line, best[0], k])
        best[0] = O.select(better, i, best[0])
    with ib.if_scope(best[0] != k):
        with ib.for_range(k, width, name="j") as j:
            other = variable(ib, m.dtype, m[line, k, j], "other")
            m[line, k, j] = m[line, best[0], j]
            m[line, best[0], j] = other[0]
        result[0] = -result[0]
    pivot = ib.let("pivot", m[line, k, k])
    result[0] = result[0] * pivot
    with ib.if_scope(pivot != const(0, m.dtype)), ib.for_range(k + 1, n, name="i") as i:
        factor = ib.let("factor", m[line, i, k] / pivot)
        with ib.for_range(k + 1, width, name="j") as j:
            m[line, i, j] = m[line, i, j] - factor * m[line, k, j]
