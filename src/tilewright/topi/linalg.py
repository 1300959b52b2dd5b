"""Determinants."""

from __future__ import annotations

from typing import Any

from ..loopir import op as O
from ..loopir.expr import cast, const, const_int
from ..loopir.ir_builder import IRBuilder, create
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .lines import each, variable
from .utils import AT_LEAST_2, of_rank, prod, unravel_index


@of_rank(data=AT_LEAST_2)
def det(data: Tensor) -> Tensor:
    """The determinants of the matrices in the last two dimensions, by elimination with the largest
    element of each column; of floats up to 32 bits in float64."""
    *batch, n = [const_int(d) or 0 for d in data.shape[:-1]]
    wide = "float64"

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        x, out, m = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        with each(ib, prod(batch), prod(batch) * n**3) as line:
            at = unravel_index(line, batch)
            with ib.for_range(0, n, name="i") as i, ib.for_range(0, n, name="j") as j:
                m[line, i, j] = cast(wide, x[(*at, i, j)])
            result = variable(ib, wide, const(1, wide), "result")
            with ib.for_range(0, n, name="k") as k:
                _eliminate(ib, m, line, k, n, result)
            out[tuple(at)] = cast(data.dtype, result[0])
        return ib.get()

    shapes = [batch, [prod(batch), n, n]]
    result: Tensor = extern(shapes, [data], body, "T_det", [data.dtype, wide])[0]
    return result


def _eliminate(ib: IRBuilder, m: Any, line: Any, k: Any, n: int, result: Any) -> None:
    """Column k below the diagonal; `result` takes in the diagonal's element."""
    best = variable(ib, "int32", k, "best")
    with ib.for_range(k + 1, n, name="i") as i:
        better = O.abs(m[line, i, k]) > O.abs(m[line, best[0], k])
        best[0] = O.select(better, i, best[0])
    with ib.if_scope(best[0] != k):
        with ib.for_range(k, n, name="j") as j:
            other = variable(ib, m.dtype, m[line, k, j], "other")
            m[line, k, j] = m[line, best[0], j]
            m[line, best[0], j] = other[0]
        result[0] = -result[0]
    pivot = ib.let("pivot", m[line, k, k])
    result[0] = result[0] * pivot
    with ib.if_scope(pivot != const(0, m.dtype)), ib.for_range(k + 1, n, name="i") as i:
        factor = ib.let("factor", m[line, i, k] / pivot)
        with ib.for_range(k + 1, n, name="j") as j:
            m[line, i, j] = m[line, i, j] - factor * m[line, k, j]
