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
    strides: Pair,
    padding: Pair = (0, 0, 0, 0),
    pool_type: str = "max",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    dilation: Pair = (1, 1),
) -> Tensor:
    """Maximum or average over windows of dimensions 2 and 3 of data.

    padding (top, left, bottom, right); `ceil_mode` keeps a last window that is only partly inside;
    `count_include_pad`: whether padding counts in an average.
    """
    if pool_type not in ("max", "avg"):
        raise TilewrightError(f"pool_type is 'max' or 'avg', got {pool_type!r}")
    (kh, kw), (sh, sw), (dh, dw) = kernel, strides, dilation
    top, left, bottom, right = padding
    h, w = data.shape[2], data.shape[3]
    more = (sh - 1, sw - 1) if ceil_mode else (0, 0)
    oh = _window_count(h, kh, sh, top, bottom, dh, more[0])
    ow = _window_count(w, kw, sw, left, right, dw, more[1])
    before, after = [0] * data.ndim, [0] * data.ndim
    before[2:4] = [top, left]
    after[2:4] = [bottom + more[0], right + more[1]]
    filler = _least(data.dtype) if pool_type == "max" else 0
    padded = pad(data, before, after, filler, "pool_pad") if any(before + after) else data
    ry, rx = reduce_axis((0, kh), "ry"), reduce_axis((0, kw), "rx")
    shape = (*data.shape[:2], oh, ow, *data.shape[4:])
    tag = f"pool_{pool_type}"

    def read(i: Any) -> Any:
        return padded(*i[:2], i[2] * sh + ry * dh, i[3] * sw + rx * dw, *i[4:])

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
            return cast(data.dtype, total(*i) / const(kh * kw, wide))
        rows = _inside(i[2], sh, kh, dh, top, bottom if count_include_pad else 0, h, top)
        columns = _inside(i[3], sw, kw, dw, left, right if count_include_pad else 0, w, left)
        if count_include_pad:
            rows = O.min(i[2] * sh + kh, h + top + bottom) - i[2] * sh
            columns = O.min(i[3] * sw + kw, w + left + right) - i[3] * sw
        return cast(data.dtype, total(*i) / cast(wide, O.max(rows * columns, 1)))

    result = compute(shape, mean, "avg_pool2d", "elemwise")
    return result


def _least(dtype: str) -> float:
    """What every element is at least: padding of a maximum."""
    kind = parse(dtype)
    return float("-inf") if kind.is_float else kind.min_value


def _inside(i: Any, s: int, k: int, d: int, low: int, high: int, size: Any, _: int) -> Any:
    """How many places of window i lie in [0, size)."""
    start = i * s - low
    if d == 1:
        return O.min(start + k, size + high) - O.max(start, 0)
    count: Any = const(0)
    for j in range(k):
        place = start + j * d
        count = count + O.select(O.all(place >= 0, place < size + high), const(1), const(0))
    return count


def _window_count(size: Any, k: int, s: int, low: int, high: int, d: int, more: int) -> Any:
    count = conv_extent(size + more, k, s, low, high, d)
    extent, known = const_int(count), const_int(size)
    if more and extent is not None and known is not None and (extent - 1) * s >= known + low:
        return const(extent - 1)  # a window that starts behind the data does not count
    return count


def global_pool(data: Tensor, pool_type: str = "avg") -> Tensor:
    """Maximum or average over all of dimensions 2 and 3, which stay as extent 1."""
    h, w = data.shape[2], data.shape[3]
    ry, rx = reduce_axis((0, h), "ry"), reduce_axis((0, w), "rx")
    shape = (*data.shape[:2], const(1), const(1), *data.shape[4:])
    reducer = reduce_max if pool_type == "max" else reduce_sum
    wide = data.dtype if pool_type == "max" else accumulator(data.dtype)
    pooled: Tensor = compute(
        shape,
        lambda *i: reducer(cast(wide, data(*i[:2], ry, rx, *i[4:])), axis=[ry, rx]),
        f"global_{pool_type}_pool",
        f"global_pool_{pool_type}",
    )
    if pool_type == "max":
        return pooled
    return unary(lambda v: cast(data.dtype, quotient(v, cast(wide, h * w))), pooled, "T_divide")
