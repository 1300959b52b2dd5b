"""Pooling over any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.dtype import parse
from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..utils import get_const_int
from .pooling import first_maximum, least_of, pool_windows, pooled
from .windows import Windows

Numbers = Sequence[int]


def _windows(
    data: Tensor,
    kernel: Numbers,
    stride: Numbers,
    dilation: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    filler: float = 0,
    space: Numbers | None = None,
) -> Windows:
    """Windows over the dimensions `space` of `data`, or those behind the first two, but for blocks
    of channels."""
    rank = len(kernel)
    places = range(2, 2 + rank) if space is None else space
    if data.ndim - rank not in (2, 3) or len(places) != rank:
        raise TilewrightError(f"pooling of {data!r} by windows of {rank} dimensions")
    how = (kernel, stride, dilation, padding, ceil_mode, filler)
    return pool_windows(data, places, *how)


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
    space: Numbers | None = None,
) -> Tensor:
    """Maximum ("max"), average ("avg") or `p`-norm ("lp") over windows of the dimensions of data
    (N, C, ...) or (N, C / b, ..., b) behind the first two, or of those that `space` names; padding
    in front of each, then behind each. Takes numbers of any type, which the result keeps. Raises
    TilewrightError where pool_type is none of 'max', 'avg' and 'lp', where the window has more
    dimensions than the data has of space."""
    if pool_type not in ("max", "avg", "lp"):
        raise TilewrightError(f"pool_type is 'max', 'avg' or 'lp', got {pool_type!r}")
    filler = least_of(data.dtype) if pool_type == "max" else 0
    w = _windows(data, kernel, stride, dilation, padding, ceil_mode, filler, space)
    return pooled(w, pool_type, f"{pool_type}_pool", padding, ceil_mode, count_include_pad, p)


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
    row-major order; with `column_major` the spatial dimensions are counted in reverse. Takes
    numbers of any type; places are int64. Raises TilewrightError where the window has more
    dimensions than the data has of space."""
    w = _windows(data, kernel, stride, dilation, padding, ceil_mode)
    sizes = [get_const_int(data.shape[d]) for d in w.places]
    nowhere = parse("int64").max_value
    reducer = first_maximum("int64", "max_pool_index")

    def element(*i: Any) -> Any:
        places = [at - b for at, b in zip(w.at(i)[2:], padding[: len(sizes)])]
        inside = []
        flat: Any = const(0, "int64")
        for at, size in zip(places, sizes):
            inside += [at >= 0, at < size]
            flat = flat * size + cast("int64", at)
        here = O.all(*inside)
        value = O.if_then_else(here, data(*i[:2], *places), const(least_of(data.dtype), data.dtype))
        return reducer((O.select(here, flat, const(nowhere, "int64")), value), axis=w.taps)

    index = compute(w.shape(), element, "max_pool_places", "comm_reduce")[0]
    total = prod(sizes)

    def number(*i: Any) -> Any:
        image = cast("int64", i[0]) * data.shape[1] + cast("int64", i[1])
        flat = index(*i)
        if column_major:
            rest, flat, step = flat, const(0, "int64"), 1
            apart: list[Any] = []
            for size in reversed(sizes):
                apart.insert(0, rest % size)
                rest = rest // size
            for at, size in zip(apart, sizes):
                flat = flat + at * step
                step *= size
        return image * total + flat

    result: Tensor = compute(w.shape(), number, "max_pool_index", "elemwise")
    return result
