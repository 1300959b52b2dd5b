"""Softmax and its logarithm along one dimension."""

from __future__ import annotations

from typing import Any

from ...loopir import op as O
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..reduction import max as reduce_max
from ..reduction import sum as reduce_sum


def _without(i: Any, axis: int) -> Any:
    return (*i[:axis], *i[axis + 1 :])


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max x) / sum of it along `axis`."""
    at = axis % x.ndim
    largest = reduce_max(x, at)
    power: Tensor = compute(
        x.shape, lambda *i: O.exp(x(*i) - largest(*_without(i, at))), "T_softmax_exp", "elemwise"
    )
    total = reduce_sum(power, at)
    result: Tensor = compute(
        x.shape, lambda *i: power(*i) / total(*_without(i, at)), "T_softmax_norm", "softmax_output"
    )
    return result


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log of softmax along `axis`, without its loss of precision."""
    at = axis % x.ndim
    largest = reduce_max(x, at)
    power: Tensor = compute(
        x.shape, lambda *i: O.exp(x(*i) - largest(*_without(i, at))), "T_softmax_exp", "elemwise"
    )
    total = reduce_sum(power, at)

    def element(*i: Any) -> Any:
        rest = _without(i, at)
        return x(*i) - largest(*rest) - O.log(total(*rest))

    result: Tensor = compute(x.shape, element, "T_log_softmax", "softmax_output")
    return result
