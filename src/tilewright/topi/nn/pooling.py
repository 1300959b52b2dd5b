"""Pooling over spatial dimensions, channels blocked or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...base.dtype import parse
from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import comm_reducer
from ...tensor.reduce import max as reduce_max
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator, quotient, unary
from .utils import named, several
from .windows import Windows

Numbers = Sequence[int]
POOL_TYPE_CODE = {"avg": 0, "max": 1}
"""TVM's numbers of kinds of pooling."""


def pool_windows(
    data: Tensor,
    places: Numbers,
    kernel: Numbers,
    stride: Numbers,
    dilation: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    filler: float = 0,
    taps: str = "",
    whole_windows: bool = False,
) -> Windows:
    """Windows over the dimensions `places`; padding in front of each, then behind each, to which
    `ceil_mode` adds what a last window reaches behind; unless `whole_windows`, one that begins
    behind the data is left out."""
    rank = len(places)
    low, high = padding[:rank], padding[rank:]
    more = [s - 1 if ceil_mode else 0 for s in stride]
    names = [f"r{d}" for d in taps[-rank:] or range(rank)]
    pads = low, [h + m for h, m in zip(high, more)]
    w = Windows(data, places, kernel, stride, pads, dilation, names, "pool_pad", filler)
    if ceil_mode and not whole_windows:
        for n, (d, s, b, m) in enumerate(zip(places, stride, low, more)):
            extent, known = const_int(w.extents[n]), const_int(data.shape[d])
            if m and extent and known is not None and (extent - 1) * s >= known + b:
                w.extents[n] = const(extent - 1)
    return w


def pool(
    data: Tensor,
    kernel: Numbers,
    stride: Numbers,
    dilation: Numbers,
    padding: Numbers,
    pool_type: str,
    ceil_mode: bool,
    places: Numbers,
    count_include_pad: bool,
    whole_windows: bool = True,
) -> Tensor:
    """Maximum or average over windows of the dimensions `places` of data; padding in front of each,
    then behind each.

    `ceil_mode` keeps a last window that is only partly inside; unless `whole_windows`, not one that
    begins behind the data. `count_include_pad`: whether padding counts in an average.
    """
    if pool_type not in ("max", "avg"):
        raise TilewrightError(f"pool_type is 'max' or 'avg', got {pool_type!r}")
    filler = least_of(data.dtype) if pool_type == "max" else 0
    how = (kernel, stride, dilation, padding, ceil_mode, filler, "zyx", whole_windows)
    w = pool_windows(data, places, *how)
    name = f"{pool_type}_pool{len(places)}d"
    return pooled(w, pool_type, name, padding, ceil_mode, count_include_pad)


def pooled(
    w: Windows,
    pool_type: str,
    name: str,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    p: float = 2.0,
) -> Tensor:
    """Maxima, averages or `p`-norms of windows over data with `padding` (which in ceil mode does
    not reach as far as the windows)."""
    shape, taps, data = w.shape(), w.taps, w.data

    def read(i: Sequence[Any]) -> Any:
        return w.padded(*w.at(i))

    if pool_type == "max":
        result: Tensor = compute(shape, lambda *i: reduce_max(read(i), axis=taps), name, "pool_max")
        return result
    wide = accumulator(data.dtype)

    def term(i: Sequence[Any]) -> Any:
        x = cast(wide, read(i))
        return x if pool_type == "avg" else powered(x, p)

    total = compute(shape, lambda *i: reduce_sum(term(i), axis=taps), "pool_sum", "pool_avg")

    def finish(*i: Any) -> Any:
        if pool_type == "lp":
            return cast(data.dtype, rooted(total(*i), p))
        if count_include_pad and not ceil_mode:
            return cast(data.dtype, quotient(total(*i), const(prod(w.window), wide)))
        return cast(data.dtype, quotient(total(*i), cast(wide, count(i))))

    rank = len(w.places)
    low, high = padding[:rank], padding[rank:]

    def count(i: Sequence[Any]) -> Any:
        number: Any = const(1)
        for n, d in enumerate(w.places):
            (stride, step), whole = w.steps[n], data.shape[d]
            start = i[d] * stride
            if count_include_pad:
                whole = whole + low[n] + high[n]
            else:
                start = start - low[n]
            number = number * taps_within(start, w.window[n], step, whole)
        return O.max(number, 1)

    result = compute(shape, finish, name, "elemwise")
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


def _pool_in(plain: str, text: str) -> Callable[..., Tensor]:
    letters = plain[2:]
    rank = len(letters)

    def pooling(
        data: Tensor,
        kernel: Any,
        stride: Any,
        dilation: Any,
        padding: Any,
        pool_type: str,
        ceil_mode: bool = False,
        layout: str = plain,
        count_include_pad: bool = True,
    ) -> Tensor:
        """Raises TilewrightError where pool_type is neither 'max' nor 'avg', or layout does not fit
        data."""
        window, strides, steps = (several(x, rank) for x in (kernel, stride, dilation))
        how = (window, strides, steps, several(padding, 2 * rank), pool_type, ceil_mode)
        return pool(data, *how, spatial(data, layout, letters), count_include_pad)

    return named(pooling, f"pool{rank}d", text)


pool1d = _pool_in(
    "NCW",
    """Maximum or average over windows of the dimension W of data; padding (left, right). See
    `pool`. Takes numbers of any type, which the result keeps.""",
)
pool2d = _pool_in(
    "NCHW",
    """Maximum or average over windows of the dimensions H and W of data; padding (top, left,
    bottom, right). See `pool`. Takes numbers of any type, which the result keeps.""",
)
pool3d = _pool_in(
    "NCDHW",
    """Maximum or average over windows of the dimensions D, H and W of data; padding (front, top,
    left, back, bottom, right). See `pool`. Takes numbers of any type, which the result keeps.""",
)


def spatial(data: Tensor, layout: str, letters: str) -> list[int]:
    """Which dimensions those letters name, in a layout such as NCHW, NHWC or NCHW16c; dimensions
    behind those that it names are blocks."""
    found = [c for c in layout if c.isalpha()]
    if len(found) > data.ndim or any(found.count(c) != 1 for c in letters):
        raise TilewrightError(f"pooling of {data!r} in layout {layout!r}, which does not fit it")
    return [found.index(c) for c in letters]


def least_of(dtype: str) -> float:
    """What every element is at least: padding of a maximum."""
    kind = parse(dtype)
    return float("-inf") if kind.is_float else kind.min_value


def first_maximum(index: str, name: str) -> Any:
    """A reduction of pairs (number, value) to the largest value, with the least of its numbers."""
    nowhere = parse(index).max_value

    def combine(left: Any, right: Any) -> Any:
        same = O.all(left[1].equal(right[1]), left[0] < right[0])
        first = O.any(left[1] > right[1], same)
        return O.select(first, left[0], right[0]), O.select(first, left[1], right[1])

    def start(kind: str, value: str) -> Any:
        return const(nowhere, kind), const(least_of(value), value)

    return comm_reducer(combine, start, name=name)


def taps_within(start: Any, k: int, d: int, size: Any) -> Any:
    """How many places of a window lie in [0, size)."""
    if d == 1:
        return O.min(start + k, size) - O.max(start, 0)
    count: Any = const(0)
    for j in range(k):
        place = start + j * d
        count = count + O.select(O.all(place >= 0, place < size), const(1), const(0))
    return count


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Maximum or average over all of the dimensions H and W, which stay as extent 1. Takes numbers
    of any type, which the result keeps. Raises TilewrightError where layout does not fit the
    dimensions of data."""
    y, x = spatial(data, layout, "HW")
    h, w = data.shape[y], data.shape[x]
    ry, rx = reduce_axis((0, h), "ry"), reduce_axis((0, w), "rx")
    shape = [const(1) if d in (y, x) else e for d, e in enumerate(data.shape)]
    reducer = reduce_max if pool_type == "max" else reduce_sum
    wide = data.dtype if pool_type == "max" else accumulator(data.dtype)
    running = {y: ry.var, x: rx.var}

    def element(*i: Any) -> Any:
        value = data(*[running.get(d, j) for d, j in enumerate(i)])
        return reducer(cast(wide, value), axis=[ry, rx])

    pooled: Tensor = compute(
        shape,
        element,
        f"global_{pool_type}_pool",
        f"global_pool_{pool_type}",
    )
    if pool_type == "max":
        return pooled
    return unary(lambda v: cast(data.dtype, quotient(v, cast(wide, h * w))), pooled, "T_divide")
