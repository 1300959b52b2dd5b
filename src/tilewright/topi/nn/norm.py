"""Normalisation by the mean and variance of what lies around an element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..transform import reshape
from ..utils import get_const_int, get_const_tuple

ROWS = "softmax_output"
"""As a softmax: all stages of a row are computed together."""


def normalize_rows(
    data: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    epsilon: float,
    center: bool = True,
    period: int = 1,
    run: int = 1,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift of each row of data (M, N); unless
    `center`, x / sqrt(mean of squares + epsilon).

    Rows of the same number modulo `period` have the same scales, one for each `run` elements. All
    is computed in float32 or wider and rounded once.
    """
    rows, n = data.shape
    wide = accumulator(data.dtype)
    count = cast(wide, O.max(n, 1))
    per = n // run

    def summed(value: Any, name: str) -> Tensor:
        k = reduce_axis((0, n), "k")
        total: Tensor = compute(
            (rows,), lambda i: reduce_sum(value(i, k.var), axis=k), name, "comm_reduce"
        )
        return total

    total = summed(lambda i, k: cast(wide, data(i, k)), "T_norm_sum") if center else None

    def moved(i: Any, j: Any) -> Any:
        x = cast(wide, data(i, j))
        return x if total is None else x - total(i) / count

    squares = summed(lambda i, k: moved(i, k) * moved(i, k), "T_norm_squares")
    factor: Tensor = compute(
        (rows,),
        lambda i: const(1, wide) / O.sqrt(squares(i) / count + const(epsilon, wide)),
        "T_norm_factor",
        "elemwise",
    )

    def element(i: Any, j: Any) -> Any:
        value = moved(i, j) * factor(i)
        place = i % period * per + j // run
        if scale is not None:
            value = value * cast(wide, scale(place))
        if shift is not None:
            value = value + cast(wide, shift(place))
        return cast(data.dtype, value)

    result: Tensor = compute(data.shape, element, "T_normalize", ROWS)
    return result


def _rows(data: Tensor, first: int) -> Tensor:
    """Dimensions from `first` on as one, those before it as another."""
    shape = get_const_tuple(data.shape)
    return reshape(data, (prod(shape[:first]), prod(shape[first:])))


def _flat(values: Tensor | None) -> Tensor | None:
    if values is None:
        return None
    return reshape(values, (prod(get_const_tuple(values.shape)),))


def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Sequence[int], epsilon: float = 1e-5
) -> Tensor:
    """Over the last dimensions, `axis`, with a scale and shift for each of their elements."""
    flat = _rows(data, min(a % data.ndim for a in axis))
    return reshape(normalize_rows(flat, _flat(gamma), _flat(beta), epsilon), data.shape)


def rms_norm(data: Tensor, weight: Tensor, axis: Sequence[int], epsilon: float = 1e-5) -> Tensor:
    """x / sqrt(mean of squares + epsilon) over the last dimensions, `axis`, times a weight."""
    flat = _rows(data, min(a % data.ndim for a in axis))
    return reshape(normalize_rows(flat, _flat(weight), None, epsilon, center=False), data.shape)


def instance_norm(data: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Of data (N, C, ...) every image and channel by itself."""
    return group_norm(data, gamma, beta, get_const_int(data.shape[1]), epsilon)


def group_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Of data (N, C, ...) every image and group of channels by itself; a scale and shift for each
    channel."""
    n, c, *rest = get_const_tuple(data.shape)
    size = prod(rest)
    flat = reshape(data, (n * num_groups, c // num_groups * size))
    size = max(size, 1) if isinstance(size, int) else size
    how = (epsilon, True, num_groups, size)
    return reshape(normalize_rows(flat, gamma, beta, *how), data.shape)


def lrn(
    data: Tensor,
    size: int,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2.0,
) -> Tensor:
    """x / (bias + alpha / size * the sum of squares of `size` neighbours along `axis`) ** beta."""
    at = axis % data.ndim
    wide = accumulator(data.dtype)
    before, extent = (size - 1) // 2, data.shape[at]
    k = reduce_axis((0, size), "k")

    def square(i: Sequence[Any]) -> Any:
        place = i[at] + k.var - before
        x = cast(wide, data(*i[:at], place, *i[at + 1 :]))
        inside = O.all(place >= 0, place < extent)
        return O.if_then_else(inside, x * x, const(0, wide))

    squares: Tensor = compute(data.shape, lambda *i: reduce_sum(square(i), axis=k), "T_lrn_squares")

    def element(*i: Any) -> Any:
        base = const(bias, wide) + const(alpha / size, wide) * squares(*i)
        if beta == 0.75:  # two square roots are much cheaper than a power
            root = O.sqrt(base)
            return cast(data.dtype, cast(wide, data(*i)) / (root * O.sqrt(root)))
        return cast(data.dtype, cast(wide, data(*i)) / O.power(base, const(beta, wide)))

    result: Tensor = compute(data.shape, element, "T_lrn", "elemwise")
    return result
