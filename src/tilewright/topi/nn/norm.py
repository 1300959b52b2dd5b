"""Normalisation by the mean and variance of what lies around an element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.extents import dimension
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator, identity, unary
from ..reduction import sum as sum_over
from ..transform import reshape, transpose
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
    """(x - mean) / sqrt(variance + epsilon) * scale + shift of each row of data (..., N); unless
    `center`, x / sqrt(mean of squares + epsilon).

    Of data (M, N), rows of the same number modulo `period` have the same scales, one for each `run`
    elements. All is computed in float32 or wider and rounded once.
    """
    *rows, n = data.shape
    wide = accumulator(data.dtype)
    count = cast(wide, O.max(n, 1))
    per = n // run

    def summed(value: Any, name: str) -> Tensor:
        k = reduce_axis((0, n), "k")
        total: Tensor = compute(
            rows, lambda *i: reduce_sum(value(*i, k.var), axis=k), name, "comm_reduce"
        )
        return total

    total = summed(lambda *i: cast(wide, data(*i)), "T_norm_sum") if center else None

    def moved(*i: Any) -> Any:
        x = cast(wide, data(*i))
        return x if total is None else x - total(*i[:-1]) / count

    squares = summed(lambda *i: moved(*i) * moved(*i), "T_norm_squares")
    factor: Tensor = compute(
        rows,
        lambda *i: const(1, wide) / O.sqrt(squares(*i) / count + const(epsilon, wide)),
        "T_norm_factor",
        "elemwise",
    )

    def element(*i: Any) -> Any:
        value = moved(*i) * factor(*i[:-1])
        place = i[0] % period * per + i[-1] // run
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
    if values is None or values.ndim == 1:
        return values
    return reshape(values, (prod(get_const_tuple(values.shape)),))


def _over(data: Tensor, axis: Any) -> list[int]:
    axes = [axis] if isinstance(axis, int) else [get_const_int(a) for a in axis]
    return sorted({dimension(a, data.ndim) for a in axes})


def _in_front(data: Tensor, axes: Sequence[int]) -> tuple[Tensor, list[int] | None]:
    """The dimensions `axes` behind all others, and the order that undoes it (None: nothing is
    moved)."""
    order = [d for d in range(data.ndim) if d not in axes] + list(axes)
    if order == list(range(data.ndim)):
        return data, None
    return transpose(data, order), [order.index(d) for d in range(data.ndim)]


def _rowwise(
    data: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    axis: Any,
    epsilon: float,
    center: bool,
) -> Tensor:
    axes = _over(data, axis)
    moved, back = _in_front(data, axes)
    one = len(axes) == 1 and data.ndim > 1
    flat = moved if one else _rows(moved, data.ndim - len(axes))
    rows = normalize_rows(flat, _flat(scale), _flat(shift), epsilon, center)
    result = rows if one else reshape(rows, moved.shape)
    return result if back is None else transpose(result, back)


def layer_norm(
    data: Tensor, gamma: Tensor | None, beta: Tensor | None, axis: Any, epsilon: float = 1e-5
) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) over the dimensions `axis`, with a scale and a shift
    for each of their elements (or none). Takes floats, whose type the result keeps. Ba et al.,
    Layer Normalization, 2016 (arXiv:1607.06450)."""
    return _rowwise(data, gamma, beta, axis, epsilon, True)


def rms_norm(data: Tensor, weight: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """data / sqrt(mean of squares + epsilon) over the dimensions `axis`, times a weight for each of
    their elements. Takes floats, whose type the result keeps. Zhang and Sennrich, Root Mean Square
    Layer Normalization, NeurIPS 2019."""
    return _rowwise(data, weight, None, axis, epsilon, False)


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, axis: Any, epsilon: float = 1e-5
) -> Tensor:
    """As layer_norm, which is what TVM v0.18 has under this name: a scale and a shift for each
    element of the dimensions `axis`. One for each channel: group_norm of as many groups. Takes
    floats, whose type the result keeps."""
    return _rowwise(data, gamma, beta, axis, epsilon, True)


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float = 1e-5,
) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) over a group of channels and the dimensions `axes`,
    which are not the channels', with a scale and a shift for each channel (or none). Takes floats,
    whose type the result keeps. Wu and He, Group Normalization, ECCV 2018. Raises TilewrightError
    where the channels do not divide into num_groups, where `axes` or `channel_axis` is no integer,
    or no dimension of the tensor, where axes are no permutation of the dimensions, and UsageError
    where `axes` has an extent or a value that has to be constant and is not."""
    at = dimension(channel_axis, data.ndim)
    over = [d for d in _over(data, axes) if d != at]
    moved, back = _in_front(data, [at, *over])
    n, (c, *size) = moved.ndim - 1 - len(over), get_const_tuple(moved.shape[-1 - len(over) :])
    if c % num_groups:
        raise TilewrightError(f"group_norm: {c} channels do not divide into {num_groups} groups")
    outer, inner = prod(get_const_tuple(moved.shape[:n])), prod(size)
    flat = reshape(moved, (outer * num_groups, c // num_groups * inner))
    inner = max(inner, 1) if isinstance(inner, int) else inner
    how = (epsilon, True, num_groups, inner)
    result = reshape(normalize_rows(flat, gamma, beta, *how), moved.shape)
    return result if back is None else transpose(result, back)


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """(data - mean) / sqrt(variance + epsilon) for each index of `axis` (1), times gamma where
    `scale` and plus beta where `center` (both by default); epsilon 1e-5.

    Mean and variance are the moving ones; where `training`, those of the data, and the moving ones
    that come back have moved by `momentum` (0.1) towards them. Returns [result, mean, variance].
    Takes floats. Gives [shape and type of data; mean and variance, (extent of the axis,)]. Ioffe
    and Szegedy, Batch Normalization, ICML 2015.
    """
    at = dimension(1 if axis is None else axis, data.ndim)
    wide = accumulator(data.dtype)
    small = const(1e-5 if epsilon is None else epsilon, wide)
    mean, variance = _moments(data, at) if training else (moving_mean, moving_var)
    share = (0.1 if momentum is None else momentum) if training else 0.0
    pairs = ((moving_mean, mean), (moving_var, variance))
    moved = [_mixed(old, new, share) if share else identity(old) for old, new in pairs]

    def element(*i: Any) -> Any:
        c = i[at]
        value = cast(wide, data(*i)) - cast(wide, mean(c))
        value = value / O.sqrt(cast(wide, variance(c)) + small)
        if scale is not False:
            value = value * cast(wide, gamma(c))
        if center is not False:
            value = value + cast(wide, beta(c))
        return cast(data.dtype, value)

    result: Tensor = compute(data.shape, element, "T_batch_norm", "broadcast")
    return [result, *moved]


def _moments(data: Tensor, at: int) -> tuple[Tensor, Tensor]:
    others = [d for d in range(data.ndim) if d != at]
    wide = accumulator(data.dtype)
    count = const(1)
    for d in others:
        count = count * data.shape[d]
    ks = [reduce_axis((0, data.shape[d]), f"k{d}") for d in others]

    def mean_of(value: Any, name: str) -> Tensor:
        def term(c: Any) -> Any:
            places = iter(ks)
            return reduce_sum(
                value(c, [c if d == at else next(places) for d in range(data.ndim)]), axis=ks
            )

        total = compute((data.shape[at],), term, f"{name}_sum", "comm_reduce")
        return unary(lambda v: v / cast(wide, count), total, name)

    mean = mean_of(lambda c, i: cast(wide, data(*i)), "T_mean")

    def away(c: Any, i: Any) -> Any:
        x = cast(wide, data(*i)) - mean(c)
        return x * x

    return mean, mean_of(away, "T_variance")


def _mixed(old: Tensor, new: Tensor, share: float) -> Tensor:
    """old * (1 - share) + new * share."""
    result: Tensor = compute(
        old.shape,
        lambda c: (
            old(c) * const(1 - share, old.dtype) + cast(old.dtype, new(c)) * const(share, old.dtype)
        ),
        "T_moving",
        "elemwise",
    )
    return result


def l2_normalize(data: Tensor, eps: float, axis: Any = None) -> Tensor:
    """data / sqrt(max(sum of squares, eps)) over the dimensions `axis` (all). Takes floats, whose
    type the result keeps."""
    wide = accumulator(data.dtype)
    squares = unary(lambda v: cast(wide, v) * cast(wide, v), data, "T_squares")
    total = sum_over(squares, axis, True)

    def element(*i: Any) -> Any:
        at = [const(0) if const_int(d) == 1 else j for d, j in zip(total.shape, i)]
        whole = O.max(total(*at), const(eps, wide))
        return cast(data.dtype, cast(wide, data(*i)) / O.sqrt(whole))

    result: Tensor = compute(data.shape, element, "T_l2_normalize", "broadcast")
    return result


def lrn(
    data: Tensor,
    size: int,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2,
) -> Tensor:
    """x / (bias + alpha / size * the sum of squares of `size` neighbours along `axis`) ** beta.
    Takes floats, whose shape and type the result keeps. Krizhevsky et al., ImageNet Classification
    with Deep Convolutional Neural Networks, NIPS 2012. Raises TilewrightError where `axis` is no
    integer, or no dimension of the tensor."""
    at = dimension(axis, data.ndim)
    wide = accumulator(data.dtype)
    before, extent = (size - 1) // 2, data.shape[at]
    after, known = size - 1 - before, const_int(extent)
    if known:  # further neighbours are outside, wherever one stands
        before, after = min(before, known - 1), min(after, known - 1)
    k = reduce_axis((0, before + after + 1), "k")

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
