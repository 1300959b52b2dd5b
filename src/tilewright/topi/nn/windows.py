"""Windows that slide over some dimensions of a tensor, which convolutions and pooling have in
common: the padded data, how many windows there are, and where their elements stand."""

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
from ..utils import simplify
from .utils import FreeLayout, get_pad_tuple_generic, several

Numbers = Sequence[Any]


def conv_extent(size: Any, kernel: Any, stride: int, before: int, after: int, dilation: int) -> Any:
    """Output extent of a window that slides over `size` elements with padding."""
    for what, given in (("stride", stride), ("dilation", dilation)):
        number = given if isinstance(given, int) else const_int(given)
        if number is not None and number < 1:
            raise TilewrightError(f"the {what} of a window is 1 or more, got {number}")
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


def padded(
    data: Tensor, places: Numbers, before: Numbers, after: Numbers, name: str, filler: Any = 0.0
) -> Tensor:
    """Data with elements `filler` around the dimensions `places`; as it is where there are none."""
    if not any(p if isinstance(p, int) else const_int(p) != 0 for p in (*before, *after)):
        return data
    low, high = [0] * data.ndim, [0] * data.ndim
    for d, b, a in zip(places, before, after):
        low[d], high[d] = b, a
    return pad(data, low, high, filler, name)


class Windows:
    """Windows of `window` elements, every `dilation`-th of a dimension, that move by `strides` over
    the dimensions `places` of data, which is padded with `filler` in front (`before`) and behind
    (`after`).

    padded: that data, named `pad_name`; extents: how many windows there are in each dimension;
    taps: reductions over a window, by their names; steps: stride and dilation of each dimension.
    """

    def __init__(
        self,
        data: Tensor,
        places: Numbers,
        window: Numbers,
        strides: Numbers,
        pads: tuple[Numbers, Numbers],
        dilation: Numbers,
        taps: Sequence[str],
        pad_name: str = "data_pad",
        filler: Any = 0.0,
    ) -> None:
        before, after = pads
        numbers = (window, strides, before, after, dilation)
        if any(len(x) != len(places) for x in numbers):
            raise TilewrightError(f"windows of {list(window)} do not fit the data {data!r}")
        every = zip(places, *numbers)
        found = (conv_extent(data.shape[d], *given) for d, *given in every)
        self.data, self.places, self.window, self.behind = data, places, window, after
        self.extents = [simplify(extent) for extent in found]
        self.taps = [reduce_axis((0, k), name) for k, name in zip(window, taps)]
        self.steps = list(zip(strides, dilation))
        self.padded = padded(data, places, before, after, pad_name, filler)

    def shape(self) -> list[Any]:
        """The shape of data, with as many elements as windows in each dimension."""
        shape = list(self.data.shape)
        for d, extent in zip(self.places, self.extents):
            shape[d] = extent
        return shape

    def at(self, i: Numbers) -> list[Any]:
        """The index of an element of window `i`, in the padded data: a tap in each dimension."""
        index = list(i)
        for d, tap, (stride, step) in zip(self.places, self.taps, self.steps):
            index[d] = index[d] * stride + tap * step
        return index


def windows(
    data: Tensor,
    places: Numbers,
    window: Numbers,
    stride: Any,
    padding: Any,
    dilation: Any,
    taps: Sequence[str],
    pad_name: str = "data_pad",
    filler: Any = 0.0,
) -> Windows:
    """Windows by numbers as TVM's users give them: one for all dimensions or one for each, padding
    for front and back too, "SAME" or "VALID"."""
    rank = len(places)
    steps = several(dilation, rank)
    reach = [simplify((k - 1) * d + 1) for k, d in zip(window, steps)]
    pads = get_pad_tuple_generic(padding, reach)
    how = (several(stride, rank), pads, steps, taps, pad_name, filler)
    return Windows(data, places, window, *how)


def convolution(
    w: Windows,
    filt: Tensor,
    channel: int,
    places: tuple[int, int, Numbers],
    groups: int,
    out_dtype: str | None,
    name: str,
    tag: str,
    free: FreeLayout | None = None,
) -> Tensor:
    """Sums over windows of all channels (dimension `channel` of the data) of a group, weighted by
    filters, whose dimensions of filters, channels and taps are `places`. `free`: where the filters
    lie, by the names ff and rc and those of the taps."""
    of_filter, of_channel, of_taps = places
    moved = free.sizes if free is not None else None
    filters, own = moved[:2] if moved else (filt.shape[of_filter], filt.shape[of_channel])
    channels = w.data.shape[channel]
    where = f"dimension {channel} of {w.data!r}"
    _check_groups(channels, own, filters, groups, where)
    dtype = out_dtype or w.data.dtype
    rc = reduce_axis((0, own), "rc")
    order: list[Any] = [None] * (2 + len(of_taps))
    order[of_channel] = rc
    for d, tap in zip(of_taps, w.taps):
        order[d] = tap
    axes = [axis for axis in order if axis is not None]
    share = filters // groups

    def element(*i: Any) -> Any:
        f, index = i[channel], w.at(i)
        index[channel] = rc.var if groups == 1 else f // share * own + rc
        weight = filt(*(f if axis is None else axis for axis in order))
        return reduce_sum(cast(dtype, w.padded(*index)) * cast(dtype, weight), axis=axes)

    shape = w.shape()
    shape[channel] = filters
    if free is None:
        result: Tensor = compute(shape, element, name, tag)
        return result
    names = ["ff" if d == channel else f"i{d}" for d in range(len(shape))]
    return free.read(compute(shape, element, name, tag, free.attrs, names))


def _check_groups(channels: Any, own: Any, filters: Any, groups: int, where: str) -> None:
    c, g, f = const_int(channels), const_int(own), const_int(filters)
    if c is not None and g is not None and c != g * groups:
        raise TilewrightError(
            f"convolution: data has {c} channels ({where}), the kernel takes {g} x {groups} "
            "groups; the layouts of data and kernel say which dimensions these are"
        )
    if f is not None and f % groups:
        raise TilewrightError(f"convolution: {f} filters do not divide into {groups} groups")
