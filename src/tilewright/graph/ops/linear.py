"""Linear algebra: systems of equations, and products with a matrix for each group of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import topi
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from .spec import OPAQUE, WIDE, OpSpec, rounded_once


def _grouped_matmul(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Rows x (m, k), matrices w (groups, k, n), and the group of each row (m,): row i times its
    group's matrix, and 0 where that is no group's number."""
    x, w, group = t
    dtype = a.get("out_dtype", x.dtype)
    k = reduce_axis((0, x.shape[1]), "k")
    wide = x.dtype != dtype

    def element(i: Any, j: Any) -> Any:
        place = O.max(O.min(group(i), w.shape[0] - 1), 0)
        left, right = x(i, k), w(place, k, j)
        product = cast(dtype, left) * cast(dtype, right) if wide else left * right
        return reduce_sum(product, axis=k)

    summed = compute((x.shape[0], w.shape[2]), element, "T_grouped_matmul", "comm_reduce")

    def kept(i: Any, j: Any) -> Any:
        there = O.all(group(i) >= 0, group(i) < w.shape[0])
        return O.select(there, summed(i, j), const(0, dtype))

    result: Tensor = compute(summed.shape, kept, "T_grouped", "elemwise")
    return result


OPS: dict[str, OpSpec] = {
    "det": OpSpec(lambda t, a: topi.det(t[0]), OPAQUE, precision=WIDE),
    "pivots": OpSpec(lambda t, a: topi.pivots(t[0]), OPAQUE, precision=WIDE),
    "solve": OpSpec(lambda t, a: topi.solve(*t), OPAQUE, precision=WIDE),
    "solve_triangular": OpSpec(
        lambda t, a: topi.solve_triangular(t[0], t[1], a["upper"], a["unit"]),
        OPAQUE,
        precision=WIDE,
    ),
    "cholesky": OpSpec(lambda t, a: topi.cholesky(t[0]), OPAQUE, precision=WIDE),
    "grouped_matmul": rounded_once(_grouped_matmul, OPAQUE),
}
