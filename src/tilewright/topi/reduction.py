"""Reductions over dimensions: sum, mean, max, min, prod, all, any, argmax, argmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import PrimExpr, Select, cast, const, const_int, convert
from ..tensor import reduce as R
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute
from ..tensor.extents import dimension
from ..tensor.tensor import Tensor
from .elemwise import accumulator, quotient, unary
from .tag import COMM_REDUCE, COMM_REDUCE_IDX
from .transform import reshape
from .utils import get_const_int


def normalize_axes(x: Tensor, axis: Any) -> list[int]:
    """The dimensions meant by `axis` (None: all), ascending. Raises UsageError where `axis` has an
    extent or a value that has to be constant and is not."""
    if axis is None:
        return list(range(x.ndim))
    if isinstance(axis, (int, PrimExpr)):
        axis = [axis]
    return _get_real_axis(x.ndim, [get_const_int(a) for a in axis])


def reduce_with(
    reducer: Callable[..., Any],
    x: Tensor,
    axis: int | Sequence[int] | None,
    keepdims: bool,
    name: str,
    tag: str = COMM_REDUCE,
) -> Any:
    """`reducer` over some dimensions; the rest stay (with keepdims, reduced ones as extent 1). The
    type is that of what is reduced. Raises UsageError where `axis` has an extent or a value that
    has to be constant and is not."""
    axes = normalize_axes(x, axis)
    if not axes:
        return unary(lambda v: v, x, name)
    ks = [reduce_axis((0, x.shape[a]), f"k{a}") for a in axes]
    shape = []
    for d in range(x.ndim):
        if d not in axes:
            shape.append(x.shape[d])
        elif keepdims:
            shape.append(const(1))

    def element(*i: Any) -> Any:
        data = iter(i)
        running = iter(ks)
        indices = []
        for d in range(x.ndim):
            if d in axes:
                indices.append(next(running))
                if keepdims:
                    next(data)
            else:
                indices.append(next(data))
        return reducer(x, indices, ks)

    return compute(shape, element, name, tag)


def over(reducer: Callable[..., Any], data: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """`reducer` of the elements themselves, under the name of the data's operation. Shape and type
    of data stay but for reduced dimensions."""
    result: Tensor = reduce_with(
        lambda t, i, k: reducer(t(*i), axis=k), data, axis, keepdims, f"{data.op.name}_red"
    )
    return result


def sum(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Sum over dimensions, in the type of the data; of bool whether one element holds."""
    return over(R.any if data.dtype == "bool" else R.sum, data, axis, keepdims)


def sum_in(dtype: str, data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Sum over dimensions of elements that are converted to `dtype`. Raises UsageError where `axis`
    has an extent or a value that has to be constant and is not."""
    if not normalize_axes(data, axis):
        return unary(lambda v: cast(dtype, v), data, f"{data.op.name}_red")
    return over(lambda v, axis: R.sum(cast(dtype, v), axis=axis), data, axis, keepdims)


def prod(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Product over dimensions. Takes numbers of any type, which the result keeps."""
    return over(R.prod, data, axis, keepdims)


def max(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Maximum over dimensions. Takes numbers of any type, which the result keeps."""
    return over(R.max, data, axis, keepdims)


def min(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Minimum over dimensions. Takes numbers of any type, which the result keeps."""
    return over(R.min, data, axis, keepdims)


def all(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along dimensions hold, of bool."""
    return over(R.all, data, axis, keepdims)


def any(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether one element along dimensions holds, of bool."""
    return over(R.any, data, axis, keepdims)


def mean(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over dimensions, of floating-point data; of narrow floats the sum is taken
    in float32. Raises UsageError where `axis` has an extent or a value that has to be constant and
    is not."""
    count: Any = const(1)
    for a in normalize_axes(data, axis):
        count = count * data.shape[a]
    wide = accumulator(data.dtype)
    total = sum_in(wide, data, axis, keepdims)
    return unary(lambda v: cast(data.dtype, quotient(v, cast(wide, count))), total, "T_divide")


def _arg(
    better: Callable[[Any, Any], Any], start: Callable[[str], Any], name: str, last: bool
) -> Any:
    """A reduction of pairs of place and value. The start is no better than any element, and behind
    it among equals. As in NumPy, what is not a number is better than all that is."""

    def combine(left: Any, right: Any) -> Any:
        (i, x), (j, y) = left, right
        ahead, same = better(x, y), x.equal(y)
        if "float" in x.dtype:
            ahead = O.any(ahead, O.all(x != x, y.equal(y)))
            same = O.any(same, O.all(x != x, y != y))
        first = O.any(ahead, O.all(same, i > j if last else i < j))
        return Select(first, i, j), Select(first, x, y)

    def identity(place: str, value: str) -> Any:
        return (const(-1, place) if last else O.max_value(place)), start(value)

    return R.comm_reducer(combine, identity, name=name)


def _arg_reduce(reducer: Any, x: Tensor, axis: Any, keepdims: bool, name: str) -> Tensor:
    def number(ks: Sequence[Any]) -> Any:
        flat: Any = ks[0].var
        for k in ks[1:]:
            flat = flat * k.dom.extent + k.var
        return cast("int32", flat)

    pair = reduce_with(
        lambda t, i, k: reducer((number(k), t(*i)), axis=k),
        x,
        axis,
        keepdims,
        f"{x.op.name}_{name}",
        COMM_REDUCE_IDX,
    )
    place: Tensor = compute(pair[0].shape, lambda *i: pair[0](*i), f"T_{name}", COMM_REDUCE_IDX)
    return place


def argmax(
    data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Index of the largest element along dimensions (the first of equals, or the last), int32; of
    several dimensions the number in row-major order."""
    reducer = _arg(lambda a, b: a > b, R.least_value, "argmax", select_last_index)
    return _arg_reduce(reducer, data, axis, keepdims, "argmax")


def argmin(
    data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Index of the smallest element along dimensions (the first of equals, or the last), int32; of
    several dimensions the number in row-major order."""
    reducer = _arg(lambda a, b: a < b, R.greatest_value, "argmin", select_last_index)
    return _arg_reduce(reducer, data, axis, keepdims, "argmin")


def comm_reduce(
    data: Tensor,
    axis: Any = None,
    keepdims: bool = False,
    func: Callable[..., Any] = R.sum,
    is_idx_reduce: bool = False,
) -> Tensor:
    """A reducer of the user's own over dimensions; one of pairs of place and value, where
    `is_idx_reduce`, of which the places come back. The result has the type of `data`, and of places
    int32."""
    if is_idx_reduce:
        return _arg_reduce(func, data, axis, keepdims, getattr(func, "__name__", "reduce"))
    return over(func, data, axis, keepdims)


def collapse_sum(data: Tensor, target_shape: Sequence[int] | Tensor) -> Tensor:
    """The sum over the dimensions that were broadcast from `target_shape`, which it then has. Takes
    any type, which the result keeps. Raises TilewrightError where data was not broadcast from
    target_shape."""
    wanted = target_shape.shape if isinstance(target_shape, Tensor) else target_shape
    sizes = [const_int(convert(d)) for d in wanted]
    have = [const_int(d) for d in data.shape]
    ahead = len(have) - len(sizes)
    fits = [a == b or b == 1 for a, b in zip(have[ahead:], sizes)]
    if ahead < 0 or False in fits:
        raise TilewrightError(f"collapse_sum: {data!r} was not broadcast from shape {sizes}")
    axes = [d for d, n in enumerate(have) if d < ahead or (sizes[d - ahead] == 1 and n != 1)]
    return reshape(sum(data, axes), wanted) if axes else data


def _get_real_axis(ndim: int, axis: Any) -> list[int]:
    """The dimensions meant by `axis` (None: all), ascending, of a tensor that has `ndim`."""
    axes = range(ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return sorted({dimension(a, ndim) for a in axes})
