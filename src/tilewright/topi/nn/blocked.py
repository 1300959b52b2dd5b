"""Convolution on channels in blocks, (N, C / b, ..., b), over any number of dimensions: a vector
holds neighbouring filters of one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import TilewrightError
from ...loopir.expr import cast, const_int
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from .windows import Windows

Numbers = Sequence[int]


def pack_kernel(kernel: Tensor, in_block: int, out_block: int, terms: int = 1) -> Tensor:
    """(F, C, ...) to (F / out_block, C / in_block, ..., in_block, out_block), or with groups of
    `terms` channels innermost: (.., in_block / terms, out_block, terms). Takes any type, which the
    result keeps."""
    f, c, *window = kernel.shape
    inner = [in_block // terms, out_block, *([terms] if terms > 1 else [])]

    def element(fo: Any, co: Any, *at: Any) -> Any:
        taps, (ci, fi, *t) = at[: len(window)], at[len(window) :]
        channel = co * in_block + (ci * terms + t[0] if t else ci)
        return kernel(fo * out_block + fi, channel, *taps)

    shape = (f // out_block, c // in_block, *window, *inner)
    result: Tensor = compute(shape, element, "packed_kernel", "injective")
    return result


def conv_nchwc(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0, 0, 0),
    dilation: Numbers = (1, 1),
    out_dtype: str | None = None,
    groups: int = 1,
) -> Tensor:
    """Convolution with blocked channels, in groups of whole blocks.

    data (N, C / b, ..., b), kernel (F / f, C / groups / b, ..., b, f) as `pack_kernel` makes it, or
    with neighbouring channels innermost, (F / f, C / groups / b, ..., b / t, f, t); padding in
    front of each dimension, then behind each. Returns (N, F / f, ..., f) of `out_dtype` (default:
    of data). Raises TilewrightError where data and kernel have not the same channels, or the blocks
    of filters do not divide into groups.
    """
    n, co, *size, cb = data.shape
    rank = len(size)
    fo, own, *window = kernel.shape[: 2 + rank]
    cb2, fb, *inner = kernel.shape[2 + rank :]
    terms = inner[0] if inner else 1
    if (const_int(co), const_int(cb)) != (const_int(own * groups), const_int(cb2 * terms)):
        raise TilewrightError(f"convolution: channels of data {data} and kernel {kernel} differ")
    if groups > 1 and (const_int(fo) or 0) % groups:
        raise TilewrightError(f"convolution: blocks of {data!r} and {kernel!r} form no groups")
    dtype = out_dtype or data.dtype
    rco, rci = reduce_axis((0, own), "rco"), reduce_axis((0, cb), "rci")
    w = _windows(data, window, strides, padding, dilation)
    share = fo // groups

    def element(b: Any, f: Any, *at: Any) -> Any:
        index = w.at((b, f, *at))
        index[1], index[-1] = rco if groups == 1 else f // share * own + rco, rci
        lanes = (rci // terms, at[-1], rci % terms) if inner else (rci, at[-1])
        weight = kernel(f, rco, *w.taps, *lanes)
        product = cast(dtype, w.padded(*index)) * cast(dtype, weight)
        return reduce_sum(product, axis=[rco, *w.taps, rci])

    name = f"conv{rank}d_nchwc"
    result: Tensor = compute((n, fo, *w.extents, fb), element, name, "conv_nchwc")
    return result


def pack_depthwise(kernel: Tensor, block: int) -> Tensor:
    """(C, 1, ...) to (C / block, ..., block). Takes any type, which the result keeps."""
    c, _, *window = kernel.shape
    result: Tensor = compute(
        (c // block, *window, block),
        lambda co, *at: kernel(co * block + at[-1], 0, *at[:-1]),
        "packed_depthwise",
        "injective",
    )
    return result


def depthwise_nchwc(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0, 0, 0),
    dilation: Numbers = (1, 1),
    out_dtype: str | None = None,
) -> Tensor:
    """Every channel by its own filter, channels blocked.

    data (N, C / b, ..., b), kernel (C / b, ..., b) as `pack_depthwise` makes it; padding in front
    of each dimension, then behind each. Returns (N, C / b, ..., b) of `out_dtype` (default: of
    data). Raises TilewrightError where data and kernel have not the same channels.
    """
    _, co, *_, cb = data.shape
    co2, *window, cb2 = kernel.shape
    if const_int(co) != const_int(co2) or const_int(cb) != const_int(cb2):
        raise TilewrightError(f"depthwise: channels of data {data} and kernel {kernel} differ")
    dtype = out_dtype or data.dtype
    w = _windows(data, window, strides, padding, dilation)

    def element(*i: Any) -> Any:
        value, weight = w.padded(*w.at(i)), kernel(i[1], *w.taps, i[-1])
        return reduce_sum(cast(dtype, value) * cast(dtype, weight), axis=w.taps)

    result: Tensor = compute(w.shape(), element, "depthwise_nchwc", "depthwise_nchwc")
    return result


def _windows(
    data: Tensor, window: Sequence[Any], strides: Numbers, padding: Numbers, dilation: Numbers
) -> Windows:
    """Windows over the dimensions between blocks of channels and channels."""
    rank = data.ndim - 3
    names = [f"r{d}" for d in ("zyx"[-rank:] if rank <= 3 else range(rank))]
    pads = padding[:rank], padding[rank:]
    return Windows(data, range(2, 2 + rank), window, strides, pads, dilation, names)
