"""Pooling over the two spatial dimensions, channels blocked or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtype import parse
from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import max as reduce_max
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator, quotient, unary
from ..transform import pad
from .conv2d import conv_extent

Pair = Sequence[int]


def pool2d(
    data: Tensor,
    kernel: Pair,
    stride: Pair,
    dilation: Pair = (1, 1),
    padding: Pair = (0, 0, 0, 0),
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Maximum or average over windows of the dimensions H and W of data.

    padding (top, left, bottom, right); `ceil_mode` keeps a last window that is only partly inside;
    `count_include_pad`: whether padding counts in an average.
    """
    if pool_type not in ("max", "avg"):
        raise TilewrightError(f"pool_type is 'max' or 'avg', got {pool_type!r}")
    y, x = _places(data, layout)
    (kh, kw), (sh, sw), (dh, dw) = kernel, stride, dilation
    top, left, bottom, right = padding
    h, w = data.shape[y], data.shape[x]
    more = (sh - 1, sw - 1) if ceil_mode else (0, 0)
    shape, before, after = list(data.shape), [0] * data.ndim, [0] * data.ndim
    shape[y] = window_count(h, kh, sh, top, bottom, dh, more[0])
    shape[x] = window_count(w, kw, sw, left, right, dw, more[1])
    before[y], before[x] = top, left
    after[y], after[x] = bottom + more[0], right + more[1]
    filler = least_of(data.dtype) if pool_type == "max" else 0
    padded = pad(data, before, after, filler, "pool_pad") if any(before + after) else data
    ry, rx = reduce_axis((0, kh), "ry"), reduce_axis((0, kw), "rx")
    tag = f"pool_{pool_type}"

    def read(i: Any) -> Any:
        at = list(i)
        at[y], at[x] = i[y] * sh + ry * dh, i[x] * sw + rx * dw
        return padded(*at)

    if pool_type == "max":
        result: Tensor = compute(
            shape, lambda *i: reduce_max(read(i), axis=[ry, rx]), "max_pool2d", tag
        )
        return result
    wide = accumulator(data.dtype)
    total = compute(
        shape, lambda *i: reduce_sum(cast(wide, read(i)), axis=[ry, rx]), "pool_sum", tag
    )

    def mean(*i: Any) -> Any:
        if count_include_pad and not ceil_mode:
            return cast(data.dtype, quotient(total(*i), const(kh * kw, wide)))
        if count_include_pad:
            rows = taps_within(i[y] * sh, kh, dh, h + top + bottom)
            columns = taps_within(i[x] * sw, kw, dw, w + left + right)
        else:
            rows = taps_within(i[y] * sh - top, kh, dh, h)
            columns = taps_within(i[x] * sw - left, kw, dw, w)
        return cast(data.dtype, quotient(total(*i), cast(wide, O.max(rows * columns, 1))))

    result = compute(shape, mean, "avg_pool2d", "elemwise")
    return result


def _places(data: Tensor, layout: str) -> tuple[int, int]:
    """Which dimensions are H and W, in a layout such as NCHW, NHWC or NCHW16c; dimensions behind
    those that it names are blocks."""
    letters = [c for c in layout if c.isalpha()]
    if len(letters) > data.ndim or any(letters.count(c) != 1 for c in "HW"):
        raise TilewrightError(f"pooling of {data!r} in layout {layout!r}, which does not fit it")
    return letters.index("H"), letters.index("W")


def least_of(dtype: str) -> float:
    """What every element is at least: padding of a maximum."""
    kind = parse(dtype)
    return float("-inf") if kind.is_float else kind.min_value


def taps_within(start: Any, k: int, d: int, size: Any) -> Any:
    """How many places of a window lie in [0, size)."""
    if d == 1:
        return O.min(start + k, size) - O.max(start, 0)
    count: Any = const(0)
    for j in range(k):
        place = start + j * d
        count = count + O.select(O.all(place >= 0, place < size), const(1), const(0))
    return count


def window_count(size: Any, k: int, s: int, low: int, high: int, d: int, more: int) -> Any:
    count = conv_extent(size + more, k, s, low, high, d)
    extent, known = const_int(count), const_int(size)
    if more and extent is not None and known is not None and (extent - 1) * s >= known + low:
        return const(extent - 1)  # a window that starts behind the data does not count
    return count


def global_pool(data: Tensor, pool_type: str = "avg", layout: str = "NCHW") -> Tensor:
    """Maximum or average over all of the dimensions H and W, which stay as extent 1."""
    y, x = _places(data, layout)
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
