"""The spatially packed convolution on a GPU, in three steps on the same expression.

1. `bind_packed`: loops become threads; 2. `unroll_packed`: small loops are unrolled;
3. `vectorize_packed`: vectors of filters instead of loops over them. Each is a schedule of its own
with those before it. After Zheng and Chen, "Optimizing mobile deep learning on ARM GPU with TVM",
2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....loopir.iter import IterVar
from ....schedule.api import Schedule
from ....tensor.axes import thread_axis
from ....tensor.op import post_order
from ....tensor.tensor import Tensor

Counts = Sequence[int]
THREADS = 8


class Packed(NamedTuple):
    """The stages of a spatially packed convolution; `kernel_vec` is None where the kernel was
    packed ahead, `data_pad` where nothing is padded."""

    data_vec: Tensor
    kernel_vec: Tensor | None
    conv: Tensor
    output: Tensor
    data_pad: Tensor | None

    @staticmethod
    def of(output: Tensor) -> Packed:
        """Of what `conv2d_spatial_pack` returned."""
        ops = {op.name: op.output(0) for op in post_order([output.op])}
        conv = ops["conv"]
        data_vec, kernel = conv.op.input_tensors
        packed = kernel if kernel.op.name == "kernel_vec" and kernel.op.input_tensors else None
        return Packed(data_vec, packed, conv, output, ops.get("data_pad"))


def tile_and_bind3d(s: Schedule, t: Tensor, axes: Sequence[IterVar], threads: Counts) -> None:
    """Split each of three axes, and bind them to blocks and threads z, y, x."""
    for axis, count, at in zip(axes, threads, "zyx"):
        outer, inner = s[t].split(axis, factor=count)
        s[t].bind(outer, thread_axis(f"blockIdx.{at}"))
        s[t].bind(inner, thread_axis(f"threadIdx.{at}"))


def bind_packed(s: Schedule, p: Packed, threads: Counts = (THREADS, 1, 1)) -> None:
    """Step 1: a thread for each packed window, filter, tile of the convolution, and output."""
    if p.data_pad is not None:
        s[p.data_pad].compute_inline()
    _, h, w, ci, _, _ = s[p.data_vec].op.axis
    tile_and_bind3d(s, p.data_vec, (h, w, ci), (1, 1, THREADS))
    if p.kernel_vec is not None:
        co, ci, *_ = s[p.kernel_vec].op.axis
        tile_and_bind3d(s, p.kernel_vec, (co, ci), (1, THREADS))
    n, co, h, w, vh, vw, vc = s[p.conv].op.axis
    ci, kh, kw = s[p.conv].op.reduce_axis
    s[p.conv].reorder(n, co, h, w, vh, ci, kh, kw, vw, vc)
    tile_and_bind3d(s, p.conv, (co, h, w), threads)
    _, co, h, w = s[p.output].op.axis
    tile_and_bind3d(s, p.output, (co, h, w), (THREADS, 1, 1))


def unroll_packed(s: Schedule, p: Packed, vectors: bool = False) -> None:
    """Step 2: no loops over a window, a tile's columns and filters, and in packing; `vectors`
    leaves the loops over filters to step 3."""
    vw = s[p.conv].op.axis[-2]
    _, kh, kw = s[p.conv].op.reduce_axis
    loops = [(p.conv, kh), (p.conv, kw), (p.conv, vw), (p.data_vec, s[p.data_vec].op.axis[-1])]
    if p.kernel_vec is not None:
        loops += [(p.kernel_vec, a) for a in s[p.kernel_vec].op.axis[2:4]]
    if not vectors:
        loops += _vectors(s, p)
    for t, axis in loops:
        s[t].unroll(axis)


def vectorize_packed(s: Schedule, p: Packed) -> None:
    """Step 3: filters of a tile as a vector."""
    for t, axis in _vectors(s, p):
        s[t].vectorize(axis)


def _vectors(s: Schedule, p: Packed) -> list[tuple[Tensor, Any]]:
    return [(t, s[t].op.axis[-1]) for t in (p.conv, p.kernel_vec) if t is not None]


def schedule_spatial_pack(
    s: Schedule, output: Tensor, steps: int = 3, threads: Counts = (THREADS, 1, 1)
) -> None:
    """The first of the three steps, the first two, or all."""
    packed = Packed.of(output)
    bind_packed(s, packed, threads)
    if steps >= 2:
        unroll_packed(s, packed, vectors=steps >= 3)
    if steps >= 3:
        vectorize_packed(s, packed)
