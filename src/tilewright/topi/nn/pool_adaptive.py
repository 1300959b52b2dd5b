"""Pooling to a given size, and the gradients of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor import reduce as R
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..elemwise import accumulator, quotient, unary
from ..utils import get_const_int, get_const_tuple
from .pooling import first_maximum, least_of, pool_windows, spatial, taps_within
from .utils import several
from .windows import Windows


def adaptive(data: Tensor, sizes: Sequence[int], pool_type: str, places: Sequence[int]) -> Tensor:
    """Maximum ("max") or average ("avg") of bins, as many as `sizes` says, of the dimensions
    `places`, whose extents need not be constants. Bin k of n covers elements floor(k * size / n) to
    ceil((k + 1) * size / n)."""
    if pool_type not in ("max", "avg"):
        raise TilewrightError(f"pool_type is 'max' or 'avg', got {pool_type!r}")
    shape = list(data.shape)
    every = get_const_tuple(data.shape)
    have = [every[d] for d in places]
    for d, n in zip(places, sizes):
        shape[d] = const(n)
    # of all bins the longest; those that end earlier leave out what is behind them
    even = [isinstance(size, int) and size % n == 0 for size, n in zip(have, sizes)]
    longest = [_longest(size, n) for size, n in zip(have, sizes)]
    steps = [reduce_axis((0, k), f"r{n}") for n, k in enumerate(longest)]
    wide = data.dtype if pool_type == "max" else accumulator(data.dtype)
    other = const(least_of(data.dtype) if pool_type == "max" else 0, wide)

    def bounds(i: Sequence[Any], n: int) -> tuple[Any, Any]:
        k = i[places[n]]
        return k * have[n] // sizes[n], ((k + 1) * have[n] + sizes[n] - 1) // sizes[n]

    def element(*i: Any) -> Any:
        at, inside = list(i), []
        for n, d in enumerate(places):
            start, end = bounds(i, n)
            at[d] = start + steps[n]
            if not even[n]:
                inside.append(at[d] < end)
        value = cast(wide, data(*at))
        if inside:
            value = O.if_then_else(O.all(*inside), value, other)
        return (R.max if pool_type == "max" else R.sum)(value, axis=steps)

    tag = "comm_reduce"
    pooled: Tensor = compute(shape, element, f"adaptive_pool_{pool_type}", tag)
    if pool_type == "max":
        return pooled

    def mean(*i: Any) -> Any:
        count: Any = const(1)
        for n in range(len(places)):
            start, end = bounds(i, n)
            count = count * (end - start)
        return cast(data.dtype, quotient(pooled(*i), cast(wide, count)))

    if all(even):
        total = const(prod(longest), wide)
        return unary(lambda v: cast(data.dtype, quotient(v, total)), pooled, "adaptive_pool")
    result: Tensor = compute(shape, mean, "adaptive_pool", "elemwise")
    return result


def _longest(size: Any, count: int) -> Any:
    """Elements of the longest of so many bins, or of a size that is not known, one more perhaps."""
    if not isinstance(size, int):
        return size // count + 2
    if size % count == 0:
        return size // count
    return max(-(-(k + 1) * size // count) - k * size // count for k in range(count))


def adaptive_pool1d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCW") -> Tensor:
    """Maximum or average of bins of the dimension W, as many as `output_size` says. Takes numbers
    of any type, which the result keeps. Raises TilewrightError where pool_type is neither 'max' nor
    'avg', where `output_size` has another number of values than there are dimensions of space,
    where layout does not fit the dimensions of data."""
    return adaptive(data, several(output_size, 1), pool_type, spatial(data, layout, "W"))


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Maximum or average of bins of the dimensions H and W, as many as `output_size` says. Takes
    numbers of any type, which the result keeps. Raises TilewrightError where pool_type is neither
    'max' nor 'avg', where `output_size` has another number of values than there are dimensions of
    space, where layout does not fit the dimensions of data."""
    return adaptive(data, several(output_size, 2), pool_type, spatial(data, layout, "HW"))


def adaptive_pool3d(
    data: Tensor, output_size: Any, pool_type: str, layout: str = "NCDHW"
) -> Tensor:
    """Maximum or average of bins of the dimensions D, H and W, as many as `output_size` says. Takes
    numbers of any type, which the result keeps. Raises TilewrightError where pool_type is neither
    'max' nor 'avg', where `output_size` has another number of values than there are dimensions of
    space, where layout does not fit the dimensions of data."""
    return adaptive(data, several(output_size, 3), pool_type, spatial(data, layout, "DHW"))


def pool_grad(
    grads: Tensor,
    data: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Tensor:
    """The gradient of pool2d by `data`, given that by its result. Of equal maxima of a window the
    first gets it. The result has shape and type of `data`. Raises TilewrightError where pool_type
    is neither 'max' nor 'avg', where layout does not fit the dimensions of data, where `kernel`,
    `padding` or `stride` has another number of values than there are dimensions of space."""
    if pool_type not in ("max", "avg"):
        raise TilewrightError(f"pool_type is 'max' or 'avg', got {pool_type!r}")
    places = spatial(data, layout, "HW")
    ks, ss, pads = several(kernel, 2), several(stride, 2), several(padding, 4)
    low, high = pads[:2], pads[2:]
    size = [get_const_int(data.shape[d]) for d in places]
    least = least_of(data.dtype)
    w = pool_windows(data, places, ks, ss, (1, 1), pads, ceil_mode, least, whole_windows=True)
    counts = [get_const_int(extent) for extent in w.extents]
    best = _places_of_maxima(w, low) if pool_type == "max" else None
    steps = [reduce_axis((0, -(-k // s)), f"w{n}") for n, (k, s) in enumerate(zip(ks, ss))]

    def element(*i: Any) -> Any:
        at, inside, count = list(i), [], const(1)
        here: Any = const(0)
        for n, d in enumerate(places):
            place = i[d] + low[n]
            window = place // ss[n] - steps[n]
            inside += [window >= 0, window < counts[n], place - window * ss[n] < ks[n]]
            at[d] = window
            here = here * size[n] + i[d]
            start = window * ss[n]
            if count_include_pad and not ceil_mode:
                count = count * ks[n]
            elif count_include_pad:
                count = count * taps_within(start, ks[n], 1, size[n] + low[n] + high[n])
            else:
                count = count * taps_within(start - low[n], ks[n], 1, size[n])
        zero = const(0, grads.dtype)
        if best is not None:
            return R.sum(
                O.if_then_else(
                    O.all(*inside), O.if_then_else(best(*at).equal(here), grads(*at), zero), zero
                ),
                axis=steps,
            )
        share = quotient(grads(*at), cast(grads.dtype, O.max(count, 1)))
        return R.sum(O.if_then_else(O.all(*inside), share, zero), axis=steps)

    result: Tensor = compute(data.shape, element, "T_pool_grad", f"pool_grad_{pool_type}")
    return result


def _places_of_maxima(w: Windows, before: Sequence[int]) -> Tensor:
    """Of each window the number, in row-major order, of its maximum; the first of equals."""
    size = [get_const_int(w.data.shape[d]) for d in w.places]
    nowhere = O.max_value("int32")
    reducer = first_maximum("int32", "pool_argmax")

    def element(*i: Any) -> Any:
        at, inside = w.at(i), []
        flat: Any = const(0)
        for d, low, extent in zip(w.places, before, size):
            own = at[d] - low
            inside += [own >= 0, own < extent]
            flat = flat * extent + own
        return reducer((O.select(O.all(*inside), flat, nowhere), w.padded(*at)), axis=w.taps)

    found: Tensor = compute(w.shape(), element, "maxpool_grad_argmax", "comm_reduce")[0]
    return found
