"""Reductions over dimensions: sum, mean, max, min, prod, argmax, argmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..loopir import op as O
from ..loopir.expr import Select, cast, const
from ..tensor import reduce as R
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .elemwise import accumulator, quotient, unary

COMM_REDUCE = "comm_reduce"


def normalize_axes(x: Tensor, axis: int | Sequence[int] | None) -> list[int]:
    """The dimensions meant by `axis` (None: all), ascending."""
    if axis is None:
        return list(range(x.ndim))
    axes = [axis] if isinstance(axis, int) else list(axis)
    return sorted({a % x.ndim for a in axes})


def reduce_with(
    reducer: Callable[..., Any],
    x: Tensor,
    axis: int | Sequence[int] | None,
    keepdims: bool,
    name: str,
) -> Any:
    """`reducer` over some dimensions; the rest stay (with keepdims, reduced ones as extent 1)."""
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

    return compute(shape, element, name, COMM_REDUCE)


def sum(
    x: Tensor, axis: Any = None, keepdims: bool = False, out_dtype: str | None = None
) -> Tensor:
    """Sum over dimensions, taken in `out_dtype` (default: of x)."""
    dtype = out_dtype or x.dtype
    if not normalize_axes(x, axis):
        return unary(lambda v: cast(dtype, v), x, f"{x.op.name}_red")
    result: Tensor = reduce_with(
        lambda t, i, k: R.sum(cast(dtype, t(*i)), axis=k), x, axis, keepdims, f"{x.op.name}_red"
    )
    return result


def prod(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Product over dimensions."""
    result: Tensor = reduce_with(
        lambda t, i, k: R.prod(t(*i), axis=k), x, axis, keepdims, f"{x.op.name}_red"
    )
    return result


def max(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Maximum over dimensions."""
    result: Tensor = reduce_with(
        lambda t, i, k: R.max(t(*i), axis=k), x, axis, keepdims, f"{x.op.name}_red"
    )
    return result


def min(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Minimum over dimensions."""
    result: Tensor = reduce_with(
        lambda t, i, k: R.min(t(*i), axis=k), x, axis, keepdims, f"{x.op.name}_red"
    )
    return result


def mean(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over dimensions, of floating-point data; of narrow floats the sum is taken
    in float32."""
    count: Any = const(1)
    for a in normalize_axes(x, axis):
        count = count * x.shape[a]
    wide = accumulator(x.dtype)
    total = sum(x, axis, keepdims, wide)
    return unary(lambda v: cast(x.dtype, quotient(v, cast(wide, count))), total, "T_divide")


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
    )
    return unary(lambda v: v, pair[0], f"T_{name}")


def argmax(
    x: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Index of the largest element along dimensions (the first of equals, or the last), int32; of
    several dimensions the number in row-major order."""
    reducer = _arg(lambda a, b: a > b, R.least_value, "argmax", select_last_index)
    return _arg_reduce(reducer, x, axis, keepdims, "argmax")


def argmin(
    x: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Index of the smallest element along dimensions (the first of equals, or the last), int32; of
    several dimensions the number in row-major order."""
    reducer = _arg(lambda a, b: a < b, R.greatest_value, "argmin", select_last_index)
    return _arg_reduce(reducer, x, axis, keepdims, "argmin")
