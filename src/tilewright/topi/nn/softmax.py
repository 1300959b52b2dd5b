"""Softmax and its logarithm along one dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.compute import compute
from ...tensor.extents import dimension
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..fastmath import exp_by_polynomial
from ..reduction import max as reduce_max
from ..reduction import sum as reduce_sum


def _without(i: Any, axis: int) -> Any:
    return (*i[:axis], *i[axis + 1 :])


def _exponentials(
    x: Tensor, at: int, masked: bool = False, exp: Callable[[Any], Any] = O.exp
) -> tuple[Any, Tensor, Tensor]:
    """x - max x as a function of indices, exp of it, and the sum of that; narrow floats are
    widened first. Where `masked`, rows may be of -infinity alone: nothing is taken from them."""
    wide = accumulator(x.dtype)
    largest = reduce_max(x, at)

    def moved(*i: Any) -> Any:
        most = cast(wide, largest(*_without(i, at)))
        return cast(wide, x(*i)) - (least(most) if masked else most)

    power: Tensor = compute(x.shape, lambda *i: exp(moved(*i)), "T_softmax_exp", "elemwise")
    return moved, power, reduce_sum(power, at)


def least(most: Any) -> Any:
    """What is taken from a row whose largest element is `most`: nothing from one of -infinity."""
    return O.select(most > const(float("-inf"), most.dtype), most, const(0, most.dtype))


def _inverse(total: Any) -> Any:
    """Of the sum of a row, which is 1 at least: one division a row, not one an element."""
    return const(1, total.dtype) / total


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max x) / sum of it along `axis`. Takes floats, whose shape and type the result keeps.
    Raises TilewrightError where `axis` is no integer, or no dimension of the tensor."""
    return _softmax(x, axis, O.exp)


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """As softmax, with the polynomial of topi.fast_exp (Cephes) for float32. Raises TilewrightError
    where `axis` is no integer, or no dimension of the tensor."""
    return _softmax(x, axis, exp_by_polynomial if accumulator(x.dtype) == "float32" else O.exp)


def softmax_common(x: Tensor, axis: int, use_fast_exp: bool) -> Tensor:
    """softmax, or fast_softmax where `use_fast_exp`. Takes floats, whose shape and type the result
    keeps."""
    return fast_softmax(x, axis) if use_fast_exp else softmax(x, axis)


def _softmax(x: Tensor, axis: int, exp: Callable[[Any], Any]) -> Tensor:
    at = dimension(axis, x.ndim)
    _, power, total = _exponentials(x, at, exp=exp)

    def element(*i: Any) -> Any:
        return cast(x.dtype, power(*i) * _inverse(total(*_without(i, at))))

    result: Tensor = compute(
        x.shape, element, "T_softmax_norm", "softmax_output", attrs={"axis": at}
    )
    return result


def masked_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """As softmax; zeros along rows that are -infinity throughout. Raises TilewrightError where
    `axis` is no integer, or no dimension of the tensor."""
    at = dimension(axis, x.ndim)
    _, power, total = _exponentials(x, at, masked=True)

    def element(*i: Any) -> Any:
        whole = total(*_without(i, at))
        zero = const(0, whole.dtype)
        return cast(x.dtype, power(*i) * _inverse(O.select(whole.equal(zero), zero + 1, whole)))

    result: Tensor = compute(
        x.shape, element, "T_softmax_norm", "softmax_output", attrs={"axis": at}
    )
    return result


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log of softmax along `axis`, without its loss of precision. Takes floats, whose shape and
    type the result keeps. Raises TilewrightError where `axis` is no integer, or no dimension of the
    tensor."""
    at = dimension(axis, x.ndim)
    moved, _, total = _exponentials(x, at)

    def element(*i: Any) -> Any:
        return cast(x.dtype, moved(*i) - O.log(total(*_without(i, at))))

    result: Tensor = compute(
        x.shape, element, "T_log_softmax", "softmax_output", attrs={"axis": at}
    )
    return result
