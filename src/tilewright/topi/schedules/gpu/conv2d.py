"""Convolution on a GPU: a tile of the output in the registers of each thread.

Blocked channels: a thread computes `columns` neighbouring pixels of one vector of filters; each
step of the reduction loads that vector of weights and multiplies it with `columns` values of data.
This is the spatial packing of Mali's convolutions (Zheng and Chen, "Optimizing mobile deep learning
on ARM GPU with TVM", 2018) on data that is in blocks already.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ....base.dtype import parse
from ....loopir.iter import IterVar
from ....schedule.api import Schedule
from ....tensor.tensor import Tensor
from ..machine import extent_of, largest_divisor
from .few_filters import schedule_few_filters
from .group_windows import schedule_windows
from .injective import arrange
from .machine import LEAST_SIDE, GpuMachine, bind, bind_grid, fused
from .matmul import schedule_sides
from .operands import operands_of
from .planes import schedule_planes
from .reduce import inline_padding, schedule_reduce
from .register_tiles import Blocks
from .split_k import channels_in_parts, chosen_parts, cut_of
from .tile_plan import DEEP, UNCUT, Reduction
from .windows import ConvolutionProduct, Windows, windows_of

COLUMNS = 8  # pixels a thread
_SUMS = 32  # of a thread where registers are scalars
_UNROLLED = (512, 2048)  # multiplications of a loop body, for scalar and for vector registers


def _padding(s: Schedule, conv: Tensor, machine: GpuMachine) -> None:
    """A padded copy of the data is made first, by a kernel of its own."""
    for t in s[conv].op.input_tensors:
        if t.op.tag.endswith("pad"):
            arrange(s[t], list(s[t].op.axis), machine)


def _on_registers(s: Schedule, conv: Tensor, out: Tensor) -> Tensor:
    """The convolution as a stage of its own, in local memory."""
    if conv.op is out.op:
        cached: Tensor = s.cache_write(out, "local")
        return cached
    s[conv].set_scope("local")
    return conv


def schedule_conv_nchwc(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """Schedule a blocked convolution and the element-wise stage `out` that ends its group."""
    conv = _on_registers(s, conv, out)
    stage = s[out]
    n, fo, *outer, ow, fi = stage.op.axis
    lanes, vectors = extent_of(fi), machine.warp == 1
    filters = min(8, _power(extent_of(fo)))
    columns, most = _blocked_tile([n, fo, *outer, ow], lanes, filters, machine)
    wide, pixel = stage.split(ow, factor=columns)
    block_f, thread_f = stage.split(fo, factor=filters)
    place = stage.fuse(*outer, wide)
    count = prod(map(extent_of, outer)) * -(-extent_of(ow) // columns)
    threads = _places(count, most // filters, machine.warp // filters)
    block_p, thread_p = stage.split(place, factor=max(1, threads))
    stage.reorder(n, block_f, block_p, thread_f, thread_p, pixel, fi)
    bind_grid(stage, [fused(stage, [n, block_f]), block_p])
    bind(stage, thread_f, "threadIdx.y")
    bind(stage, thread_p, "threadIdx.x")
    machine.unroll(stage, pixel)
    stage.vectorize(fi)
    inner = s[conv]
    inner.compute_at(stage, thread_p)
    n, fo, *outer, ow, fi = inner.op.axis
    *_, rx, rci = inner.op.reduce_axis
    inner.reorder(n, fo, *outer, *inner.op.reduce_axis, ow, fi)
    for axis in (rci, ow):
        machine.unroll(inner, axis)
    if extent_of(rx) * extent_of(rci) * columns * lanes <= _UNROLLED[vectors]:
        machine.unroll(inner, rx)  # a pixel that several taps read is loaded once
    inner.vectorize(fi)
    _padding(s, conv, machine)


def _blocked_tile(
    axes: list[IterVar], lanes: int, filters: int, machine: GpuMachine
) -> tuple[int, int]:
    """Pixels a thread, and threads a block at most, of a blocked convolution with those axes
    (image, filters, lines, pixels): fewer where there would be too few blocks for the GPU."""
    n, fo, *outer, ow = (extent_of(a) for a in axes)
    columns = _columns(ow, COLUMNS if machine.warp == 1 else max(1, _SUMS // lanes))
    if machine.warp == 1:
        return columns, machine.threads
    most = machine.threads
    while n * fo * prod(outer) * ow:
        places = prod(outer) * -(-ow // columns)
        blocks = -(-places // _places(places, most // filters, machine.warp // filters))
        if n * fo // filters * blocks >= machine.filling or (columns == 1 and most <= machine.warp):
            break
        if most > machine.warp:
            most //= 2
        else:
            columns = largest_divisor(ow, columns // 2)  # no pixel needs a condition then
    return columns, most


def _places(count: int, most: int, least: int) -> int:
    """Threads of a block along `count` places: all, or so many that share them evenly, unless those
    are fewer than `least`."""
    even = _even(count, most // 2)
    return count if count <= most else even if even >= least else most


def schedule_depthwise_nchwc(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """A vector of channels of one pixel a thread."""
    conv = _on_registers(s, conv, out)
    stage = s[out]
    *places, ci = stage.op.axis
    count = prod(map(extent_of, places[1:]))
    whole = fused(stage, places)
    block, thread = stage.split(whole, factor=_even(count, machine.threads))
    bind(stage, block, "blockIdx.x")
    bind(stage, thread, "threadIdx.x")
    stage.vectorize(ci)
    inner = s[conv]
    inner.compute_at(stage, thread)
    *outer, ci = inner.op.axis
    inner.reorder(*outer, *inner.op.reduce_axis, ci)
    machine.unroll(inner, inner.op.reduce_axis[-1])
    inner.vectorize(ci)
    _padding(s, conv, machine)


def schedule_depthwise_nchw(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """Plain NCHW data: a vector of neighbours in some rows a thread, or any reduction."""
    if schedule_planes(s, conv, out, machine):
        return
    inline_padding(s, conv)
    schedule_reduce(s, conv, out, machine)


def schedule_conv2d_nchw(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """Plain NCHW data: a product where there is shared memory, else (groups, few filters) some
    filters of one pixel a thread."""
    if machine.shared and _as_product(s, conv, out, machine):
        return
    conv = _on_registers(s, conv, out)
    stage = s[out]
    n, f, oh, ow = stage.op.axis
    filters = largest_divisor(extent_of(f), 4)
    block_f, thread_f = stage.split(f, factor=filters)
    place = stage.fuse(oh, ow)
    count = extent_of(oh) * extent_of(ow)
    block_p, thread_p = stage.split(place, factor=_even(count, machine.threads))
    stage.reorder(n, block_f, block_p, thread_p, thread_f)
    bind_grid(stage, [fused(stage, [n, block_f]), block_p])
    bind(stage, thread_p, "threadIdx.x")
    machine.unroll(stage, thread_f)
    inner = s[conv]
    inner.compute_at(stage, thread_p)
    n, f, oh, ow = inner.op.axis
    rc, ry, rx = inner.op.reduce_axis
    inner.reorder(n, oh, ow, rc, ry, rx, f)
    machine.unroll(inner, f)
    _padding(s, conv, machine)


def schedule_conv2d_nhwc(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """NHWC data: a product where there is shared memory, else any reduction."""
    if machine.shared and _as_product(s, conv, out, machine):
        return
    _padding(s, conv, machine)  # before the sums become those of parts, which read it then
    schedule_reduce(s, conv, out, machine)


def schedule_conv_nd(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> None:
    """Rows or volumes: as images, else any reduction."""
    if machine.shared and _as_product(s, conv, out, machine):
        return
    inline_padding(s, conv)
    schedule_reduce(s, conv, out, machine)


def _as_product(s: Schedule, conv: Tensor, out: Tensor, machine: GpuMachine) -> bool:
    """Schedule a convolution as a product of filters and windows, where it has tiles of them."""
    op = s[conv].op
    windows = windows_of(op)
    if windows is None:
        return False
    if windows.of_few_filters(LEAST_SIDE):
        schedule_few_filters(s, conv, out, windows, machine)
        return True
    if schedule_windows(s, conv, out, windows, machine):
        return True
    on_cores = (windows.data.dtype, conv.dtype) in machine.products
    form = ConvolutionProduct(op, windows, machine, on_cores, _reduction_of(op, windows, machine))
    if min(form.sides) < LEAST_SIDE:
        return False
    parts = _parts_of(form, machine)
    if parts > 1:
        conv, windows = channels_in_parts(s, conv, out, windows, parts, machine)
        out, op = conv, s[conv].op
        form = ConvolutionProduct(op, windows, machine, on_cores, UNCUT, form.plan)
    last = conv.op is out.op
    product = form.restate(s, conv)
    out = s[conv].op.output(0) if last else s[out].op.output(0)
    if not last:
        s[conv].compute_inline()
    if windows.data.op.tag.endswith("pad"):
        s[windows.data].compute_inline()
    stage = s[out]
    n, *axes = stage.op.axis
    group = [axes.pop(0)] if windows.parts > 1 else []
    filters = axes.pop(-1 if windows.last else 0)
    *planes, place = (*axes[:-2], fused(stage, axes[-2:]))
    if windows.groups > windows.parts:
        first, filters = stage.split(filters, factor=form.filters)
        group = [first]
    stage.reorder(n, *planes, *group, *((place, filters) if windows.last else (filters, place)))
    sides = operands_of(s[product].op)
    assert sides is not None
    plan = form.plan if on_cores else None
    schedule_sides(s, s[product].op.output(0), out, sides, machine, form.cut, plan, windows.groups)
    return True


def _reduction_of(op: Any, w: Windows, machine: GpuMachine) -> Reduction:
    """The reduction of a convolution without groups, and how it may be cut."""
    kind, sums = w.data.dtype, op.output_dtype(0)
    if w.groups > 1 or parse(sums).nbytes < 4:
        return UNCUT
    together = DEEP // parse(kind).nbytes if (kind, sums) in machine.products else 1
    nbytes = parse(sums).nbytes * prod(max(extent_of(a), 1) for a in op.axis)
    steps = w.channels * prod(w.taps)
    return cut_of(steps, together, nbytes, w.channels, machine.lanes(kind))


def _parts_of(form: ConvolutionProduct, machine: GpuMachine) -> int:
    """Into how many parts of channels a convolution is cut."""
    best = form.plan.parts
    if not form.on_cores:
        best = Blocks.of(form.plan.shape, form.count, machine, form.reduction).parts
    return chosen_parts(form.op.name, best, form.reduction, machine)


def _even(count: int, limit: int) -> int:
    """Threads that share `count` evenly, at least half of `limit`, where there is such a number:
    the last block then needs no conditions."""
    limit = max(1, min(limit, count))
    whole = largest_divisor(count, limit)
    return whole if 2 * whole >= limit else limit


def _columns(width: int, limit: int) -> int:
    """Pixels a thread: a divisor of the width where there is one."""
    whole = largest_divisor(width, limit)
    return whole if whole > 1 else min(limit, max(width, 1))


def _power(n: int) -> int:
    """The largest power of two that divides n."""
    return n & -n if n else 1
