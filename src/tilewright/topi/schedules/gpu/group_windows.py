"""Convolutions by Hopper's warp groups: products of windows, which TMA copies from the images where
they lie (im2col), and filters.

Neither windows nor padding are ever in memory: a copy takes the channels of one tap, for as many
windows as a tile has rows, zeros for what is outside of the images. The windows are a stage in
scope "global.view", of which the intrinsic reads the images (topi.tensor_intrin.wgmma).
"""

from __future__ import annotations

from math import prod
from typing import Any

from ....base.dtype import parse
from ....loopir.construct import cast
from ....loopir.equal import structural_equal
from ....loopir.expr import const_int, convert, is_const
from ....schedule.api import Schedule
from ....schedule.state import VIEW
from ....tensor.axes import reduce_axis
from ....tensor.compute import compute
from ....tensor.op import ComputeOp
from ....tensor.reduce import sum as reduce_sum
from ....tensor.tensor import Tensor
from ...tensor_intrin.warp_group_tile import (
    GROUP,
    GROUP_ROWS,
    SPAN,
    SUMS,
    ImageWindows,
    WarpGroupTile,
)
from ..machine import are_sizes_likely, extent_of, extents_of
from ..restated import restated
from .group_plan import Work
from .machine import LIKELY_ROWS, GpuMachine
from .packing import arrange_packed
from .planes import padding_of
from .warp_groups import best_tile, is_array, schedule_on_warp_groups
from .windows import Windows, or_zero

_FILLED = 2
"""Times as many steps as there are channels: with more zeros mma.sync, half as fast, is faster."""


def schedule_windows(
    s: Schedule, conv: Tensor, out: Tensor, w: Windows, machine: GpuMachine
) -> bool:
    """Schedule a convolution without groups, channels last, and the element-wise stage that ends
    its group, on warp groups, where they have a tile for it."""
    op = s[conv].op
    found = _images(s, op, w, machine)
    if found is None:
        return False
    images, source = found
    filters = extent_of(op.axis[-1])
    whole = WarpGroupTile(
        source.dtype, GROUP_ROWS, SPAN, (images.rows, filters, images.steps), (True, True), 2,
        windows=images,
    )  # fmt: skip
    # of how many images is not known, some
    count = extent_of(op.axis[0]) or -(-LIKELY_ROWS // prod(images.results))
    work = Work(count * prod(images.results), filters, 1, images.steps // whole.step)
    tile = best_tile(whole, work, machine, op.name)
    if tile is None:
        return False
    last = conv.op is out.op
    product = _restate(s, conv, w, images, machine)
    out = s[conv].op.output(0) if last else s[out].op.output(0)
    if not last:
        s[conv].compute_inline()
    if source is not w.data:
        s[w.data].compute_inline()
    schedule_on_warp_groups(s, product, out, tile, machine)
    return True


def _images(
    s: Schedule, op: Any, w: Windows, machine: GpuMachine
) -> tuple[ImageWindows, Tensor] | None:
    """The images of a convolution, and the array that they are; None where no copies take them."""
    rank = len(op.axis) - 2
    kind = w.data.dtype
    order = (0, rank + 1, *range(1, rank + 1))  # N[, H], W, C
    if machine.warp_groups < 2 * GROUP or w.order != order or not w.last:
        return None
    if w.groups != 1 or w.parts != 1 or SUMS.get(kind) != op.output_dtype(0):
        return None
    found = padding_of(w.data)
    if found is None and w.data.op.tag.endswith("pad"):
        return None  # of a kind that is computed where it is read
    source, before, filler = found or (w.data, (0,) * (rank + 2), cast(kind, 0))
    if before[0] or before[-1] or not is_const(filler, 0) or not _is_array(s, source):
        return None
    *sizes, channels = (const_int(d) or 0 for d in source.shape[1:])
    n = extents_of(op)[0]
    if channels != w.channels // w.deep or not structural_equal(
        convert(n), convert(source.shape[0])
    ):
        return None
    step = SPAN // parse(kind).nbytes
    taps, strides, dilation = (x[::-1][:rank] for x in w.moves)
    images = ImageWindows(
        n,
        channels,
        channels + -channels % step,
        tuple(sizes[::-1]),
        tuple(extent_of(a) for a in op.axis[-2:0:-1]),
        taps,
        strides,
        dilation,
        before[-2:0:-1],
    )
    if images.deep > _FILLED * channels or images.problem(kind):
        return None
    return images, source


def _is_array(s: Schedule, source: Tensor) -> bool:
    """Whether images lie in the device's memory, and begin and go on where the whole arrays say:
    arguments of open sizes have strides that may be none, but for those of a network."""
    known = all(const_int(d) is not None for d in source.shape)
    return is_array(s, source) and (known or are_sizes_likely())


def _restate(
    s: Schedule, conv: Tensor, w: Windows, images: ImageWindows, machine: GpuMachine
) -> Tensor:
    """Let the convolution read the product (window, filter) of windows and filters."""
    op = s[conv].op
    sums, deep = op.output_dtype(0), images.deep
    width, height = (*images.results, 1)[:2]
    across, down = (*images.taps, 1)[:2]

    def parts(k: Any) -> tuple[Any, Any, tuple[Any, Any]]:
        """Of a step: the channel of the array, that of `Windows`, and the tap of a plane."""
        tap, c = k // deep, k % deep
        return c, c * w.deep + tap // (across * down), (tap // across % down, tap % across)

    def window(p: Any, k: Any) -> Any:
        c, channel, tap = parts(k)
        place = (p // width % height, p % width)
        at = [
            first * stride + part * far
            for first, part, stride, far in zip(place, tap, w.strides, w.dilation)
        ]
        return or_zero(w.pixel(p // (width * height), channel, *at), (c, images.channels, deep))

    def filter_of(f: Any, k: Any) -> Any:
        c, channel, tap = parts(k)
        return or_zero(w.weight(f, channel, *tap), (c, images.channels, deep))

    filters = extent_of(op.axis[-1])
    windows: Tensor = compute((images.rows, images.steps), window, f"{w.data.op.name}.windows")
    laid: Tensor = compute((filters, images.steps), filter_of, f"{w.filters.op.name}.packed")
    weights = machine.ahead(laid)
    k = reduce_axis((0, images.steps), "k")
    product: Tensor = compute(
        (images.rows, filters),
        lambda p, f: reduce_sum(cast(sums, windows(p, k)) * cast(sums, weights(f, k)), axis=k),
        f"{op.name}.product",
    )
    count = prod(images.results)

    def again(n: Any, *place: Any) -> Any:
        p, *others, f = place
        for size, at in zip(images.results[-2::-1], others):
            p = p * size + at
        return product(n * count + p, f)

    restated(s, conv, compute(extents_of(op), again, op.name))
    if isinstance(weights.op, ComputeOp):
        arrange_packed(s[weights], w.of[0] != len(op.axis) - 1, machine)
    s[windows].set_scope(VIEW)
    return s[product].op.output(0)
