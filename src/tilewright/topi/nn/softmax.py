"""Softmax and its logarithm along one dimension."""

from __future__ import annotations

from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..reduction import max as reduce_max
from ..reduction import sum as reduce_sum


def _without(i: Any, axis: int) -> Any:
    return (*i[:axis], *i[axis + 1 :])


def _exponentials(x: Tensor, at: int) -> tuple[Any, Tensor, Tensor]:
    """x - max x as a function of indices, exp of it, and the sum of that; narrow floats are
    widened first."""
    wide = accumulator(x.dtype)
    largest = reduce_max(x, at)

    def moved(*i: Any) -> Any:
        return cast(wide, x(*i)) - cast(wide, largest(*_without(i, at)))

    power: Tensor = compute(x.shape, lambda *i: O.exp(moved(*i)), "T_softmax_exp", "elemwise")
    return moved, power, reduce_sum(power, at)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max x) / sum of it along `axis`."""
    at = axis % x.ndim
    _, power, total = _exponentials(x, at)

    def element(*i: Any) -> Any:
        return cast(x.dtype, power(*i) / total(*_without(i, at)))

    result: Tensor = compute(x.shape, element, "T_softmax_norm", "softmax_output")
    return result


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log of softmax along `axis`, without its loss of precision."""
    at = axis % x.ndim
    moved, _, total = _exponentials(x, at)

    def element(*i: Any) -> Any:
        return cast(x.dtype, moved(*i) - O.log(total(*_without(i, at))))

    result: Tensor = compute(x.shape, element, "T_log_softmax", "softmax_output")
    return result
