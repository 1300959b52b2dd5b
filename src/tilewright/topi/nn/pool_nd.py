"""Pooling over any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.dtype import parse
from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor import reduce as R
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..elemwise import accumulator, quotient
from ..transform import pad
from ..utils import get_const_int
from .pooling import least_of, taps_within, window_count

Numbers = Sequence[int]


class _Windows:
    """Windows over the dimensions of `data` behind the first two, but for blocks of channels:
    extents of the output, and the padding with what `ceil_mode` adds behind."""

    def __init__(
        self,
        data: Tensor,
        kernel: Numbers,
        stride: Numbers,
        dilation: Numbers,
        padding: Numbers,
        ceil_mode: bool,
    ) -> None:
        rank = len(kernel)
        self.size = [get_const_int(d) for d in data.shape[2 : 2 + rank]]
        self.behind = list(data.shape[2 + rank :])
        if len(self.size) != rank or len(self.behind) > 1:
            raise TilewrightError(f"pooling of {data!r} by windows of {rank} dimensions")
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.before, self.after = padding[:rank], padding[rank:]
        self.more = [s - 1 if ceil_mode else 0 for s in stride]
        given = zip(self.size, kernel, stride, self.before, self.after, dilation, self.more)
        extents = (window_count(*numbers) for numbers in given)
        self.shape = [*data.shape[:2], *extents, *self.behind]
        self.taps = [reduce_axis((0, k), f"r{d}") for d, k in enumerate(kernel)]

    def padded(self, data: Tensor, filler: Any) -> Tensor:
        behind = [a + m for a, m in zip(self.after, self.more)]
        if not any([*self.before, *behind]):
            return data
        last = [0] * len(self.behind)
        return pad(data, [0, 0, *self.before, *last], [0, 0, *behind, *last], filler, "pool_pad")

    def places(self, i: Sequence[Any]) -> list[Any]:
        """Where the elements of a window stand in the padded data."""
        every = zip(i[2:], self.stride, self.taps, self.dilation)
        return [*(j * s + r * d for j, s, r, d in every), *i[2 + len(self.size) :]]

    def counted(self, i: Sequence[Any], with_padding: bool) -> Any:
        """How many elements of a window count in its average."""
        count: Any = const(1)
        for d, j in enumerate(i[2 : 2 + len(self.size)]):
            start = j * self.stride[d]
            whole = self.size[d]
            if with_padding:
                whole += self.before[d] + self.after[d]
            else:
                start = start - self.before[d]
            count = count * taps_within(start, self.kernel[d], self.dilation[d], whole)
        return count


def pool_nd(
    data: Tensor,
    kernel: Numbers,
    stride: Numbers,
    dilation: Numbers,
    padding: Numbers,
    pool_type: str = "max",
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    p: float = 2.0,
) -> Tensor:
    """Maximum ("max"), average ("avg") or `p`-norm ("lp") over windows of the dimensions of data
    (N, C, ...) or (N, C / b, ..., b) behind the first two; padding in front of each, then behind
    each."""
    if pool_type not in ("max", "avg", "lp"):
        raise TilewrightError(f"pool_type is 'max', 'avg' or 'lp', got {pool_type!r}")
    windows = _Windows(data, kernel, stride, dilation, padding, ceil_mode)
    shape, taps = windows.shape, windows.taps
    padded = windows.padded(data, least_of(data.dtype) if pool_type == "max" else 0)

    def read(i: Sequence[Any]) -> Any:
        return padded(*i[:2], *windows.places(i))

    if pool_type == "max":
        result: Tensor = compute(
            shape, lambda *i: R.max(read(i), axis=taps), "max_pool", "pool_max"
        )
        return result
    wide = accumulator(data.dtype)

    def term(i: Sequence[Any]) -> Any:
        x = cast(wide, read(i))
        return x if pool_type == "avg" else powered(x, p)

    total = compute(shape, lambda *i: R.sum(term(i), axis=taps), "pool_sum", "pool_avg")

    def finish(*i: Any) -> Any:
        if pool_type == "lp":
            return cast(data.dtype, rooted(total(*i), p))
        if count_include_pad and not ceil_mode:
            return cast(data.dtype, quotient(total(*i), const(prod(kernel), wide)))
        count = O.max(windows.counted(i, count_include_pad), 1)
        return cast(data.dtype, quotient(total(*i), cast(wide, count)))

    result = compute(shape, finish, f"{pool_type}_pool", "elemwise")
    return result


def powered(x: Any, p: float) -> Any:
    """|x| to the power of p."""
    if p == 2:
        return x * x
    size = O.abs(x)
    return size if p == 1 else O.power(size, const(p, x.dtype))


def rooted(x: Any, p: float) -> Any:
    """The p-th root."""
    if p == 1:
        return x
    return O.sqrt(x) if p == 2 else O.power(x, const(1 / p, x.dtype))


def max_pool_index(
    data: Tensor,
    kernel: Numbers,
    stride: Numbers,
    dilation: Numbers,
    padding: Numbers,
    ceil_mode: bool = False,
    column_major: bool = False,
) -> Tensor:
    """Of each window the number of its maximum, the first of equals, among all elements of data in
    row-major order; with `column_major` the spatial dimensions are counted in reverse."""
    windows = _Windows(data, kernel, stride, dilation, padding, ceil_mode)
    nowhere = parse("int64").max_value

    def combine(left: Any, right: Any) -> Any:
        same = O.all(left[1].equal(right[1]), left[0] < right[0])
        first = O.any(left[1] > right[1], same)
        return O.select(first, left[0], right[0]), O.select(first, left[1], right[1])

    def start(index: str, value: str) -> Any:
        return const(nowhere, index), const(least_of(value), value)

    reducer = R.comm_reducer(combine, start, name="max_pool_index")

    def element(*i: Any) -> Any:
        places = [at - b for at, b in zip(windows.places(i), windows.before)]
        inside = []
        flat: Any = const(0, "int64")
        for at, size in zip(places, windows.size):
            inside += [at >= 0, at < size]
            flat = flat * size + cast("int64", at)
        here = O.all(*inside)
        value = O.if_then_else(here, data(*i[:2], *places), const(least_of(data.dtype), data.dtype))
        return reducer((O.select(here, flat, const(nowhere, "int64")), value), axis=windows.taps)

    index = compute(windows.shape, element, "max_pool_places", "comm_reduce")[0]
    total = prod(windows.size)

    def number(*i: Any) -> Any:
        image = cast("int64", i[0]) * data.shape[1] + cast("int64", i[1])
        flat = index(*i)
        if column_major:
            rest, flat, step = flat, const(0, "int64"), 1
            apart: list[Any] = []
            for size in reversed(windows.size):
                apart.insert(0, rest % size)
                rest = rest // size
            for at, size in zip(apart, windows.size):
                flat = flat + at * step
                step *= size
        return image * total + flat

    result: Tensor = compute(windows.shape, number, "max_pool_index", "elemwise")
    return result
