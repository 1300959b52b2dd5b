"""Resizing along one dimension, as sums of weighted neighbours that are known ahead."""

from __future__ import annotations

from typing import Any

from ...loopir.expr import cast
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.extents import dimension
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..transform import INJECTIVE
from ..utils import get_const_int

_WRITTEN_OUT = 8


def resample(data: Tensor, indices: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Element o along `axis` is the sum over k of weights[o, k] times the element indices[o, k] of
    data; taken in the weights' type, which the result has."""
    at = dimension(axis, data.ndim)
    count = get_const_int(weights.shape[1])
    wide = accumulator(weights.dtype)
    shape = [*data.shape[:at], weights.shape[0], *data.shape[at + 1 :]]

    def term(i: Any, k: Any) -> Any:
        x = cast(wide, data(*i[:at], indices(i[at], k), *i[at + 1 :]))
        return cast(wide, weights(i[at], k)) * x

    if count > _WRITTEN_OUT:
        k = reduce_axis((0, count), "k")
        summed: Tensor = compute(shape, lambda *i: reduce_sum(term(i, k.var), axis=k), "T_resample")
        return summed

    def element(*i: Any) -> Any:
        total = term(i, 0)
        for k in range(1, count):
            total = total + term(i, k)
        return cast(weights.dtype, total)

    result: Tensor = compute(shape, element, "T_resample", INJECTIVE)
    return result
