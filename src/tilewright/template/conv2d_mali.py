"""The template "conv2d_nchw_spatial_pack.mali": a spatially packed convolution and its knobs."""

from __future__ import annotations

import math
from typing import Any

from ..schedule.api import Schedule, create_schedule
from ..target.target import Target
from ..tensor.compute import placeholder
from ..tensor.tensor import Tensor
from ..topi.nn.spatial_pack import constant_shape, conv2d_spatial_pack
from ..topi.schedules.gpu.spatial_pack import Packed, bind_packed
from .context import get_config
from .task import template

_MOST_SUMS = 128  # of a thread, in elements
_MOST_THREADS = 64


def _conv2d(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, packed: bool = False
) -> tuple[Schedule, list[Tensor]]:
    """data (N, CI, H, W), kernel (CO, CI, KH, KW), strides of rows and columns, padding (top, left,
    bottom, right). `packed`: the kernel is an argument (CO / VC, CI, KH, KW, VC), packed ahead of
    time (`topi.nn.pack_filters`), so that its shape follows the knob.

    Knobs: `tile_co`, `tile_oh`, `tile_ow` are [blocks, threads, tile], where the tiles are VC, VH
    and VW; `ann_reduce` and `ann_spatial` annotate kh, kw and vw, vc.

    float16 is summed up in float16 where the target computes in it, else in float32.
    """
    cfg = get_config()
    target = Target.current(allow_none=True)
    co, _, kh, kw = constant_shape(kernel, "kernel", 4)
    _, _, height, width = constant_shape(data, "data", 4)
    oh = (height + padding[0] + padding[2] - kh) // strides[0] + 1
    ow = (width + padding[1] + padding[3] - kw) // strides[1] + 1
    _define(cfg, co, oh, ow)
    tiles = [cfg[name].size for name in ("tile_co", "tile_oh", "tile_ow")]
    (_, z, vc), (_, y, vh), (_, x, vw) = tiles
    weights = kernel
    if packed:
        weights = placeholder((-(-co // vc), *kernel.shape[1:], vc), kernel.dtype, "kernel_vec")
    narrow = data.dtype == "float16" and target is not None and not target.has_fp16
    accumulate = "float32" if narrow else data.dtype
    output = conv2d_spatial_pack(
        data, weights, (vh, vw, vc), strides, padding, co if packed else None, accumulate
    )
    s = create_schedule(output.op)
    parts = Packed.of(output)
    bind_packed(s, parts, (z, y, x))
    _annotate(cfg, s, parts)
    return s, [data, weights, output]


conv2d_nchw_spatial_pack = template("conv2d_nchw_spatial_pack.mali", _conv2d)


def _define(cfg: Any, co: int, oh: int, ow: int) -> None:
    """The space of knobs."""
    for name, extent, threads, tiles in (
        ("tile_co", co, (1, 2, 4, 8, 16), (4, 8, 16)),
        ("tile_oh", oh, (1, 2, 4), (1, 2, 4)),
        ("tile_ow", ow, (1, 2, 4, 8), (1, 2, 4, 7, 8)),
    ):
        sizes = [[-1, t, v] for t in threads for v in tiles if t * v <= _power_above(extent)]
        cfg.define_split(
            name,
            cfg.axis(extent),
            policy="candidate",
            num_outputs=3,
            candidate=sizes or [[-1, 1, tiles[0]]],
        )
    plain, both = ["none", "none"], ["unroll", "unroll"]
    reduce, spatial = [plain, ["none", "unroll"], both], [plain, both, ["unroll", "vec"]]
    axes = [cfg.axis(1), cfg.axis(1)]  # annotations do not ask for lengths
    cfg.define_annotate("ann_reduce", axes, policy="candidate", candidate=reduce)
    cfg.define_annotate("ann_spatial", axes, policy="candidate", candidate=spatial)
    cfg.multi_filter(_fits)


def _power_above(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def _fits(cfg: Any) -> bool:
    """Whether the threads are those of one group, and their sums stay in registers."""
    sizes = [cfg[name].size for name in ("tile_co", "tile_oh", "tile_ow")]
    threads, sums = (math.prod(s[k] for s in sizes) for k in (1, 2))
    return bool(threads <= _MOST_THREADS and sums <= _MOST_SUMS)


def _annotate(cfg: Any, s: Schedule, p: Packed) -> None:
    *_, vw, vc = s[p.conv].op.axis
    _, kh, kw = s[p.conv].op.reduce_axis
    cfg["ann_reduce"].apply(s, p.conv, [kh, kw])
    cfg["ann_spatial"].apply(s, p.conv, [vw, vc])
    s[p.data_vec].unroll(s[p.data_vec].op.axis[-1])
    if p.kernel_vec is not None:
        *_, kh, kw, vc = s[p.kernel_vec].op.axis
        s[p.kernel_vec].unroll(kh)
        s[p.kernel_vec].unroll(kw)
        s[p.kernel_vec].vectorize(vc)
