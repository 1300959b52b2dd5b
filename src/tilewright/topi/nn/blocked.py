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
from ..transform import pad
from .conv2d import conv_extent

Numbers = Sequence[int]


def pack_kernel(kernel: Tensor, in_block: int, out_block: int, terms: int = 1) -> Tensor:
    """(F, C, ...) to (F / out_block, C / in_block, ..., in_block, out_block), or with groups of
    `terms` channels innermost: (.., in_block / terms, out_block, terms)."""
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
) -> Tensor:
    """Convolution with blocked channels.

    data (N, C / b, ..., b), kernel (F / f, C / b, ..., b, f) as `pack_kernel` makes it, or with
    groups of channels innermost, (F / f, C / b, ..., b / t, f, t); padding in front of each
    dimension, then behind each. Returns (N, F / f, ..., f) of `out_dtype` (default: of data).
    """
    n, co, *size, cb = data.shape
    rank = len(size)
    fo, co2, *window = kernel.shape[: 2 + rank]
    cb2, fb, *groups = kernel.shape[2 + rank :]
    terms = groups[0] if groups else 1
    if const_int(co) != const_int(co2) or const_int(cb) != const_int(cb2 * terms):
        raise TilewrightError(f"convolution: channels of data {data} and kernel {kernel} differ")
    dtype = out_dtype or data.dtype
    rco, rci = reduce_axis((0, co), "rco"), reduce_axis((0, cb), "rci")
    w = _Windows(data, window, strides, padding, dilation)

    def element(b: Any, f: Any, *at: Any) -> Any:
        value = w.padded(b, rco, *w.places(at), rci)
        inner = (rci // terms, at[-1], rci % terms) if groups else (rci, at[-1])
        weight = kernel(f, rco, *w.taps, *inner)
        return reduce_sum(cast(dtype, value) * cast(dtype, weight), axis=[rco, *w.taps, rci])

    name = f"conv{rank}d_nchwc"
    result: Tensor = compute((n, fo, *w.shape, fb), element, name, "conv_nchwc")
    return result


def pack_depthwise(kernel: Tensor, block: int) -> Tensor:
    """(C, 1, ...) to (C / block, ..., block)."""
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
    data).
    """
    n, co, *_, cb = data.shape
    co2, *window, cb2 = kernel.shape
    if const_int(co) != const_int(co2) or const_int(cb) != const_int(cb2):
        raise TilewrightError(f"depthwise: channels of data {data} and kernel {kernel} differ")
    dtype = out_dtype or data.dtype
    w = _Windows(data, window, strides, padding, dilation)

    def element(b: Any, c: Any, *at: Any) -> Any:
        value, weight = w.padded(b, c, *w.places(at), at[-1]), kernel(c, *w.taps, at[-1])
        return reduce_sum(cast(dtype, value) * cast(dtype, weight), axis=w.taps)

    shape = (n, co, *w.shape, cb)
    result: Tensor = compute(shape, element, "depthwise_nchwc", "depthwise_nchwc")
    return result


class _Windows:
    """Windows over the dimensions between blocks of channels and channels: the padded data, the
    extents of the output, the axes of taps."""

    def __init__(
        self,
        data: Tensor,
        window: Sequence[Any],
        strides: Numbers,
        padding: Numbers,
        dilation: Numbers,
    ) -> None:
        size = data.shape[2:-1]
        rank = len(size)
        if not len(window) == len(strides) == len(dilation) == rank == len(padding) // 2:
            raise TilewrightError(f"windows of {list(window)} do not fit the data {data}")
        before, after = padding[:rank], padding[rank:]
        self.padded = data
        if any(padding):
            self.padded = pad(data, [0, 0, *before, 0], [0, 0, *after, 0], 0.0, "data_pad")
        every = zip(size, window, strides, before, after, dilation)
        self.shape = [conv_extent(*given) for given in every]
        names = "zyx"[-rank:] if rank <= 3 else range(rank)
        self.taps = [reduce_axis((0, k), f"r{d}") for d, k in zip(names, window)]
        self.steps = list(zip(strides, dilation))

    def places(self, at: Sequence[Any]) -> list[Any]:
        """Where the elements of a window stand in the padded data."""
        return [i * s + r * d for i, r, (s, d) in zip(at, self.taps, self.steps)]
